//! Spans that wait to be sent: bounded, and whatever does not fit is counted.

use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::lineage::Place;
use crate::model::{Args, Bytes, Field, Process};

/// A process that has ended.
pub struct Item {
    pub process: Process,
    /// Boot ns.
    pub end: u64,
    pub place: Place,
}

impl Item {
    /// About what it holds in memory, bytes. What it shares with others counts, too.
    fn size(&self) -> usize {
        let bytes = |b: Option<&Bytes>| b.map_or(0, |b| b.as_slice().len());
        let args = |f: &Field<Args>| f.value().map_or(0, |a| a.0.len());
        let exec = self.process.exec.as_deref().map_or(0, |e| {
            let env = e.env.as_ref().map_or(0, args);
            size_of_val(e) + args(&e.argv) + env + bytes(e.filename.value()) + bytes(e.cwd.value())
        });
        size_of::<Self>() + exec + bytes(self.process.exe.as_ref())
    }
}

/// Figures for whoever looks from outside.
#[derive(Debug, Default)]
pub struct Figures {
    /// Spans that the receiver took.
    pub sent: AtomicU64,
    /// Spans that will never be there: no room, refused, or still waiting at the end.
    pub lost: AtomicU64,
    /// Requests that had to be made again.
    pub retries: AtomicU64,
    /// Bytes of accepted requests, without HTTP headers.
    pub bytes: AtomicU64,
    /// Spans that wait or are on their way, and the memory that they hold.
    pub waiting: AtomicUsize,
    pub waiting_bytes: AtomicUsize,
}

/// Between the sink and the thread that sends.
pub struct Queue {
    state: Mutex<State>,
    /// Something came, or the end.
    work: Condvar,
    /// Everything that was there is out, or lost.
    idle: Condvar,
    /// Bytes that may wait.
    limit: usize,
    pub figures: std::sync::Arc<Figures>,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    /// In the queue or being sent.
    count: usize,
    bytes: usize,
    /// Nothing more comes; what is not out by then is lost.
    deadline: Option<Instant>,
}

/// Items to be sent in one request, and what they hold.
pub struct Batch {
    pub items: Vec<Item>,
    bytes: usize,
}

impl Queue {
    pub fn new(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            idle: Condvar::new(),
            limit,
            figures: std::sync::Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, state: &State) {
        self.figures.waiting.store(state.count, Ordering::Relaxed);
        self.figures
            .waiting_bytes
            .store(state.bytes, Ordering::Relaxed);
    }

    /// Hands over what fits; the rest is lost.
    pub fn put(&self, items: &mut Vec<Item>, batch: usize) {
        let mut state = self.lock();
        let mut lost = 0;
        let was_empty = state.items.is_empty();
        for item in items.drain(..) {
            let size = item.size();
            if state.bytes.saturating_add(size) > self.limit {
                lost += 1;
                continue;
            }
            state.bytes += size;
            state.count += 1;
            state.items.push_back(item);
        }
        self.show(&state);
        let enough = was_empty || state.items.len() >= batch;
        drop(state);
        self.figures.lost.fetch_add(lost, Ordering::Relaxed);
        if enough {
            self.work.notify_one();
        }
    }

    /// Waits for a batch: until `most` are there, or the first has waited for `patience`.
    /// `None`: nothing more will come.
    pub fn take(&self, most: usize, patience: Duration) -> Option<Batch> {
        let mut state = self.lock();
        let mut since = None;
        loop {
            let ends = state.deadline.is_some();
            if state.items.len() >= most || (ends && !state.items.is_empty()) {
                break;
            }
            if ends {
                return None;
            }
            if state.items.is_empty() {
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let since = *since.get_or_insert_with(Instant::now);
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                break;
            }
            state = self
                .work
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let count = most.min(state.items.len());
        let items: Vec<Item> = state.items.drain(..count).collect();
        let bytes = items.iter().map(Item::size).sum();
        Some(Batch { items, bytes })
    }

    /// A batch is out, as far as the receiver took it.
    pub fn done(&self, batch: &Batch, accepted: u64, lost: u64, sent_bytes: usize) {
        let mut state = self.lock();
        state.count = state.count.saturating_sub(batch.items.len());
        state.bytes = state.bytes.saturating_sub(batch.bytes);
        self.show(&state);
        self.figures.sent.fetch_add(accepted, Ordering::Relaxed);
        self.figures.lost.fetch_add(lost, Ordering::Relaxed);
        self.figures
            .bytes
            .fetch_add(sent_bytes as u64, Ordering::Relaxed);
        if state.count == 0 {
            self.idle.notify_all();
        }
    }

    /// Sleeps before another try; no longer than until the end. Says whether there is one.
    pub fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let end = state.deadline.map_or(until, |d| d.min(until));
            let left = end.saturating_duration_since(now);
            if left.is_zero() {
                return state.deadline.is_none_or(|d| now < d);
            }
            state = self
                .work
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Waits until all that waits is out, for `patience` at most. What comes after that is lost.
    pub fn close(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        state.deadline = Some(deadline);
        self.work.notify_all();
        // A request that is on its way has its own time limit; it is not waited for.
        while state.count > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self
                .idle
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let left = std::mem::take(&mut state.count) as u64;
        state.items.clear();
        state.bytes = 0;
        self.show(&state);
        self.figures.lost.fetch_add(left, Ordering::Relaxed);
    }
}
