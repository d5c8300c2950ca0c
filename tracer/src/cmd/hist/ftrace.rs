//! The same triggers in the kernel itself: in instances of our own, one for each
//! table, so that nobody else's triggers are touched.

use std::fs;

use anyhow::{Context as _, Result, anyhow, bail};

use super::targets::{Target, Targets, open_tracefs};
use super::whom::{Whom, each_of_trees};
use crate::hist::Trigger;
use crate::sys::procfs::{Proc, in_initial_pid_namespace};
use crate::sys::tracefs::{Instance, TracefsError};

/// Triggers in the kernel.
pub struct Ftrace {
    /// One for each table.
    instances: Vec<Instance>,
}

impl Ftrace {
    /// Makes the instances; [`Self::attach`] writes the triggers.
    ///
    /// # Errors
    /// The kernel has no hist triggers, or cannot restrict them so.
    pub fn open(targets: &Targets, whom: &Whom) -> Result<Self> {
        if let Whom::Cgroup(_) = whom {
            bail!("the kernel's triggers cannot be restricted to a cgroup; use --backend ebpf");
        }
        if *whom != Whom::All && !in_initial_pid_namespace() {
            bail!(
                "the kernel's triggers know processes by their numbers outside this container; use --backend ebpf"
            );
        }
        let proc = Proc::default();
        // Whatever remains of one that was killed is in nobody's way.
        let _kept = open_tracefs()?.remove_stale(&proc);
        let mut instances = Vec::new();
        for table in 0..targets.tables.len() {
            for at in targets.of_table(table) {
                if let Some(target) = targets.list.get(at) {
                    possible(target)?;
                }
            }
            let instance = open_tracefs()?.instance(&proc)?;
            if let Some(target) = targets.list.get(*targets.tables.get(table).unwrap_or(&0))
                && !instance.path().join(file(target, "hist")).is_file()
            {
                bail!(
                    "this kernel has no hist triggers (CONFIG_HIST_TRIGGERS); use --backend ebpf, which needs none"
                );
            }
            instances.push(instance);
        }
        let ftrace = Self { instances };
        if let Whom::Trees(pids) = whom {
            each_of_trees(pids, |(pid, _)| ftrace.follow(pid))?;
            if !ftrace.any_alive()? {
                bail!("-p: the process ended just now; find another with: pgrep -a NAME");
            }
        }
        Ok(ftrace)
    }

    /// Counts only what this process and those that it forks from now on do, and
    /// those that were named before.
    ///
    /// # Errors
    /// The instance's files cannot be written.
    pub fn follow(&self, pid: u32) -> Result<()> {
        for instance in &self.instances {
            instance.write("options/event-fork", "1")?;
            // Again, as a thread may have begun another one meanwhile.
            for _ in 0..2 {
                let tasks = Proc::default().tids(pid);
                let tasks: Vec<String> = tasks.iter().map(u32::to_string).collect();
                instance.write("set_event_pid", &tasks.join(" "))?;
            }
        }
        Ok(())
    }

    /// Whether somebody who is followed has not ended. Tracer itself does not count.
    ///
    /// # Errors
    /// The instance's file cannot be read.
    pub fn any_alive(&self) -> Result<bool> {
        let own = Proc::default().tids(std::process::id());
        let Some(instance) = self.instances.first() else {
            return Ok(true);
        };
        let followed = instance.read("set_event_pid")?;
        let mut tasks = followed.lines().filter_map(|line| line.parse().ok());
        Ok(tasks.any(|task| !own.contains(&task)))
    }

    /// Counts from now on.
    ///
    /// # Errors
    /// The kernel refuses a trigger; what it says of it.
    pub fn attach(&self, targets: &Targets, table: usize) -> Result<()> {
        self.each(targets, table, |target| target.trigger.text.clone())
    }

    /// Lets the kernel `pause`, `cont` or `clear`.
    ///
    /// # Errors
    /// As above.
    pub fn act(&self, targets: &Targets, table: usize, word: &str) -> Result<()> {
        self.each(targets, table, |target| with(&target.trigger, word))
    }

    fn each(
        &self,
        targets: &Targets,
        table: usize,
        text: impl Fn(&Target) -> String,
    ) -> Result<()> {
        let Some(instance) = self.instances.get(table) else {
            return Ok(());
        };
        for at in targets.of_table(table) {
            if let Some(target) = targets.list.get(at) {
                let text = text(target);
                let written = instance.write(&file(target, "trigger"), &text);
                written.map_err(|error| refused(instance, target, &text, &error))?;
            }
        }
        Ok(())
    }

    /// The kernel's file as it is now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn text(&self, targets: &Targets, table: usize) -> Result<Vec<u8>> {
        let target = targets
            .tables
            .get(table)
            .and_then(|at| targets.list.get(*at));
        let (Some(instance), Some(target)) = (self.instances.get(table), target) else {
            return Ok(Vec::new());
        };
        let file = instance.path().join(file(target, "hist"));
        fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))
    }

    /// Takes the triggers out again.
    pub fn end(&self, targets: &Targets) {
        for (table, instance) in self.instances.iter().enumerate() {
            for at in targets.of_table(table) {
                if let Some(target) = targets.list.get(at) {
                    let text = format!("!{}", target.trigger.text);
                    // With the instance it goes in any case.
                    let _gone = instance.write(&file(target, "trigger"), &text);
                }
            }
        }
    }
}

/// Whether the kernel could know the trigger at all.
fn possible(target: &Target) -> Result<()> {
    if target.format.is_own() {
        bail!(
            "{} is an event of tracer's own, which the kernel does not have; use --backend ebpf",
            target.plan.event
        );
    }
    if let Some(extension) = target.plan.extensions().first() {
        bail!("the kernel's triggers do not have {extension}; use --backend ebpf");
    }
    Ok(())
}

/// One of an event's files, in an instance.
fn file(target: &Target, name: &str) -> String {
    let format = &target.format;
    format!("events/{}/{}/{name}", format.system, format.name)
}

/// The trigger's text with one attribute more. One that began paused goes without that:
/// the kernel would look at no other.
fn with(trigger: &Trigger, word: &str) -> String {
    let text = &trigger.text;
    // `if` stands before the filter, with a blank or a tab on either side.
    let filter = trigger.filter.as_ref();
    let at = filter.and_then(|f| f.at.checked_sub(" if ".len()));
    let (head, filter) = at
        .and_then(|at| text.split_at_checked(at))
        .unwrap_or((text, ""));
    let attributes = head.trim_end().split(':').filter(|a| *a != "pause");
    let attributes: Vec<&str> = attributes.chain([word]).collect();
    attributes.join(":") + filter
}

/// What the kernel says of a trigger that it does not take.
fn refused(
    instance: &Instance,
    target: &Target,
    text: &str,
    error: &TracefsError,
) -> anyhow::Error {
    let log = instance.read("error_log").unwrap_or_default();
    // The last of its entries, each of which begins with a time in brackets.
    let last = log.rfind("\n[").map_or(0, |at| at + 1);
    let said = log.get(last..).unwrap_or_default().trim_end();
    let event = &target.plan.event;
    match said.is_empty() {
        true => anyhow!("{event}: the kernel does not accept the trigger {text:?}: {error}"),
        false => anyhow!("{event}: the kernel does not accept the trigger: {error}\n{said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_stands_before_the_filter() {
        for (text, expected) in [
            ("hist:keys=comm", "hist:keys=comm:pause"),
            (
                "hist:keys=comm if comm == \" if \"",
                "hist:keys=comm:pause if comm == \" if \"",
            ),
            ("hist:pause:keys=comm", "hist:keys=comm:pause"),
            (
                "hist:keys=comm:pause if comm == \":pause:\"",
                "hist:keys=comm:pause if comm == \":pause:\"",
            ),
            (
                "hist:keys=comm\t if\tprio < 100",
                "hist:keys=comm:pause if\tprio < 100",
            ),
        ] {
            assert_eq!(with(&Trigger::parse(text).unwrap(), "pause"), expected);
        }
    }
}
