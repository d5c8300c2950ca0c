//! `tracer compare`: what two recordings of the same processes say differently.
//!
//! 1. [`load`] or a live run gives two [`Side`]s, both as lines of JSONL.
//! 2. [`lives`] finds which process of one is which of the other.
//! 3. [`pair`] finds which record of one is which of the other ([`align`]: by time).
//! 4. [`work`] counts: [`fields`] compares the pairs, [`explain`] knows what is no fault.
//! 5. [`report`] is the result, [`show`] prints it.

mod align;
mod clock;
mod explain;
mod fields;
#[cfg(test)]
mod killed_tests;
mod kind;
mod last_thread;
#[cfg(test)]
mod last_thread_tests;
mod lives;
pub mod load;
mod pair;
pub mod report;
mod show;
pub mod side;
#[cfg(test)]
mod tests;
mod tree;
#[cfg(test)]
mod verdict_tests;
mod work;

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

pub use clock::{NoSeconds, check};
use explain::Explained;
pub use kind::Kind;
use last_thread::LastThreads;
use pair::{How, Match};
use report::{Report, SideReport, Verdict};
pub use show::show;
use side::Side;
use tree::parents;
use work::Work;

/// Two recordings, matched.
pub struct Comparison {
    a: Side,
    b: Side,
    /// In order of time.
    rows: Vec<Match>,
    pub report: Report,
}

/// Compares two recordings. Records of one event whose times are further apart
/// than `tolerance` (ns) disagree on the time.
pub fn compare(a: Side, mut b: Side, tolerance: u64) -> Comparison {
    let mut a = a;
    let mut notes = Vec::new();
    notes.append(&mut a.notes);
    notes.append(&mut b.notes);
    notes.extend(clock::agree(&mut a, &mut b));
    let copies = are_copies(&a, &b);
    let lives = lives::matched(&a, &b);
    let (of_a, of_b) = (|life| lives.of_a(life), |life| lives.of_b(life));
    let last_threads = if copies {
        LastThreads::default()
    } else {
        LastThreads::find(&a, &b, &of_a, &of_b, tolerance)
    };
    let apart = if copies { 0 } else { tolerance };
    let mut rows = pair::pair(&a, &b, &lives, &last_threads, apart, copies);
    rows.sort_by_key(|row| when(&a, &b, row));
    let mut work = Work {
        parents_a: parents(&a, of_a),
        parents_b: parents(&b, of_b),
        last_threads: &last_threads,
        a: &a,
        b: &b,
        lives: &lives,
        copies,
        kinds: BTreeMap::new(),
        explained: Explained::new(),
        differences: Vec::new(),
        faulty: FxHashSet::default(),
        losers: FxHashSet::default(),
    };
    work.singles(&rows);
    let skew_ns = work.pairs(&rows);
    work.order(&rows);
    let tree = work.tree();
    work.differences.sort_by_key(|d| d.row);
    let nothing = !rows.is_empty() && work.kinds.values().all(|c| c.matched == 0);
    // Each explains all that it does not share, and so would be equal to any other.
    let strangers = if copies {
        None
    } else {
        strangers(&a, &b, nothing)
    };
    notes.extend(strangers.map(str::to_owned));
    let Work {
        kinds,
        explained,
        differences,
        ..
    } = work;
    let mut members = BTreeMap::new();
    for disagreement in differences.iter().flat_map(|d| &d.members) {
        *members.entry(disagreement.member.clone()).or_default() += 1;
    }
    let differ = differences.iter().any(|d| !d.lost) || !tree.equal;
    let verdict = if differ || strangers.is_some() {
        Verdict::Different
    } else if differences.is_empty() && kinds.values().all(|c| c.lost == 0) {
        Verdict::Equal
    } else {
        Verdict::EqualButForLosses
    };
    let report = Report {
        verdict,
        a: SideReport::from(&a),
        b: SideReport::from(&b),
        copies,
        kinds,
        tree,
        members,
        skew_ns,
        explained,
        notes,
        differences,
    };
    Comparison { a, b, rows, report }
}

/// Whether both hold lines of one and the same recording.
fn are_copies(a: &Side, b: &Side) -> bool {
    let (Some(x), Some(y)) = (&a.meta, &b.meta) else {
        return false;
    };
    let same = |key: &&str| x.get(*key) == y.get(*key);
    // One of them may have been altered.
    let equal = [
        "boot_id",
        "boot_start",
        "backend",
        "wall_start",
        "root_start",
    ]
    .iter()
    .filter(|key| same(key))
    .count();
    equal >= 4
}

/// Why the two cannot be recordings of one run; `nothing`: they share no record.
fn strangers(a: &Side, b: &Side, nothing: bool) -> Option<&'static str> {
    let boot = |side: &Side| side.meta.as_ref().and_then(|m| m.get("boot_id")).cloned();
    match (boot(a), boot(b)) {
        (Some(x), Some(y)) if x != y => Some(
            "the two were recorded on different machines, or after different boots: nothing can be \
             the same process",
        ),
        _ => nothing.then_some(
            "no record of one side is on the other: these are two different runs. To compare two \
             sources over one run: tracer compare -- CMD",
        ),
    }
}

fn when(a: &Side, b: &Side, row: &Match) -> u64 {
    let ts = |side: &Side, at: usize| side.entries.get(at).map_or(u64::MAX, |e| e.ts);
    match row {
        Match::Pair { a: at, how, .. } if *how != How::OtherTime => ts(a, *at),
        Match::Pair { a: x, b: y, .. } => ts(a, *x).min(ts(b, *y)),
        Match::OnlyA { a: at, .. } => ts(a, *at),
        Match::OnlyB { b: at, .. } => ts(b, *at),
    }
}
