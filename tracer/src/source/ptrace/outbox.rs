//! Events on their way out: in batches, through a bounded channel that holds
//! the tracees up when it is full.

use tokio::sync::mpsc;

use crate::model::Event;

/// Events of a full batch.
pub const BATCH: usize = 256;

pub struct Outbox {
    batch: Vec<Event>,
    /// `None`: nobody listens any more.
    channel: Option<mpsc::Sender<Vec<Event>>>,
}

impl Outbox {
    pub const fn new(channel: mpsc::Sender<Vec<Event>>) -> Self {
        Self {
            batch: Vec::new(),
            channel: Some(channel),
        }
    }

    pub fn push(&mut self, event: Event) {
        if self.channel.is_some() {
            self.batch.push(event);
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    pub const fn is_full(&self) -> bool {
        self.batch.len() >= BATCH
    }

    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        if let Some(channel) = &self.channel
            && channel.blocking_send(batch).is_err()
        {
            // The tracees must be served all the same.
            self.channel = None;
        }
    }
}
