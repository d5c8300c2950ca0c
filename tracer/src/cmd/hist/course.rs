//! The course of a run: what ends it, and what is done meanwhile and after it.

use std::future::pending;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::control::{Asker, Control, Request};
use super::session::Session;
use super::show::Outputs;
use super::targets::Targets;
use crate::cli::Hist;
use crate::cmd::backend::Root;
use crate::cmd::run::{Course, Pace};
use crate::cmd::signals::{Asked, Signals};
use crate::cmd::trace::{TIMED_OUT, Timeout};
use crate::hist::resolve::Names;
use crate::launch::Command;
use crate::pipeline::Pipeline;
use crate::source::Source;

/// Counts until the end and shows the tables.
///
/// # Errors
/// What the kernel refuses; an output that cannot be written.
pub async fn count(
    options: &Hist,
    targets: Targets,
    command: Option<Command>,
    outputs: &Outputs,
    names: &Names,
) -> Result<ExitCode> {
    // Before the command exists: a signal that comes then must be passed on.
    let signals = Signals::new()?;
    let trees = !options.pids().is_empty();
    let mut session = Session::new(options, targets)?;
    let held = command.map(|c| session.hold(&c)).transpose()?;
    session.begin()?;
    let root = match held.map(|h| Root::release(h, None)).transpose() {
        Ok(root) => root,
        Err(error) => {
            eprintln!("tracer: {error}");
            return Ok(ExitCode::from(error.exit_code()));
        }
    };
    let run = session.own.as_mut().and_then(|own| own.run.take());
    let mut work = Work {
        session,
        outputs,
        names,
        root,
        signals,
        control: Control::open(),
        end: options.duration.and_then(|d| Instant::now().checked_add(d)),
        watch: options.watch.map(ticks),
        // The trees of -p may end.
        looks: trees.then(|| ticks(LOOK)),
        next_look: Instant::now(),
        timeout: Timeout::new(options.timeout),
        wait_all: options.wait_all,
        status: 0,
    };
    match run {
        Some(mut run) => {
            run.until(&mut work, Pace::new(false)).await?;
            work.session.end()?;
            run.finish(work.status).await;
        }
        None => {
            while !work.next().await? {}
            work.session.end()?;
        }
    }
    work.finish(options)
}

/// How often it is looked whether somebody of `-p` still runs.
const LOOK: Duration = Duration::from_millis(200);

fn ticks(period: Duration) -> Interval {
    let mut watch = interval(period.max(Duration::from_millis(10)));
    watch.set_missed_tick_behavior(MissedTickBehavior::Skip);
    watch.reset();
    watch
}

/// A run on its way.
struct Work<'a> {
    session: Session,
    outputs: &'a Outputs,
    names: &'a Names,
    root: Option<Root>,
    signals: Signals,
    control: Option<Control>,
    end: Option<Instant>,
    watch: Option<Interval>,
    looks: Option<Interval>,
    next_look: Instant,
    timeout: Timeout,
    wait_all: bool,
    /// The command's.
    status: u8,
}

impl Course for Work<'_> {
    async fn next(&mut self) -> Result<bool> {
        let Self {
            root,
            signals,
            control,
            watch,
            looks,
            timeout,
            ..
        } = self;
        let end = self.end;
        tokio::select! {
            biased;
            asked = signals.next() => match (asked, root) {
                (Asked::PassOn(signal), Some(root)) => root.signal(signal)?,
                (Asked::Terminal, Some(_)) => {}
                (_, None) => return Ok(true),
            },
            signal = timeout.due() => if let Some(root) = root {
                root.expire(signal)?;
            },
            ended = end_of(root) => {
                self.status = ended?;
                // What is left of it is looked for.
                *root = None;
                *looks = Some(ticks(LOOK));
                return Ok(!self.wait_all);
            }
            () = at(end) => return Ok(true),
            asked = asked(control) => {
                let (request, asker) = asked;
                asker.answer(self.session.act(&request, self.names));
            }
            () = tick(looks) => return Ok(!self.session.any_alive()?),
            () = tick(watch) => match (self.session.show(self.outputs, self.names, true), root) {
                // What a command does is not broken off; the end tries again, and tells.
                (_, Some(_)) => {}
                (heard, None) => return Ok(!heard?),
            },
        }
        Ok(false)
    }

    fn is_over<S: Source>(&mut self, source: &mut S, _pipeline: &mut Pipeline) -> Result<bool> {
        // Those of a source of its own are known to that only.
        let looks = self.looks.is_some() && Instant::now() >= self.next_look;
        if !looks {
            return Ok(false);
        }
        self.next_look = Instant::now() + LOOK;
        Ok(!source.any_alive()?)
    }
}

impl Work<'_> {
    fn finish(self, options: &Hist) -> Result<ExitCode> {
        let Self {
            session,
            outputs,
            names,
            status,
            timeout,
            ..
        } = self;
        let status = if timeout.expired { TIMED_OUT } else { status };
        let shown = match options.compare {
            true => session.compare(names),
            false => session
                .show(outputs, names, options.watch.is_some())
                .map(|_| true),
        };
        for remark in session.remarks() {
            eprintln!("tracer: {remark}");
        }
        let equal = shown?;
        Ok(ExitCode::from(if equal { status } else { status.max(1) }))
    }
}

async fn end_of(root: &mut Option<Root>) -> Result<u8> {
    match root {
        Some(root) => root.end().await,
        None => pending().await,
    }
}

async fn at(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}

async fn tick(watch: &mut Option<Interval>) {
    match watch {
        Some(watch) => {
            watch.tick().await;
        }
        None => pending().await,
    }
}

async fn asked(control: &mut Option<Control>) -> (Request, Asker) {
    let next = match control {
        Some(control) => control.next().await,
        None => None,
    };
    match next {
        Some(asked) => asked,
        None => pending().await,
    }
}
