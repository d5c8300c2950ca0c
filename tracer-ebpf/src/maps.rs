//! Maps, and the set of processes that are followed.

use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, RingBuf};
use tracer_common::config::State;
use tracer_common::record::Counters;

/// Records for the user side. The loader sets its size.
#[map]
pub static RING: RingBuf = RingBuf::with_byte_size(8 << 20, 0);

#[map]
pub static COUNTERS: PerCpuArray<Counters> = PerCpuArray::with_max_entries(1, 0);

#[map]
pub static STATE: Array<State> = Array::with_max_entries(1, 0);

/// A process that is followed: tgid and its leader's start_boottime, since
/// pids are reused and the leader's task changes when another thread execs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Key {
    pub tgid: u32,
    pub _pad: u32,
    pub start: u64,
}

/// [`Tracked::flags`].
pub mod tracked {
    /// Records of this process pass the filters.
    pub const EMIT: u64 = 1;
    /// The command itself.
    pub const ROOT: u64 = 2;
    /// It ended, and its last thread was the leader, whose own counters are
    /// thus not in `acc`.
    pub const LEADER_LAST: u64 = 4;
    /// It ended with status 0.
    pub const GOOD_END: u64 = 8;
    /// Its end was recorded.
    pub const ENDED: u64 = 16;
}

/// Counters that the kernel keeps per thread and does not sum for a process,
/// or mixes with those of waited-for children.
#[repr(C)]
#[derive(Clone, Copy)]
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
#[derive(Clone, Copy)]
pub struct Tracked {
    pub flags: u64,
    pub orig_parent_start: u64,
    pub orig_ppid: u32,
    pub _pad: u32,
    /// `signal->maxrss` at the last exec, pages.
    pub exec_maxrss: u64,
    /// Threads ever created, the first included.
    pub threads: u64,
    /// Of threads that have ended.
    pub acc: Acc,
}

impl Tracked {
    pub const NEW: Self = Self {
        flags: 0,
        orig_parent_start: 0,
        orig_ppid: 0,
        _pad: 0,
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

#[map]
pub static TRACKED: HashMap<Key, Tracked> = HashMap::with_max_entries(32 << 10, 0);

/// `*p += v`, atomic against other CPUs. This target has no `fetch_add`; the
/// instruction without the fetch is as old as eBPF itself.
#[inline(always)]
pub unsafe fn atomic_add(p: *mut u64, v: u64) {
    // SAFETY: the caller gives a pointer to an aligned u64 in a map value.
    unsafe { core::arch::asm!("lock *(u64 *)({p} + 0) += {v}", p = in(reg) p, v = in(reg) v) }
}

/// `*p |= v` for a map value that only its own process's tasks change. Two
/// threads can meet here only at a process's end, see `probes::exit`.
#[inline(always)]
pub unsafe fn set_flags(p: *mut Tracked, v: u64) {
    // SAFETY: the caller gives a pointer to a map value.
    unsafe { (*p).flags |= v }
}
