//! Whose events count: everybody's, those of some processes and their
//! descendants, or those within a cgroup.
//!
//! The set is keyed by tgid and the leader's start, as a pid is used again. An
//! entry begins at the fork and ends when the leader's task is freed.

use core::ptr::read_volatile;

use aya_ebpf::bindings::bpf_pidns_info;
use aya_ebpf::helpers::bpf_get_current_task_btf;
use aya_ebpf::helpers::generated::{
    bpf_get_current_ancestor_cgroup_id, bpf_get_ns_current_pid_tgid,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray};
use tracer_common::config::root;
use tracer_common::hist::{TICK, whom};
use tracer_common::tracked::Key;

use crate::globals::{TRACER, config, offset, read};

/// Levels of the cgroup hierarchy that are looked at, where the group's own is not known.
const CGROUP_DEPTH: i32 = 24;

/// Who counts.
#[map]
static TREE: HashMap<Key, u32> = HashMap::with_max_entries(32 << 10, 0);

/// Processes that are to be added when they are met: tgid and start in ticks.
#[map]
static SEEDS: HashMap<u32, u64> = HashMap::with_max_entries(32 << 10, 0);

/// One of [`root`], or 0.
#[map]
static ROOT: Array<u32> = Array::with_max_entries(1, 0);

/// How many processes did not fit into the set.
#[map]
static TREE_FULL: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// A `T` of the kernel's, through the verifier's typed load.
#[inline(always)]
unsafe fn load<T: Copy>(base: *const u8, off: u32) -> T {
    // SAFETY: the verifier checks the access, and the kernel yields 0 for a bad address.
    unsafe { read_volatile(base.add(off as usize).cast::<T>()) }
}

#[inline(always)]
fn key(task: *const u8) -> Key {
    // SAFETY: a BTF-typed task, at offsets of the running kernel.
    unsafe {
        let leader: *const u8 = load(task, offset!(task_group_leader));
        Key {
            tgid: load(task, offset!(task_tgid)),
            _pad: 0,
            start: load(leader, offset!(task_start)),
        }
    }
}

/// Whether events of the current task count.
#[inline(always)]
pub fn is_wanted() -> bool {
    match config!(whom) {
        whom::ALL => true,
        whom::CGROUP => in_cgroup(),
        _ => {
            // SAFETY: a helper without arguments.
            let task = unsafe { bpf_get_current_task_btf() };
            is_in_tree(&key(task.cast::<u8>().cast_const()))
        }
    }
}

#[inline(always)]
fn is_in_tree(key: &Key) -> bool {
    if TREE.get_ptr(key).is_some() {
        return true;
    }
    config!(whom) == whom::SEEDED_TREE && adopt(key)
}

#[inline(always)]
fn adopt(key: &Key) -> bool {
    let Some(ticks) = SEEDS.get_ptr(key.tgid) else {
        return false;
    };
    // SAFETY: a value of our map.
    if unsafe { *ticks } != key.start / TICK {
        return false;
    }
    add(key);
    true
}

#[inline(always)]
fn add(key: &Key) {
    if TREE.insert(key, 0, 0).is_err()
        && let Some(full) = TREE_FULL.get_ptr_mut(0)
    {
        // SAFETY: this CPU's value of our map.
        unsafe { *full += 1 };
    }
}

#[inline(always)]
fn in_cgroup() -> bool {
    let level = config!(cgroup_level);
    if level != u32::MAX {
        return ancestor(level as i32) == config!(cgroup);
    }
    let mut found = false;
    for level in 0..CGROUP_DEPTH {
        found |= ancestor(level) == config!(cgroup);
    }
    found
}

#[inline(always)]
fn ancestor(level: i32) -> u64 {
    // SAFETY: a helper without pointers; it returns 0 below the task's own level.
    unsafe { bpf_get_current_ancestor_cgroup_id(level) }
}

#[inline(always)]
pub fn process_fork(parent: *const u8, child: *const u8) {
    // SAFETY: as key().
    let (pid, tgid) = unsafe {
        (
            load::<u32>(child, offset!(task_pid)),
            load::<u32>(child, offset!(task_tgid)),
        )
    };
    if pid == tgid && (is_in_tree(&key(parent)) || is_root()) {
        add(&key(child));
    }
}

#[inline(always)]
pub fn process_free(task: *const u8) {
    // SAFETY: as key().
    let (pid, tgid, start) = unsafe {
        (
            load::<u32>(task, offset!(task_pid)),
            load::<u32>(task, offset!(task_tgid)),
            load::<u64>(task, offset!(task_start)),
        )
    };
    if pid == tgid {
        let _not_ours = TREE.remove(Key {
            tgid,
            _pad: 0,
            start,
        });
    }
}

/// Whether the current fork is that of the command.
#[inline(always)]
fn is_root() -> bool {
    let Some(state) = ROOT.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: the one element of an array map; only tracer's own fork, of which
    // there is one at a time, gets past both conditions.
    unsafe {
        if *state != root::ARMED || !is_tracer() {
            return false;
        }
        *state = root::FOUND;
    }
    true
}

#[inline(always)]
fn is_tracer() -> bool {
    let mut ids = bpf_pidns_info { pid: 0, tgid: 0 };
    // SAFETY: the destination is ours and as long as said.
    let found = unsafe {
        bpf_get_ns_current_pid_tgid(
            read(&TRACER.dev),
            read(&TRACER.ino),
            &raw mut ids,
            size_of::<bpf_pidns_info>() as u32,
        )
    };
    found == 0 && ids.tgid == read(&TRACER.pid)
}
