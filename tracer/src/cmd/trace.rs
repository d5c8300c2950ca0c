//! `tracer -- CMD`: run one command and trace it with all its descendants.

use std::future::{pending, ready};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::outputs;
use crate::cli::{Backend, FAILURE, Trace};
use crate::filter::glob;
use crate::launch::{Child, Command, Held, LaunchError};
use crate::model::time::{boot_ns, wall_ns};
use crate::model::{Meta, ProcId};
use crate::pipeline::Pipeline;
use crate::source::Source;
use crate::source::ebpf::{EbpfSource, Options};
use crate::source::ftrace::{self, FtraceSource};
use crate::sys::cgroup::Cgroups;
use crate::sys::procfs::{Proc, cpus};

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

const PROC: &str = "/proc";

/// Runs the command and reports. The exit status is the command's.
pub fn run(options: &Trace) -> Result<ExitCode> {
    let mut pipeline = Pipeline::new();
    let command = match Command::resolve(&options.command, options.uid.clone()) {
        Ok(command) => command,
        Err(error) => return Ok(not_started(&error)),
    };
    outputs::open(options, &mut pipeline)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the event loop cannot be started")?;
    runtime.block_on(trace(options, &command, pipeline))
}

fn not_started(error: &LaunchError) -> ExitCode {
    eprintln!("tracer: {error}");
    ExitCode::from(error.exit_code())
}

async fn trace(options: &Trace, command: &Command, pipeline: Pipeline) -> Result<ExitCode> {
    match options.backend {
        Backend::Auto | Backend::Ebpf => with_ebpf(options, command, pipeline).await,
        Backend::Ftrace => with_ftrace(options, command, pipeline).await,
        Backend::Ptrace => {
            bail!("this backend is not part of this version; use --backend ebpf")
        }
    }
}

async fn with_ebpf(options: &Trace, command: &Command, pipeline: Pipeline) -> Result<ExitCode> {
    let mut cgroups = Cgroups::new(Path::new(PROC));
    let ebpf = ebpf_options(options, &cgroups)?;
    let mut source = EbpfSource::open(&ebpf, Box::new(move |id| cgroups.path(id).clone()))?;
    source.arm()?;
    // Before the command exists: a signal that comes then must be passed on.
    let signals = Signals::new()?;
    let held = command
        .hold()
        .context("the command cannot be started: fork failed")?;
    let root = source
        .root()?
        .ok_or_else(|| anyhow!("the kernel side did not see the fork of the command"))?;
    let meta = meta("ebpf", options, Some(root));
    let (source, status) = watch(options, source, pipeline, held, signals, &meta).await?;
    tell_malformed(source.malformed());
    Ok(status)
}

async fn with_ftrace(options: &Trace, command: &Command, pipeline: Pipeline) -> Result<ExitCode> {
    let ftrace = ftrace_options(options)?;
    // First of all: a signal must not end us before the instance is removed.
    let signals = Signals::new()?;
    let mut source = FtraceSource::open(&ftrace)?;
    let held = command
        .hold()
        .context("the command cannot be started: fork failed")?;
    let root = source.follow(held.pid(), true)?;
    let meta = meta("ftrace", options, Some(root));
    let (source, status) = watch(options, source, pipeline, held, signals, &meta).await?;
    tell_malformed(source.malformed());
    Ok(status)
}

fn tell_malformed(count: u64) {
    if count > 0 {
        eprintln!(
            "tracer: {count} records could not be read; this is a fault of tracer, please report it"
        );
    }
}

/// Lets the command go, and reads the source until the end.
async fn watch<S: Source>(
    options: &Trace,
    source: S,
    mut pipeline: Pipeline,
    held: Held,
    signals: Signals,
    meta: &Meta,
) -> Result<(S, ExitCode)> {
    pipeline.begin(meta);
    let child = match held.release() {
        Ok(child) => child,
        Err(error) => {
            let status = error.exit_code();
            pipeline.finish(&mut Vec::new(), boot_ns(), i32::from(status));
            return Ok((source, not_started(&error)));
        }
    };
    let mut run = Run {
        source,
        pipeline,
        events: Vec::new(),
    };
    let status = run.until_end(options, child, signals).await?;
    let complete = run.finish(status).await;
    // An incomplete output must not look like success.
    let status = ExitCode::from(match (complete, status) {
        (false, 0) => FAILURE,
        _ => status,
    });
    Ok((run.source, status))
}

/// What ftrace can do of what was asked for.
fn ftrace_options(options: &Trace) -> Result<ftrace::Options> {
    let unable = [
        ("--comm", !options.comm.is_empty()),
        ("--exclude-comm", !options.exclude_comm.is_empty()),
        ("--uid-filter", !options.uid_filter.is_empty()),
        ("--cgroup", !options.cgroup.is_empty()),
        ("--failed", options.failed),
        ("--env", options.env),
        ("--failed-execs", options.failed_execs),
        ("--signals", options.signals),
    ];
    if let Some((option, _)) = unable.iter().find(|(_, asked)| *asked) {
        bail!("{option} is beyond what ftrace records; use --backend ebpf");
    }
    Ok(ftrace::Options {
        buffer_kib: options.ring_size / 1024 / cpus(),
        max_argv: usize::try_from(options.max_argv)?,
        threads: options.threads,
        whole_system: false,
        kthreads: options.kthreads,
        reader: ftrace::Reader::Raw,
    })
}

fn ebpf_options(options: &Trace, cgroups: &Cgroups) -> Result<Options> {
    let compile = |option: &str, patterns: &[std::ffi::OsString]| {
        if patterns.is_empty() {
            return Ok(None);
        }
        let bytes: Vec<&[u8]> = patterns.iter().map(|p| p.as_encoded_bytes()).collect();
        let glob = glob::compile(&bytes).with_context(|| option.to_owned())?;
        Ok::<_, anyhow::Error>(Some(Box::new(glob)))
    };
    Ok(Options {
        ring_size: options.ring_size,
        max_argv: options.max_argv,
        threads: options.threads,
        env: options.env,
        failed_execs: options.failed_execs,
        signals: options.signals,
        kthreads: options.kthreads,
        failed_only: options.failed,
        debug: options.debug_bpf,
        comm: compile("--comm", &options.comm)?,
        exclude_comm: compile("--exclude-comm", &options.exclude_comm)?,
        uids: options.uid_filter.clone(),
        cgroups: options
            .cgroup
            .iter()
            .map(|path| cgroups.id(path))
            .collect::<Result<_, _>>()
            .context("--cgroup")?,
    })
}

fn meta(backend: &'static str, options: &Trace, root: Option<ProcId>) -> Meta {
    let proc = Proc::at(Path::new(PROC));
    Meta {
        backend,
        kernel: proc.kernel().unwrap_or_default(),
        host: proc.hostname().unwrap_or_default(),
        boot_id: proc.boot_id().unwrap_or_default(),
        cpus: cpus(),
        wall_start_ns: wall_ns(),
        boot_start_ns: boot_ns(),
        command: options
            .command
            .iter()
            .map(|a| a.as_encoded_bytes().to_vec())
            .collect(),
        root,
    }
}

/// Signals to tracer while the command runs.
struct Signals {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// What a signal to tracer means.
enum Asked {
    /// From the terminal: the command has got it too, and decides.
    Terminal,
    /// To tracer alone: to be passed on.
    PassOn(i32),
}

impl Signals {
    fn new() -> Result<Self> {
        let catch = |kind| signal(kind).context("signals cannot be caught");
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            quit: catch(SignalKind::quit())?,
            terminate: catch(SignalKind::terminate())?,
            hang_up: catch(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
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
        mut child: Child,
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
                    Asked::PassOn(signal) if status.is_none() => child.signal(signal)?,
                    Asked::Terminal if status.is_none() => {}
                    // The command has ended, only descendants are waited for.
                    _ => break,
                },
                signal = timeout.due() => child.signal(signal)?,
                ended = child.wait_async(), if status.is_none() => status = Some(ended?.exit_code()),
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
        while !self.drain() {}
        if self.pipeline.awaits_finals() {
            hurry_grace_period();
        }
        while self.pipeline.awaits_finals() && Instant::now() < until {
            tokio::time::sleep(TICK_FINAL).await;
            self.drain();
        }
        self.source.finish(&mut self.events);
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
