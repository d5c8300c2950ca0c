//! Which process of one side is which of the other.
//!
//! Two that have the same pid are the same process if their exact starts are
//! equal; where one start is not exact, if the starts agree within its precision or
//! the two were alive at the same time: a number belongs to one process at a time.

use rustc_hash::FxHashMap;

use super::side::{Life, Side};
use crate::model::Precision;

/// Two records of one moment may lie as far apart, ns.
const SLACK_NS: u64 = 5_000_000;

/// No process.
pub const NONE: u32 = u32::MAX;

/// A number for each process, the same one on both sides where it is the same.
pub struct Lives {
    pub a: Vec<u32>,
    pub b: Vec<u32>,
}

impl Lives {
    pub fn of_a(&self, life: u32) -> u32 {
        self.a.get(life as usize).copied().unwrap_or(NONE)
    }

    pub fn of_b(&self, life: u32) -> u32 {
        self.b.get(life as usize).copied().unwrap_or(NONE)
    }
}

/// Matches the processes of both sides.
pub fn matched(a: &Side, b: &Side) -> Lives {
    let split = a.lives.len();
    let mut sets = Sets::new(split + b.lives.len());
    let mut pids: FxHashMap<u32, (Vec<usize>, Vec<usize>)> = FxHashMap::default();
    for (index, life) in a.lives.iter().enumerate() {
        pids.entry(life.id.pid).or_default().0.push(index);
        if let Some(other) = b.find(&life.id).filter(|_| is_exact(life)) {
            sets.join(index, split + other as usize);
        }
    }
    for (index, life) in b.lives.iter().enumerate() {
        pids.entry(life.id.pid).or_default().1.push(index);
    }
    for (mut of_a, mut of_b) in pids.into_values() {
        let begin = |lives: &[Life], index: usize| lives.get(index).map_or(0, |l| l.id.start);
        of_a.sort_by_key(|i| begin(&a.lives, *i));
        of_b.sort_by_key(|i| begin(&b.lives, *i));
        walk(&of_a, &of_b, a, b, &mut |i, j| sets.join(i, split + j));
    }
    let number = |index| u32::try_from(index).unwrap_or(NONE);
    Lives {
        a: (0..split).map(|i| number(sets.find(i))).collect(),
        b: (0..b.lives.len())
            .map(|j| number(sets.find(split + j)))
            .collect(),
    }
}

/// Finds those that overlap, in one pass over both.
fn walk(of_a: &[usize], of_b: &[usize], a: &Side, b: &Side, join: &mut impl FnMut(usize, usize)) {
    let (mut i, mut j) = (0, 0);
    while let (Some(at_a), Some(at_b)) = (of_a.get(i), of_b.get(j)) {
        let (Some(one), Some(other)) = (a.lives.get(*at_a), b.lives.get(*at_b)) else {
            return;
        };
        if same(one, other) {
            join(*at_a, *at_b);
        }
        if one.last < other.last {
            i += 1;
        } else {
            j += 1;
        }
    }
}

fn is_exact(life: &Life) -> bool {
    life.id.precision == Precision::Exact
}

fn same(a: &Life, b: &Life) -> bool {
    if is_exact(a) && is_exact(b) {
        return a.id.start == b.id.start;
    }
    let tolerance = a.id.precision.tolerance_ns() + b.id.precision.tolerance_ns();
    let overlap =
        begin(a) <= b.last.saturating_add(SLACK_NS) && begin(b) <= a.last.saturating_add(SLACK_NS);
    a.id.start.abs_diff(b.id.start) <= tolerance || overlap
}

fn begin(life: &Life) -> u64 {
    life.id.start.min(life.first)
}

/// Disjoint sets.
struct Sets(Vec<usize>);

impl Sets {
    fn new(size: usize) -> Self {
        Self((0..size).collect())
    }

    fn find(&mut self, mut at: usize) -> usize {
        while let Some(up) = self.0.get(at).copied().filter(|up| *up != at) {
            let above = self.0.get(up).copied().unwrap_or(up);
            if let Some(slot) = self.0.get_mut(at) {
                *slot = above;
            }
            at = above;
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        if let Some(slot) = self.0.get_mut(a.max(b)) {
            *slot = a.min(b);
        }
    }
}
