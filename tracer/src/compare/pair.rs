//! Which record of one side is which of the other.
//!
//! Records of one kind and process are aligned by their times. What is left is
//! looked at again: a record whose time differs much but which fits otherwise, and
//! one whose identity differs but whose time fits, were altered; one that equals a
//! matched record of its own side is there twice.

use super::align::align;
use super::kind::Kind;
use super::last_thread::LastThreads;
use super::lives::{Lives, NONE};
use super::side::{Entry, Side};

/// How a record was matched; the numbers are positions in [`Side::entries`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    Pair { a: usize, b: usize, how: How },
    OnlyA { a: usize, twice: bool },
    OnlyB { b: usize, twice: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Alike,
    /// All but the time.
    OtherTime,
    /// Nothing but the time, and what else [`super::fields`] finds equal.
    OtherIdentity,
}

/// Two records of one moment in recordings of different sources, ns.
const NEAR_NS: u64 = 50_000;
/// So many records of nearly the same time are looked at.
const CANDIDATES: usize = 16;

/// The same on both sides for records that can be the same one.
type Group = (Kind, u32, u32);

struct Keyed {
    group: Group,
    ts: u64,
    at: usize,
}

/// Matches all records. `copies`: lines of the capture itself count, too.
pub fn pair(
    a: &Side,
    b: &Side,
    lives: &Lives,
    last_threads: &LastThreads,
    tolerance: u64,
    copies: bool,
) -> Vec<Match> {
    let keyed_a = keyed(a, copies, |life| lives.of_a(life));
    let keyed_b = keyed(b, copies, |life| lives.of_b(life));
    let mut out = Vec::with_capacity(keyed_a.len().max(keyed_b.len()));
    let (mut rest_a, mut rest_b) = (&*keyed_a, &*keyed_b);
    loop {
        let group = match (rest_a.first(), rest_b.first()) {
            (Some(x), Some(y)) => x.group.min(y.group),
            (Some(one), None) | (None, Some(one)) => one.group,
            (None, None) => break,
        };
        let of_a = take(&mut rest_a, group);
        let of_b = take(&mut rest_b, group);
        within(of_a, of_b, tolerance, &mut out);
    }
    // That these are alone is known to be right.
    let open = |side: &Side, e: &Entry, class| {
        let life = side.lives.get(e.life as usize);
        let leader = life.is_some_and(|l| l.id.pid == e.sub);
        e.kind != Kind::ThreadExit || last_threads.why_alone(class, e.sub, leader).is_none()
    };
    let open_a = |e: &Entry| open(a, e, lives.of_a(e.life));
    let open_b = |e: &Entry| open(b, e, lives.of_b(e.life));
    altered(a, b, &open_a, &open_b, copies, &mut out);
    out
}

fn keyed(side: &Side, copies: bool, class: impl Fn(u32) -> u32) -> Vec<Keyed> {
    let mut keyed: Vec<Keyed> = side
        .entries
        .iter()
        .enumerate()
        .filter(|(_, e)| copies || !e.kind.is_of_capture())
        .map(|(at, e)| Keyed {
            group: (
                e.kind,
                if e.life == NONE { NONE } else { class(e.life) },
                e.sub,
            ),
            ts: e.ts,
            at,
        })
        .collect();
    keyed.sort_unstable_by_key(|k| (k.group, k.at));
    keyed
}

fn take<'a>(from: &mut &'a [Keyed], group: Group) -> &'a [Keyed] {
    let count = from.iter().take_while(|k| k.group == group).count();
    let (taken, rest) = from.split_at(count);
    *from = rest;
    taken
}

/// Matches the records of one group.
fn within(a: &[Keyed], b: &[Keyed], tolerance: u64, out: &mut Vec<Match>) {
    // By far the most common.
    if let ([x], [y]) = (a, b) {
        let near = x.ts.abs_diff(y.ts) <= tolerance;
        out.push(Match::Pair {
            a: x.at,
            b: y.at,
            how: if near { How::Alike } else { How::OtherTime },
        });
        return;
    }
    let times = |keyed: &[Keyed]| keyed.iter().map(|k| k.ts).collect::<Vec<_>>();
    let (times_a, times_b) = (times(a), times(b));
    let aligned = align(&times_a, &times_b, tolerance);
    let mut matched_a = Vec::new();
    let mut matched_b = Vec::new();
    for (i, j) in aligned.pairs {
        if let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
            matched_a.push(x.ts);
            matched_b.push(y.ts);
            out.push(Match::Pair {
                a: x.at,
                b: y.at,
                how: How::Alike,
            });
        }
    }
    let split = |keyed: &[Keyed], left: Vec<usize>, matched: &[u64]| {
        let (twice, once): (Vec<_>, Vec<_>) = left
            .into_iter()
            .filter_map(|i| keyed.get(i).map(|k| (k.at, k.ts)))
            .partition(|(_, ts)| matched.binary_search(ts).is_ok());
        let at = |v: Vec<(usize, u64)>| v.into_iter().map(|(at, _)| at).collect::<Vec<_>>();
        (at(twice), at(once))
    };
    let (twice_a, once_a) = split(a, aligned.only_a, &matched_a);
    let (twice_b, once_b) = split(b, aligned.only_b, &matched_b);
    let both = once_a.len().min(once_b.len());
    out.extend(once_a.iter().zip(&once_b).map(|(a, b)| Match::Pair {
        a: *a,
        b: *b,
        how: How::OtherTime,
    }));
    let only_a = |a: &usize, twice| Match::OnlyA { a: *a, twice };
    let only_b = |b: &usize, twice| Match::OnlyB { b: *b, twice };
    out.extend(once_a.iter().skip(both).map(|a| only_a(a, false)));
    out.extend(once_b.iter().skip(both).map(|b| only_b(b, false)));
    out.extend(twice_a.iter().map(|a| only_a(a, true)));
    out.extend(twice_b.iter().map(|b| only_b(b, true)));
}

/// Pairs what is left alone on both sides but has the same time. Between recordings
/// that lost nothing, nearly the same time is enough.
fn altered(
    a: &Side,
    b: &Side,
    open_a: &impl Fn(&Entry) -> bool,
    open_b: &impl Fn(&Entry) -> bool,
    copies: bool,
    out: &mut Vec<Match>,
) {
    let near = if copies || !a.lost.is_empty() || !b.lost.is_empty() {
        0
    } else {
        NEAR_NS
    };
    let mut of_b: Vec<(u64, usize, bool)> = Vec::new();
    for (place, found) in out.iter().enumerate() {
        if let Match::OnlyB {
            b: at,
            twice: false,
        } = found
            && let Some(e) = b.entries.get(*at).filter(|e| e.ts != u64::MAX && open_b(e))
        {
            of_b.push((e.ts, place, false));
        }
    }
    of_b.sort_unstable();
    let mut gone = Vec::new();
    for place in 0..out.len() {
        let Some(Match::OnlyA {
            a: at_a,
            twice: false,
        }) = out.get(place).copied()
        else {
            continue;
        };
        let known = |e: &&Entry| e.ts != u64::MAX && open_a(e);
        let Some(one) = a.entries.get(at_a).filter(known) else {
            continue;
        };
        let from = of_b.partition_point(|(ts, ..)| ts.saturating_add(near) < one.ts);
        let candidates = of_b.iter_mut().skip(from).take(CANDIDATES);
        let mut candidates = candidates.take_while(|(ts, ..)| *ts <= one.ts.saturating_add(near));
        let found = candidates.find_map(|candidate| {
            let (_, taken, used) = candidate;
            match out.get(*taken) {
                Some(Match::OnlyB { b: at, .. }) if !*used => {
                    let other = b.entries.get(*at)?;
                    could_be(a, one, b, other).then(|| {
                        *used = true;
                        (*taken, *at)
                    })
                }
                _ => None,
            }
        });
        if let Some((taken, at_b)) = found
            && let Some(slot) = out.get_mut(place)
        {
            *slot = Match::Pair {
                a: at_a,
                b: at_b,
                how: How::OtherIdentity,
            };
            gone.push(taken);
        }
    }
    gone.sort_unstable();
    let mut place = 0;
    out.retain(|_| {
        let keep = gone.binary_search(&place).is_err();
        place += 1;
        keep
    });
}

fn could_be(a: &Side, one: &Entry, b: &Side, other: &Entry) -> bool {
    let pid = |side: &Side, e: &Entry| side.lives.get(e.life as usize).map(|l| l.id.pid);
    let same_pid = pid(a, one) == pid(b, other);
    match (one.kind == other.kind, one.ts == other.ts) {
        (true, true) => true,
        (true, false) => same_pid || one.tid == other.tid,
        (false, true) => same_pid,
        (false, false) => false,
    }
}
