//! The consumer's end: events in bounded amounts, woken by time.

use std::io;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TryRecvError;

use super::{GATHER, PtraceSource, outbox};
use crate::model::Event;
use crate::source::{Drained, Source};

/// Events that are given out at once.
const AMOUNT: usize = outbox::BATCH * 16;

/// How long [`Source::finish`] waits for the tracing thread where it waits for descendants
/// that nobody wants to wait for any more.
const FINISH: Duration = Duration::from_millis(250);

impl PtraceSource {
    /// Waits for the next batch, and a little for what follows it.
    pub(super) async fn gather(&mut self) {
        match self.batches.recv().await {
            Some(batch) => self.ahead = batch,
            None => self.closed = true,
        }
        if !self.closed && self.batches.is_empty() {
            tokio::select! {
                () = tokio::time::sleep(GATHER) => {}
                () = self.done.notified() => self.done.notify_one(),
            }
        }
    }

    /// Takes what has come, up to [`AMOUNT`].
    pub(super) fn collect(&mut self) {
        while self.ahead.len() < AMOUNT {
            match self.batches.try_recv() {
                Ok(batch) => self.ahead.extend(batch),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.closed = true;
                    break;
                }
            }
        }
    }

    fn give(&mut self, out: &mut Vec<(u64, Event)>) {
        for event in self.ahead.drain(..) {
            self.last = event.ts();
            out.push((self.order, event));
            self.order += 1;
        }
    }
}

impl Source for PtraceSource {
    async fn ready(&mut self) -> io::Result<()> {
        if self.closed {
            // Nothing more will come.
            std::future::pending::<()>().await;
        }
        if self.ahead.is_empty() {
            self.gather().await;
        }
        Ok(())
    }

    fn drain(&mut self, out: &mut Vec<(u64, Event)>) -> Drained {
        self.collect();
        self.give(out);
        Drained {
            complete_to: self.last,
            empty: self.batches.is_empty(),
        }
    }

    fn any_alive(&mut self) -> io::Result<bool> {
        Ok(!self.closed)
    }

    /// To be called when the command has ended: the tracing thread lets go of the rest
    /// then by itself, soon, or as soon as a machine that is overloaded lets it.
    fn finish(&mut self, out: &mut Vec<(u64, Event)>) {
        let until = self.wait_all.then(|| Instant::now() + FINISH);
        loop {
            self.collect();
            self.give(out);
            if self.closed || until.is_some_and(|until| Instant::now() > until) {
                return;
            }
            if self.batches.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn remarks(&mut self) -> Vec<String> {
        self.take_notes().iter().map(ToString::to_string).collect()
    }
}
