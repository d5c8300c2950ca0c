//! From records to events: which thread belongs to which process, and when a
//! process began and ended.
//!
//! # Identity
//! A process begins with its `task_newtask` record (with the fork's where that
//! was lost): [`Precision::Inferred`], some µs after the kernel's own figure.
//! One that was there before is known from /proc: [`Precision::Tick`]. Whichever
//! comes first stays, so a process has one identity in a stream.
//!
//! # End
//! The kernel says which thread was the last since 6.16. Before, a process ends
//! with the last of its known threads; a lost record can therefore let it seem to
//! end early or never.
//!
//! # What these records do not know
//! The exit status, the counters, the ids of users. Absent, never zero. The
//! kernel's other interfaces could fill some in (taskstats, the proc connector),
//! but both name a process by its bare number, reach us in no order with these
//! records, and drop messages when it matters, so that an answer could belong to
//! another process: a source that knows (eBPF, ptrace) is the better choice.

use rustc_hash::{FxHashMap, FxHashSet};

use super::lookup::{Look, Lookup};
use super::record::{Body, Record};
use crate::model::{Bytes, Comm, Event, Exec, Exit, Field, Fork, Precision, ProcId, Reason, Usage};

const CLONE_PARENT: u64 = 0x8000;
const CLONE_THREAD: u64 = 0x1_0000;
/// Parent of the kernel's threads.
const KTHREADD: u32 = 2;

struct Process {
    id: ProcId,
    parent: Option<ProcId>,
    /// Its leader has not exited.
    leader: bool,
    /// The other living threads.
    others: FxHashSet<u32>,
    /// Threads ever created; absent where it was not seen from its beginning.
    threads: Option<u64>,
    kthread: bool,
    root: bool,
}

/// The living processes of a trace. Records must come in the order of time.
#[derive(Default)]
pub struct Family {
    processes: FxHashMap<u32, Process>,
    /// Processes of threads other than leaders.
    threads: FxHashMap<u32, u32>,
    /// Flags and time of clone calls whose fork record is still to come.
    clones: FxHashMap<u32, (u64, u64)>,
    /// Processes whose number was given to another one, without a record of their end.
    unseen_ends: u64,
    /// Who began all this, and watches: not in the records, but there.
    outside: Option<ProcId>,
    /// Tell of threads, too.
    tell_threads: bool,
}

impl Family {
    pub fn new(tell_threads: bool) -> Self {
        Self {
            tell_threads,
            ..Self::default()
        }
    }

    /// Adds a process that runs already, with the numbers of its threads.
    pub fn adopt(&mut self, id: ProcId, parent: Option<ProcId>, tids: &[u32], root: bool) {
        let pid = id.pid;
        let others: FxHashSet<u32> = tids.iter().copied().filter(|tid| *tid != pid).collect();
        self.forget(pid);
        if root {
            self.outside = parent;
        }
        self.threads.extend(others.iter().map(|tid| (*tid, pid)));
        self.processes.insert(
            pid,
            Process {
                id,
                parent,
                leader: true,
                others,
                threads: root.then_some(1),
                kthread: is_kthread(pid, parent),
                root,
            },
        );
    }

    /// The processes that have not ended as far as the records say.
    pub fn alive(&self) -> impl Iterator<Item = ProcId> {
        self.processes.values().map(|p| p.id)
    }

    /// Processes that ended without a record, as far as another one has shown.
    pub const fn unseen_ends(&self) -> u64 {
        self.unseen_ends
    }

    /// Whether this thread lives as far as the records say.
    pub fn knows(&self, tid: u32) -> bool {
        self.processes.contains_key(&tid) || self.threads.contains_key(&tid)
    }

    pub fn apply(
        &mut self,
        record: &Record<Bytes>,
        lookup: &mut impl Lookup,
        emit: &mut impl FnMut(Event),
    ) {
        match &record.body {
            Body::NewTask {
                child, clone_flags, ..
            } => self.newtask(record, *child, *clone_flags, lookup),
            Body::Fork { comm, child } => self.fork(record, *comm, *child, lookup, emit),
            Body::Exec { filename, old_tid } => {
                self.exec(record, filename, *old_tid, lookup, emit);
            }
            Body::Exit { comm, group_dead } => self.exit(record, *comm, *group_dead, lookup, emit),
        }
    }

    /// The process of a thread. One that is new to us is known from /proc or
    /// begins now.
    fn of(&mut self, tid: u32, ts: u64, lookup: &mut impl Lookup) -> &mut Process {
        let mut pid = self.threads.get(&tid).copied().unwrap_or(tid);
        if pid == tid && !self.processes.contains_key(&tid) {
            pid = lookup.process_of(tid).unwrap_or(tid);
            if pid != tid {
                self.threads.insert(tid, pid);
            }
        }
        let process = self.processes.entry(pid).or_insert_with(|| {
            let (id, parent) = lookup.process(pid).unwrap_or((inferred(pid, ts), None));
            Process {
                id,
                parent,
                leader: true,
                others: FxHashSet::default(),
                threads: None,
                kthread: is_kthread(pid, parent),
                root: false,
            }
        });
        if pid != tid {
            process.others.insert(tid);
        }
        process
    }

    /// The parent of a process as long as it has not ended; who is it after that
    /// the records do not say.
    fn still(&self, parent: Option<ProcId>) -> Option<ProcId> {
        parent.filter(|parent| {
            let known = self.processes.get(&parent.pid);
            known.is_some_and(|known| known.id == *parent) || self.outside == Some(*parent)
        })
    }

    fn newtask(&mut self, r: &Record<Bytes>, child: u32, flags: u64, lookup: &mut impl Lookup) {
        // Whoever had this number has ended, unseen.
        self.unseen_ends += u64::from(self.processes.contains_key(&child));
        self.forget(child);
        if flags & CLONE_THREAD == 0 {
            self.clones.insert(child, (flags, r.ts));
            return;
        }
        let process = self.of(r.tid, r.ts, lookup);
        process.others.insert(child);
        process.threads = process.threads.map(|n| n + 1);
        let pid = process.id.pid;
        self.threads.insert(child, pid);
    }

    /// Drops what is known of the thread, or process, with this number.
    fn forget(&mut self, tid: u32) {
        if let Some(pid) = self.threads.remove(&tid)
            && let Some(process) = self.processes.get_mut(&pid)
        {
            process.others.remove(&tid);
        }
        if let Some(old) = self.processes.remove(&tid) {
            for thread in old.others {
                self.threads.remove(&thread);
            }
        }
    }

    fn fork(
        &mut self,
        r: &Record<Bytes>,
        comm: Comm,
        child: u32,
        lookup: &mut impl Lookup,
        emit: &mut impl FnMut(Event),
    ) {
        let clone = self.clones.remove(&child);
        // Without its newtask record only /proc tells a thread.
        let seen = clone.is_some() || self.threads.contains_key(&child);
        if !seen && let Some(pid) = lookup.process_of(child).filter(|pid| *pid != child) {
            self.threads.insert(child, pid);
            self.of(pid, r.ts, lookup).others.insert(child);
        }
        let of_thread = self.threads.get(&child).copied();
        let caller = self.of(r.tid, r.ts, lookup);
        let (flags, start) = clone.unwrap_or((0, r.ts));
        let parent = match caller.parent {
            Some(parent) if flags & CLONE_PARENT != 0 => parent,
            _ => caller.id,
        };
        let (parent, id, thread) = match of_thread {
            Some(_) => (caller.id, caller.id, true),
            None => (parent, inferred(child, start), false),
        };
        let kthread = is_kthread(child, Some(parent)) || (thread && caller.kthread);
        if !thread {
            let process = Process {
                id,
                parent: Some(parent),
                leader: true,
                others: FxHashSet::default(),
                threads: Some(1),
                kthread,
                root: false,
            };
            self.processes.insert(child, process);
        } else if !self.tell_threads {
            return;
        }
        emit(Event::Fork(Fork {
            ts: r.ts,
            cpu: Some(r.cpu),
            parent,
            tid: r.tid,
            comm,
            child: id,
            child_tid: child,
            child_ns_pid: None,
            thread,
            kthread,
        }));
    }

    fn exec(
        &mut self,
        r: &Record<Bytes>,
        filename: &Bytes,
        old_tid: u32,
        lookup: &mut impl Lookup,
        emit: &mut impl FnMut(Event),
    ) {
        // It has its leader's number now, and is alone.
        self.threads.remove(&r.tid);
        let look = lookup.exec(r.tid, r.ts);
        let absent = lookup.absent();
        let process = self.of(r.tid, r.ts, lookup);
        process.leader = true;
        let gone = std::mem::take(&mut process.others);
        let (id, parent, root) = (process.id, process.parent, process.root);
        for tid in gone {
            self.threads.remove(&tid);
        }
        let parent = self.still(parent);
        let comm = match &look {
            Some(look) => look.comm,
            None => name_of(filename.as_slice()),
        };
        let look = look.unwrap_or(Look {
            argv: Field::Missing(absent),
            cwd: Field::Missing(absent),
            cgroup: Field::Missing(absent),
            uid: None,
            euid: None,
            gid: None,
            egid: None,
            sid: None,
            pgid: None,
            comm,
        });
        emit(Event::Exec(
            Exec {
                ts: r.ts,
                cpu: Some(r.cpu),
                id,
                tid: r.tid,
                old_tid: (old_tid != r.tid).then_some(old_tid),
                parent,
                comm,
                filename: Field::Full(filename.clone()),
                argv: look.argv,
                env: None,
                cwd: look.cwd,
                uid: look.uid,
                euid: look.euid,
                gid: look.gid,
                egid: look.egid,
                loginuid: None,
                sid: look.sid,
                pgid: look.pgid,
                tty: None,
                cgroup: look.cgroup,
                ns_pid: None,
                by_kernel: false,
                root,
            }
            .into(),
        ));
    }

    fn exit(
        &mut self,
        r: &Record<Bytes>,
        comm: Comm,
        group_dead: Option<bool>,
        lookup: &mut impl Lookup,
        emit: &mut impl FnMut(Event),
    ) {
        let process = self.of(r.tid, r.ts, lookup);
        let pid = process.id.pid;
        if r.tid == pid {
            process.leader = false;
        } else {
            process.others.remove(&r.tid);
        }
        let last = group_dead.unwrap_or(!process.leader && process.others.is_empty());
        let mut exit = Exit {
            ts: r.ts,
            cpu: Some(r.cpu),
            id: process.id,
            tid: r.tid,
            thread: !last,
            thread_start: None,
            parent: None,
            orig_parent: process.parent,
            comm,
            status: None,
            uid: None,
            gid: None,
            ns_pid: None,
            cgroup: Field::Missing(Reason::Source),
            threads: if last { process.threads } else { None },
            usage: Usage::default(),
            kthread: process.kthread,
            root: process.root,
        };
        exit.parent = self.still(exit.orig_parent);
        self.threads.remove(&r.tid);
        if last {
            self.forget(pid);
        }
        if last || self.tell_threads {
            emit(Event::Exit(Box::new(exit)));
        }
    }
}

const fn inferred(pid: u32, start: u64) -> ProcId {
    ProcId {
        pid,
        start,
        precision: Precision::Inferred,
    }
}

fn is_kthread(pid: u32, parent: Option<ProcId>) -> bool {
    pid == KTHREADD || parent.is_some_and(|p| p.pid == KTHREADD)
}

/// The name that exec gives: the last part of the path.
pub fn name_of(filename: &[u8]) -> Comm {
    let name = filename.rsplit(|b| *b == b'/').next();
    Comm::new(name.unwrap_or_default())
}
