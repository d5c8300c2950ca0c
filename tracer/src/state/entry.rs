//! One process in the table, and how each event amends it.

use std::sync::Arc;

use crate::model::{
    Bytes, Comm, Exec, Exit, Field, Final, Fork, Precision, ProcId, Process, Reason, Seed, Signal,
    SignalBy, Usage,
};

/// More than a CPU needs from the end of a process to the next one, ns: a hypervisor that
/// is busy takes it away for some 10 ms, which counts as the process's where it is not said
/// to have been stolen. The price: of a process that nobody waits for, and that somebody
/// looks at in the last 20 ms of its end, what it used from then on is left out.
const LAST_SWITCH_NS: u64 = 20_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// It has ended; its totals may still become final.
    Ended,
}

pub(super) struct Entry {
    pub process: Process,
    pub phase: Phase,
    /// Deadly signals, one of each number: which of them ends it is known at the end.
    signals: Vec<Signal>,
}

/// What a new process has from its parent.
#[derive(Default)]
pub(super) struct Inherited {
    exe: Option<Bytes>,
    uid: Option<u32>,
    gid: Option<u32>,
    cgroup: Option<Field<Bytes>>,
}

impl Inherited {
    pub fn of(parent: &Process) -> Self {
        Self {
            exe: parent.exe.clone(),
            uid: parent.uid,
            gid: parent.gid,
            cgroup: parent.cgroup.clone(),
        }
    }
}

impl Entry {
    /// A process whose fork was not seen.
    pub fn unseen(id: ProcId, root: bool) -> Self {
        let process = Process {
            id,
            orig_parent: None,
            parent: None,
            end: None,
            comm: Comm::default(),
            exec: None,
            execs: 0,
            exe: None,
            status: None,
            uid: None,
            gid: None,
            ns_pid: None,
            cgroup: None,
            threads: None,
            usage: Usage::default(),
            killed_by: None,
            kthread: false,
            seeded: false,
            fork_seen: false,
            root,
        };
        Self {
            process,
            phase: Phase::Running,
            signals: Vec::new(),
        }
    }

    /// A new process: it runs its parent's program, as its parent's user.
    pub fn fork(&mut self, e: &Fork, inherited: Inherited) {
        let p = &mut self.process;
        p.fork_seen = true;
        p.orig_parent = Some(e.parent);
        p.parent = p.parent.or(Some(e.parent));
        p.kthread |= e.kthread;
        p.ns_pid = p.ns_pid.or(e.child_ns_pid);
        p.uid = p.uid.or(inherited.uid);
        p.gid = p.gid.or(inherited.gid);
        if p.cgroup.is_none() {
            p.cgroup = inherited.cgroup;
        }
        if p.execs == 0 {
            p.exe = inherited.exe;
        }
        self.know_comm(e.comm);
    }

    /// A name from another's record, where none is known.
    pub fn know_comm(&mut self, comm: Comm) {
        if self.process.comm == Comm::default() {
            self.process.comm = comm;
        }
    }

    pub fn exec(&mut self, e: &Arc<Exec>) {
        let p = &mut self.process;
        p.comm = e.comm;
        // Not the name of the program before this one, even where this one's was lost.
        p.exe = e.filename.value().cloned();
        p.exec = Some(Arc::clone(e));
        p.execs = p.execs.saturating_add(1);
        p.parent = e.parent.or(p.parent);
        p.uid = e.uid.or(p.uid);
        p.gid = e.gid.or(p.gid);
        p.ns_pid = e.ns_pid.or(p.ns_pid);
        know_cgroup(p, &e.cgroup);
        p.root |= e.root;
    }

    pub fn exit(&mut self, e: &Exit) {
        let p = &mut self.process;
        p.end = Some(e.ts);
        p.comm = e.comm;
        p.status = e.status;
        // Where the source does not know whose child it ended as, it is not known.
        p.parent = e.parent;
        p.orig_parent = p.orig_parent.or(e.orig_parent);
        p.uid = e.uid.or(p.uid);
        p.gid = e.gid.or(p.gid);
        p.ns_pid = e.ns_pid.or(p.ns_pid);
        know_cgroup(p, &e.cgroup);
        p.threads = e.threads.or(p.threads);
        p.usage = e.usage.clone();
        p.kthread |= e.kthread;
        p.root |= e.root;
        // The kernel side knows the parent of each whose fork it saw, lost or not.
        p.seeded |= !p.fork_seen && p.id.precision == Precision::Exact && e.orig_parent.is_none();
        let ended_by = e.status.and_then(|status| status.signal);
        p.killed_by = std::mem::take(&mut self.signals)
            .into_iter()
            .find(|s| Some(s.signal) == ended_by)
            .map(Box::new);
        self.phase = Phase::Ended;
    }

    /// The same end once more, a moment later: its totals are the better ones.
    pub fn exit_again(&mut self, e: &Exit) {
        merge(&mut self.process.usage, &e.usage);
        self.process.threads = self.process.threads.max(e.threads);
    }

    pub fn totals_final(&mut self, e: &Final) {
        let usage = &mut self.process.usage;
        let at_end = usage.cpu_ns;
        merge(usage, &e.usage);
        // More than at the end, and hardly less than in all: told to whoever waited
        // for the process, while another CPU was still on its way out of it
        // (wait_task_zombie looks before __exit_signal does, kernel/exit.c).
        if let (Some((user, system)), Some(at_end), Some(all)) = (e.told_ns, at_end, usage.cpu_ns)
            && let told = user.saturating_add(system)
            && (at_end + 1..all).contains(&told)
            && all - told < LAST_SWITCH_NS
        {
            usage.utime_ns = Some(user);
            usage.stime_ns = Some(system);
            usage.cpu_ns = Some(told);
        }
        self.process.threads = self.process.threads.max(e.threads);
    }

    /// The first signal of a number is the one that counts: others find it
    /// pending. But the OOM killer's own is announced just before the kernel
    /// sends it, in the kernel's name.
    pub fn signal(&mut self, e: &Signal) {
        if self.phase == Phase::Ended {
            return;
        }
        match self
            .signals
            .iter_mut()
            .find(|known| known.signal == e.signal)
        {
            Some(known) if known.by == SignalBy::Kernel && e.by == SignalBy::Oom => {
                *known = e.clone()
            }
            Some(_) => {}
            None => self.signals.push(e.clone()),
        }
    }

    /// What a seed knows is older than what any event has said.
    pub fn seed(&mut self, e: &Seed) {
        let p = &mut self.process;
        p.seeded = true;
        p.kthread |= e.kthread;
        p.parent = p.parent.or(e.parent);
        p.uid = p.uid.or(e.uid);
        if p.execs == 0 {
            p.exe = p.exe.take().or_else(|| e.exe.value().cloned());
        }
        if p.comm == Comm::default() {
            p.comm = e.comm;
        }
        if p.exec.is_none() && !e.kthread {
            p.exec = Some(Arc::new(exec_before(e)));
        }
        if p.cgroup.as_ref().and_then(Field::value).is_none() {
            p.cgroup = Some(e.cgroup.clone());
        }
    }
}

/// What is known of an exec before the capture; it is not counted as one.
fn exec_before(e: &Seed) -> Exec {
    Exec {
        ts: e.ts,
        cpu: None,
        id: e.id,
        tid: e.id.pid,
        old_tid: None,
        parent: e.parent,
        comm: e.comm,
        filename: e.exe.clone(),
        argv: e.argv.clone(),
        env: None,
        cwd: Field::Missing(Reason::Source),
        uid: e.uid,
        euid: None,
        gid: None,
        egid: None,
        loginuid: None,
        sid: None,
        pgid: None,
        tty: None,
        cgroup: e.cgroup.clone(),
        ns_pid: None,
        by_kernel: false,
        root: false,
    }
}

/// A newer path counts; that there is none now does not unsay an older one.
fn know_cgroup(p: &mut Process, cgroup: &Field<Bytes>) {
    let known = p.cgroup.as_ref().and_then(Field::value).is_some();
    if !known || cgroup.value().is_some() {
        p.cgroup = Some(cgroup.clone());
    }
}

/// Amends provisional totals with later ones.
///
/// The later record knows better, but for the program's own max RSS: when totals
/// become final the mm is gone, so they have it only where it grew beyond that of
/// the program before; else what the exit said stays.
fn merge(usage: &mut Usage, later: &Usage) {
    usage.is_final |= later.is_final;
    usage.max_rss_upper_bytes = later.max_rss_upper_bytes.or(usage.max_rss_upper_bytes);
    macro_rules! amend {
        ($($member:ident)*) => {$( usage.$member = later.$member.or(usage.$member); )*};
    }
    amend! {
        utime_ns stime_ns cpu_ns max_rss_bytes minflt majflt nvcsw nivcsw inblock oublock read_bytes write_bytes
        cancelled_write_bytes rchar wchar run_delay_ns blkio_delay_ns
    }
    if usage.max_rss_bytes.is_some() {
        usage.max_rss_upper_bytes = None;
    }
}
