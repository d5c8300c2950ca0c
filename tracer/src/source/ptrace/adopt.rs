//! New tasks: from their creator's event or, where that never comes, from /proc.

use super::call::Report;
use super::group::Task;
use super::tracer::{Tracer, resume};
use crate::model::time::boot_ns;
use crate::model::{Args, Field};
use crate::model::{Event, Fork, LossKind, LossPlace, Lost, Precision, ProcId, Reason, Seed};

/// A task that its creator has not told of yet.
#[derive(Default)]
pub struct Pending {
    reports: Vec<Report>,
    /// The parent at its first report: if the creator dies, it will be another one.
    parent: Option<ProcId>,
}

impl Tracer {
    /// Keeps what a task reported that was quicker than its creator, which names its
    /// process and parent.
    pub(super) fn wait_for_creator(&mut self, report: &Report) {
        if !self.pending.contains_key(&report.tid) {
            let stat = self.proc.stat(report.tid).filter(|s| !s.thread);
            let parent = stat.and_then(|s| self.groups.get(&s.ppid)).map(|g| g.id);
            let reports = Vec::new();
            self.pending.insert(report.tid, Pending { reports, parent });
        }
        if let Some(pending) = self.pending.get_mut(&report.tid) {
            pending.reports.push(*report);
        }
    }

    /// Takes in the children of a process whose threads were ended before they told of
    /// them, while /proc still says whose they are.
    pub(super) fn find_children(&mut self, parent: u32) {
        let Some(id) = self.groups.get(&parent).map(|g| g.id) else {
            return;
        };
        let threads = self.tasks.iter().filter(|(_, t)| t.tgid == parent);
        let threads: Vec<u32> = threads.map(|(tid, _)| *tid).collect();
        for tid in threads {
            for child in self.proc.children(parent, tid) {
                if self.tasks.contains_key(&child) {
                    continue;
                }
                // One with CLONE_UNTRACED will report nothing.
                let traced = self.proc.status(child).is_some_and(|s| s.tracer_pid != 0);
                if traced {
                    let pending = self.pending.entry(child).or_default();
                    pending.parent.get_or_insert(id);
                    self.resolve_one(child);
                }
            }
        }
    }

    /// Takes in the children of a process that ends and has not told of them.
    pub(super) fn resolve_children(&mut self, parent: u32) {
        let of = |p: &Pending| p.parent.is_some_and(|id| id.pid == parent);
        let children = self.pending.iter().filter(|(_, p)| of(p));
        let children: Vec<u32> = children.map(|(child, _)| *child).collect();
        for child in children {
            self.resolve_one(child);
        }
    }

    /// `creator` stands at the event that tells of `child`.
    pub(super) fn on_fork(&mut self, creator: u32, child: u32) {
        if let Some(start) = self.early.remove(&child) {
            // Told of already, unless it is another one with the same pid.
            let now = self.proc.stat(child).map(|s| s.start * self.tick);
            let same = |now| now == start - start % self.tick;
            if self.tasks.contains_key(&child) || now.is_none_or(same) {
                return;
            }
        }
        self.adopt(Some(creator), child);
        self.replay(child);
    }

    /// Takes in tasks whose creator was killed before it could tell of them.
    pub(super) fn resolve(&mut self) {
        while let Some(child) = self.pending.keys().next().copied() {
            self.resolve_one(child);
        }
    }

    fn resolve_one(&mut self, child: u32) {
        self.adopt(None, child);
        if let Some(task) = self.tasks.get(&child) {
            self.early.insert(child, task.start);
        }
        self.replay(child);
    }

    /// Serves what a task had reported before it was known.
    fn replay(&mut self, child: u32) {
        let Pending { reports, .. } = self.pending.remove(&child).unwrap_or_default();
        if self.tasks.contains_key(&child) {
            reports.iter().for_each(|r| self.serve(r));
        } else {
            // Nothing of it is left in /proc: it need not stand still any longer.
            resume(child, 0);
        }
    }

    fn adopt(&mut self, creator: Option<u32>, child: u32) {
        let ts = boot_ns();
        let creator_tgid = creator.and_then(|tid| self.tasks.get(&tid)).map(|t| t.tgid);
        let stat = self.proc.stat(child);
        let start = stat.as_ref().map_or(ts, |s| s.start * self.tick);
        let precision = if stat.is_some() {
            Precision::Tick
        } else {
            Precision::Inferred
        };
        let thread = stat.as_ref().is_some_and(|s| s.thread);
        if thread {
            let tgid = creator_tgid.or_else(|| self.proc.status(child).map(|s| s.tgid));
            // Without a process it has died already: the process's own end tells all.
            let Some(tgid) = tgid else { return };
            self.tasks.insert(
                child,
                Task {
                    tgid,
                    start,
                    exiting: false,
                    usage: None,
                },
            );
            let Some(group) = self.groups.get_mut(&tgid) else {
                return;
            };
            group.threads += 1;
            group.live += 1;
            if self.options.threads {
                let fork = Fork {
                    ts,
                    cpu: None,
                    parent: group.id,
                    tid: creator.unwrap_or(tgid),
                    comm: group.comm,
                    child: group.id,
                    child_tid: child,
                    child_ns_pid: None,
                    thread: true,
                    kthread: false,
                };
                self.out.push(Event::Fork(fork));
            }
            return;
        }
        let id = ProcId {
            pid: child,
            start: match stat {
                Some(_) => self.newest.begin(child, start),
                // Not a time of /proc.
                None => start,
            },
            precision,
        };
        // The parent is the one that getppid names: with CLONE_PARENT not the creator.
        let seen = self.pending.get(&child).and_then(|p| p.parent);
        let now = stat.as_ref().map(|s| s.ppid).or(creator_tgid);
        let parent_pid = match (creator_tgid, seen) {
            (None, Some(seen)) => Some(seen.pid),
            // It was killed meanwhile, and another one has taken the child in.
            (Some(tgid), _) if !now.is_some_and(|pid| self.could_be_parent(pid, tgid)) => {
                Some(tgid)
            }
            _ => now,
        };
        let mut parent = parent_pid.and_then(|pid| self.identify(pid));
        if creator.is_none() {
            // Whoever is none of ours has only taken it in.
            parent = seen.or_else(|| parent.filter(|p| self.groups.contains_key(&p.pid)));
        }
        let comm = stat.as_ref().map(|s| s.comm);
        let mut inherited = Field::Missing(Reason::Gone);
        let mut parent_comm = None;
        let (mut uid, mut gid) = (None, None);
        if let Some(group) = parent_pid.and_then(|pid| self.groups.get_mut(&pid)) {
            group.children += 1;
            parent_comm = Some(group.comm);
            inherited = group.cgroup.clone();
            (uid, gid) = (group.uid, group.gid);
        }
        let comm = comm.or(parent_comm).unwrap_or_default();
        self.add_process(id, parent, comm);
        if let Some(group) = self.groups.get_mut(&child) {
            group.cgroup = inherited;
            (group.uid, group.gid) = (uid, gid);
        }
        let Some(parent) = parent else {
            self.out.push(Event::Lost(Lost {
                ts,
                cpu: None,
                place: LossPlace::Table,
                kind: LossKind::Fork,
                count: 1,
            }));
            return;
        };
        let fork = Fork {
            ts,
            cpu: None,
            parent,
            tid: creator.unwrap_or(parent.pid),
            // At this moment the child still bears its creator's name.
            comm,
            child: id,
            child_tid: child,
            child_ns_pid: None,
            thread: false,
            kthread: false,
        };
        self.out.push(Event::Fork(fork));
    }

    /// Whether a child that `creator` has just made can have this parent: one of ours,
    /// or with CLONE_PARENT the creator's own.
    fn could_be_parent(&self, pid: u32, creator: u32) -> bool {
        let of_creator = self.groups.get(&creator).and_then(|g| g.orig_parent);
        self.groups.contains_key(&pid) || of_creator.is_some_and(|p| p.pid == pid)
    }

    /// Reports children of the processes that still run which were created with
    /// CLONE_UNTRACED: as running, and as a gap.
    pub(super) fn find_untraced(&mut self) {
        let tasks: Vec<(u32, u32)> = self.tasks.iter().map(|(tid, t)| (t.tgid, *tid)).collect();
        for (tgid, tid) in tasks {
            let Some(parent) = self.groups.get(&tgid).map(|g| g.id) else {
                continue;
            };
            for child in self.proc.children(tgid, tid) {
                if self.tasks.contains_key(&child) {
                    continue;
                }
                let Some(stat) = self.proc.stat(child) else {
                    continue;
                };
                let ts = boot_ns();
                let argv = match self.proc.cmdline(child) {
                    Ok(bytes) => Field::Full(Args(bytes.into())),
                    Err(_) => Field::Missing(Reason::Gone),
                };
                let id = ProcId {
                    pid: child,
                    start: stat.start * self.tick,
                    precision: Precision::Tick,
                };
                self.untraced(ts, parent);
                self.out.push(Event::Seed(Box::new(Seed {
                    ts,
                    id,
                    parent: Some(parent),
                    comm: stat.comm,
                    exe: Field::Missing(Reason::Source),
                    argv,
                    uid: None,
                    cgroup: Field::Missing(Reason::Source),
                    kthread: false,
                })));
            }
        }
    }

    /// Children of `parent` were not seen.
    pub(super) fn untraced(&mut self, ts: u64, parent: ProcId) {
        self.notes.push(super::Note::Untraced { parent });
        self.out.push(Event::Lost(Lost {
            ts,
            cpu: None,
            place: LossPlace::Table,
            kind: LossKind::Any,
            count: 1,
        }));
    }
}
