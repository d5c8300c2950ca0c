//! `process_exit`: an event of our own, with all that is known of a process in the
//! end as its members. It comes out of the pipeline that `tracer -- CMD` has, so
//! its figures are those of the `process` records.

mod count;
mod record;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};

use self::count::Counts;
use super::targets::{Target, Targets};
use super::whom::Whom;
use crate::cli::RING_SIZE;
use crate::cmd::run::{PROC, Run, meta};
use crate::hist::plan::Source as From;
use crate::hist::{Plan, Table};
use crate::model::Process;
use crate::model::time::boot_ns;
use crate::pipeline::Pipeline;
use crate::sink::Sink;
use crate::source::ebpf::{self, EbpfSource};
use crate::sys::cgroup::Cgroups;

pub use record::{PROCESS_EXIT, format};

/// One for each table, `None` where it is not of events of our own.
type Shared = Arc<Mutex<Vec<Option<Counts>>>>;

/// The source of these events, and their tables.
pub struct Own {
    /// Taken by the loop that drives it.
    pub run: Option<Run<EbpfSource>>,
    counts: Shared,
}

impl Own {
    /// Begins a capture for the events of our own among the targets, if there are any.
    ///
    /// # Errors
    /// The capture cannot begin, or a trigger asks for what these events lack.
    pub fn open(targets: &Targets, whom: &Whom) -> Result<Option<Self>> {
        if !targets.list.iter().any(|t| t.format.is_own()) {
            return Ok(None);
        }
        let own = |table| {
            let of_table = targets.of_table(table);
            let of_table = of_table.filter_map(|at| targets.list.get(at));
            let own: Vec<&Target> = of_table.filter(|t| t.format.is_own()).collect();
            own.iter().try_for_each(|t| possible(t))?;
            let plans: Vec<Plan> = own.iter().map(|t| t.plan.clone()).collect();
            let paused = own.first().is_some_and(|t| t.trigger.pause);
            Ok((!plans.is_empty()).then(|| Counts::new(plans, paused)))
        };
        let counts = (0..targets.tables.len()).map(own);
        let counts: Shared = Arc::new(Mutex::new(counts.collect::<Result<_>>()?));
        let mut pipeline = Pipeline::new();
        pipeline.add("hist", Box::new(Ends(Arc::clone(&counts))));
        Ok(Some(Self {
            run: Some(Run::new(source(whom)?, pipeline)),
            counts,
        }))
    }

    /// From now on the next process that tracer forks is the root.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn arm(&mut self) -> Result<()> {
        match &mut self.run {
            Some(run) => Ok(run.source.arm()?),
            None => Ok(()),
        }
    }

    /// Called when the root has been forked, or nothing is.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn begin(&mut self) -> Result<()> {
        if let Some(run) = &mut self.run {
            let root = run.source.root()?;
            run.pipeline.begin(&meta("ebpf", &[], root));
        }
        Ok(())
    }

    /// A table as it is now, in no order; `None`: not one of these.
    pub fn table(&self, table: usize) -> Option<Table> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        Some(counts.get(table)?.as_ref()?.table())
    }

    /// Counts no more, or goes on.
    pub fn pause(&self, table: usize, paused: bool) {
        self.act(table, |counts, now| counts.pause(paused, now));
    }

    /// Empties a table.
    pub fn clear(&self, table: usize) {
        self.act(table, Counts::clear);
    }

    fn act(&self, table: usize, act: impl FnOnce(&mut Counts, u64)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(counts)) = counts.get_mut(table) {
            act(counts, boot_ns());
        }
    }

    /// What users should know in the end.
    pub fn remarks(&self) -> Vec<String> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let absent: u64 = counts.iter().flatten().map(|c| c.absent).sum();
        let absent = (absent != 0).then(|| {
            format!("{absent} figures of {PROCESS_EXIT} are not known: they are left out of values, and 0 as keys")
        });
        absent.into_iter().collect()
    }
}

/// What these events do not have.
fn possible(target: &Target) -> Result<()> {
    let keys = target.plan.keys.iter().map(|k| k.source);
    let mut sources = keys.chain(target.plan.values.iter().map(|v| v.source));
    if sources.any(|s| matches!(s, From::Cpu | From::Stack)) {
        bail!("{PROCESS_EXIT} has neither a CPU nor a stack: it is about a whole process");
    }
    let clock = target.plan.clock.as_deref();
    if clock.is_some_and(|clock| !matches!(clock, "global" | "boot")) {
        bail!("{PROCESS_EXIT} is timed by the boot clock; use clock=boot, or leave clock= out");
    }
    Ok(())
}

fn source(whom: &Whom) -> Result<EbpfSource> {
    let mut cgroups = Cgroups::new(std::path::Path::new(PROC));
    let (whom, ids) = match whom {
        Whom::All => (ebpf::Whom::All, Vec::new()),
        Whom::Command => (ebpf::Whom::Command, Vec::new()),
        Whom::Trees(pids) => (ebpf::Whom::Trees(pids.clone()), Vec::new()),
        Whom::Cgroup(path) => (ebpf::Whom::All, vec![cgroups.id(path)?]),
    };
    let options = ebpf::Options {
        max_argv: 4096,
        cgroups: ids,
        ..ebpf::Options::new(whom, RING_SIZE)
    };
    let source = EbpfSource::open(&options, Box::new(move |id| cgroups.path(id).clone()))?;
    Ok(source)
}

/// Counts the ends of processes.
struct Ends(Shared);

impl Sink for Ends {
    fn process(&mut self, process: &Process) -> io::Result<()> {
        let Some(end) = process.end else {
            return Ok(());
        };
        let record = record::Record::of(process);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for counts in counts.iter_mut().flatten() {
            counts.add(&record, end);
        }
        Ok(())
    }
}
