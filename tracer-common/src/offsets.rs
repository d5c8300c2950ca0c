//! Offsets of the kernel members that the kernel side reads, filled in by the
//! user side from the running kernel's BTF.

/// Value of an offset that this kernel does not have: the field is turned off.
pub const NONE: u32 = u32::MAX;

macro_rules! offsets {
    ($($(#[$doc:meta])* $field:ident = $ty:literal . $member:literal $(, $need:ident)?;)*) => {
        /// Byte offsets, [`NONE`] where the member is missing.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Offsets { $($(#[$doc])* pub $field: u32,)* }

        impl Offsets {
            pub const UNKNOWN: Self = Self { $($field: NONE,)* };

            /// `(field, struct, member path, required)` of each, in order.
            pub const TABLE: &'static [(&'static str, &'static str, &'static str, bool)] =
                &[$((stringify!($field), $ty, $member, offsets!(@need $($need)?)),)*];

            /// The values in the order of [`Self::TABLE`].
            pub fn from_values(v: &[u32]) -> Option<Self> {
                if v.len() != Self::TABLE.len() { return None; }
                let mut it = v.iter().copied();
                Some(Self { $($field: it.next()?,)* })
            }
        }
    };
    (@need) => { true };
    (@need optional) => { false };
}

offsets! {
    task_pid = "task_struct" . "pid";
    task_tgid = "task_struct" . "tgid";
    task_start = "task_struct" . "start_boottime";
    task_group_leader = "task_struct" . "group_leader";
    task_real_parent = "task_struct" . "real_parent";
    task_children = "task_struct" . "children", optional;
    task_sibling = "task_struct" . "sibling", optional;
    task_comm = "task_struct" . "comm";
    task_flags = "task_struct" . "flags";
    task_mm = "task_struct" . "mm";
    task_signal = "task_struct" . "signal";
    task_sighand = "task_struct" . "sighand", optional;
    task_cred = "task_struct" . "cred";
    task_fs = "task_struct" . "fs", optional;
    task_state = "task_struct" . "__state", optional;
    task_cgroups = "task_struct" . "cgroups", optional;
    task_exit_state = "task_struct" . "exit_state", optional;
    task_exit_code = "task_struct" . "exit_code";
    task_utime = "task_struct" . "utime";
    task_stime = "task_struct" . "stime";
    task_runtime = "task_struct" . "se.sum_exec_runtime";
    task_min_flt = "task_struct" . "min_flt";
    task_maj_flt = "task_struct" . "maj_flt";
    task_nvcsw = "task_struct" . "nvcsw";
    task_nivcsw = "task_struct" . "nivcsw";
    task_ioac_rchar = "task_struct" . "ioac.rchar", optional;
    task_ioac_wchar = "task_struct" . "ioac.wchar", optional;
    task_ioac_read_bytes = "task_struct" . "ioac.read_bytes", optional;
    task_ioac_write_bytes = "task_struct" . "ioac.write_bytes", optional;
    task_ioac_cancelled = "task_struct" . "ioac.cancelled_write_bytes", optional;
    task_run_delay = "task_struct" . "sched_info.run_delay", optional;
    task_delays = "task_struct" . "delays", optional;
    task_loginuid = "task_struct" . "loginuid", optional;
    task_thread_pid = "task_struct" . "thread_pid", optional;
    task_thread_node = "task_struct" . "thread_node", optional;
    task_thread_info_status = "task_struct" . "thread_info.status", optional;
    delays_blkio = "task_delay_info" . "blkio_delay", optional;
    signal_flags = "signal_struct" . "flags";
    signal_live = "signal_struct" . "live";
    signal_group_exit_code = "signal_struct" . "group_exit_code";
    signal_thread_head = "signal_struct" . "thread_head", optional;
    signal_nr_threads = "signal_struct" . "nr_threads", optional;
    signal_utime = "signal_struct" . "utime";
    signal_stime = "signal_struct" . "stime";
    signal_runtime = "signal_struct" . "sum_sched_runtime";
    signal_prev_utime = "signal_struct" . "prev_cputime.utime", optional;
    signal_prev_stime = "signal_struct" . "prev_cputime.stime", optional;
    signal_min_flt = "signal_struct" . "min_flt";
    signal_maj_flt = "signal_struct" . "maj_flt";
    signal_nvcsw = "signal_struct" . "nvcsw";
    signal_nivcsw = "signal_struct" . "nivcsw";
    signal_inblock = "signal_struct" . "inblock", optional;
    signal_oublock = "signal_struct" . "oublock", optional;
    signal_maxrss = "signal_struct" . "maxrss", optional;
    signal_pids = "signal_struct" . "pids", optional;
    signal_tty = "signal_struct" . "tty", optional;
    tty_name = "tty_struct" . "name", optional;
    sighand_action = "sighand_struct" . "action", optional;
    mm_arg_start = "mm_struct" . "arg_start";
    mm_arg_end = "mm_struct" . "arg_end";
    mm_env_start = "mm_struct" . "env_start";
    mm_env_end = "mm_struct" . "env_end";
    mm_hiwater_rss = "mm_struct" . "hiwater_rss", optional;
    mm_rss_stat = "mm_struct" . "rss_stat", optional;
    percpu_counter_count = "percpu_counter" . "count", optional;
    cred_uid = "cred" . "uid";
    cred_gid = "cred" . "gid";
    cred_euid = "cred" . "euid";
    cred_egid = "cred" . "egid";
    bprm_filename = "linux_binprm" . "filename";
    fs_pwd_mnt = "fs_struct" . "pwd.mnt", optional;
    fs_pwd_dentry = "fs_struct" . "pwd.dentry", optional;
    fs_root_mnt = "fs_struct" . "root.mnt", optional;
    fs_root_dentry = "fs_struct" . "root.dentry", optional;
    dentry_parent = "dentry" . "d_parent", optional;
    dentry_name = "dentry" . "d_name.name", optional;
    dentry_hashed = "dentry" . "d_hash.pprev", optional;
    mount_mnt = "mount" . "mnt", optional;
    mount_parent = "mount" . "mnt_parent", optional;
    mount_mountpoint = "mount" . "mnt_mountpoint", optional;
    vfsmount_root = "vfsmount" . "mnt_root", optional;
    css_set_cgroup = "css_set" . "dfl_cgrp", optional;
    cgroup_kn = "cgroup" . "kn", optional;
    cgroup_level = "cgroup" . "level", optional;
    cgroup_ancestors = "cgroup" . "ancestors", optional;
    kernfs_id = "kernfs_node" . "id", optional;
    pid_level = "pid" . "level", optional;
    pid_numbers = "pid" . "numbers", optional;
    upid_nr = "upid" . "nr", optional;
    upid_ns = "upid" . "ns", optional;
    pidns_inum = "pid_namespace" . "ns.inum", optional;
    regs_nr = "pt_regs" . "orig_ax", optional;
    regs_bx = "pt_regs" . "bx", optional;
    regs_cx = "pt_regs" . "cx", optional;
    regs_dx = "pt_regs" . "dx", optional;
    regs_si = "pt_regs" . "si", optional;
    regs_di = "pt_regs" . "di", optional;
    siginfo_code = "kernel_siginfo" . "si_code", optional;
}
