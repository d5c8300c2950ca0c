//! The loop that every capture shares: from a source through the pipeline, until
//! whatever ends this one.

use std::ffi::OsString;
use std::future::ready;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::time::{Instant, sleep, sleep_until};

use crate::model::time::{boot_ns, wall_ns};
use crate::model::{Event, Meta, ProcId};
use crate::pipeline::Pipeline;
use crate::source::Source;
use crate::sys::procfs::{Proc, cpus};
use crate::sys::signals;

/// Remarks of a source that are shown.
const REMARKS: usize = 10;

/// After the end: how often, and how long at most for totals to become final.
const TICK_FINAL: Duration = Duration::from_millis(3);
const FINAL_WAIT: Duration = Duration::from_millis(250);

/// How often outputs are written out at least while there is something: after
/// SIGKILL no more than the last second is to be missing, ticks included.
const FLUSH: Duration = Duration::from_millis(200);

pub(super) const PROC: &str = "/proc";

/// How often the source is looked at when its buffer does not fill up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// While there is something.
    busy: Duration,
    /// At most, after a while without anything.
    idle: Duration,
    now: Duration,
}

impl Pace {
    /// With `--log` people wait for the lines. Else what comes is left in the buffer, to be
    /// taken in one go: that disturbs whom it is about the least. After SIGKILL no more
    /// than the last second may be missing.
    pub fn new(log: bool) -> Self {
        let ms = Duration::from_millis;
        let (busy, idle) = if log {
            (ms(20), ms(100))
        } else {
            (ms(500), ms(500))
        };
        Self {
            busy,
            idle,
            now: busy,
        }
    }

    /// The time to the next look, after one that found something or not.
    fn after(&mut self, found: bool) -> Duration {
        self.now = if found {
            self.busy
        } else {
            (self.now * 2).min(self.idle)
        };
        self.now
    }
}

/// What ends a run.
pub(super) trait Course {
    /// Waits for the next thing beside events: a signal, a time, a command's
    /// end. Cancel safe. `true`: the run is over.
    fn next(&mut self) -> impl Future<Output = Result<bool>>;

    /// Asked after each look at the source.
    fn is_over<S: Source>(&mut self, source: &mut S, pipeline: &mut Pipeline) -> Result<bool>;
}

/// A source on its way to the outputs.
pub(super) struct Run<S> {
    pub source: S,
    pub pipeline: Pipeline,
    events: Vec<(u64, Event)>,
}

impl<S: Source> Run<S> {
    pub fn new(mut source: S, mut pipeline: Pipeline) -> Self {
        super::export::programs(&source, &pipeline);
        pipeline.show(|| source.fill());
        Self {
            source,
            pipeline,
            events: Vec::new(),
        }
    }

    /// Reads the source until `course` says that it is over.
    pub async fn until(&mut self, course: &mut impl Course, mut pace: Pace) -> Result<()> {
        // What the source has at once is not waited for.
        let mut more = true;
        let mut found = false;
        let mut next = Instant::now() + pace.busy;
        let mut flushed = Instant::now();
        loop {
            tokio::select! {
                // What ends it comes first: a storm of events must not starve it.
                biased;
                over = course.next() => if over? { break },
                () = ready(()), if more => {}
                r = self.source.ready() => r.context("reading events")?,
                () = sleep_until(next) => {
                    next = Instant::now() + pace.after(found);
                    found = false;
                }
            }
            // What is lost while an output is stuck is lost, and counted, in the kernel.
            let (any, empty) = if self.pipeline.is_congested() {
                (true, true)
            } else {
                self.drain()
            };
            found |= any;
            more = !empty;
            if flushed.elapsed() >= FLUSH || (any && empty) {
                self.pipeline.flush();
                self.pipeline.show(|| self.source.fill());
                flushed = Instant::now();
            }
            if course.is_over(&mut self.source, &mut self.pipeline)? {
                break;
            }
        }
        Ok(())
    }

    /// Says whether there was anything, and whether nothing more waits.
    fn drain(&mut self) -> (bool, bool) {
        let drained = self.source.drain(&mut self.events);
        let any = !self.events.is_empty();
        self.pipeline.take(&mut self.events, drained);
        (any, drained.empty)
    }

    /// Waits a little for totals that are still to become final, ends the outputs
    /// and says what there is to say. Returns whether all outputs are complete.
    pub async fn finish(mut self, status: u8) -> bool {
        let until = Instant::now() + FINAL_WAIT;
        if S::FINALS_COME {
            // The last ends are given out when the source's clock has gone on a little;
            // only then can the table say what it waits for.
            sleep(TICK_FINAL).await;
        }
        while !self.drain().1 {}
        if S::FINALS_COME && self.pipeline.awaits_finals() {
            hurry_grace_period();
            while self.pipeline.awaits_finals() && Instant::now() < until {
                sleep(TICK_FINAL).await;
                self.drain();
            }
        }
        self.source.finish(&mut self.events);
        // From here on a slow reader of the outputs can hold us up: a signal ends that.
        signals::default_actions(&super::signals::CAUGHT);
        let complete = self
            .pipeline
            .finish(&mut self.events, boot_ns(), i32::from(status));
        let remarks = self.source.remarks();
        for remark in remarks.iter().take(REMARKS) {
            eprintln!("tracer: {remark}");
        }
        if let Some(more) = remarks.len().checked_sub(REMARKS + 1) {
            eprintln!("tracer: and {} remarks more", more + 1);
        }
        complete
    }
}

/// Totals are final when an RCU grace period has passed after the process was
/// reaped, which takes the kernel its time when nobody waits for one. This
/// waits for one (membarrier(2) is synchronize_rcu), beside the work.
fn hurry_grace_period() {
    const MEMBARRIER_CMD_GLOBAL: i32 = 1;
    std::thread::spawn(|| {
        // SAFETY: takes numbers only. Where it is refused nothing is hurried.
        unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    });
}

/// Makes the event loop and runs `work` in it.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    enough_descriptors()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the event loop cannot be started")?;
    runtime.block_on(work)
}

/// The event loop panics where it cannot make its pipes.
fn enough_descriptors() -> Result<()> {
    const LEAST: u64 = 40;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes one rlimit, which this is.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0
        && limit.rlim_cur < LEAST
    {
        bail!(
            "only {} files may be open at once, tracer needs {LEAST}; raise the limit: ulimit -n 1024",
            limit.rlim_cur
        );
    }
    Ok(())
}

pub(super) fn meta(backend: &'static str, command: &[OsString], root: Option<ProcId>) -> Meta {
    let proc = Proc::at(Path::new(PROC));
    Meta {
        backend,
        kernel: proc.kernel().unwrap_or_default(),
        host: proc.hostname().unwrap_or_default(),
        boot_id: proc.boot_id().unwrap_or_default(),
        cpus: cpus(),
        wall_start_ns: wall_ns(),
        boot_start_ns: boot_ns(),
        command: command
            .iter()
            .map(|a| a.as_encoded_bytes().to_vec())
            .collect(),
        root,
        part: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_source_is_looked_at_less_and_less() {
        let mut pace = Pace::new(true);
        let ms: Vec<u128> = (0..4).map(|_| pace.after(false).as_millis()).collect();
        assert_eq!(ms, [40, 80, 100, 100]);
        assert_eq!(pace.after(true).as_millis(), 20);
    }
}
