//! The bounded way from the pipeline's thread to the thread that writes.
//!
//! While the destination is merely slow, the queue fills up and the pipeline stops
//! reading its source. While it cannot be written at all (a full disk), that would
//! punish the other outputs: then the queue takes what fits, and what does not is
//! dropped and counted. From the first drop on everything is dropped, until the
//! producer has closed the gap and thereby learnt its size: so a loss has one place
//! in the stream.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Above this the producer waits: the last resort of a caller that does not
/// look at the backlog, and the rule when a long tree is written at the end.
const LIMIT: usize = 64 * 1024 * 1024;
/// Above this the producer lets the thread take its turn: chunks that come back are filled
/// again while a cache still has them, where new ones are memory that has to be cleared.
const AHEAD: usize = 512 * 1024;
/// But no longer, where the destination is slow: other outputs wait meanwhile.
const TURN: Duration = Duration::from_millis(2);
/// Empty chunks kept for reuse.
const SPARE: usize = 8;

/// What travels: whole records.
pub trait Chunk: Send + Sized + 'static {
    fn bytes(&self) -> usize;
    fn records(&self) -> u64;
    /// The same without its contents, if that is worth keeping.
    fn emptied(self) -> Option<Self>;
}

pub enum Next<C> {
    Chunk(C),
    /// What follows belongs to the next file.
    Part,
    /// Nothing has come within the time given.
    Idle,
    /// Nothing will come.
    Closed,
}

/// How an output is doing, for whoever has a copy.
#[derive(Debug, Default)]
pub struct Status {
    waiting: AtomicUsize,
    /// Bytes taken since the last mark between parts.
    taken: AtomicU64,
    /// Bytes of whole records that have not been handed over yet.
    pending: AtomicUsize,
    written: AtomicU64,
    part: AtomicU64,
    part_bytes: AtomicU64,
    stalled: AtomicBool,
    gap: AtomicU64,
    lost: AtomicU64,
    /// Bytes that may wait while the destination cannot be written.
    hold: AtomicUsize,
}

impl Status {
    pub fn new(hold: usize) -> Self {
        Self {
            hold: hold.into(),
            ..Self::default()
        }
    }

    /// Bytes that wait for a destination that is slow. None while it cannot be written
    /// at all, when waiting would be of no use.
    pub fn backlog(&self) -> usize {
        match self.stalled.load(Relaxed) {
            true => 0,
            false => self.waiting(),
        }
    }

    /// Bytes that wait, whatever for.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Bytes of the part that is being filled, on their way to the file or there.
    pub fn filled(&self) -> u64 {
        self.taken.load(Relaxed) + self.pending.load(Relaxed) as u64
    }

    pub(super) fn set_pending(&self, bytes: usize) {
        self.pending.store(bytes, Relaxed);
    }

    /// Bytes written to all files.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Records dropped for want of room.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// The number of the part that is being written, from 0, and its bytes so far.
    pub fn part(&self) -> (u64, u64) {
        let part = self.part.load(Acquire);
        (part, self.part_bytes.load(Relaxed))
    }

    /// Whether records were dropped, and there is room for more now.
    pub fn can_close_gap(&self) -> bool {
        self.gap.load(Relaxed) > 0 && self.waiting() < self.hold.load(Relaxed) / 2
    }

    /// Whether the last records of a file and the first of the next have a place. Not in a
    /// gap, nor just before one.
    pub fn can_begin_part(&self) -> bool {
        let has_room = || self.waiting() < self.hold.load(Relaxed) / 2;
        self.gap.load(Relaxed) == 0 && (!self.stalled.load(Relaxed) || has_room())
    }

    /// Ends the gap; the number of records that are missing in it.
    pub fn close_gap(&self) -> u64 {
        self.gap.swap(0, Relaxed)
    }

    pub(super) fn wrote(&self, bytes: u64) {
        self.written.fetch_add(bytes, Relaxed);
        self.part_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn next_part(&self) {
        self.part_bytes.store(0, Relaxed);
        self.part.fetch_add(1, Release);
    }

    pub(super) fn drop_records(&self, records: u64) {
        self.gap.fetch_add(records, Relaxed);
        self.lost.fetch_add(records, Relaxed);
    }
}

pub struct Queue<C> {
    state: Mutex<State<C>>,
    work: Condvar,
    room: Condvar,
    pub status: Arc<Status>,
}

struct State<C> {
    items: VecDeque<Option<C>>,
    /// In the queue or being written.
    bytes: usize,
    spare: Vec<C>,
    closed: bool,
    failed: Option<(ErrorKind, String)>,
    /// Nobody reads any more, which is no error.
    quiet: bool,
}

impl<C> State<C> {
    fn check(&self) -> io::Result<()> {
        match &self.failed {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None => Ok(()),
        }
    }
}

impl<C: Chunk> Queue<C> {
    pub fn new(status: Arc<Status>) -> Self {
        Self {
            state: Mutex::new(State {
                items: VecDeque::new(),
                bytes: 0,
                spare: Vec::new(),
                closed: false,
                failed: None,
                quiet: false,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
            status,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error that has ended the writing, if one has.
    pub fn check(&self) -> io::Result<()> {
        self.lock().check()
    }

    /// Hands a chunk over, or drops it where that is the rule. Returns an empty one.
    ///
    /// # Errors
    /// The writing has ended with this error.
    pub fn push(&self, chunk: C) -> io::Result<Option<C>> {
        let status = &self.status;
        let mut state = self.lock();
        state.check()?;
        if state.quiet {
            return Ok(chunk.emptied());
        }
        let is_above = |state: &State<C>, limit| {
            state.bytes > limit
                && state.failed.is_none()
                && !state.quiet
                && !status.stalled.load(Relaxed)
        };
        state = self
            .room
            .wait_timeout_while(state, TURN, |state| is_above(state, AHEAD))
            .unwrap_or_else(PoisonError::into_inner)
            .0;
        state = self
            .room
            .wait_while(state, |state| is_above(state, LIMIT))
            .unwrap_or_else(PoisonError::into_inner);
        let is_full = status.stalled.load(Relaxed)
            && state.bytes.saturating_add(chunk.bytes()) > status.hold.load(Relaxed);
        if is_full || status.gap.load(Relaxed) > 0 {
            status.drop_records(chunk.records());
            return Ok(chunk.emptied());
        }
        state.bytes += chunk.bytes();
        status.waiting.store(state.bytes, Relaxed);
        status.taken.fetch_add(chunk.bytes() as u64, Relaxed);
        state.items.push_back(Some(chunk));
        let empty = state.spare.pop();
        drop(state);
        self.work.notify_one();
        Ok(empty)
    }

    /// What follows belongs to the next file.
    pub fn push_part(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.check()?;
        if !state.quiet {
            state.items.push_back(None);
        }
        self.status.taken.store(0, Relaxed);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.work.notify_one();
    }

    /// The next item; with a patience, [`Next::Idle`] when there is none for so long.
    pub fn next(&self, patience: Option<Duration>) -> Next<C> {
        let until = patience.map(|time| Instant::now() + time);
        let mut state = self.lock();
        loop {
            match state.items.pop_front() {
                Some(Some(chunk)) => return Next::Chunk(chunk),
                Some(None) => return Next::Part,
                None if state.closed => return Next::Closed,
                None => {}
            }
            state = match until.map(|at| at.saturating_duration_since(Instant::now())) {
                None => self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Next::Idle,
                Some(time) => {
                    self.work
                        .wait_timeout(state, time)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    /// Waits, whatever comes; only the end comes through. Says whether it has come.
    pub fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.lock();
        while !state.closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self
                .work
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state.closed
    }

    /// The chunk's records are out, or with the encoder.
    pub fn done(&self, bytes: usize, chunk: Option<C>) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        self.status.waiting.store(state.bytes, Relaxed);
        if state.spare.len() < SPARE {
            state.spare.extend(chunk);
        }
        drop(state);
        self.room.notify_one();
    }

    /// Whether the destination cannot be written for the time being.
    pub fn stall(&self, stalled: bool) {
        // Under the lock, so that a producer that waits for room cannot miss it.
        let state = self.lock();
        self.status.stalled.store(stalled, Relaxed);
        drop(state);
        self.room.notify_one();
    }

    /// No more can be written: what waits, and what is still to come, is dropped.
    /// Returns how many records waited.
    pub fn stop(&self, error: Option<&io::Error>) -> u64 {
        let mut state = self.lock();
        match error {
            Some(e) => state.failed = Some((e.kind(), e.to_string())),
            None => state.quiet = true,
        }
        let records = state.items.drain(..).flatten().map(|c| c.records()).sum();
        state.bytes = 0;
        self.status.waiting.store(0, Relaxed);
        drop(state);
        self.room.notify_one();
        records
    }
}
