//! What the capture shows of itself, and its text form.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::own::Own;
use super::programs::Programs;
use super::text::Text;
use crate::model::{LossKind, LossPlace, Meta};
use crate::sink::Stats;
#[cfg(feature = "otlp")]
use crate::sink::otlp;
use crate::source::Fill;

/// Kinds of events that are counted, as the label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Fork,
    Thread,
    Exec,
    ExecFailed,
    Exit,
    ThreadExit,
    Signal,
    Seed,
}

pub(super) const KINDS: [(Kind, &str); 8] = [
    (Kind::Fork, "fork"),
    (Kind::Thread, "thread"),
    (Kind::Exec, "exec"),
    (Kind::ExecFailed, "exec_failed"),
    (Kind::Exit, "exit"),
    (Kind::ThreadExit, "thread_exit"),
    (Kind::Signal, "signal"),
    (Kind::Seed, "seed"),
];

/// How processes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    Failure,
    Signal,
    Unknown,
}

const OUTCOMES: [(Outcome, &str); 4] = [
    (Outcome::Success, "success"),
    (Outcome::Failure, "failure"),
    (Outcome::Signal, "signal"),
    (Outcome::Unknown, "unknown"),
];

const PLACES: [LossPlace; 5] = [
    LossPlace::Ring,
    LossPlace::Table,
    LossPlace::Ftrace,
    LossPlace::Channel,
    LossPlace::Sink,
];

const LOSSES: [LossKind; 7] = [
    LossKind::Any,
    LossKind::Fork,
    LossKind::Exec,
    LossKind::Exit,
    LossKind::Final,
    LossKind::ExecFailed,
    LossKind::Signal,
];

/// What is counted of each output.
type OutputCounter = (&'static str, &'static str, fn(&Stats) -> u64);

const OUTPUT_COUNTERS: [OutputCounter; 3] = [
    (
        "tracer_output_written_bytes_total",
        "Bytes written to the destination of an output.",
        |s| s.written,
    ),
    (
        "tracer_output_lost_total",
        "Records that an output dropped, as its destination could not be written.",
        |s| s.lost,
    ),
    (
        "tracer_output_rotations_total",
        "Files that an output began after its first.",
        |s| s.rotations,
    ),
];

/// An output, as the pipeline sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputFigures {
    pub name: String,
    /// Bytes that wait for its destination.
    pub waiting: u64,
    pub stats: Stats,
    /// It ended with an error.
    pub failed: bool,
}

/// Shared by the capture, which writes, and the server, which reads.
#[derive(Debug, Default)]
pub struct Figures {
    pub(super) events: [AtomicU64; KINDS.len()],
    pub(super) ended: [AtomicU64; OUTCOMES.len()],
    pub(super) lost: [[AtomicU64; LOSSES.len()]; PLACES.len()],
    pub alive: AtomicU64,
    /// Ended, with totals that are not final yet.
    pub ending: AtomicU64,
    /// Events that wait for their turn.
    pub reorder: AtomicU64,
    buffer_used: AtomicU64,
    buffer_used_max: AtomicU64,
    buffer_size: AtomicU64,
    outputs: Mutex<Vec<OutputFigures>>,
    identity: Mutex<Identity>,
    programs: Mutex<Programs>,
    #[cfg(feature = "otlp")]
    otlp: Mutex<Option<std::sync::Arc<otlp::Figures>>>,
}

#[derive(Debug, Default)]
struct Identity {
    backend: &'static str,
    kernel: String,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn get(n: &AtomicU64) -> u64 {
    n.load(Ordering::Relaxed)
}

pub(super) fn add(n: &AtomicU64, by: u64) {
    n.fetch_add(by, Ordering::Relaxed);
}

impl Figures {
    pub(super) fn event(&self, kind: Kind) {
        // The enums have the order of the tables.
        if let Some(n) = self.events.get(kind as usize) {
            add(n, 1);
        }
    }

    pub(super) fn end(&self, outcome: Outcome) {
        if let Some(n) = self.ended.get(outcome as usize) {
            add(n, 1);
        }
    }

    pub(super) fn loss(&self, place: LossPlace, kind: LossKind, count: u64) {
        let place = PLACES.iter().position(|p| *p == place);
        let kind = LOSSES.iter().position(|k| *k == kind);
        if let Some(n) = place.and_then(|p| self.lost.get(p)?.get(kind?)) {
            add(n, count);
        }
    }

    pub(super) fn begin(&self, meta: &Meta) {
        *locked(&self.identity) = Identity {
            backend: meta.backend,
            kernel: meta.kernel.clone(),
        };
    }

    /// The state of the outputs, in their order.
    pub fn set_outputs(&self, outputs: impl Iterator<Item = OutputFigures>) {
        let mut known = locked(&self.outputs);
        known.clear();
        known.extend(outputs);
    }

    pub fn set_buffer(&self, fill: Fill) {
        self.buffer_used.store(fill.used, Ordering::Relaxed);
        self.buffer_used_max.fetch_max(fill.used, Ordering::Relaxed);
        self.buffer_size.store(fill.size, Ordering::Relaxed);
    }

    /// Adds to what is known of the programs whose run time is shown.
    pub fn set_programs(&self, programs: Programs) {
        locked(&self.programs).amend(programs);
    }

    #[cfg(feature = "otlp")]
    pub fn set_otlp(&self, figures: std::sync::Arc<otlp::Figures>) {
        *locked(&self.otlp) = Some(figures);
    }

    /// All of it, as Prometheus reads it.
    pub fn render(&self) -> String {
        let mut text = Text::default();
        self.capture(&mut text);
        self.queues(&mut text);
        #[cfg(feature = "otlp")]
        if let Some(figures) = &*locked(&self.otlp) {
            spans(&mut text, figures);
        }
        locked(&self.programs).render(&mut text);
        Own::read().render(&mut text);
        text.finish()
    }

    fn capture(&self, text: &mut Text) {
        let identity = locked(&self.identity);
        text.gauge(
            "tracer_build_info",
            "Version of tracer, its source of events, and the kernel; always 1.",
        )
        .sample(
            &[
                ("version", env!("CARGO_PKG_VERSION")),
                ("backend", identity.backend),
                ("kernel", &identity.kernel),
            ],
            1,
        );
        let mut events = text.counter("tracer_events_total", "Events recorded, by kind.");
        for ((_, name), n) in KINDS.iter().zip(&self.events) {
            events.sample(&[("kind", name)], get(n));
        }
        let mut ended = text.counter(
            "tracer_processes_ended_total",
            "Processes that have ended and whose record was given out, by outcome.",
        );
        for ((_, name), n) in OUTCOMES.iter().zip(&self.ended) {
            ended.sample(&[("outcome", name)], get(n));
        }
        let mut lost = text.counter(
            "tracer_lost_total",
            "Records that were lost, by the place where and the kind.",
        );
        for (place, counts) in PLACES.iter().zip(&self.lost) {
            for (kind, n) in LOSSES.iter().zip(counts) {
                // Each place is there from the beginning, so that an increase can be seen.
                if get(n) > 0 || *kind == LossKind::Any {
                    lost.sample(&[("where", place.name()), ("kind", kind.name())], get(n));
                }
            }
        }
        text.gauge("tracer_processes_alive", "Processes that are known to run.")
            .value(get(&self.alive));
        text.gauge(
            "tracer_processes_ending",
            "Processes that have ended and whose totals are not final yet.",
        )
        .value(get(&self.ending));
    }

    fn queues(&self, text: &mut Text) {
        text.gauge(
            "tracer_reorder_events",
            "Events that wait until all before them are there.",
        )
        .value(get(&self.reorder));
        if get(&self.buffer_size) > 0 {
            text.gauge(
                "tracer_buffer_used_bytes",
                "Used part of the buffer between the kernel and tracer, at its fullest in the last moment.",
            )
            .value(get(&self.buffer_used));
            text.gauge(
                "tracer_buffer_used_max_bytes",
                "Used part of the buffer between the kernel and tracer, at its fullest so far.",
            )
            .value(get(&self.buffer_used_max));
            text.gauge(
                "tracer_buffer_size_bytes",
                "Size of the buffer between the kernel and tracer.",
            )
            .value(get(&self.buffer_size));
        }
        let outputs = locked(&self.outputs);
        if outputs.is_empty() {
            return;
        }
        let mut waiting = text.gauge(
            "tracer_output_waiting_bytes",
            "Bytes that wait for the destination of an output.",
        );
        for o in &*outputs {
            waiting.sample(&[("output", &o.name)], o.waiting);
        }
        for (name, help, value) in OUTPUT_COUNTERS {
            let mut metric = text.counter(name, help);
            for o in &*outputs {
                metric.sample(&[("output", &o.name)], value(&o.stats));
            }
        }
        let mut failed = text.gauge(
            "tracer_output_failed",
            "1 if an output ended with an error.",
        );
        for o in &*outputs {
            failed.sample(&[("output", &o.name)], u8::from(o.failed));
        }
    }
}

#[cfg(feature = "otlp")]
fn spans(text: &mut Text, f: &otlp::Figures) {
    text.counter(
        "tracer_otlp_spans_sent_total",
        "Spans that the receiver took.",
    )
    .value(get(&f.sent));
    text.counter(
        "tracer_otlp_spans_lost_total",
        "Spans for which there was no room, that were refused, or that were left at the end.",
    )
    .value(get(&f.lost));
    text.counter(
        "tracer_otlp_retries_total",
        "Requests that had to be made again.",
    )
    .value(get(&f.retries));
    text.counter(
        "tracer_otlp_sent_bytes_total",
        "Bytes of the requests that the receiver took.",
    )
    .value(get(&f.bytes));
    text.gauge(
        "tracer_otlp_queue_spans",
        "Spans that wait or are on their way.",
    )
    .value(f.waiting.load(Ordering::Relaxed));
    text.gauge("tracer_otlp_queue_bytes", "Memory that waiting spans hold.")
        .value(f.waiting_bytes.load(Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_the_order_of_the_enums() {
        for (i, (kind, _)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, i);
        }
        for (i, (outcome, _)) in OUTCOMES.iter().enumerate() {
            assert_eq!(*outcome as usize, i);
        }
    }

    #[test]
    fn every_loss_has_a_place() {
        let figures = Figures::default();
        for place in PLACES {
            for kind in LOSSES {
                figures.loss(place, kind, 7);
            }
        }
        let text = figures.render();
        let lost = text.lines().filter(|l| l.starts_with("tracer_lost_total{"));
        assert_eq!(lost.clone().count(), PLACES.len() * LOSSES.len());
        assert!(lost.clone().all(|l| l.ends_with(" 7")));
    }
}
