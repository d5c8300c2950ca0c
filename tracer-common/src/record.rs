//! Layouts of the records in the ring buffer.
//!
//! A record is a [`Header`] and what its kind adds. Strings of unbounded length
//! travel in [`Text`] records that follow in the ring before the record that
//! they belong to becomes visible, see [`ExecRecord`].

/// Length of `task_struct::comm`, with its NUL.
pub const COMM_LEN: usize = 16;

/// Record kinds, as in [`Header::kind`]. Also the index of a kind in the
/// per-CPU sequence and loss counters ([`Counters`]).
pub mod kind {
    pub const FORK: u8 = 1;
    pub const EXEC: u8 = 2;
    pub const TEXT: u8 = 3;
    pub const EXIT: u8 = 4;
    pub const FINAL: u8 = 5;
    pub const EXEC_FAILED: u8 = 6;
    pub const SIGNAL: u8 = 7;
    pub const GONE: u8 = 8;
    /// A [`super::SignalRecord`] of the OOM killer's. A kind of its own, as
    /// another program writes it: two of one kind must not interrupt each other.
    pub const OOM: u8 = 9;
    /// One past the largest kind.
    pub const COUNT: usize = 10;
    /// Length of the counter arrays: a power of two, so that an index can be
    /// masked instead of checked.
    pub const SLOTS: usize = 16;
}

/// Start of every record.
///
/// `ts` is CLOCK_BOOTTIME in ns and is read *after* the space in the ring was
/// reserved: a record that lies later in the ring can never carry a time before
/// the moment an earlier one was reserved. The reorderer relies on it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub kind: u8,
    pub flags: u8,
    pub cpu: u16,
    /// Counts the attempts to emit this kind on this CPU, failed ones
    /// included: a gap is a loss, at the place where it happened.
    pub seq: u32,
    pub ts: u64,
    /// Process (thread-group) id in the initial PID namespace.
    pub tgid: u32,
    /// Thread id in the initial PID namespace.
    pub tid: u32,
    /// `start_boottime` of the thread-group leader, ns.
    pub start: u64,
}

/// [`Header::flags`].
pub mod flags {
    /// FORK: the child is a thread. EXIT: a thread's end, not the process's.
    pub const THREAD: u8 = 1;
    /// The task is a kernel thread.
    pub const KTHREAD: u8 = 2;
    /// EXEC: filename was cut. EXEC_FAILED likewise.
    pub const FILENAME_CUT: u8 = 4;
    /// EXIT, FINAL: the sums over threads ([`super::Totals::rchar`] to
    /// `blkio_delay_ns`) lack those that had ended before the capture began.
    pub const SUMS_UNKNOWN: u8 = 4;
    /// EXIT, FINAL: the process began when block-I/O delay was not accounted.
    pub const NO_BLKIO_DELAY: u8 = 8;
    /// EXEC: cwd was cut (too deep).
    pub const CWD_CUT: u8 = 8;
    /// EXEC, EXEC_FAILED: reading from user memory failed somewhere.
    pub const USER_FAULT: u8 = 16;
    /// The record belongs to the command that tracer itself started.
    pub const ROOT: u8 = 32;
    /// GONE: it left the filters at an exec and goes on unseen.
    pub const LEFT: u8 = 64;
    /// EXEC: the working directory was removed.
    pub const CWD_DELETED: u8 = 64;
    /// SIGNAL: the kernel is the sender.
    pub const BY_KERNEL: u8 = 128;
}

/// `sched_process_fork`. The header names the parent (the task that called
/// clone; with CLONE_PARENT `real_*` differs).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForkRecord {
    pub h: Header,
    pub comm: [u8; COMM_LEN],
    pub child_tgid: u32,
    pub child_tid: u32,
    /// `start_boottime` of the child's thread-group leader.
    pub child_start: u64,
    /// `real_parent` of the child, as tgid and leader's start_boottime.
    pub real_ppid: u32,
    /// Child's pid in its innermost PID namespace; 0: that is the initial one.
    pub child_ns_pid: u32,
    pub real_parent_start: u64,
}

/// `sched_process_exec`: the fixed part.
///
/// It is reserved first and submitted last: when it becomes readable, its
/// `pieces` [`Text`] records (same CPU, `exec_seq` = this header's `seq`) are
/// already in the ring after it. Short text needs none, see [`ExecShort`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecRecord {
    pub h: Header,
    pub comm: [u8; COMM_LEN],
    pub ppid: u32,
    /// tid of the thread that called execve, where it was not the leader.
    pub old_tid: u32,
    pub parent_start: u64,
    pub uid: u32,
    pub euid: u32,
    pub gid: u32,
    pub egid: u32,
    /// `u32::MAX`: not set, or not known.
    pub loginuid: u32,
    pub sid: u32,
    pub pgid: u32,
    pub ns_pid: u32,
    pub cgroup_id: u64,
    /// Device name of the controlling terminal (`pts0`), NUL-padded; empty: none.
    pub tty: [u8; 16],
    /// Text records that are in the ring.
    pub pieces: u16,
    /// Text records that did not fit into it.
    pub pieces_lost: u16,
    /// True lengths, before any cap, bytes.
    pub argv_len: u32,
    pub env_len: u32,
    pub _pad: u32,
}

/// Bytes of text that fit into an [`ExecShort`].
pub const SHORT_TEXT: usize = 128;

/// An exec with its text in one record, where all of that is short: most are. Of kind
/// EXEC; it is told from an [`ExecRecord`], which has no text behind it, by its length.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecShort {
    /// Without pieces.
    pub exec: ExecRecord,
    pub text: Inline,
    /// As in [`section::FIRST`]; what is behind [`Inline::len`] has no meaning.
    pub bytes: [u8; SHORT_TEXT],
}

/// What of the bytes behind it is what.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inline {
    pub filename_len: u16,
    pub cwd_len: u16,
    pub len: u32,
}

/// What a [`Text`] record carries.
pub mod section {
    /// Filename, cwd components (leaf first) and the first part of argv.
    pub const FIRST: u8 = 0;
    /// More of argv.
    pub const ARGV: u8 = 1;
    /// Part of the environment.
    pub const ENV: u8 = 2;
}

/// A piece of text; `len` bytes follow the struct.
///
/// In [`section::FIRST`] they are `filename_len` bytes of file name, `cwd_len`
/// bytes of NUL-terminated path components from the leaf upward, and the rest
/// is argv from offset 0. Elsewhere all of them are argv or env from `offset`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text {
    pub h: Header,
    pub section: u8,
    pub _pad: [u8; 3],
    pub exec_seq: u32,
    pub filename_len: u16,
    pub cwd_len: u16,
    pub offset: u32,
    pub len: u32,
    pub _pad2: u32,
}

/// Counters of a process, as far as the kernel had them. Times in ns.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tick-based user and system time (`signal->utime` + threads).
    pub utime_ns: u64,
    pub stime_ns: u64,
    /// Exact run time (`sum_sched_runtime` + threads' `sum_exec_runtime`).
    pub runtime_ns: u64,
    /// `signal->prev_cputime`, as last given to whoever asked.
    pub prev_utime_ns: u64,
    pub prev_stime_ns: u64,
    pub minflt: u64,
    pub majflt: u64,
    pub nvcsw: u64,
    pub nivcsw: u64,
    pub inblock: u64,
    pub oublock: u64,
    pub rchar: u64,
    pub wchar: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub cancelled_write_bytes: u64,
    pub run_delay_ns: u64,
    pub blkio_delay_ns: u64,
    /// `signal->maxrss`, pages: the program's own or that of one before it.
    pub maxrss_pages: u64,
    /// `signal->maxrss` at the last exec (0: never exec'd), pages.
    pub exec_maxrss_pages: u64,
    /// Peak of the mm itself, pages; 0: the mm was gone.
    pub mm_peak_pages: u64,
    /// Threads ever created, the first included; 0: not known.
    pub threads: u64,
}

/// Members of [`Totals`].
pub const TOTALS: usize = size_of::<Totals>() / 8;

/// [`Totals`] of which none needs more than 32 bits, in their order: those of most
/// processes. A record that ends with totals may end with these instead, and is that
/// much shorter.
pub type ShortTotals = [u32; TOTALS];

/// `sched_process_exit` of the last thread (or, flag THREAD, of one thread).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitRecord {
    pub h: Header,
    pub comm: [u8; COMM_LEN],
    /// `real_parent` now.
    pub ppid: u32,
    /// Parent at the fork; 0: not known (it began before the capture).
    pub orig_ppid: u32,
    pub parent_start: u64,
    pub orig_parent_start: u64,
    /// Wait status (`exit_code` encoding: code << 8 | core 0x80 | signal).
    pub status: u32,
    pub ns_pid: u32,
    pub uid: u32,
    pub gid: u32,
    /// This thread's own start_boottime.
    pub thread_start: u64,
    pub cgroup_id: u64,
    /// Process totals so far (THREAD: this thread's own); or [`ShortTotals`].
    pub totals: Totals,
}

/// `sched_process_free` of the leader: totals are final. The header's `ts` is
/// the time of the free, not of the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinalRecord {
    pub h: Header,
    /// Or [`ShortTotals`].
    pub totals: Totals,
}

/// A process ended well while only failures were asked for, or ([`flags::LEFT`])
/// execs a program that the filters do not want.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoneRecord {
    pub h: Header,
}

/// Bytes of argv that an [`ExecFailedRecord`] can hold.
pub const FAILED_TEXT: usize = 1024;

/// An execve that returned an error.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecFailedRecord {
    pub h: Header,
    pub comm: [u8; COMM_LEN],
    pub errno: u32,
    /// Bytes of file name at the start of `text`, without a NUL.
    pub filename_len: u16,
    /// Arguments in `text`, each NUL-terminated, after the file name.
    pub argc: u16,
    /// Bytes of arguments after the file name.
    pub argv_len: u16,
    /// 1: more arguments than were taken, or one was cut.
    pub argv_cut: u8,
    pub _pad: [u8; 5],
    pub text: [u8; FAILED_TEXT],
}

/// A deadly signal was generated for a followed process (header: the target).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalRecord {
    pub h: Header,
    pub signal: u32,
    pub code: i32,
    pub sender_tgid: u32,
    pub sender_uid: u32,
    pub sender_start: u64,
    pub sender_comm: [u8; COMM_LEN],
}

/// Per-CPU counters: attempts and failures by [`kind`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    pub seq: [u32; kind::SLOTS],
    pub lost: [u32; kind::SLOTS],
    /// How often a process did not fit into the tracked set.
    pub table_full: u64,
}
