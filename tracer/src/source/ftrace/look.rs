//! What /proc says of a process while it is there.
//!
//! A look at /proc comes after the exec that it is for, so it may be at the next
//! program already, or at another process. It counts only if the process began
//! before that exec, has the name that exec gave it before and after the look,
//! and no other exec of it turns up that was earlier than the look.

use rustc_hash::FxHashMap;

use crate::decode::ftrace::family::name_of;
use crate::decode::ftrace::{Body, Look, Lookup, Record};
use crate::model::time::boot_ns;
use crate::model::{Bytes, Comm, Precision, ProcId, Reason};
use crate::sys::procfs::Proc;

/// execveat on a descriptor; the kernel names the program by its file since 6.14.
const BY_DESCRIPTOR: &[u8] = b"/dev/fd/";

pub(super) struct Looks {
    proc: Proc,
    max_argv: usize,
    /// By process and time of the exec, with the time of the look.
    taken: FxHashMap<(u32, u64), (u64, Look)>,
    /// Time of the last exec of a process that waits in a queue.
    newest: FxHashMap<u32, u64>,
}

impl Looks {
    pub fn new(proc: Proc, max_argv: usize) -> Self {
        Self {
            proc,
            max_argv,
            taken: FxHashMap::default(),
            newest: FxHashMap::default(),
        }
    }

    /// Takes a look for an exec that has just been read from the buffer.
    pub fn arrived(&mut self, record: &Record<Bytes>) {
        let Body::Exec { filename, .. } = &record.body else {
            return;
        };
        let (pid, ts) = (record.tid, record.ts);
        let before = self.newest.get(&pid).copied();
        if before.is_some_and(|before| before > ts) {
            return;
        }
        if let Some(before) = before
            && let Some((at, _)) = self.taken.get(&(pid, before))
            && *at >= ts
        {
            self.taken.remove(&(pid, before));
        }
        self.newest.insert(pid, ts);
        if let Some(look) = self.look(pid, ts, filename.as_slice()) {
            self.taken.insert((pid, ts), (boot_ns(), look));
        }
    }

    fn look(&self, pid: u32, ts: u64, filename: &[u8]) -> Option<Look> {
        let is_it = || -> Option<Comm> {
            let stat = self.proc.stat(pid).ok()?;
            let named = stat.comm == name_of(filename) || filename.starts_with(BY_DESCRIPTOR);
            (named && stat.id.start <= ts).then_some(stat.comm)
        };
        let comm = is_it()?;
        let status = self.proc.status(pid).ok()?;
        let look = Look {
            argv: self.proc.argv(pid, self.max_argv),
            cwd: self.proc.cwd(pid),
            cgroup: self.proc.cgroup(pid),
            uid: status.number("Uid:", 0),
            euid: status.number("Uid:", 1),
            gid: status.number("Gid:", 0),
            egid: status.number("Gid:", 1),
            sid: status.number("NSsid:", 0),
            pgid: status.number("NSpgid:", 0),
            comm,
        };
        (is_it()? == comm).then_some(look)
    }

    /// Where it looks.
    pub const fn proc(&self) -> &Proc {
        &self.proc
    }

    /// Whether a process is there and has not ended.
    pub fn is_running(&self, id: ProcId) -> bool {
        let Ok(stat) = self.proc.stat(id.pid) else {
            return false;
        };
        !self.proc.has_ended(&stat)
            && stat.id.start <= id.start.saturating_add(Precision::Tick.tolerance_ns())
    }
}

impl Lookup for Looks {
    fn process(&mut self, pid: u32) -> Option<(ProcId, Option<ProcId>)> {
        let stat = self.proc.stat(pid).ok()?;
        let parent = self.proc.stat(stat.ppid).ok().map(|p| p.id);
        Some((stat.id, parent))
    }

    fn process_of(&mut self, tid: u32) -> Option<u32> {
        self.proc.process_of(tid).ok()
    }

    fn exec(&mut self, pid: u32, ts: u64) -> Option<Look> {
        if self.newest.get(&pid) == Some(&ts) {
            self.newest.remove(&pid);
        }
        self.taken.remove(&(pid, ts)).map(|(_, look)| look)
    }

    fn absent(&self) -> Reason {
        Reason::Gone
    }
}
