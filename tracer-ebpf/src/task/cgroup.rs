//! Groups of the hierarchy of cgroup v2.

use tracer_common::offsets::NONE;

use super::{Cgroup, Task, load, peek};
use crate::globals::offset;

impl Task {
    /// Its group in the hierarchy of cgroup v2.
    #[inline(always)]
    pub fn cgroup(self) -> Cgroup {
        let (cgroups, group) = (offset!(task_cgroups), offset!(css_set_cgroup));
        if cgroups == NONE || group == NONE {
            return Cgroup(core::ptr::null());
        }
        // SAFETY: peek() reads nothing that is not readable.
        unsafe {
            let set: usize = peek(self.0.add(cgroups as usize));
            Cgroup(peek::<usize>((set as *const u8).wrapping_add(group as usize)) as *const u8)
        }
    }

    /// Asks for the cache line that bpf_get_current_cgroup_id() reads: all processes
    /// of a group count themselves in it, so it is with another processor often.
    #[inline(always)]
    pub fn prefetch_cgroup(self) {
        let (cgroups, group) = (offset!(task_cgroups), offset!(css_set_cgroup));
        if cgroups != NONE && group != NONE {
            // SAFETY: as load().
            unsafe {
                let set: *const u8 = load(self.0, cgroups);
                load::<usize>(set, group);
            }
        }
    }
}

impl Cgroup {
    /// The id by which user space knows it; 0 where this kernel does not tell.
    #[inline(always)]
    pub fn id(self) -> u64 {
        let (kn, id) = (offset!(cgroup_kn), offset!(kernfs_id));
        if kn == NONE || id == NONE {
            return 0;
        }
        // SAFETY: peek() reads nothing that is not readable.
        unsafe {
            let kn: usize = peek(self.0.wrapping_add(kn as usize));
            peek((kn as *const u8).wrapping_add(id as usize))
        }
    }

    /// Its depth; the root's is 0.
    #[inline(always)]
    pub fn level(self) -> i32 {
        let off = offset!(cgroup_level);
        if off == NONE {
            return -1;
        }
        // SAFETY: peek() reads nothing that is not readable.
        unsafe { peek(self.0.wrapping_add(off as usize)) }
    }

    /// The group above it at `level`, which must not be below its own.
    #[inline(always)]
    pub fn ancestor(self, level: i32) -> Self {
        let off = offset!(cgroup_ancestors);
        if off == NONE {
            return Self(core::ptr::null());
        }
        let at = self.0.wrapping_add(off as usize + 8 * level as usize);
        // SAFETY: peek() reads nothing that is not readable.
        Self(unsafe { peek::<usize>(at) } as *const u8)
    }
}
