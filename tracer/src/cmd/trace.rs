//! `tracer -- CMD`: run one command and trace it with all its descendants.

use std::ffi::OsString;
use std::future::{pending, ready};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::backend::{self, Root, Watch, Watching};
use super::outputs;
use crate::cli::{FAILURE, Trace};
use crate::launch::{Command, LaunchError};
use crate::model::time::{boot_ns, wall_ns};
use crate::model::{Meta, ProcId};
use crate::pipeline::Pipeline;
use crate::source::Source;
use crate::sys::procfs::{Proc, cpus};
use crate::sys::signals;

/// Exit status after `--timeout`, as of timeout(1).
const TIMED_OUT: u8 = 124;
/// From SIGTERM to SIGKILL after `--timeout`.
const GRACE: Duration = Duration::from_secs(5);
/// How often the buffer is looked at when it does not fill up; with `--log`
/// people wait for the lines.
const TICK: Duration = Duration::from_millis(100);
const TICK_LOG: Duration = Duration::from_millis(20);
/// After the end: how often, and how long at most for totals to become final.
const TICK_FINAL: Duration = Duration::from_millis(3);
const FINAL_WAIT: Duration = Duration::from_millis(250);

/// Remarks of a source that are shown.
const REMARKS: usize = 10;

pub(super) const PROC: &str = "/proc";

/// Runs the command and reports. The exit status is the command's.
pub fn run(options: &Trace) -> Result<ExitCode> {
    let mut pipeline = Pipeline::new();
    pipeline.show_threads(options.threads);
    let command = match Command::resolve(&options.command, options.uid.clone()) {
        Ok(command) => Arc::new(command),
        Err(error) => return Ok(not_started(&error)),
    };
    outputs::open(options, &mut pipeline)?;
    enough_descriptors()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the event loop cannot be started")?;
    runtime.block_on(trace(options, &command, pipeline))
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

fn not_started(error: &LaunchError) -> ExitCode {
    eprintln!("tracer: {error}");
    ExitCode::from(error.exit_code())
}

async fn trace(options: &Trace, command: &Arc<Command>, pipeline: Pipeline) -> Result<ExitCode> {
    // Before the command exists: a signal that comes then must be passed on.
    let signals = Signals::new()?;
    match backend::watch(options, command)? {
        Watch::Ebpf(w) => report(options, w, pipeline, signals).await,
        Watch::Ftrace(w) => report(options, w, pipeline, signals).await,
        Watch::Ptrace(w) => report(options, w, pipeline, signals).await,
    }
}

/// Lets the command go, reads the source until the end, and says what there is to say.
async fn report<S: Source>(
    options: &Trace,
    watching: Watching<S>,
    mut pipeline: Pipeline,
    signals: Signals,
) -> Result<ExitCode> {
    pipeline.begin(&meta(watching.name, &options.command, Some(watching.root)));
    let root = match Root::release(watching.held, watching.told) {
        Ok(root) => root,
        Err(error) => {
            let status = error.exit_code();
            pipeline.finish(&mut Vec::new(), boot_ns(), i32::from(status));
            return Ok(not_started(&error));
        }
    };
    let mut run = Run {
        source: watching.source,
        pipeline,
        events: Vec::new(),
    };
    let status = run.until_end(options, root, signals).await?;
    let complete = run.finish(status).await;
    let remarks = run.source.remarks();
    for remark in remarks.iter().take(REMARKS) {
        eprintln!("tracer: {remark}");
    }
    if let Some(more) = remarks.len().checked_sub(REMARKS + 1) {
        eprintln!("tracer: and {} remarks more", more + 1);
    }
    // An incomplete output must not look like success.
    Ok(ExitCode::from(match (complete, status) {
        (false, 0) => FAILURE,
        _ => status,
    }))
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
    }
}

/// Signals to tracer while the command runs.
pub(super) struct Signals {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// What a signal to tracer means.
pub(super) enum Asked {
    /// From the terminal: the command has got it too, and decides.
    Terminal,
    /// To tracer alone: to be passed on.
    PassOn(i32),
}

impl Signals {
    const CAUGHT: [i32; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

    pub(super) fn new() -> Result<Self> {
        let catch = |kind| signal(kind).context("signals cannot be caught");
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            quit: catch(SignalKind::quit())?,
            terminate: catch(SignalKind::terminate())?,
            hang_up: catch(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Terminal,
            _ = self.quit.recv() => Asked::Terminal,
            _ = self.terminate.recv() => Asked::PassOn(libc::SIGTERM),
            _ = self.hang_up.recv() => Asked::PassOn(libc::SIGHUP),
        }
    }
}

/// The stages of `--timeout`.
struct Timeout {
    next: Option<(Instant, i32)>,
    expired: bool,
}

impl Timeout {
    fn new(after: Option<Duration>) -> Self {
        // A time beyond what the clock can hold never comes.
        let at = after.and_then(|d| Instant::now().checked_add(d));
        Self {
            next: at.map(|at| (at, libc::SIGTERM)),
            expired: false,
        }
    }

    /// The signal that is due.
    async fn due(&mut self) -> i32 {
        let Some((at, signal)) = self.next else {
            return pending().await;
        };
        sleep_until(at).await;
        self.expired = true;
        self.next = match signal {
            libc::SIGTERM => Some((Instant::now() + GRACE, libc::SIGKILL)),
            _ => None,
        };
        signal
    }
}

struct Run<S> {
    source: S,
    pipeline: Pipeline,
    events: Vec<(u64, crate::model::Event)>,
}

impl<S: Source> Run<S> {
    /// Reads the source until the command, or with `--wait-all` every process,
    /// has ended. Returns the exit status.
    async fn until_end(
        &mut self,
        options: &Trace,
        mut root: Root,
        mut signals: Signals,
    ) -> Result<u8> {
        let mut timeout = Timeout::new(options.timeout);
        let mut tick = interval(if options.log { TICK_LOG } else { TICK });
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut status = None;
        let mut more = false;
        loop {
            tokio::select! {
                // Signals and the end come first: a storm of events must not starve them.
                biased;
                asked = signals.next() => match asked {
                    Asked::PassOn(signal) if status.is_none() => root.signal(signal)?,
                    Asked::Terminal if status.is_none() => {}
                    // The command has ended, only descendants are waited for.
                    _ => break,
                },
                signal = timeout.due(), if status.is_none() => {
                    root.signal(signal)?;
                    // One that is stopped must see it, too.
                    root.signal(libc::SIGCONT)?;
                }
                ended = root.end(), if status.is_none() => status = Some(ended?),
                () = ready(()), if more => {}
                r = self.source.ready() => r.context("reading events")?,
                _ = tick.tick() => self.pipeline.flush(),
            }
            // What is lost while an output is stuck is lost, and counted, in the kernel.
            more = !self.pipeline.is_congested() && !self.drain();
            if status.is_some() && (!options.wait_all || !self.source.any_alive()?) {
                break;
            }
        }
        Ok(match (timeout.expired, status) {
            (true, _) => TIMED_OUT,
            (false, status) => status.unwrap_or(FAILURE),
        })
    }

    /// Says whether nothing more waits.
    fn drain(&mut self) -> bool {
        let drained = self.source.drain(&mut self.events);
        self.pipeline.take(&mut self.events, drained);
        drained.empty
    }

    /// Waits a little for totals that are still to become final, and ends the
    /// outputs. Returns whether all are complete.
    async fn finish(&mut self, status: u8) -> bool {
        let until = Instant::now() + FINAL_WAIT;
        if S::FINALS_COME {
            // The last ends are given out when the source's clock has gone on a little;
            // only then can the table say what it waits for.
            tokio::time::sleep(TICK_FINAL).await;
        }
        while !self.drain() {}
        if S::FINALS_COME && self.pipeline.awaits_finals() {
            hurry_grace_period();
            while self.pipeline.awaits_finals() && Instant::now() < until {
                tokio::time::sleep(TICK_FINAL).await;
                self.drain();
            }
        }
        self.source.finish(&mut self.events);
        // From here on a slow reader of the outputs can hold us up: a signal ends that.
        signals::default_actions(&Signals::CAUGHT);
        self.pipeline
            .finish(&mut self.events, boot_ns(), i32::from(status))
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
