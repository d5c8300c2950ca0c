//! What the task iterator told, to events.

use tracer_common::seed::{SeedRecord, flags};

use super::convert::parent;
use super::read::read;
use super::record::Decoder;
use crate::model::{Args, Bytes, Comm, Event, Field, ProcId, Seed};

/// The records of an iterator's stream.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = SeedRecord> + '_ {
    bytes.chunks_exact(size_of::<SeedRecord>()).filter_map(read)
}

/// The identity of a process that runs already.
pub const fn id(r: &SeedRecord) -> ProcId {
    ProcId::exact(r.tgid, r.start)
}

pub const fn is_kthread(r: &SeedRecord) -> bool {
    r.flags & flags::KTHREAD != 0
}

impl Decoder {
    /// The event of a record, with what only user space can read.
    pub fn seed(&mut self, r: &SeedRecord, ts: u64, exe: Field<Bytes>, argv: Field<Args>) -> Event {
        Event::Seed(Box::new(Seed {
            ts,
            id: id(r),
            parent: parent(r.ppid, r.parent_start),
            comm: Comm(r.comm),
            exe,
            argv,
            uid: Some(r.uid),
            cgroup: self.cgroup_path(r.cgroup_id),
            kthread: is_kthread(r),
        }))
    }
}
