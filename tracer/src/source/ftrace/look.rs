//! What /proc says of a process while it is there.
//!
//! A look at /proc comes after the exec that it is for, so it may be at the next
//! program already, or at another process. It counts only if the process began
//! before that exec, has the name that exec gave it before and after the look,
//! and no other exec of it turns up that was earlier than the look.

use std::fs;
use std::io;
use std::path::Path;

use rustc_hash::FxHashMap;

use crate::decode::ftrace::family::name_of;
use crate::decode::ftrace::{Body, Look, Lookup, Record};
use crate::model::time::boot_ns;
use crate::model::{Bytes, Comm, Field, Precision, ProcId, Reason};
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
        let status = Status::read(&self.proc, pid).ok()?;
        let look = Look {
            argv: self.proc.argv(pid, self.max_argv),
            cwd: self.proc.cwd(pid),
            cgroup: self.cgroup(pid),
            uid: status.ids("Uid:", 0),
            euid: status.ids("Uid:", 1),
            gid: status.ids("Gid:", 0),
            egid: status.ids("Gid:", 1),
            sid: status.ids("NSsid:", 0),
            pgid: status.ids("NSpgid:", 0),
            comm,
        };
        (is_it()? == comm).then_some(look)
    }

    /// Path in the hierarchy of cgroup v2.
    fn cgroup(&self, pid: u32) -> Field<Bytes> {
        let Ok(text) = fs::read(self.proc.root().join(format!("{pid}/cgroup"))) else {
            return Field::Missing(Reason::Gone);
        };
        text.split(|b| *b == b'\n')
            .find_map(|l| l.strip_prefix(b"0::"))
            .map_or(Field::Missing(Reason::Kernel), |p| {
                Field::Full(Bytes::from(p))
            })
    }

    /// Numbers of the processes that are there.
    pub fn pids(&self) -> Vec<u32> {
        numbers(self.proc.root())
    }

    /// Numbers of a process's threads; none if it is gone.
    pub fn tids(&self, pid: u32) -> Vec<u32> {
        numbers(&self.proc.root().join(format!("{pid}/task")))
    }

    /// Whether a process is there and has not ended.
    pub fn is_running(&self, id: ProcId) -> bool {
        let Ok(stat) = self.proc.stat(id.pid) else {
            return false;
        };
        let ended = Status::read(&self.proc, id.pid).is_ok_and(|s| s.is_zombie());
        !ended && stat.id.start <= id.start.saturating_add(Precision::Tick.tolerance_ns())
    }
}

impl Lookup for Looks {
    fn process(&mut self, pid: u32) -> Option<(ProcId, Option<ProcId>)> {
        let stat = self.proc.stat(pid).ok()?;
        let parent = self.proc.stat(stat.ppid).ok().map(|p| p.id);
        Some((stat.id, parent))
    }

    fn process_of(&mut self, tid: u32) -> Option<u32> {
        Status::read(&self.proc, tid).ok()?.ids("Tgid:", 0)
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

/// The entries of a directory whose names are numbers.
fn numbers(dir: &Path) -> Vec<u32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// `/proc/PID/status`.
struct Status(String);

impl Status {
    fn read(proc: &Proc, pid: u32) -> io::Result<Self> {
        // The name in it may be anything.
        let text = fs::read(proc.root().join(format!("{pid}/status")))?;
        Ok(Self(String::from_utf8_lossy(&text).into_owned()))
    }

    /// A newline in the name is escaped, so no line but the first holds any of it.
    fn ids(&self, key: &str, index: usize) -> Option<u32> {
        let line = self.0.lines().find_map(|l| l.strip_prefix(key))?;
        line.split_whitespace().nth(index)?.parse().ok()
    }

    fn is_zombie(&self) -> bool {
        let state = self.0.lines().find_map(|l| l.strip_prefix("State:"));
        state.is_some_and(|s| s.trim_start().starts_with(['Z', 'X']))
    }
}
