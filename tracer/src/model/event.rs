//! What a source reports, in one type for all sources.
//!
//! `ts` is CLOCK_BOOTTIME in ns everywhere. `cpu` is absent where a source
//! does not know it.

use std::sync::Arc;

use super::{Args, Bytes, Comm, Field, ProcId, Status, Usage};

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Fork(Fork),
    Exec(Arc<Exec>),
    ExecFailed(Box<ExecFailed>),
    Exit(Box<Exit>),
    /// Totals of a process that has ended are final now.
    Final(Box<Final>),
    /// A process ended well and nothing more was asked for (`--failed`), or
    /// (`left`) runs a program now that the filters do not want.
    Gone {
        ts: u64,
        id: ProcId,
        left: bool,
    },
    Signal(Box<Signal>),
    Seed(Box<Seed>),
    Lost(Lost),
}

impl Event {
    pub fn ts(&self) -> u64 {
        match self {
            Self::Fork(e) => e.ts,
            Self::Exec(e) => e.ts,
            Self::ExecFailed(e) => e.ts,
            Self::Exit(e) => e.ts,
            Self::Final(e) => e.ts,
            Self::Gone { ts, .. } => *ts,
            Self::Signal(e) => e.ts,
            Self::Seed(e) => e.ts,
            Self::Lost(e) => e.ts,
        }
    }
}

/// A process or thread was created.
#[derive(Clone, Debug, PartialEq)]
pub struct Fork {
    pub ts: u64,
    pub cpu: Option<u32>,
    /// The process that the child's `getppid` names (clone with CLONE_PARENT
    /// makes a sibling); for a thread, the process itself.
    pub parent: ProcId,
    /// Thread that called clone.
    pub tid: u32,
    pub comm: Comm,
    pub child: ProcId,
    pub child_tid: u32,
    /// Child's pid in its own PID namespace, where that is not the initial one.
    pub child_ns_pid: Option<u32>,
    pub thread: bool,
    pub kthread: bool,
}

/// A process began to run a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Exec {
    pub ts: u64,
    pub cpu: Option<u32>,
    pub id: ProcId,
    pub tid: u32,
    /// Thread that called execve, where it was not the leader.
    pub old_tid: Option<u32>,
    pub parent: Option<ProcId>,
    pub comm: Comm,
    /// As the kernel was given it (a script, not its interpreter).
    pub filename: Field<Bytes>,
    pub argv: Field<Args>,
    /// Only where it was asked for.
    pub env: Option<Field<Args>>,
    pub cwd: Field<Bytes>,
    pub uid: Option<u32>,
    pub euid: Option<u32>,
    pub gid: Option<u32>,
    pub egid: Option<u32>,
    pub loginuid: Option<u32>,
    pub sid: Option<u32>,
    pub pgid: Option<u32>,
    pub tty: Option<Bytes>,
    pub cgroup: Field<Bytes>,
    pub ns_pid: Option<u32>,
    /// Started by the kernel itself (a core_pattern or modprobe helper).
    pub by_kernel: bool,
    /// It is the command that tracer started.
    pub root: bool,
}

/// An execve that returned an error.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecFailed {
    pub ts: u64,
    pub cpu: Option<u32>,
    pub id: ProcId,
    pub tid: u32,
    pub comm: Comm,
    pub filename: Field<Bytes>,
    pub argv: Field<Args>,
    pub errno: i32,
}

/// A process, or (`thread`) one of its threads, ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Exit {
    pub ts: u64,
    pub cpu: Option<u32>,
    pub id: ProcId,
    pub tid: u32,
    pub thread: bool,
    /// The thread's own start, boot ns.
    pub thread_start: Option<u64>,
    /// Parent at the end.
    pub parent: Option<ProcId>,
    /// Parent at the fork.
    pub orig_parent: Option<ProcId>,
    pub comm: Comm,
    pub status: Option<Status>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub ns_pid: Option<u32>,
    pub cgroup: Field<Bytes>,
    /// Threads ever created, the first included.
    pub threads: Option<u64>,
    /// Totals so far; for a thread its own.
    pub usage: Usage,
    pub kthread: bool,
    /// It is the command that tracer started.
    pub root: bool,
}

/// Totals of an ended process became final.
#[derive(Clone, Debug, PartialEq)]
pub struct Final {
    /// When they did, not when the process ended.
    pub ts: u64,
    pub id: ProcId,
    pub threads: Option<u64>,
    pub usage: Usage,
    /// User and system time, ns, as the kernel last told somebody.
    pub told_ns: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalBy {
    Process,
    Kernel,
    Oom,
}

impl SignalBy {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Kernel => "kernel",
            Self::Oom => "oom",
        }
    }
}

/// A signal that ends its target was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    pub ts: u64,
    pub cpu: Option<u32>,
    pub signal: i32,
    pub by: SignalBy,
    /// The task that ran then; for [`SignalBy::Oom`] an innocent one.
    pub sender: Option<ProcId>,
    pub sender_comm: Option<Comm>,
    pub target: ProcId,
}

/// A process that was running already.
#[derive(Clone, Debug, PartialEq)]
pub struct Seed {
    pub ts: u64,
    pub id: ProcId,
    pub parent: Option<ProcId>,
    pub comm: Comm,
    pub exe: Field<Bytes>,
    pub argv: Field<Args>,
    pub uid: Option<u32>,
    pub cgroup: Field<Bytes>,
    pub kthread: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossPlace {
    Ring,
    Table,
    Ftrace,
    Channel,
    Sink,
}

impl LossPlace {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Table => "table",
            Self::Ftrace => "ftrace",
            Self::Channel => "channel",
            Self::Sink => "sink",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossKind {
    Fork,
    Exec,
    Exit,
    /// Totals that became final (the exit itself was not lost).
    Final,
    ExecFailed,
    Signal,
    Any,
}

impl LossKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Exec => "exec",
            Self::Exit => "exit",
            Self::Final => "final",
            Self::ExecFailed => "exec_failed",
            Self::Signal => "signal",
            Self::Any => "any",
        }
    }

    /// Whether it can hide a process, or where it belongs. Without what is left,
    /// the processes are all there, each with less known of it.
    pub const fn hides_processes(self) -> bool {
        match self {
            Self::Fork | Self::Exec | Self::Exit | Self::Any => true,
            Self::Final | Self::ExecFailed | Self::Signal => false,
        }
    }
}

/// Records that are missing at this place of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub ts: u64,
    pub cpu: Option<u32>,
    pub place: LossPlace,
    pub kind: LossKind,
    pub count: u64,
}
