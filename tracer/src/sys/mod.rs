//! Readers of what the system says of itself. Where a reader walks files, its
//! root can be injected, so that tests bring their own.

pub mod btf;
pub mod capabilities;
pub mod cgroup;
pub mod mounts;
pub mod procfs;
pub mod signals;
pub mod tracefs;
pub mod users;
