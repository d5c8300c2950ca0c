//! What the decoder must be told: which figures this kernel has.

use tracer_common::config::opt;
use tracer_common::offsets::{NONE, Offsets};

use crate::model::{Bytes, Field, Reason};

/// Finds the path of a cgroup by its id (`kernfs` inode number).
pub type ResolveCgroup = Box<dyn FnMut(u64) -> Field<Bytes> + Send>;

/// Figures that this kernel has; the others are absent, not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub blocks: bool,
    pub io_chars: bool,
    pub io_bytes: bool,
    pub cancelled: bool,
    pub run_delay: bool,
    pub blkio_delay: bool,
    /// The working directory, not a figure.
    pub cwd: bool,
}

impl Known {
    pub const ALL: Self = Self {
        blocks: true,
        io_chars: true,
        io_bytes: true,
        cancelled: true,
        run_delay: true,
        blkio_delay: true,
        cwd: true,
    };

    /// From the members that the running kernel has, and `Config::flags`.
    pub const fn new(offsets: &Offsets, flags: u64) -> Self {
        Self {
            blocks: offsets.signal_inblock != NONE && offsets.signal_oublock != NONE,
            io_chars: offsets.task_ioac_rchar != NONE && offsets.task_ioac_wchar != NONE,
            io_bytes: offsets.task_ioac_read_bytes != NONE && offsets.task_ioac_write_bytes != NONE,
            cancelled: offsets.task_ioac_cancelled != NONE,
            run_delay: offsets.task_run_delay != NONE,
            blkio_delay: flags & opt::DELAYACCT != 0,
            // All that the kernel side's walk needs.
            cwd: offsets.task_fs != NONE
                && offsets.fs_pwd_mnt != NONE
                && offsets.fs_pwd_dentry != NONE
                && offsets.fs_root_mnt != NONE
                && offsets.fs_root_dentry != NONE
                && offsets.dentry_parent != NONE
                && offsets.dentry_name != NONE
                && offsets.mount_mnt != NONE
                && offsets.mount_parent != NONE
                && offsets.mount_mountpoint != NONE
                && offsets.vfsmount_root != NONE,
        }
    }
}

/// Settings of a [`super::Decoder`].
pub struct Settings {
    /// Possible CPUs: one more than the largest CPU number.
    pub cpus: usize,
    /// Bytes in a page.
    pub page_size: u64,
    /// The environment was asked for.
    pub env: bool,
    pub known: Known,
    pub cgroup: ResolveCgroup,
}

impl Settings {
    /// 0 says that the kernel side could not tell the cgroup.
    pub(super) fn cgroup_path(&mut self, id: u64) -> Field<Bytes> {
        if id == 0 {
            Field::Missing(Reason::Kernel)
        } else {
            (self.cgroup)(id)
        }
    }
}
