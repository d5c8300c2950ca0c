//! Trace and span ids: hashes of the boot and the process.

use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128 as _, SipHasher24 as SipHasher24x128};
use std::hash::Hasher as _;

use crate::model::{Meta, ProcId};

/// Makes ids. The boot id is the key of the hash: processes of two hosts, or of two boots, that
/// have the same pid and start have different ids, and those of one process are always the same.
#[derive(Clone, Debug)]
pub struct Ids {
    key: [u8; 16],
}

impl Ids {
    /// Where the boot id is not known, host and time of the boot stand in for it.
    pub fn new(meta: &Meta) -> Self {
        let mut hasher = SipHasher24x128::new();
        hasher.write(meta.boot_id.as_bytes());
        if meta.boot_id.is_empty() {
            hasher.write(meta.host.as_bytes());
            hasher.write_u64(meta.wall_start_ns.saturating_sub(meta.boot_start_ns));
        }
        Self {
            key: hasher.finish128().as_bytes(),
        }
    }

    /// Id of the trace that `root` begins.
    pub fn trace(&self, root: &ProcId) -> [u8; 16] {
        let mut hasher = SipHasher24x128::new_with_key(&self.key);
        hasher.write(&bytes(root));
        let mut id = hasher.finish128().as_bytes();
        // All zeros would mean: no id.
        id[15] |= u8::from(id == [0; 16]);
        id
    }

    /// Id of the span of `process`.
    pub fn span(&self, process: &ProcId) -> [u8; 8] {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(&bytes(process));
        hasher.finish().max(1).to_le_bytes()
    }
}

fn bytes(id: &ProcId) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&id.pid.to_le_bytes());
    bytes[4..].copy_from_slice(&id.start.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::sink::samples::meta;

    #[test]
    fn ids_tell_boots_and_processes_apart_and_stay() {
        let (a, b) = (
            meta(),
            Meta {
                boot_id: "another".into(),
                ..meta()
            },
        );
        let mut traces = HashSet::new();
        let mut spans = HashSet::new();
        for meta in [&a, &b] {
            let ids = Ids::new(meta);
            for pid in 1..100 {
                for start in [0, 1, u64::MAX] {
                    let id = ProcId::exact(pid, start);
                    traces.insert(ids.trace(&id));
                    spans.insert(ids.span(&id));
                    assert_eq!(ids.trace(&id), Ids::new(meta).trace(&id));
                }
            }
        }
        assert_eq!((traces.len(), spans.len()), (2 * 99 * 3, 2 * 99 * 3));
    }

    #[test]
    fn without_a_boot_id_the_host_and_its_boot_count() {
        let of = |host: &str, wall| {
            let meta = Meta {
                boot_id: String::new(),
                host: host.into(),
                wall_start_ns: wall,
                ..meta()
            };
            Ids::new(&meta).span(&ProcId::exact(1, 2))
        };
        assert_ne!(of("a", u64::MAX), of("b", u64::MAX));
        assert_ne!(of("a", u64::MAX), of("a", u64::MAX - 1));
    }
}
