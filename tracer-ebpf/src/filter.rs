//! Whose records are wanted. The decision is made when a process execs (comm
//! changes only there), is inherited at fork and kept with the tracked set:
//! who is filtered out is still followed.

use aya_ebpf::helpers::bpf_get_current_uid_gid;
use aya_ebpf::helpers::generated::bpf_get_current_ancestor_cgroup_id;
use tracer_common::config::{MAX_CGROUPS, MAX_UIDS, opt};
use tracer_common::glob;

use crate::globals::{COMM_GLOB, EXCLUDE_COMM_GLOB, config, has};
use crate::task::{PF_KTHREAD, Task};

/// Levels of the cgroup hierarchy that are looked at.
const CGROUP_DEPTH: i32 = 24;

/// Whether the filters let the current task through.
#[inline(always)]
pub fn passes() -> bool {
    if has(opt::COMM | opt::EXCLUDE_COMM | opt::UID | opt::CGROUP) {
        return passes_named();
    }
    has(opt::KTHREADS) || Task::current().flags() & PF_KTHREAD == 0
}

/// A function of its own: its state would not fit into the probes' stack frames.
#[inline(never)]
fn passes_named() -> bool {
    is_wanted(
        Task::current(),
        || bpf_get_current_uid_gid() as u32,
        cgroup_wanted,
    )
}

/// The same for a task that does not run just now.
#[inline(never)]
pub fn passes_other(task: Task) -> bool {
    is_wanted(task, || task.cred().uid(), || cgroup_of_other_wanted(task))
}

#[inline(always)]
fn is_wanted(task: Task, uid: impl FnOnce() -> u32, in_cgroup: impl FnOnce() -> bool) -> bool {
    if !has(opt::KTHREADS) && task.flags() & PF_KTHREAD != 0 {
        return false;
    }
    if has(opt::COMM | opt::EXCLUDE_COMM) {
        let comm = task.comm();
        if has(opt::COMM) && !glob::matches(&COMM_GLOB, &comm) {
            return false;
        }
        if has(opt::EXCLUDE_COMM) && glob::matches(&EXCLUDE_COMM_GLOB, &comm) {
            return false;
        }
    }
    if has(opt::UID) && !uid_wanted(uid()) {
        return false;
    }
    !has(opt::CGROUP) || in_cgroup()
}

/// As [`cgroup_wanted`], along the kernel's own list of ancestors (since Linux 6.1).
#[inline(always)]
fn cgroup_of_other_wanted(task: Task) -> bool {
    let group = task.cgroup();
    let depth = group.level();
    let mut found = false;
    for level in 0..CGROUP_DEPTH {
        if level > depth {
            break;
        }
        found |= is_named(group.ancestor(level).id());
    }
    found
}

#[inline(always)]
fn is_named(id: u64) -> bool {
    let mut found = false;
    for i in 0..MAX_CGROUPS {
        if (i as u32) < config!(n_cgroups) && config!(cgroups[i]) == id {
            found = true;
        }
    }
    found
}

/// Whether the current task's cgroup, or one above it, was named.
#[inline(always)]
fn cgroup_wanted() -> bool {
    let mut found = false;
    for level in 0..CGROUP_DEPTH {
        // SAFETY: a helper without pointers; it returns 0 below the task's own level.
        let id = unsafe { bpf_get_current_ancestor_cgroup_id(level) };
        found |= is_named(id);
    }
    found
}

#[inline(always)]
fn uid_wanted(uid: u32) -> bool {
    let mut found = false;
    for i in 0..MAX_UIDS {
        if (i as u32) < config!(n_uids) && config!(uids[i]) == uid {
            found = true;
        }
    }
    found
}
