//! `tracer -- CMD`: run one command and trace it with all its descendants.

use std::future::pending;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep_until};

use super::backend::{self, Root, Watch, Watching};
use super::export;
use super::outputs;
use super::run::{Course, Pace, Run, block_on, meta};
use super::signals::{Asked, Signals};
use crate::cli::{FAILURE, Trace, TreeStyle};
use crate::launch::{Command, LaunchError};
use crate::model::time::boot_ns;
use crate::pipeline::Pipeline;
use crate::source::Source;

/// Exit status after `--timeout`, as of timeout(1).
pub(super) const TIMED_OUT: u8 = 124;
/// From SIGTERM to SIGKILL after `--timeout`.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the command and reports. The exit status is the command's.
pub fn run(options: &Trace) -> Result<ExitCode> {
    let command = match Command::resolve(&options.command, options.uid.clone()) {
        Ok(command) => Arc::new(command),
        Err(error) => return Ok(not_started(&error)),
    };
    let mut pipeline = Pipeline::new();
    pipeline.show_threads(options.capture.threads);
    let tree = match options.capture.log {
        true => TreeStyle::None,
        false => TreeStyle::Folded,
    };
    let files = options.capture.files.for_command()?;
    outputs::open(&options.capture, &files, tree, &mut pipeline)?;
    export::count(&options.capture, &pipeline)?;
    block_on(trace(options, &command, pipeline))
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

/// Lets the command go and reads the source until the end.
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
    let mut run = Run::new(watching.source, pipeline);
    let mut course = CommandCourse {
        root,
        signals,
        timeout: Timeout::new(options.timeout),
        wait_all: options.wait_all,
        status: None,
    };
    run.until(&mut course, Pace::new(options.capture.log))
        .await?;
    let status = course.exit_status();
    let complete = run.finish(status).await;
    // An incomplete output must not look like success.
    Ok(ExitCode::from(match (complete, status) {
        (false, 0) => FAILURE,
        _ => status,
    }))
}

/// The stages of `--timeout`.
pub(super) struct Timeout {
    next: Option<(Instant, i32)>,
    pub expired: bool,
}

impl Timeout {
    pub fn new(after: Option<Duration>) -> Self {
        // A time beyond what the clock can hold never comes.
        let at = after.and_then(|d| Instant::now().checked_add(d));
        Self {
            next: at.map(|at| (at, libc::SIGTERM)),
            expired: false,
        }
    }

    /// The signal that is due, see [`Root::expire`]. Cancel safe.
    pub async fn due(&mut self) -> i32 {
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

/// Until the command, or with `--wait-all` every process, has ended.
struct CommandCourse {
    root: Root,
    signals: Signals,
    timeout: Timeout,
    wait_all: bool,
    status: Option<u8>,
}

impl CommandCourse {
    fn exit_status(&self) -> u8 {
        match (self.timeout.expired, self.status) {
            (true, _) => TIMED_OUT,
            (false, status) => status.unwrap_or(FAILURE),
        }
    }
}

impl Course for CommandCourse {
    async fn next(&mut self) -> Result<bool> {
        let Self {
            root,
            signals,
            timeout,
            status,
            ..
        } = self;
        tokio::select! {
            // A signal must be passed on, whatever else there is.
            biased;
            asked = signals.next() => match asked {
                Asked::PassOn(signal) if status.is_none() => root.signal(signal)?,
                Asked::Terminal if status.is_none() => {}
                // The command has ended, only descendants are waited for.
                _ => return Ok(true),
            },
            signal = timeout.due(), if status.is_none() => {
                root.expire(signal)?;
            }
            ended = root.end(), if status.is_none() => *status = Some(ended?),
        }
        Ok(false)
    }

    fn is_over<S: Source>(&mut self, source: &mut S, _pipeline: &mut Pipeline) -> Result<bool> {
        Ok(self.status.is_some() && (!self.wait_all || !source.any_alive()?))
    }
}
