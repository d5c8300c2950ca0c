//! `tracer record`: whatever runs on this machine, or in trees and cgroups of it.

use std::future::pending;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep_until};

use super::backend::{self, Record as Watch};
use super::export;
use super::outputs;
use super::run::{Course, Pace, Run, block_on, meta};
use super::service::{Service, restrict, with_files_only};
use super::signals::{Asked, Signals};
use crate::cli::{FAILURE, Record, TreeStyle};
use crate::model::Meta;
use crate::pipeline::Pipeline;
use crate::source::Source;
use crate::sys::capabilities::Need;

/// Records until it is told to end. The exit status is 0 where nothing failed.
pub fn run(options: &Record) -> Result<ExitCode> {
    let mut pipeline = Pipeline::new();
    pipeline.show_threads(options.capture.threads);
    let files = options.capture.files.for_recording();
    with_files_only(|| outputs::open(&options.capture, &files, TreeStyle::None, &mut pipeline))?;
    export::count(&options.capture, &pipeline)?;
    block_on(record(options, pipeline))
}

async fn record(options: &Record, pipeline: Pipeline) -> Result<ExitCode> {
    let signals = Signals::new()?;
    // The capture begins with the first program that is attached.
    let mut meta = meta("", &[], None);
    let source = backend::record(options)?;
    meta.backend = source.name();
    // Programs are attached, and what runs already is known.
    restrict(Need::Events);
    match source {
        Watch::Ebpf(source) => report(options, source, &meta, pipeline, signals).await,
        Watch::Ftrace(source) => report(options, source, &meta, pipeline, signals).await,
    }
}

async fn report<S: Source>(
    options: &Record,
    source: S,
    meta: &Meta,
    mut pipeline: Pipeline,
    signals: Signals,
) -> Result<ExitCode> {
    pipeline.begin(meta);
    // Whoever waits for the file sees now that it has begun.
    pipeline.flush();
    pipeline.limit(options.max_events);
    let mut run = Run::new(source, pipeline);
    let mut course = RecordCourse {
        service: Service::ready(),
        signals,
        // A time beyond what the clock can hold never comes.
        end: options.duration.and_then(|d| Instant::now().checked_add(d)),
        trees: !options.pids().is_empty(),
        next_count: Instant::now(),
        hung_up: false,
    };
    run.until(&mut course, Pace::new(options.capture.log))
        .await?;
    course.service.stopping();
    Ok(ExitCode::from(if run.finish(0).await {
        0
    } else {
        FAILURE
    }))
}

/// How often the processes of `-p` are counted.
const COUNT: Duration = Duration::from_millis(200);

/// Until a signal, a time, a number of events, or the last end of the trees.
struct RecordCourse {
    service: Service,
    signals: Signals,
    end: Option<Instant>,
    trees: bool,
    next_count: Instant,
    hung_up: bool,
}

impl Course for RecordCourse {
    async fn next(&mut self) -> Result<bool> {
        let end = self.end;
        let time = async {
            match end {
                Some(end) => sleep_until(end).await,
                None => pending().await,
            }
        };
        tokio::select! {
            asked = self.signals.next() => if matches!(asked, Asked::PassOn(libc::SIGHUP)) {
                self.hung_up = true;
                return Ok(false);
            },
            () = time => {}
        }
        Ok(true)
    }

    fn is_over<S: Source>(&mut self, source: &mut S, pipeline: &mut Pipeline) -> Result<bool> {
        self.service.alive();
        // Daemons are told so to begin new files; else it says that the terminal has gone.
        if std::mem::take(&mut self.hung_up) && !pipeline.rotate() {
            return Ok(true);
        }
        if pipeline.is_full() {
            return Ok(true);
        }
        if !self.trees || Instant::now() < self.next_count {
            return Ok(false);
        }
        self.next_count = Instant::now() + COUNT;
        Ok(!source.any_alive()?)
    }
}
