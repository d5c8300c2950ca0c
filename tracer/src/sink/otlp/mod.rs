//! Processes as spans to an OpenTelemetry collector (OTLP/HTTP, protobuf): a tree is a trace.
//!
//! A span is made of each process that has ended. It is delivered at least once; where the
//! receiver does not answer it waits in a queue of bounded size. What does not fit, what the
//! receiver refuses, and what still waits at the end is counted and reported as lost.

mod ids;
mod lineage;
mod proto;
mod queue;
mod sender;
mod span;
mod target;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use queue::Figures;
pub use target::{Header, Target, TargetError};

use self::lineage::Lineage;
use self::queue::{Item, Queue};
use super::{Sink, Stats};
use crate::model::{End, Event, Meta, Process};
use crate::sys::capabilities::{Need, keep_only};

/// How long the end of a capture waits for spans to be taken.
const PATIENCE: Duration = Duration::from_secs(5);

/// How [`Otlp`] behaves.
#[derive(Clone, Debug)]
pub struct OtlpOptions {
    pub target: Target,
    /// Bytes that may wait for the receiver.
    pub queue: usize,
}

/// Sends a span for each process that has ended.
pub struct Otlp {
    options: OtlpOptions,
    lineage: Lineage,
    queue: Arc<Queue>,
    /// Not handed over yet.
    fresh: Vec<Item>,
    thread: Option<JoinHandle<()>>,
    /// Losses that have been reported.
    reported: u64,
}

impl Otlp {
    pub fn new(options: OtlpOptions) -> Self {
        Self {
            queue: Arc::new(Queue::new(options.queue)),
            options,
            lineage: Lineage::default(),
            fresh: Vec::new(),
            thread: None,
            reported: 0,
        }
    }

    pub fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.queue.figures)
    }

    fn lost(&self) -> u64 {
        self.queue.figures.lost.load(Ordering::Relaxed)
    }
}

impl Sink for Otlp {
    fn begin(&mut self, meta: &Meta) -> io::Result<()> {
        let context = span::Context::new(meta);
        let (queue, target) = (Arc::clone(&self.queue), self.options.target.clone());
        let thread = thread::Builder::new().name("otlp".into());
        self.thread = Some(thread.spawn(move || {
            // It only talks to the receiver; if it is refused, as before.
            let _ = keep_only(Need::Nothing);
            sender::run(&queue, &target, context);
        })?);
        Ok(())
    }

    fn event(&mut self, event: &Event, process: Option<&Process>) -> io::Result<()> {
        self.lineage.event(event, process);
        Ok(())
    }

    fn process(&mut self, process: &Process) -> io::Result<()> {
        let place = self.lineage.leave(&process.id);
        let Some(end) = process.end else {
            // It has not ended: no span.
            return Ok(());
        };
        self.fresh.push(Item {
            process: process.clone(),
            end,
            place,
        });
        if self.fresh.len() >= sender::BATCH {
            self.queue.put(&mut self.fresh, sender::BATCH);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.fresh.is_empty() {
            self.queue.put(&mut self.fresh, sender::BATCH);
        }
        Ok(())
    }

    fn stats(&self) -> Stats {
        let figures = &self.queue.figures;
        Stats {
            waiting: figures.waiting_bytes.load(Ordering::Relaxed) as u64,
            written: figures.bytes.load(Ordering::Relaxed),
            lost: self.lost(),
            rotations: 0,
        }
    }

    fn settle(&mut self) {
        self.queue.put(&mut self.fresh, sender::BATCH);
        self.queue.close(PATIENCE);
    }

    fn take_lost(&mut self) -> u64 {
        let lost = self.lost();
        lost - std::mem::replace(&mut self.reported, lost)
    }

    fn end(&mut self, _end: &End) -> io::Result<()> {
        self.settle();
        if let Some(thread) = self.thread.take_if(|t| t.is_finished()) {
            // It has nothing to say but that it panicked, and what it held is counted.
            let _ = thread.join();
        }
        match self.lost() {
            0 => Ok(()),
            n => Err(io::Error::other(format!(
                "{n} spans are lost; is the receiver up and fast enough?"
            ))),
        }
    }
}

#[cfg(test)]
mod tests;
