//! Five lines: how many, how long, what cost most, what failed, what was lost.

use std::fmt::Write;

use rustc_hash::FxHashMap;

use super::Losses;
use super::node::{Cpu, Node, Outcome};
use crate::model::{End, LossKind, LossPlace, Meta};
use crate::sink::describe::{outcome, remedy};
use crate::sink::style::{Paint, Style};
use crate::sink::units::Time;

/// Programs and failures that are named; the rest is counted.
const NAMED: usize = 5;

pub struct Facts<'a> {
    pub nodes: &'a [Node],
    pub lost: &'a Losses,
    pub meta: Option<&'a Meta>,
    pub end: &'a End,
    /// Levels of the deepest tree.
    pub depth: usize,
    /// Filters hide some processes.
    pub filtered: bool,
}

/// Appends the summary, with an empty line before it.
pub fn write(out: &mut String, style: Style, facts: &Facts<'_>) {
    let recorded = || facts.nodes.iter().filter(|n| n.recorded());
    out.push('\n');
    let lines = [
        counts(facts, recorded().count()),
        times(facts),
        programs(recorded(), facts.filtered),
    ];
    for line in lines {
        out.push_str(&line);
        out.push('\n');
    }
    let (paint, line) = failures(recorded());
    style.paint(out, paint, &line);
    out.push('\n');
    let (paint, line) = losses(facts);
    style.paint(out, paint, &line);
    out.push('\n');
}

fn counts(facts: &Facts<'_>, processes: usize) -> String {
    let shown = plural(processes as u64, "process", "processes");
    let depth = plural(facts.depth as u64, "level", "levels");
    let mut line = match facts.filtered {
        true => format!("{shown} shown, {depth} deep; the filters hide the others"),
        false => format!(
            "{shown}, {}, at most {} at a time, {depth} deep",
            plural(facts.end.execs, "exec", "execs"),
            most_at_a_time(facts.nodes),
        ),
    };
    let running = facts
        .nodes
        .iter()
        .filter(|n| n.outcome == Outcome::Running)
        .count();
    if running > 0 {
        // Writing to a String does not fail, here and below.
        let _ = write!(line, ", {running} still running");
    }
    line
}

fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Processes alive at once. Who ends as another begins does not meet it.
fn most_at_a_time(nodes: &[Node]) -> usize {
    let alive = || nodes.iter().filter(|n| n.recorded());
    let mut ends: Vec<u64> = alive().filter_map(|n| n.end).collect();
    ends.sort_unstable();
    let mut ends = ends.into_iter().peekable();
    let (mut now, mut most) = (0usize, 0);
    // Nodes are in order of start.
    for n in alive() {
        while ends.next_if(|end| *end <= n.id.start).is_some() {
            now = now.saturating_sub(1);
        }
        now += 1;
        most = most.max(now);
    }
    most
}

fn times(facts: &Facts<'_>) -> String {
    let of_root = facts.nodes.iter().find(|n| n.root).and_then(Node::wall_ns);
    let of_capture = || {
        facts
            .meta
            .map(|m| facts.end.ts.saturating_sub(m.boot_start_ns))
    };
    let wall = of_root.or_else(of_capture);
    let mut cpu = Cpu::default();
    let mut all = 0u64;
    for n in facts.nodes.iter().filter(|n| n.recorded()) {
        cpu.add(n);
        all += 1;
    }
    let mut line = match wall {
        Some(ns) => format!("wall {}, cpu {cpu}", Time(ns)),
        None => format!("wall -, cpu {cpu}"),
    };
    if let Some(wall) = wall.filter(|w| *w > 0 && cpu.known > 0 && !facts.filtered) {
        let bound = if cpu.partial > 0 { "≥" } else { "" };
        let _ = write!(
            line,
            ", {bound}{:.2} CPUs busy on average",
            cpu.ns as f64 / wall as f64
        );
    }
    if cpu.partial > 0 {
        let _ = write!(line, " (totals of {} of {all} are not final)", cpu.partial);
    }
    line
}

fn programs<'a>(nodes: impl Iterator<Item = &'a Node>, filtered: bool) -> String {
    let mut by_name: FxHashMap<&str, (Cpu, u64)> = FxHashMap::default();
    for n in nodes {
        let (cpu, count) = by_name.entry(&n.name).or_default();
        cpu.add(n);
        *count += 1;
    }
    let mut ranked: Vec<_> = by_name
        .into_iter()
        .filter(|(_, (cpu, _))| cpu.known > 0)
        .collect();
    if ranked.is_empty() && filtered {
        return "most cpu: -".into();
    }
    if ranked.is_empty() {
        return "most cpu: not known to this source".into();
    }
    ranked.sort_by(|(a, x), (b, y)| y.0.ns.cmp(&x.0.ns).then(a.cmp(b)));
    let named = ranked
        .iter()
        .take(NAMED)
        .map(|(name, (cpu, count))| match count {
            1 => format!("{name} {cpu}"),
            _ => format!("{name} ×{count} {cpu}"),
        });
    format!("most cpu: {}", named.collect::<Vec<_>>().join(", "))
}

fn failures<'a>(nodes: impl Iterator<Item = &'a Node>) -> (Paint, String) {
    let mut kinds: FxHashMap<(&str, String), u64> = FxHashMap::default();
    let (mut failed, mut unknown, mut known) = (0u64, 0u64, 0u64);
    for n in nodes {
        match n.outcome {
            Outcome::Ended(Some(status)) => {
                known += 1;
                if !status.is_success() {
                    failed += 1;
                    *kinds.entry((&n.name, outcome(status))).or_default() += 1;
                }
            }
            Outcome::Ended(None) => unknown += 1,
            Outcome::Running | Outcome::Unrecorded => {}
        }
    }
    let mut line = if failed > 0 {
        let mut ranked: Vec<_> = kinds.into_iter().collect();
        ranked.sort_by(|(a, x), (b, y)| y.cmp(x).then(a.cmp(b)));
        let named = ranked
            .iter()
            .take(NAMED)
            .map(|((name, how), count)| match count {
                1 => format!("{name} {how}"),
                _ => format!("{name} {how} ×{count}"),
            });
        let mut line = format!("{failed} failed: {}", named.collect::<Vec<_>>().join(", "));
        let rest: u64 = ranked.iter().skip(NAMED).map(|(_, count)| count).sum();
        if rest > 0 {
            let _ = write!(line, ", {rest} others");
        }
        line
    } else if known > 0 || unknown == 0 {
        "0 failed".to_owned()
    } else {
        return (
            Paint::Plain,
            "failures: exit status is not known to this source".into(),
        );
    };
    if unknown > 0 {
        let _ = write!(line, " ({unknown} of unknown status)");
    }
    (if failed > 0 { Paint::Bad } else { Paint::Plain }, line)
}

fn losses(facts: &Facts<'_>) -> (Paint, String) {
    let counted = facts
        .lost
        .values()
        .fold(0u64, |sum, n| sum.saturating_add(*n));
    let total = counted.max(facts.end.lost);
    if total == 0 {
        return (Paint::Plain, "0 events lost".into());
    }
    let mut kinds: Vec<((LossPlace, LossKind), u64)> =
        facts.lost.iter().map(|(k, n)| (*k, *n)).collect();
    kinds.sort_by(|(a, x), (b, y)| {
        y.cmp(x)
            .then_with(|| (a.0.name(), a.1.name()).cmp(&(b.0.name(), b.1.name())))
    });
    let parts = kinds
        .iter()
        .map(|((place, kind), n)| format!("{n} {} ({})", kind.name(), place.name()));
    let mut parts: Vec<String> = parts.collect();
    if total > counted {
        parts.push(format!("{} of unknown kind", total - counted));
    }
    let mut remedies: Vec<&str> = kinds.iter().map(|((place, _), _)| remedy(*place)).collect();
    remedies.dedup();
    if remedies.is_empty() {
        remedies.push(remedy(LossPlace::Ring));
    }
    let lost = plural(total, "event", "events");
    let harm = harm(kinds.iter().map(|((_, kind), _)| *kind), total > counted);
    (
        Paint::Bad,
        format!(
            "{lost} LOST, {harm}: {}; {}",
            parts.join(", "),
            remedies.join("; ")
        ),
    )
}

/// What is wrong for want of the lost events.
fn harm(mut kinds: impl Iterator<Item = LossKind> + Clone, unknown: bool) -> &'static str {
    if unknown || kinds.clone().any(LossKind::hides_processes) {
        "the tree is incomplete"
    } else if kinds.any(|kind| kind == LossKind::Final) {
        "totals are incomplete"
    } else {
        "the tree is complete"
    }
}
