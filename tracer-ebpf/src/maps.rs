//! Maps, and the set of processes that are followed.

use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, RingBuf};
use tracer_common::config::State;
use tracer_common::record::Counters;
use tracer_common::tracked::{Key, Tracked};

/// Records for the user side. The loader sets its size.
#[map]
pub static RING: RingBuf = RingBuf::with_byte_size(8 << 20, 0);

#[map]
pub static COUNTERS: PerCpuArray<Counters> = PerCpuArray::with_max_entries(1, 0);

#[map]
pub static STATE: Array<State> = Array::with_max_entries(1, 0);

/// Who is followed.
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
