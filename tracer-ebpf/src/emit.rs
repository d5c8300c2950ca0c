//! Records into the ring buffer: reserve, submit, count what did not fit.

use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_boot_ns};
use aya_ebpf::maps::ring_buf::RingBufEntry;
use tracer_common::config::opt;
use tracer_common::record::{Counters, Header, TOTALS, Totals};
use tracer_common::tracked::Key;

use crate::globals::{config, has};
use crate::maps::{COUNTERS, RING};

/// Wakes within this many bytes after the mark, so that one record that jumps
/// over it, or two CPUs that meet there, do not leave the reader asleep.
const WAKE_BAND: u64 = 32 << 10;

/// A reserved record; `submit` must follow.
pub struct Entry<T: 'static> {
    entry: RingBufEntry<T>,
    at: *mut T,
}

#[inline(always)]
pub fn counters() -> Option<*mut Counters> {
    COUNTERS.get_ptr_mut(0)
}

/// Takes the next sequence number of `kind` on this CPU.
#[inline(always)]
pub fn next_seq(counters: *mut Counters, kind: u8) -> u32 {
    // SAFETY: a value of our own map, on this CPU; a program does not interrupt
    // itself, and no two programs emit the same kind.
    unsafe {
        let seq = &raw mut (*counters).seq[kind as usize & 15];
        let n = seq.read();
        seq.write(n.wrapping_add(1));
        n
    }
}

#[inline(always)]
pub fn count_lost(counters: *mut Counters, kind: u8) {
    // SAFETY: as next_seq().
    unsafe {
        let lost = &raw mut (*counters).lost[kind as usize & 15];
        lost.write(lost.read().wrapping_add(1));
    }
    if has(opt::DEBUG) {
        crate::probes::debug::lost(kind);
    }
}

/// A process could not be added to the tracked set.
#[inline(always)]
pub fn count_table_full(key: &Key) {
    if let Some(counters) = counters() {
        // SAFETY: this CPU's value of our map.
        unsafe { (*counters).table_full += 1 };
    }
    if has(opt::DEBUG) {
        crate::probes::debug::table_full(key.tgid);
    }
}

/// Room for a `T`, with its header filled in but for the flags. `None`: it did
/// not fit, and that was counted.
#[inline(always)]
pub fn begin<T>(kind: u8, key: &Key, tid: u32) -> Option<Entry<T>> {
    let counters = counters()?;
    let seq = next_seq(counters, kind);
    let Some(mut entry) = RING.reserve::<T>(0) else {
        count_lost(counters, kind);
        return None;
    };
    let at = entry.as_mut_ptr();
    // SAFETY: every record begins with a Header, and the entry is ours until
    // it is submitted. The time is read after the reserve, see Header.
    unsafe {
        at.cast::<Header>().write(Header {
            kind,
            flags: 0,
            cpu: bpf_get_smp_processor_id() as u16,
            seq,
            ts: bpf_ktime_get_boot_ns(),
            tgid: key.tgid,
            tid,
            start: key.start,
        });
    }
    Some(Entry { entry, at })
}

impl<T> Entry<T> {
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut T {
        self.at
    }

    #[inline(always)]
    pub fn set_flags(&self, flags: u8) {
        // SAFETY: every record begins with a Header.
        unsafe { (*self.at.cast::<Header>()).flags = flags }
    }

    #[inline(always)]
    pub fn submit(self) {
        // SAFETY: every record begins with a Header.
        let seq = unsafe { (*self.at.cast::<Header>()).seq };
        self.entry.submit(wake_flag(seq));
    }
}

/// As many bytes as a `T` with short totals.
#[repr(C)]
struct Short<const WORDS: usize>([u64; WORDS]);

/// Words of a record of type `T` before its totals, with which it ends.
const fn head<T>() -> usize {
    (size_of::<T>() - size_of::<Totals>()) / 8
}

/// Emits what was made in scratch memory, but for its header: with short totals where
/// that is possible. `SHORT` are the words of such a record.
#[inline(always)]
pub fn with_totals<T: 'static, const SHORT: usize>(
    from: *const T,
    kind: u8,
    key: &Key,
    tid: u32,
    flags: u8,
) {
    const { assert!(SHORT == head::<T>() + TOTALS / 2 && TOTALS.is_multiple_of(2)) };
    let (from, head) = (from.cast::<u64>(), head::<T>());
    // SAFETY: `from` is a T and the entry as long as its type, which the caller is the
    // only one to have. Volatile: for a copy of bytes the compiler would call a loop.
    unsafe {
        let word = |i: usize| from.add(i).read_volatile();
        let mut bits = 0;
        for i in 0..TOTALS {
            bits |= word(head + i);
        }
        if bits >> 32 == 0 {
            let Some(entry) = begin::<Short<SHORT>>(kind, key, tid) else {
                return;
            };
            let to = entry.as_ptr().cast::<u64>();
            for i in size_of::<Header>() / 8..head {
                to.add(i).write_volatile(word(i));
            }
            for i in 0..TOTALS / 2 {
                let pair = word(head + 2 * i) | word(head + 2 * i + 1) << 32;
                to.add(head + i).write_volatile(pair);
            }
            entry.set_flags(flags);
            entry.submit();
        } else {
            let Some(entry) = begin::<T>(kind, key, tid) else {
                return;
            };
            let to = entry.as_ptr().cast::<u64>();
            for i in size_of::<Header>() / 8..head + TOTALS {
                to.add(i).write_volatile(word(i));
            }
            entry.set_flags(flags);
            entry.submit();
        }
    }
}

/// Wakes the reader by amount, not by record; a timer of its own does the rest. Once at
/// the mark, and where that was of no use again and again when little room is left.
#[inline(always)]
fn wake_flag(seq: u32) -> u64 {
    if seq & config!(wake_mask) != 0 {
        return u64::from(BPF_RB_NO_WAKEUP);
    }
    let waiting = RING.query(u64::from(BPF_RB_AVAIL_DATA));
    let mark = config!(wake_bytes);
    if waiting >= mark && (waiting < mark + WAKE_BAND || waiting >= mark + mark / 8) {
        u64::from(BPF_RB_FORCE_WAKEUP)
    } else {
        u64::from(BPF_RB_NO_WAKEUP)
    }
}
