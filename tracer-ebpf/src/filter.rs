//! Whose records are wanted. The decision is made when a process execs (comm
//! changes only there), is inherited at fork and kept with the tracked set:
//! who is filtered out is still followed.

use aya_ebpf::helpers::bpf_get_current_uid_gid;
use aya_ebpf::helpers::generated::bpf_get_current_ancestor_cgroup_id;
use tracer_common::config::{MAX_UIDS, opt};
use tracer_common::glob;

use crate::globals::{COMM_GLOB, EXCLUDE_COMM_GLOB, config, has};
use crate::task::{PF_KTHREAD, Task};

/// Whether the filters let `task`, which must be the current one, through.
#[inline(always)]
pub fn passes(task: Task) -> bool {
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
    if has(opt::UID) && !uid_wanted(bpf_get_current_uid_gid() as u32) {
        return false;
    }
    if has(opt::CGROUP) {
        // SAFETY: a helper without pointers.
        let id = unsafe { bpf_get_current_ancestor_cgroup_id(config!(cgroup_level) as i32) };
        if id != config!(cgroup_id) {
            return false;
        }
    }
    true
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
