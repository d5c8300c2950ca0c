//! What the task iterator says of a process that runs already.

use crate::record::COMM_LEN;

/// [`SeedRecord::flags`].
pub mod flags {
    /// A kernel thread.
    pub const KTHREAD: u32 = 1;
}

/// A process, in the iterator's own stream, not in the ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeedRecord {
    /// Process (thread-group) id in the initial PID namespace.
    pub tgid: u32,
    /// The same in the PID namespace of whoever reads the stream.
    pub pid_here: u32,
    /// `start_boottime` of the thread-group leader, ns.
    pub start: u64,
    /// `real_parent`.
    pub ppid: u32,
    pub flags: u32,
    pub parent_start: u64,
    pub cgroup_id: u64,
    pub uid: u32,
    pub gid: u32,
    pub comm: [u8; COMM_LEN],
}
