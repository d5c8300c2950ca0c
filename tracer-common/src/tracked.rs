//! The set of processes that are followed: keys and values of the kernel's map.

/// A process that is followed: tgid and its leader's start_boottime, since
/// pids are reused and the leader's task changes when another thread execs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub tgid: u32,
    pub _pad: u32,
    pub start: u64,
}

/// [`Tracked::flags`].
pub mod bits {
    /// Records of this process pass the filters.
    pub const EMIT: u64 = 1;
    /// The command itself.
    pub const ROOT: u64 = 2;
    /// It ended, and its last thread was the leader, whose own counters are
    /// thus not in `acc`.
    pub const LEADER_LAST: u64 = 4;
    /// It ended with status 0 while only failures are wanted.
    pub const GOOD_END: u64 = 8;
    /// Its last thread has ended.
    pub const ENDED: u64 = 16;
    /// It ran before the capture began.
    pub const BEFORE: u64 = 32;
    /// Its end has been recorded, as far as it is to be, or counted as lost: nothing of it
    /// but its final totals is still to come.
    pub const TOLD: u64 = 64;
}

/// [`Tracked::before`], of one that is [`bits::BEFORE`]. A word of its own, as
/// the iterator changes it while the process's own tasks change the flags.
pub mod before {
    /// The iterator has told of it.
    pub const SEEDED: u32 = 1;
    /// No thread of it had ended, so `acc` misses none.
    pub const SUMS_KNOWN: u32 = 2;
    /// It had one thread ever, so `threads` is right.
    pub const THREADS_KNOWN: u32 = 4;
    /// Block-I/O delay was not accounted when it began.
    pub const NO_BLKIO_DELAY: u32 = 8;
}

/// Counters that the kernel keeps per thread and does not sum for a process,
/// or mixes with those of waited-for children.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acc {
    pub rchar: u64,
    pub wchar: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub cancelled_write_bytes: u64,
    pub run_delay_ns: u64,
    pub blkio_delay_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracked {
    pub flags: u64,
    pub orig_parent_start: u64,
    pub orig_ppid: u32,
    /// See [`before`].
    pub before: u32,
    /// `signal->maxrss` at the last exec, pages.
    pub exec_maxrss: u64,
    /// Threads ever created, the first included.
    pub threads: u64,
    /// Of threads that have ended.
    pub acc: Acc,
}

impl Tracked {
    /// A process that ran before: what it did then is not known. No `maxrss` is
    /// above this `exec_maxrss`.
    pub const BEFORE: Self = Self {
        flags: bits::BEFORE,
        exec_maxrss: u64::MAX,
        threads: 0,
        ..Self::NEW
    };

    /// [`Self::threads`], 0 where it is not known.
    pub const fn known_threads(&self) -> u64 {
        if self.flags & bits::BEFORE != 0 && self.before & before::THREADS_KNOWN == 0 {
            0
        } else {
            self.threads
        }
    }

    pub const NEW: Self = Self {
        flags: 0,
        orig_parent_start: 0,
        orig_ppid: 0,
        before: 0,
        exec_maxrss: 0,
        threads: 1,
        acc: Acc {
            rchar: 0,
            wchar: 0,
            read_bytes: 0,
            write_bytes: 0,
            cancelled_write_bytes: 0,
            run_delay_ns: 0,
            blkio_delay_ns: 0,
        },
    };
}
