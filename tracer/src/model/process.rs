//! One row for each process: everything known of it, once.

use std::sync::Arc;

use super::{Bytes, Comm, Event, Exec, Field, Owner, ProcId, Signal, Usage};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub core_dumped: bool,
}

impl Status {
    /// From the encoding of wait(2) (`task_struct::exit_code`): the code in
    /// bits 8…15, or the signal in bits 0…6 with 0x80 for a core.
    pub const fn from_wait(status: u32) -> Self {
        let signal = (status & 0x7f) as i32;
        if signal == 0 {
            Self {
                exit_code: Some(((status >> 8) & 0xff) as i32),
                signal: None,
                core_dumped: false,
            }
        } else {
            Self {
                exit_code: None,
                signal: Some(signal),
                core_dumped: status & 0x80 != 0,
            }
        }
    }

    pub const fn is_success(&self) -> bool {
        matches!(self.exit_code, Some(0))
    }
}

/// The `process` record: what fork, exec, exit and the final totals said.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    pub id: ProcId,
    /// Parent at the fork, and at the end where that is another.
    pub orig_parent: Option<ProcId>,
    pub parent: Option<ProcId>,
    /// Boot ns; absent while it runs.
    pub end: Option<u64>,
    pub comm: Comm,
    /// The last successful exec; absent: it runs its parent's program.
    pub exec: Option<Arc<Exec>>,
    /// Number of execs.
    pub execs: u32,
    /// File name of the program: of the last exec, or that of the nearest ancestor that exec'd.
    pub exe: Option<Bytes>,
    pub status: Option<Status>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub ns_pid: Option<u32>,
    /// Where it was seen last, or (before its first exec) where its parent was; absent: not known.
    pub cgroup: Option<Field<Bytes>>,
    pub threads: Option<u64>,
    pub usage: Usage,
    /// Who sent the signal that ended it.
    pub killed_by: Option<Box<Signal>>,
    pub kthread: bool,
    /// It ran before the capture began.
    pub seeded: bool,
    /// Its fork was seen: neither lost nor before the capture.
    pub fork_seen: bool,
    /// It is the command that tracer started.
    pub root: bool,
}

impl Process {
    /// Whose it is, as its cgroup's path says.
    pub fn owner(&self) -> Owner<'_> {
        let path = self.cgroup.as_ref().and_then(Field::value);
        path.map(|p| Owner::of(p.as_slice())).unwrap_or_default()
    }

    pub fn wall_ns(&self) -> Option<u64> {
        self.end.map(|e| e.saturating_sub(self.id.start))
    }
}

/// First line of a capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    pub backend: &'static str,
    pub kernel: String,
    pub host: String,
    pub boot_id: String,
    pub cpus: u32,
    /// Wall clock at the start, ns since the epoch, and the boot clock then.
    pub wall_start_ns: u64,
    pub boot_start_ns: u64,
    pub command: Vec<Vec<u8>>,
    pub root: Option<ProcId>,
    /// Number of the file, from 1, where a capture goes to one after the other; the
    /// clocks are then those at its beginning.
    pub part: Option<u64>,
}

/// Last line of a capture, or of one of its files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct End {
    pub ts: u64,
    /// Events recorded in it: processes forked, execs, process ends.
    pub forks: u64,
    pub execs: u64,
    pub exits: u64,
    pub threads: u64,
    pub lost: u64,
    /// Status with which tracer itself will exit.
    pub exit_code: i32,
    /// It is the end of one file only; the capture goes on in the next.
    pub continued: bool,
}

impl End {
    /// Counts an event that is recorded.
    pub fn count(&mut self, event: &Event) {
        match event {
            Event::Fork(e) if e.thread => self.threads += 1,
            Event::Fork(_) => self.forks += 1,
            Event::Exec(_) => self.execs += 1,
            Event::Exit(e) if !e.thread => self.exits += 1,
            Event::Lost(e) => self.lost = self.lost.saturating_add(e.count),
            _ => {}
        }
    }
}
