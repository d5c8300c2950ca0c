//! The processes that live, or whose totals are still to become final.
//!
//! Events are applied in order of time. Each process yields one row, when its
//! final totals have come, or [`FINAL_WAIT_NS`] after its end, or when the capture
//! ends. Memory is bounded by the number of living processes: history is a
//! sink's business.
//!
//! Every record is enough by itself: where a fork was lost, the exec or the exit
//! makes the entry (`fork_seen` is false then).

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::entry::{Entry, Inherited, Phase};
use crate::model::{Event, Exit, Final, Fork, Precision, ProcId, Process, Seed, Signal, Status};

/// How long an ended process waits for its final totals, ns.
///
/// An RCU grace period is enough, but a busy machine takes its time for one: a
/// quarter of a second was too short for one in some thousand. What is never
/// reaped waits this long in vain.
pub const FINAL_WAIT_NS: u64 = 5_000_000_000;

/// What was odd, for the summary and for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Ends reported twice (kernels before 6.16 can, see [`Table::apply`]).
    pub duplicate_exits: u64,
    /// Final totals that came after the row had gone out.
    pub late_finals: u64,
    /// Ends whose exit record was lost: `end` is then when that was noticed, and
    /// there is no status.
    pub unseen_exits: u64,
}

/// Process table keyed by [`ProcId`].
#[derive(Default)]
pub struct Table {
    entries: FxHashMap<ProcId, Box<Entry>>,
    /// Ended ones with the time at which they wait no longer, oldest first.
    /// Those that left early are skipped when their turn comes.
    ended: VecDeque<(u64, ProcId)>,
    /// Ended ones whose totals were final at once: due at the next call, so that
    /// their exit event can still look them up.
    ready: Vec<ProcId>,
    /// The newest entry with each pid.
    by_pid: FxHashMap<u32, ProcId>,
    running: usize,
    root: Option<ProcId>,
    oddities: Oddities,
}

impl Table {
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one event; rows of processes that are complete go to `row`.
    ///
    /// Says whether the event is to be shown: not the second of two ends of one
    /// process, nor totals that come after the row.
    pub fn apply(&mut self, event: &Event, row: &mut impl FnMut(Process)) -> bool {
        self.emit_ready(row);
        match event {
            Event::Fork(e) => self.fork(e, row),
            Event::Exec(e) => {
                self.entry(e.id, e.ts, row).exec(e);
                if e.root {
                    self.root = Some(e.id);
                }
            }
            Event::Exit(e) => return e.thread || self.exit(e, row),
            Event::Final(e) => return self.totals_final(e, row),
            Event::Gone { ts, id, left } => self.gone(*ts, *id, *left, row),
            Event::Signal(e) => self.signal(e),
            Event::Seed(e) => self.seed(e, row),
            Event::ExecFailed(_) | Event::Lost(_) => {}
        }
        true
    }

    /// Emits the rows of those that ended at least [`FINAL_WAIT_NS`] before `now`
    /// (boot ns). Call it with the time up to which events were applied, so that
    /// final totals that are already on their way are not missed.
    pub fn expire(&mut self, now: u64, row: &mut impl FnMut(Process)) {
        self.emit_ready(row);
        while let Some((_, id)) = self.ended.pop_front_if(|(deadline, _)| *deadline <= now) {
            // One that left early could have come back only as another's mistake.
            if !self.is_running(&id) {
                self.emit(&id, row);
            }
        }
    }

    /// Processes that have ended and whose row has not gone out.
    pub fn ending(&self) -> usize {
        self.entries.len().saturating_sub(self.running)
    }

    /// Whether ended processes still wait for their final totals.
    pub fn awaits_finals(&self) -> bool {
        self.entries.len() > self.running
    }

    /// At the end of the capture: rows of all that are left, those that ended
    /// first, then the running ones (`end` absent) from the oldest on.
    pub fn drain_remaining(&mut self, row: &mut impl FnMut(Process)) {
        self.expire(u64::MAX, row);
        let mut rest: Vec<_> = self
            .entries
            .drain()
            .map(|(_, entry)| entry.process)
            .collect();
        rest.sort_unstable_by_key(|p| (p.id.start, p.id.pid));
        rest.into_iter().for_each(row);
        self.running = 0;
        self.by_pid.clear();
    }

    /// After ends were lost: `is_alive` tells which processes still exist; rows of
    /// the others go out with `end` = `now` (no later than that) and no status.
    pub fn sweep(
        &mut self,
        now: u64,
        is_alive: impl Fn(&ProcId) -> bool,
        row: &mut impl FnMut(Process),
    ) {
        let dead = |e: &Entry| e.phase == Phase::Running && !is_alive(&e.process.id);
        let mut dead: Vec<ProcId> = self
            .entries
            .iter()
            .filter(|(_, e)| dead(e))
            .map(|(id, _)| *id)
            .collect();
        dead.sort_unstable_by_key(|id| (id.start, id.pid));
        for id in dead {
            self.end_unseen(&id, now, row);
        }
    }

    /// What is known of a process: while it lives, and after its end until its row.
    pub fn get(&self, id: &ProcId) -> Option<&Process> {
        self.entries.get(id).map(|entry| &entry.process)
    }

    /// The processes that run.
    pub fn alive(&self) -> impl Iterator<Item = &Process> {
        self.entries
            .values()
            .filter(|e| e.phase == Phase::Running)
            .map(|e| &e.process)
    }

    /// Number of [`Self::alive`].
    pub const fn running(&self) -> usize {
        self.running
    }

    /// Entries held, the ended ones that wait included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The command that tracer started, once it is known.
    pub const fn root(&self) -> Option<ProcId> {
        self.root
    }

    /// For sources that know the command without its exec having been marked.
    pub fn set_root(&mut self, id: ProcId) {
        self.root = Some(id);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.process.root = true;
        }
    }

    pub const fn oddities(&self) -> Oddities {
        self.oddities
    }

    fn fork(&mut self, e: &Fork, row: &mut impl FnMut(Process)) {
        if e.thread {
            self.entry(e.child, e.ts, row).know_comm(e.comm);
            return;
        }
        // The caller is the parent, but for CLONE_PARENT: only then do we know its name.
        if e.tid == e.parent.pid {
            self.entry(e.parent, e.ts, row).know_comm(e.comm);
        }
        let parent = self.resolve(e.parent).and_then(|id| self.entries.get(&id));
        let inherited = parent
            .map(|entry| Inherited::of(&entry.process))
            .unwrap_or_default();
        // Starts that are known roughly can look the same, but a process is forked once.
        if let Some(other) = self.resolve(e.child).filter(|other| *other != e.child)
            && self
                .entries
                .get(&other)
                .is_some_and(|other| other.process.fork_seen)
        {
            if self.is_running(&other) {
                self.end_unseen(&other, e.ts, row);
            } else {
                self.emit(&other, row);
            }
        }
        self.entry(e.child, e.ts, row).fork(e, inherited);
    }

    fn exit(&mut self, e: &Exit, row: &mut impl FnMut(Process)) -> bool {
        let entry = self.entry(e.id, e.ts, row);
        if entry.phase == Phase::Ended {
            entry.exit_again(e);
            self.oddities.duplicate_exits += 1;
            return false;
        }
        entry.exit(e);
        let id = entry.process.id;
        self.running -= 1;
        if e.root {
            self.root = Some(id);
        }
        // A source that has no figures will have none later.
        if e.usage.is_final || !e.usage.is_known() {
            self.ready.push(id);
        } else {
            self.ended
                .push_back((e.ts.saturating_add(FINAL_WAIT_NS), id));
        }
        true
    }

    fn totals_final(&mut self, e: &Final, row: &mut impl FnMut(Process)) -> bool {
        let id = self.resolve(e.id).unwrap_or(e.id);
        let Some(entry) = self.entries.get_mut(&id) else {
            self.oddities.late_finals += 1;
            return false;
        };
        entry.totals_final(e);
        if entry.phase == Phase::Running {
            // Totals become final only after the end: its record was lost.
            self.end_unseen(&id, e.ts, row);
        } else {
            self.emit(&id, row);
        }
        // Keep the queue short where nobody calls `expire` for long.
        while self
            .ended
            .pop_front_if(|(_, id)| !self.entries.contains_key(id))
            .is_some()
        {}
        true
    }

    fn gone(&mut self, ts: u64, id: ProcId, left: bool, row: &mut impl FnMut(Process)) {
        if left {
            // Its row would be of a process that is not wanted.
            if let Some(id) = self.resolve(id) {
                self.emit(&id, &mut |_| {});
            }
        } else if let Some(id) = self.resolve(id)
            && let Some(entry) = self.entries.get_mut(&id)
        {
            entry.process.end = Some(ts);
            entry.process.status = Some(Status::from_wait(0));
            self.emit(&id, row);
        }
    }

    fn signal(&mut self, e: &Signal) {
        // A signal makes no entry: it can also reach a process that has ended
        // and waits to be reaped.
        if let Some(entry) = self
            .resolve(e.target)
            .and_then(|id| self.entries.get_mut(&id))
        {
            entry.signal(e);
        }
    }

    fn seed(&mut self, e: &Seed, row: &mut impl FnMut(Process)) {
        // Its own records may have come before its seed was read, with a better start.
        let known = self
            .by_pid
            .get(&e.id.pid)
            .filter(|known| known.matches(&e.id))
            .copied();
        self.entry(known.unwrap_or(e.id), e.ts, row).seed(e);
    }

    /// The id under which an entry for this process exists, if it does.
    fn resolve(&mut self, id: ProcId) -> Option<ProcId> {
        if self.entries.contains_key(&id) {
            return Some(id);
        }
        let seeded = *self
            .by_pid
            .get(&id.pid)
            .filter(|seeded| seeded.matches(&id))?;
        if id.precision != Precision::Exact {
            return Some(seeded);
        }
        // Seeded with a start known to a tick only: the first exact record takes it over.
        let mut entry = self.entries.remove(&seeded)?;
        entry.process.id = id;
        self.entries.insert(id, entry);
        self.by_pid.insert(id.pid, id);
        Some(id)
    }

    /// The entry of `id`, made where there is none.
    fn entry(&mut self, id: ProcId, ts: u64, row: &mut impl FnMut(Process)) -> &mut Entry {
        let known = self.resolve(id);
        if known.is_none() {
            self.running += 1;
            match self.by_pid.get(&id.pid).copied() {
                // A record about one that had this pid before.
                Some(other) if other.start > id.start => {}
                other => {
                    self.by_pid.insert(id.pid, id);
                    // A pid is given away again only after its owner's end.
                    if let Some(other) = other.filter(|other| self.is_running(other)) {
                        self.end_unseen(&other, ts, row);
                    }
                }
            }
        }
        let id = known.unwrap_or(id);
        let root = self.root == Some(id);
        self.entries
            .entry(id)
            .or_insert_with(|| Box::new(Entry::unseen(id, root)))
    }

    fn is_running(&self, id: &ProcId) -> bool {
        self.entries
            .get(id)
            .is_some_and(|entry| entry.phase == Phase::Running)
    }

    /// Row of a process whose exit record was lost.
    fn end_unseen(&mut self, id: &ProcId, ts: u64, row: &mut impl FnMut(Process)) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.process.end = Some(ts);
            self.oddities.unseen_exits += 1;
            self.emit(id, row);
        }
    }

    fn emit_ready(&mut self, row: &mut impl FnMut(Process)) {
        while let Some(id) = self.ready.pop() {
            self.emit(&id, row);
        }
    }

    fn emit(&mut self, id: &ProcId, row: &mut impl FnMut(Process)) {
        if let Some(entry) = self.entries.remove(id) {
            if entry.phase == Phase::Running {
                self.running -= 1;
            }
            if self.by_pid.get(&id.pid) == Some(id) {
                self.by_pid.remove(&id.pid);
            }
            row(entry.process);
        }
    }
}
