//! What shall be counted: events and triggers from the command line, resolved.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};

use super::machine::Host;
use crate::cli::Hist;
use crate::cmd::run::PROC;
use crate::hist::fault::{SUGGESTIONS, one_of, suggest};
use crate::hist::{EventFormat, Fault, Plan, Trigger};
use crate::sink::escape::escaped;
use crate::sys::tracefs::{Tracefs, TracefsError};

/// tracefs, which has the events.
///
/// # Errors
/// What is missing for that.
pub fn open_tracefs() -> Result<Tracefs> {
    Tracefs::open(Path::new(PROC)).map_err(|error| match error {
        TracefsError::Open(error) => anyhow!(
            "tracefs, which has the events, cannot be opened: {error}; run as root: sudo tracer hist ..., on a \
             kernel with CONFIG_TRACING; see: tracer check"
        ),
        error => error.into(),
    })
}

/// One EVENT and its TRIGGER.
#[derive(Debug)]
pub struct Target {
    pub trigger: Trigger,
    pub format: EventFormat,
    pub plan: Plan,
    /// Index of its table.
    pub table: usize,
}

/// All that is to be counted.
#[derive(Debug, Default)]
pub struct Targets {
    pub list: Vec<Target>,
    /// Of each table the index of the first target that adds into it.
    pub tables: Vec<usize>,
}

impl Targets {
    /// Resolves the pairs of the command line.
    ///
    /// # Errors
    /// What is wrong with an event or a trigger, with a caret under it.
    pub fn new(options: &Hist, tracefs: &Tracefs) -> Result<Self> {
        let mut targets = Self::default();
        let machine = Host::default();
        for pair in options.pairs.chunks_exact(2) {
            let [event, text] = pair else { continue };
            let format = format(event, tracefs)?;
            let shown = harmless(event);
            let trigger = Trigger::parse(text).map_err(|f| anyhow!("{shown}: {f}"))?;
            refuse(&trigger, &shown)?;
            let plan =
                Plan::resolve(&trigger, &format, &machine).map_err(|f| anyhow!("{shown}: {f}"))?;
            for warning in &plan.warnings {
                eprintln!("tracer: {shown}: {warning}");
            }
            targets.add(Target {
                trigger,
                format,
                plan,
                table: 0,
            })?;
        }
        Ok(targets)
    }

    /// Tables of the same name are one.
    fn add(&mut self, mut target: Target) -> Result<()> {
        let shared = self.tables.iter().position(|first| {
            let first = self.list.get(*first);
            first.is_some_and(|f| f.plan.name.is_some() && f.plan.name == target.plan.name)
        });
        target.table = match shared {
            Some(table) => {
                let first = self.tables.get(table).and_then(|at| self.list.get(*at));
                if let Some(first) = first
                    && let Err(what) = share(first, &mut target)
                {
                    bail!(
                        "the triggers of {} and {} share the name {:?} and differ in their {what}; make that the \
                         same, or give them two names",
                        first.plan.event,
                        target.plan.event,
                        target.plan.name.as_deref().unwrap_or_default()
                    );
                }
                table
            }
            None => {
                self.tables.push(self.list.len());
                self.tables.len() - 1
            }
        };
        if self
            .list
            .iter()
            .any(|other| other.plan.is_like(&target.plan))
        {
            let fault = Fault::new(&target.trigger.text, 0, "Hist trigger already exists").help(
                "each event would count twice; leave it out, or give it another filter or sorting",
            );
            bail!("{}: {fault}", harmless(&target.plan.event));
        }
        self.list.push(target);
        Ok(())
    }

    /// The plan that a table is shown by.
    pub fn plan(&self, table: usize) -> Option<&Plan> {
        let first = self.tables.get(table)?;
        Some(&self.list.get(*first)?.plan)
    }

    /// Indices of the targets that add into a table.
    pub fn of_table(&self, table: usize) -> impl Iterator<Item = usize> + '_ {
        let list = self.list.iter().enumerate();
        list.filter(move |(_, t)| t.table == table).map(|(i, _)| i)
    }
}

/// Makes a target count in the table of another one, or says in what they differ.
fn share(first: &Target, target: &mut Target) -> Result<(), &'static str> {
    if first.format.is_own() != target.format.is_own() {
        return Err("engine (process_exit is an event of tracer's own)");
    }
    target.plan.share(&first.plan)
}

fn refuse(trigger: &Trigger, event: &str) -> Result<()> {
    for (asked, what, option) in [
        (trigger.remove, "!", "end it with Ctrl-C"),
        (trigger.cont, "cont", "tracer hist --cont"),
        (trigger.clear, "clear", "tracer hist --clear"),
    ] {
        if asked {
            bail!(
                "{event}: `{what}` acts on a trigger that is there already; for one that runs: {option}"
            );
        }
    }
    Ok(())
}

/// An event of our own, or one of tracefs: `GROUP:NAME` or `GROUP/NAME`.
fn format(event: &str, tracefs: &Tracefs) -> Result<EventFormat> {
    let events = tracefs.root().join("events");
    let parts = event.split_once([':', '/']);
    let Some((group, name)) = parts else {
        return match super::own::format(event) {
            Some(format) => Ok(format),
            None => bail!("{}", unknown(event, &events)),
        };
    };
    if group == "ftrace" {
        bail!(
            "{}: the events of the group ftrace are records of its own tracers, which neither eBPF nor a trigger \
             can count",
            harmless(event)
        );
    }
    let simple = |s: &str| !s.is_empty() && !s.contains(['/', '\0']) && !s.starts_with('.');
    let path = events.join(group).join(name).join("format");
    if !simple(group) || !simple(name) || !path.is_file() {
        bail!("{}", unknown(event, &events));
    }
    let text =
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(EventFormat::parse(group, name, &text)?)
}

/// Says so, with names that resemble it.
fn unknown(event: &str, events: &Path) -> String {
    let mut names = vec![super::own::PROCESS_EXIT.to_owned()];
    for group in list(events) {
        for name in list(&events.join(&group)) {
            names.push(format!("{group}:{name}"));
        }
    }
    let wanted = event.replace('/', ":");
    let bare = wanted.rsplit(':').next().unwrap_or_default();
    let exact = names.iter().filter(|n| n.rsplit(':').next() == Some(bare));
    let mut near: Vec<&str> = exact.map(String::as_str).collect();
    if near.is_empty() {
        near = suggest(&wanted, names.iter().map(String::as_str));
    }
    near.truncate(SUGGESTIONS);
    let hint = match near.as_slice() {
        [] => "`ls /sys/kernel/tracing/events` lists the groups (mount -t tracefs none /sys/kernel/tracing)".to_owned(),
        near => format!("did you mean {}?", one_of(near)),
    };
    format!("this kernel has no event `{}`; {hint}", harmless(event))
}

/// As a terminal may see it.
fn harmless(event: &str) -> String {
    escaped(event.as_bytes())
}

/// Names of the directories in one.
fn list(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    let mut names: Vec<String> = dirs
        .filter_map(|e| e.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}
