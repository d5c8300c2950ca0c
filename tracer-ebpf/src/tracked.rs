//! The set of processes that are followed.

use aya_ebpf::bindings::BPF_NOEXIST;
use tracer_common::config::{opt, seeding};
use tracer_common::record::flags;
use tracer_common::tracked::{Key, Tracked, before, bits};

use crate::emit;
use crate::globals::has;
use crate::maps::{STATE, TRACKED};
use crate::task::{Task, peek};

/// Generations above a process that are looked at for one that is followed; a
/// further pass of the iterator gets further.
const GENERATIONS: u32 = 24;
/// Children that are followed when their parent ends before the iterator has
/// come to them.
const CHILDREN: u32 = 64;

/// The value of a process. It stays in the map while that process lives.
#[inline(always)]
pub fn find(key: &Key) -> Option<*mut Tracked> {
    TRACKED.get_ptr_mut(key)
}

/// Follows one more process; where the map is full, that is counted.
#[inline(always)]
pub fn add(key: &Key, value: &Tracked) {
    if TRACKED.insert(key, value, 0).is_err() {
        emit::count_table_full(key);
    }
}

/// Where what runs already is watched: follows a process that ran before the
/// capture began, and that the iterator has not come to yet.
#[inline(always)]
pub fn adopt(key: &Key, task: Task, flags: impl FnOnce() -> u64) -> Option<*mut Tracked> {
    let of_a_tree = || has(opt::TREES) && seeding() == seeding::ALL && descends(task);
    if !(has(opt::ALL) || of_a_tree()) {
        return None;
    }
    let mut value = Tracked::BEFORE;
    value.flags |= flags();
    insert(key, &value);
    find(key)
}

/// As [`add`], but one that is there stays as it is.
#[inline(always)]
pub fn insert(key: &Key, value: &Tracked) {
    if TRACKED.insert(key, value, u64::from(BPF_NOEXIST)).is_err() && find(key).is_none() {
        emit::count_table_full(key);
    }
}

/// Where the look-up of running processes is.
#[inline(always)]
pub fn seeding() -> u32 {
    match STATE.get_ptr(0) {
        // SAFETY: the one element of an array map.
        Some(state) => unsafe { (*state).seeding },
        None => seeding::OFF,
    }
}

/// Whether an ancestor of a task is followed.
#[inline(never)]
pub fn descends(task: Task) -> bool {
    let mut at = task;
    for _ in 0..GENERATIONS {
        at = at.peek_real_parent();
        let key = at.peek_key();
        if key.tgid <= 1 {
            return false;
        }
        if find(&key).is_some() {
            return true;
        }
    }
    false
}

/// Follows the children of a process that ends, as they will not be its
/// descendants any more when the iterator comes to them. It tells of them then.
#[inline(never)]
pub fn adopt_children(task: Task, emit: u64) {
    let Some(head) = task.children() else {
        return;
    };
    let mut value = Tracked::BEFORE;
    value.flags |= emit;
    let mut node = head;
    for _ in 0..CHILDREN {
        // SAFETY: peek() reads nothing that is not readable; `next` is the first
        // member of a list_head.
        node = unsafe { peek::<usize>(node) } as *const u8;
        if node.is_null() || node == head {
            return;
        }
        insert(&Task::at_sibling(node).peek_key(), &value);
    }
}

/// What an exit or final record says of sums that are not known.
#[inline(always)]
pub fn record_flags(process: &Tracked) -> u8 {
    if process.flags & bits::BEFORE == 0 {
        return 0;
    }
    let mut record = 0;
    if process.before & before::SUMS_KNOWN == 0 {
        record |= flags::SUMS_UNKNOWN;
    }
    if process.before & before::NO_BLKIO_DELAY != 0 {
        record |= flags::NO_BLKIO_DELAY;
    }
    record
}

#[inline(always)]
pub fn remove(key: &Key) {
    let _gone_already = TRACKED.remove(key);
}

/// Whether records of this process are wanted.
#[inline(always)]
pub fn is_wanted(key: &Key) -> bool {
    match find(key) {
        // SAFETY: a value of our map, read once.
        Some(process) => unsafe { (*process).flags & bits::EMIT != 0 },
        None => false,
    }
}

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
