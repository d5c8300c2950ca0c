//! What a pipeline shows of itself, and what its outputs had to drop.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Pipeline, Slot};
use crate::metrics::{Counters, Figures, OutputFigures};
use crate::model::{Event, LossKind, LossPlace, Lost};
use crate::source::Fill;

/// Name of the output that only counts.
const COUNTERS: &str = "metrics";

impl Pipeline {
    /// Shows `figures` the state of the capture from now on.
    pub fn watch(&mut self, figures: Arc<Figures>) {
        self.add(COUNTERS, Box::new(Counters(Arc::clone(&figures))));
        self.figures = Some(figures);
    }

    pub fn figures(&self) -> Option<&Figures> {
        self.figures.as_deref()
    }

    /// Puts what outputs had to drop into the stream, at `ts`.
    pub(super) fn take_lost(&mut self, ts: u64) {
        let lost = |slot: &mut Slot| slot.sink.as_mut().map_or(0, |s| s.take_lost());
        let count = self.sinks.iter_mut().map(lost).sum();
        if count > 0 {
            let lost = Event::Lost(Lost {
                ts,
                cpu: None,
                place: LossPlace::Sink,
                kind: LossKind::Any,
                count,
            });
            self.apply(&lost);
        }
    }

    /// Shows those who watch how things stand; `fill` is asked only if there are any.
    pub fn show(&mut self, fill: impl FnOnce() -> Option<Fill>) {
        let Some(figures) = &self.figures else {
            return;
        };
        for (figure, n) in [
            (&figures.alive, self.table.running()),
            (&figures.ending, self.table.ending()),
            (&figures.reorder, self.reorder.len()),
        ] {
            figure.store(n as u64, Ordering::Relaxed);
        }
        if let Some(fill) = fill() {
            figures.set_buffer(fill);
        }
        let outputs = self.sinks.iter_mut().filter(|slot| slot.name != COUNTERS);
        figures.set_outputs(outputs.map(|slot| {
            let sink = slot.sink.as_ref();
            slot.stats = sink.map_or(slot.stats, |s| s.stats());
            OutputFigures {
                name: slot.name.clone(),
                waiting: sink.map_or(0, |s| slot.stats.waiting.max(s.backlog() as u64)),
                stats: slot.stats,
                failed: sink.is_none(),
            }
        }));
    }
}
