//! What is known of processes besides their records.

use crate::model::{Args, Bytes, Comm, Field, ProcId, Reason};

/// What can be known besides the records; nothing for a saved trace.
pub trait Lookup {
    /// A process that began before its first record here, with its parent.
    fn process(&mut self, pid: u32) -> Option<(ProcId, Option<ProcId>)>;
    /// The process of a thread whose creation was not seen.
    fn process_of(&mut self, tid: u32) -> Option<u32>;
    /// What a process looked like right after its exec at `ts`.
    fn exec(&mut self, pid: u32, ts: u64) -> Option<Look>;
    /// Why fields are missing that only [`Self::exec`] knows.
    fn absent(&self) -> Reason;
}

/// Of a program that has just begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub argv: Field<Args>,
    pub cwd: Field<Bytes>,
    pub cgroup: Field<Bytes>,
    pub uid: Option<u32>,
    pub euid: Option<u32>,
    pub gid: Option<u32>,
    pub egid: Option<u32>,
    pub sid: Option<u32>,
    pub pgid: Option<u32>,
    /// Its name, where the file name does not tell (`/dev/fd/N`).
    pub comm: Comm,
}

/// No more than the records.
pub struct NoLookup;

impl Lookup for NoLookup {
    fn process(&mut self, _: u32) -> Option<(ProcId, Option<ProcId>)> {
        None
    }

    fn process_of(&mut self, _: u32) -> Option<u32> {
        None
    }

    fn exec(&mut self, _: u32, _: u64) -> Option<Look> {
        None
    }

    fn absent(&self) -> Reason {
        Reason::Source
    }
}
