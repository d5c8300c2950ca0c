//! The comparison itself: from matched records to counts and differences.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use super::explain::{Absence, Explained, Opinion, code, take_lost};
use super::fields::{Disagreement, Fields};
use super::kind::Kind;
use super::last_thread::LastThreads;
use super::lives::{self, Lives};
use super::pair::{How, Match};
use super::report::{Counts, Difference, Skew, TreeReport, What};
use super::side::{Entry, Side};
use super::tree::Parents;

/// The comparison under way.
pub(super) struct Work<'a> {
    pub(super) a: &'a Side,
    pub(super) b: &'a Side,
    pub(super) lives: &'a Lives,
    pub(super) parents_a: Parents,
    pub(super) parents_b: Parents,
    pub(super) last_threads: &'a LastThreads,
    pub(super) copies: bool,
    pub(super) kinds: BTreeMap<Kind, Counts>,
    pub(super) explained: Explained,
    pub(super) differences: Vec<Difference>,
    /// Processes with a record on one side only that nothing explains.
    pub(super) faulty: FxHashSet<u32>,
    /// Processes of which a side lost a record.
    pub(super) losers: FxHashSet<u32>,
}

impl Work<'_> {
    /// Records that are on one side only.
    pub(super) fn singles(&mut self, rows: &[Match]) {
        let (a, b, lives) = (self.a, self.b, self.lives);
        let of_a = |life| lives.of_a(life);
        let of_b = |life| lives.of_b(life);
        let missing_in_b = Absence::new(a, b, &self.parents_a, &of_a, &of_b, self.last_threads);
        let missing_in_a = Absence::new(b, a, &self.parents_b, &of_b, &of_a, self.last_threads);
        let mut lost_a = a.lost.clone();
        let mut lost_b = b.lost.clone();
        let is_row = |row: &Match| {
            let (side, at) = match row {
                Match::OnlyA { a: at, .. } | Match::Pair { a: at, .. } => (a, *at),
                Match::OnlyB { b: at, .. } => (b, *at),
            };
            side.entries
                .get(at)
                .is_some_and(|e| e.kind == Kind::Process)
        };
        let rows = rows.iter().enumerate();
        // Rows after all events: they are missing where those were lost.
        let events = rows.clone().filter(|(_, row)| !is_row(row));
        for (place, row) in events.chain(rows.filter(|(_, row)| is_row(row))) {
            let (side, at, twice, in_a) = match row {
                Match::OnlyA { a: at, twice } => (a, *at, *twice, true),
                Match::OnlyB { b: at, twice } => (b, *at, *twice, false),
                Match::Pair { .. } => continue,
            };
            let Some(entry) = side.entries.get(at) else {
                continue;
            };
            let class = if in_a {
                of_a(entry.life)
            } else {
                of_b(entry.life)
            };
            let absence = if in_a { &missing_in_b } else { &missing_in_a };
            if !twice
                && !self.copies
                && let Some(why) = absence.why(entry, class)
            {
                *self.explained.entry(why).or_default() += 1;
                self.count(entry.kind).explained += 1;
                continue;
            }
            let losses = if in_a { &mut lost_b } else { &mut lost_a };
            let all_lost = entry.kind == Kind::Process
                && self.losers.contains(&class)
                && !absence.knows(class);
            let lost = !twice && !self.copies && (all_lost || take_lost(losses, entry.kind));
            let counts = self.kinds.entry(entry.kind).or_default();
            let (what, count) = match (in_a, twice) {
                (true, false) => (What::OnlyA, &mut counts.only_a),
                (false, false) => (What::OnlyB, &mut counts.only_b),
                (true, true) => (What::TwiceInA, &mut counts.twice_a),
                (false, true) => (What::TwiceInB, &mut counts.twice_b),
            };
            if lost {
                counts.lost += 1;
                self.losers.insert(class);
            } else {
                *count += 1;
                self.faulty.insert(class);
            }
            let line = line(side, entry);
            self.differences.push(Difference {
                what,
                kind: entry.kind,
                pid: pid(side, entry),
                ts: known(entry.ts),
                line_a: line.filter(|_| in_a),
                line_b: line.filter(|_| !in_a),
                members: Vec::new(),
                lost,
                row: place,
            });
        }
    }

    /// Records that are on both sides: what they say differently, and when.
    pub(super) fn pairs(&mut self, rows: &[Match]) -> Option<Skew> {
        let mut skews = Vec::new();
        let fields = Fields {
            a: self.a,
            b: self.b,
            lives: self.lives,
            copies: self.copies,
        };
        let odd = self.odd_threads();
        let ended = self.ended();
        let codes = self.codes();
        let mut told: FxHashSet<(u32, String)> = FxHashSet::default();
        for (place, row) in rows.iter().enumerate() {
            let Match::Pair {
                a: at_a,
                b: at_b,
                how,
            } = row
            else {
                continue;
            };
            let (Some(x), Some(y)) = (self.a.entries.get(*at_a), self.b.entries.get(*at_b)) else {
                continue;
            };
            self.count(x.kind).matched += 1;
            if *how != How::OtherTime
                && x.ts != u64::MAX
                && y.ts != u64::MAX
                && x.kind != Kind::Process
            {
                let skew = i128::from(y.ts) - i128::from(x.ts);
                skews.push(i64::try_from(skew).unwrap_or(i64::MAX));
            }
            if self.a.line_of(x) == self.b.line_of(y) {
                continue;
            }
            let (object_a, object_b) = (self.a.object(x), self.b.object(y));
            let class = self.lives.of_a(x.life);
            let mut members = fields.disagreements(x.kind, &object_a, &object_b);
            if !self.copies {
                let opinion = Opinion {
                    a: self.a,
                    b: self.b,
                    class,
                    code: codes.get(&class),
                    last_threads: self.last_threads,
                    odd_threads: odd.contains(&class),
                    orphan: [&self.parents_a, &self.parents_b].iter().any(|parents| {
                        let end = parents.get(&class).and_then(|p| ended.get(p));
                        end.is_some_and(|end| *end <= x.ts.max(y.ts))
                    }),
                };
                members.retain(|m| {
                    let why = opinion.why(x.kind, m, &object_a, &object_b);
                    if let Some(why) = why {
                        *self.explained.entry(why.to_owned()).or_default() += 1;
                    }
                    why.is_none()
                });
                if x.kind != y.kind {
                    members.push(disagreement("type", x.kind.name(), y.kind.name()));
                }
                if *how == How::OtherTime && x.kind != Kind::Process {
                    members.push(disagreement("ts", x.ts, y.ts));
                }
                // A process's row repeats what its events said.
                if x.kind == Kind::Process {
                    members.retain(|m| !told.contains(&(class, m.member.clone())));
                } else {
                    told.extend(members.iter().map(|m| (class, m.member.clone())));
                }
            }
            if members.is_empty() {
                continue;
            }
            self.count(x.kind).differ += 1;
            self.differences.push(Difference {
                what: What::Differs,
                kind: x.kind,
                pid: pid(self.a, x),
                ts: known(x.ts),
                line_a: line(self.a, x),
                line_b: line(self.b, y),
                members,
                // What a row says of lost events is lost with them.
                lost: x.kind == Kind::Process && self.losers.contains(&class),
                row: place,
            });
        }
        Skew::of(skews)
    }

    /// Events of a process, or of one of its threads, that come in another order
    /// on the other side. Threads run beside each other: between them there is no order.
    pub(super) fn order(&mut self, rows: &[Match]) {
        let mut last: FxHashMap<(u32, u32), usize> = FxHashMap::default();
        let told: FxHashSet<usize> = self.differences.iter().map(|d| d.row).collect();
        let mut pairs: Vec<(usize, usize, usize)> = Vec::new();
        for (place, row) in rows.iter().enumerate() {
            if let Match::Pair {
                a,
                b,
                how: How::Alike,
            } = row
            {
                pairs.push((*a, *b, place));
            }
        }
        pairs.sort_unstable();
        for (at_a, at_b, place) in pairs {
            let (Some(x), Some(y)) = (self.a.entries.get(at_a), self.b.entries.get(at_b)) else {
                continue;
            };
            // A row comes when its totals are final.
            if told.contains(&place) || x.kind == Kind::Process || x.kind.is_of_capture() {
                continue;
            }
            let thread = match x.kind {
                Kind::Thread | Kind::ThreadExit => x.sub,
                _ => 0,
            };
            let of = (self.lives.of_a(x.life), thread);
            let before = last.entry(of).or_insert(at_b);
            if at_b >= *before {
                *before = at_b;
                continue;
            }
            self.count(x.kind).differ += 1;
            self.differences.push(Difference {
                what: What::Differs,
                kind: x.kind,
                pid: pid(self.a, x),
                ts: known(x.ts),
                line_a: line(self.a, x),
                line_b: line(self.b, y),
                members: vec![disagreement("order", at_a, at_b)],
                lost: false,
                row: place,
            });
        }
    }

    /// When each process ended, by the side that was told first.
    fn ended(&self) -> FxHashMap<u32, u64> {
        let mut ended = FxHashMap::default();
        let mut take = |side: &Side, class: &dyn Fn(u32) -> u32| {
            for exit in side.entries.iter().filter(|e| e.kind == Kind::Exit) {
                let end = ended.entry(class(exit.life)).or_insert(exit.ts);
                *end = exit.ts.min(*end);
            }
        };
        take(self.a, &|life| self.lives.of_a(life));
        take(self.b, &|life| self.lives.of_b(life));
        ended
    }

    /// How each process ended, where a thread of it ended, too.
    fn codes(&self) -> FxHashMap<u32, [Value; 2]> {
        let entries = self.a.entries.iter();
        let ends = entries.clone().filter(|e| e.kind == Kind::ThreadExit);
        let with: FxHashSet<u32> = ends.map(|e| e.life).collect();
        let ends = entries.filter(|e| e.kind == Kind::Exit && with.contains(&e.life));
        ends.map(|e| (self.lives.of_a(e.life), code(&self.a.object(e))))
            .collect()
    }

    /// Processes with ends of threads that no record created.
    fn odd_threads(&self) -> FxHashSet<u32> {
        let mut odd = FxHashSet::default();
        for (side, of_a) in [(self.a, true), (self.b, false)] {
            let class = |life| {
                if of_a {
                    self.lives.of_a(life)
                } else {
                    self.lives.of_b(life)
                }
            };
            let of = |kind| {
                let entries = side.entries.iter().filter(move |e| e.kind == kind);
                entries.map(|e| (class(e.life), e.sub))
            };
            let created: FxHashSet<(u32, u32)> = of(Kind::Thread).collect();
            odd.extend(
                of(Kind::ThreadExit)
                    .filter(|t| !created.contains(t))
                    .map(|t| t.0),
            );
        }
        odd
    }

    pub(super) fn tree(&self) -> TreeReport {
        let own = |side: &Side, class: &dyn Fn(u32) -> u32| -> FxHashMap<u32, u32> {
            let lives = side.lives.iter().enumerate().filter(|(_, l)| l.own);
            lives
                .map(|(i, l)| (class(u32::try_from(i).unwrap_or(lives::NONE)), l.id.pid))
                .collect()
        };
        let of_a = own(self.a, &|life| self.lives.of_a(life));
        let of_b = own(self.b, &|life| self.lives.of_b(life));
        let only = |here: &FxHashMap<u32, u32>, there: &FxHashMap<u32, u32>| {
            let mut pids: Vec<u32> = here
                .iter()
                .filter(|(class, _)| !there.contains_key(class) && self.faulty.contains(class))
                .map(|(_, pid)| *pid)
                .collect();
            pids.sort_unstable();
            pids
        };
        let both = of_a.iter().filter(|(class, _)| of_b.contains_key(class));
        let mut other_parent: Vec<u32> = both
            .clone()
            .filter(|(class, _)| {
                let parent = |parents: &Parents| parents.get(class).copied();
                match (parent(&self.parents_a), parent(&self.parents_b)) {
                    (Some(x), Some(y)) => x != y,
                    _ => false,
                }
            })
            .map(|(_, pid)| *pid)
            .collect();
        other_parent.sort_unstable();
        let (only_a, only_b) = (only(&of_a, &of_b), only(&of_b, &of_a));
        TreeReport {
            equal: other_parent.is_empty() && only_a.is_empty() && only_b.is_empty(),
            processes: both.count() as u64,
            other_parent,
            only_a,
            only_b,
        }
    }

    fn count(&mut self, kind: Kind) -> &mut Counts {
        self.kinds.entry(kind).or_default()
    }
}

fn disagreement(member: &str, a: impl Into<Value>, b: impl Into<Value>) -> Disagreement {
    Disagreement {
        member: member.to_owned(),
        a: a.into(),
        b: b.into(),
    }
}

fn pid(side: &Side, entry: &Entry) -> Option<u32> {
    side.lives.get(entry.life as usize).map(|l| l.id.pid)
}

const fn known(ts: u64) -> Option<u64> {
    match ts {
        u64::MAX => None,
        ts => Some(ts),
    }
}

fn line(side: &Side, entry: &Entry) -> Option<u32> {
    (!side.saved_text && !side.in_memory).then_some(entry.line)
}
