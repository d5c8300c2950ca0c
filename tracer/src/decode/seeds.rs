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

#[cfg(test)]
mod tests {
    use tracer_common::record::{ExitRecord, Totals, flags as record_flags, kind};

    use super::super::record_tests::{bytes, decoder, feed, header};
    use super::*;

    fn record(tgid: u32) -> SeedRecord {
        SeedRecord {
            tgid,
            pid_here: tgid,
            start: 1000,
            ppid: 1,
            flags: flags::KTHREAD,
            parent_start: 1,
            cgroup_id: 5,
            uid: 7,
            gid: 8,
            comm: *b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        }
    }

    #[test]
    fn a_stream_has_whole_records_only() {
        let two = [bytes(&record(3)), bytes(&record(4))].concat();
        let pids = |b: &[u8]| records(b).map(|r| r.tgid).collect::<Vec<_>>();
        assert_eq!(pids(&two), [3, 4]);
        assert_eq!(pids(two.get(..two.len() - 1).unwrap()), [3]);
        assert!(pids(&[]).is_empty());
    }

    #[test]
    fn a_seed_says_what_both_sides_know() {
        let exe = Field::Full(Bytes::from(&b"/bin/sh"[..]));
        let argv = Field::Full(Args::from_strings(["sh", "-c"]));
        let Event::Seed(seed) = decoder(false).seed(&record(3), 9, exe.clone(), argv.clone())
        else {
            panic!("no seed");
        };
        assert_eq!((seed.ts, seed.id), (9, ProcId::exact(3, 1000)));
        assert_eq!(seed.parent, Some(ProcId::exact(1, 1)));
        assert_eq!((seed.exe, seed.argv), (exe, argv));
        assert_eq!((seed.uid, seed.kthread), (Some(7), true));
        assert_eq!(seed.cgroup, Field::Full(Bytes::from(&b"/5"[..])));
    }

    #[test]
    fn sums_that_are_not_known_are_absent() {
        for (flags, sums, delay) in [
            (0, true, true),
            (record_flags::SUMS_UNKNOWN, false, false),
            (record_flags::NO_BLKIO_DELAY, true, false),
            // Of a thread everything is known.
            (
                record_flags::SUMS_UNKNOWN | record_flags::THREAD,
                true,
                true,
            ),
        ] {
            let mut exit = ExitRecord {
                h: header(kind::EXIT, 0, 0, 9),
                totals: Totals {
                    minflt: 4,
                    ..Totals::default()
                },
                ..ExitRecord::default()
            };
            exit.h.flags = flags;
            let (events, _) = feed(&mut decoder(false), &bytes(&exit));
            let [Event::Exit(exit)] = &*events else {
                panic!("{events:?}");
            };
            let usage = &exit.usage;
            let known = [usage.rchar, usage.write_bytes, usage.run_delay_ns];
            assert!(known.iter().all(|k| k.is_some() == sums), "{flags}");
            assert_eq!(usage.blkio_delay_ns.is_some(), delay, "{flags}");
            assert_eq!((usage.minflt, exit.threads), (Some(4), None));
        }
    }
}
