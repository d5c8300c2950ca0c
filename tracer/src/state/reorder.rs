//! Puts events in order of their time stamps, without a time window.
//!
//! A source pushes what it gets and says up to which time it has given
//! everything; only that is released. How a source knows is its business: for
//! the ring buffer see [`crate::decode::record`].
//!
//! Streams are nearly sorted, so most events extend a sorted run at its end; the
//! few strays go to a heap, and a release merges the two. A push in order costs
//! O(1), a stray O(log strays).

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use crate::model::Event;

struct Entry {
    ts: u64,
    order: u64,
    event: Event,
}

impl Entry {
    const fn key(&self) -> (u64, u64) {
        (self.ts, self.order)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Reversed: the heap's top is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// A buffer of events that wait for their turn.
///
/// It holds what was pushed and not released, no more: its size is bounded by
/// how closely the source's releases follow.
#[derive(Default)]
pub struct Reorder {
    run: VecDeque<Entry>,
    strays: BinaryHeap<Entry>,
    /// Time of the latest event passed on.
    passed_on: u64,
    late: u64,
}

impl Reorder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event; `order` is its place in the source's own order, by which
    /// equal `ts` are told apart.
    pub fn push(&mut self, order: u64, event: Event) {
        let entry = Entry {
            ts: event.ts(),
            order,
            event,
        };
        match self.run.back() {
            Some(last) if entry.key() < last.key() => self.strays.push(entry),
            _ => self.run.push_back(entry),
        }
    }

    /// Takes the earliest event, if its `ts ≤ up_to`.
    pub fn pop(&mut self, up_to: u64) -> Option<Event> {
        // Entries compare reversed: the greater is the earlier.
        let from_run = match (self.run.front(), self.strays.peek()) {
            (Some(run), Some(stray)) => run > stray,
            (run, _) => run.is_some(),
        };
        let next = if from_run {
            self.run.front()
        } else {
            self.strays.peek()
        };
        if next?.ts > up_to {
            return None;
        }
        let entry = if from_run {
            self.run.pop_front()
        } else {
            self.strays.pop()
        };
        let entry = entry?;
        match entry.ts < self.passed_on {
            true => self.late += 1,
            false => self.passed_on = entry.ts,
        }
        Some(entry.event)
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.run.len() + self.strays.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Events that were passed on after later ones: they came when their time had
    /// been released already. A source whose watermark is right has none.
    pub const fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProcId;
    use proptest::prelude::*;

    fn gone(ts: u64, pid: u32) -> Event {
        Event::Gone {
            ts,
            id: ProcId::exact(pid, 0),
            left: false,
        }
    }

    fn released(r: &mut Reorder, up_to: u64) -> impl Iterator<Item = Event> {
        std::iter::from_fn(move || r.pop(up_to))
    }

    fn pids(events: impl Iterator<Item = Event>) -> Vec<u32> {
        let pid = |e| {
            if let Event::Gone { id, .. } = e {
                id.pid
            } else {
                0
            }
        };
        events.map(pid).collect()
    }

    #[test]
    fn only_what_is_complete_leaves_and_ties_keep_their_order() {
        let mut r = Reorder::new();
        let push = |r: &mut Reorder, ts, pid| r.push(u64::from(pid), gone(ts, pid));
        for (ts, pid) in [(10, 1), (30, 2), (20, 3), (20, 4), (30, 5)] {
            push(&mut r, ts, pid);
        }
        assert!(pids(released(&mut r, 9)).is_empty());
        assert_eq!(pids(released(&mut r, 20)), [1, 3, 4]);
        push(&mut r, 25, 6);
        push(&mut r, 20, 7);
        assert_eq!(r.late(), 0);
        push(&mut r, 19, 8);
        assert_eq!(pids(released(&mut r, 29)), [8, 7, 6]);
        assert_eq!(r.len(), 2);
        assert_eq!(pids(released(&mut r, u64::MAX)), [2, 5]);
        assert!(r.is_empty());
    }

    #[test]
    fn a_place_of_its_own_decides_ties() {
        let mut r = Reorder::new();
        r.push(5, gone(10, 1));
        r.push(3, gone(10, 2));
        r.push(9, gone(10, 3));
        assert_eq!(pids(released(&mut r, u64::MAX)), [2, 1, 3]);
    }

    proptest! {
        #[test]
        fn as_a_stable_sort(ts in proptest::collection::vec(0u64..50, 0..300)) {
            let mut r = Reorder::new();
            let mut truth: Vec<(u64, u32)> = ts.iter().copied().zip(0u32..).collect();
            for (ts, pid) in &truth {
                r.push(u64::from(*pid), gone(*ts, *pid));
            }
            truth.sort_by_key(|(ts, _)| *ts);
            let mut got = Vec::new();
            for up_to in [7, 20, 20, 3] {
                got.extend(pids(released(&mut r, up_to)));
            }
            got.extend(pids(released(&mut r, u64::MAX)));
            let truth: Vec<u32> = truth.into_iter().map(|(_, pid)| pid).collect();
            prop_assert_eq!(got, truth);
        }
    }
}
