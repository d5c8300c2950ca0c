//! Pointers to kernel structures by type, and their plain members.

use super::{load, load_u64};
use crate::globals::offset;

macro_rules! pointer_types {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $($(#[$doc])* #[derive(Clone, Copy)] pub struct $name(pub *const u8);)*
    };
}

pointer_types! {
    /// `struct task_struct *`
    Task
    /// `struct signal_struct *`
    Signal
    /// `struct mm_struct *`
    Mm
    /// `const struct cred *`
    Cred
    /// `struct cgroup *` of the v2 hierarchy; read with [`peek`].
    Cgroup
}

/// Bits of `task_struct::flags`.
pub const PF_KTHREAD: u32 = 0x0020_0000;
pub const PF_IO_WORKER: u32 = 0x10;
pub const PF_USER_WORKER: u32 = 0x4000;

macro_rules! members {
    ($owner:ident { $($fn:ident: $ty:ty = $off:ident;)* }) => {
        impl $owner {
            $(#[inline(always)]
            pub fn $fn(self) -> $ty {
                // SAFETY: as load().
                unsafe { load(self.0, offset!($off)) }
            })*
        }
    };
}

macro_rules! optional_members {
    ($owner:ident { $($fn:ident = $off:ident;)* }) => {
        impl $owner {
            $(#[inline(always)]
            pub fn $fn(self) -> u64 {
                // SAFETY: as load_u64().
                unsafe { load_u64(self.0, offset!($off)) }
            })*
        }
    };
}

members!(Task {
    pid: u32 = task_pid;
    tgid: u32 = task_tgid;
    start: u64 = task_start;
    flags: u32 = task_flags;
    exit_code: u32 = task_exit_code;
    utime: u64 = task_utime;
    stime: u64 = task_stime;
    runtime: u64 = task_runtime;
    minflt: u64 = task_min_flt;
    majflt: u64 = task_maj_flt;
    nvcsw: u64 = task_nvcsw;
    nivcsw: u64 = task_nivcsw;
});

optional_members!(Task {
    rchar = task_ioac_rchar;
    wchar = task_ioac_wchar;
    read_bytes = task_ioac_read_bytes;
    write_bytes = task_ioac_write_bytes;
    cancelled_write_bytes = task_ioac_cancelled;
    run_delay = task_run_delay;
});

members!(Signal {
    flags: u32 = signal_flags;
    live: u32 = signal_live;
    group_exit_code: u32 = signal_group_exit_code;
    utime: u64 = signal_utime;
    stime: u64 = signal_stime;
    runtime: u64 = signal_runtime;
    minflt: u64 = signal_min_flt;
    majflt: u64 = signal_maj_flt;
    nvcsw: u64 = signal_nvcsw;
    nivcsw: u64 = signal_nivcsw;
});

optional_members!(Signal {
    prev_utime = signal_prev_utime;
    prev_stime = signal_prev_stime;
    inblock = signal_inblock;
    oublock = signal_oublock;
    maxrss = signal_maxrss;
});

members!(Cred {
    uid: u32 = cred_uid;
    gid: u32 = cred_gid;
    euid: u32 = cred_euid;
    egid: u32 = cred_egid;
});

members!(Mm {
    arg_start: u64 = mm_arg_start;
    arg_end: u64 = mm_arg_end;
    env_start: u64 = mm_env_start;
    env_end: u64 = mm_env_end;
});
