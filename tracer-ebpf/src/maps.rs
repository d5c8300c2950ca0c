//! Maps.

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

/// The processes of `-p`, by their pid in tracer's PID namespace.
#[map]
pub static NAMED: HashMap<u32, u32> = HashMap::with_max_entries(1024, 0);

/// Who is followed. The loader sets its size.
#[map]
pub static TRACKED: HashMap<Key, Tracked> = HashMap::with_max_entries(32 << 10, 0);
