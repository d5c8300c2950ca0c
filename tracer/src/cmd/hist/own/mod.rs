//! `process_exit`: an event of our own, with all that is known of a process in the
//! end as its members. It comes out of the pipeline that `tracer -- CMD` has, so
//! its figures are those of the `process` records.

mod count;
mod record;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};

use self::count::Counts;
use super::ebpf::Whom;
use super::targets::{Target, Targets};
use crate::cli::RING_SIZE;
use crate::cmd::run::{PROC, Run, meta};
use crate::hist::Table;
use crate::hist::plan::Source as From;
use crate::model::Process;
use crate::pipeline::Pipeline;
use crate::sink::Sink;
use crate::source::ebpf::{self, EbpfSource};
use crate::sys::cgroup::Cgroups;

pub use record::{PROCESS_EXIT, format};

/// Counts of all targets that are events of our own, `None` for the others.
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
        let counts = targets.list.iter().map(|t| {
            let own = t.format.is_own().then(|| {
                possible(t)?;
                Ok(Counts::new(&t.plan))
            });
            own.transpose()
        });
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
    pub fn begin(&mut self, backend: &'static str) -> Result<()> {
        if let Some(run) = &mut self.run {
            let root = run.source.root()?;
            run.pipeline.begin(&meta(backend, &[], root));
        }
        Ok(())
    }

    /// A table as it is now, in no order; `None`: not one of these.
    pub fn table(&self, targets: &Targets, table: usize) -> Option<Table> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_table = targets.of_table(table);
        let first = of_table.find_map(|at| counts.get(at)?.as_ref());
        first.map(Counts::table)
    }

    /// Pauses or goes on, as said, and clears if wanted.
    pub fn act(&self, targets: &Targets, table: usize, paused: Option<bool>, clear: bool) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for at in targets.of_table(table) {
            if let Some(Some(counts)) = counts.get_mut(at) {
                counts.act(paused, clear);
            }
        }
    }

    /// What users should know in the end.
    pub fn remarks(&self) -> Vec<String> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let absent: u64 = counts.iter().flatten().map(|c| c.absent).sum();
        let absent = (absent != 0).then(|| {
            format!("{absent} figures of {PROCESS_EXIT} are not known to this kernel; they are missing in sums")
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
        whom,
        proc_seeds: false,
        ring_size: RING_SIZE,
        max_argv: 4096,
        threads: false,
        env: false,
        failed_execs: false,
        signals: false,
        kthreads: false,
        failed_only: false,
        debug: false,
        comm: None,
        exclude_comm: None,
        uids: Vec::new(),
        cgroups: ids,
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
