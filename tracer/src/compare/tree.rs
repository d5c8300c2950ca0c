//! Who started whom, on each side.

use rustc_hash::{FxHashMap, FxHashSet};

use super::kind::Kind;
use super::side::Side;
use crate::decode::jsonl::member_id;

/// Parent of each process, in the numbers of [`super::lives::Lives`].
pub type Parents = FxHashMap<u32, u32>;

/// The parents at the fork: as the fork's record says, else any other.
pub fn parents(side: &Side, class: impl Fn(u32) -> u32) -> Parents {
    let mut parents = Parents::default();
    for entry in side.entries.iter().filter(|e| e.kind == Kind::Fork) {
        if let Some(parent) = entry.parent {
            parents.entry(class(entry.life)).or_insert(class(parent));
        }
    }
    for entry in side.entries.iter().rev() {
        let names = match entry.kind {
            Kind::Exit | Kind::Process => [
                "orig_ppid",
                "orig_parent_start",
                "orig_parent_start_precision",
            ],
            Kind::Exec | Kind::Seed => ["ppid", "parent_start", "parent_start_precision"],
            _ => continue,
        };
        let child = class(entry.life);
        if parents.contains_key(&child) {
            continue;
        }
        let parent = member_id(&side.object(entry), names);
        // One that no record names otherwise has no number.
        if let Some(parent) = parent.and_then(|id| side.find(&id)) {
            parents.insert(child, class(parent));
        }
    }
    parents
}

/// `root` and all that came from it.
pub fn descendants(parents: &Parents, root: u32) -> FxHashSet<u32> {
    let mut children: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for (child, parent) in parents {
        children.entry(*parent).or_default().push(*child);
    }
    let mut found = FxHashSet::from_iter([root]);
    let mut next = vec![root];
    while let Some(one) = next.pop() {
        for child in children.get(&one).into_iter().flatten() {
            if found.insert(*child) {
                next.push(*child);
            }
        }
    }
    found
}
