//! What was measured, as a table and as JSON.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};

use super::{
    count::Counts,
    pairs::{Pair, Skipped},
    run::Measured,
    stats::{Spread, geometric_mean, ratio},
    tool::{self, Tool},
    truth::Truth,
};

/// A workload under a tool.
pub struct Row {
    pub workload: &'static str,
    pub tool: Tool,
    pub pairs: Vec<Pair>,
}

/// The medians of a row.
struct Medians {
    wall: Spread,
    cpu: f64,
    own: f64,
    tool: f64,
    rss_kib: f64,
    setup: f64,
    teardown: f64,
    base: f64,
}

impl Row {
    fn spread(&self, of: impl Fn(&Pair) -> f64) -> Option<Spread> {
        Spread::of(self.pairs.iter().map(of))
    }

    fn medians(&self) -> Option<Medians> {
        let median = |of: &dyn Fn(&Pair) -> f64| Some(self.spread(of)?.median);
        Some(Medians {
            wall: self.spread(|pair| ratio(pair.traced.wall, pair.base.wall))?,
            cpu: median(&|pair| ratio(pair.traced.busy, pair.base.busy))?,
            own: median(&|pair| ratio(pair.traced.workload_cpu, pair.base.workload_cpu))?,
            tool: median(&|pair| ratio(pair.traced.tool_cpu, pair.traced.workload_cpu))?,
            rss_kib: self.spread(|pair| pair.traced.rss_kib as f64)?.max,
            setup: median(&|pair| pair.traced.setup.as_secs_f64())?,
            teardown: median(&|pair| pair.traced.teardown.as_secs_f64())?,
            base: median(&|pair| pair.base.wall.as_secs_f64())?,
        })
    }
}

const HEAD: &str = "\
| workload | tool | wall × (min–max) | CPU × | own × | tool CPU % | RSS MiB | setup × strace | teardown s | fork | exec | exit | lost |
|---|---|---|---|---|---|---|---|---|---|---|---|---|";

pub fn table(rows: &[Row], skipped: &Skipped) -> String {
    let mut out = String::from(HEAD);
    let strace = strace_setup(rows);
    let mut by_tool: BTreeMap<&str, Vec<Medians>> = BTreeMap::new();
    for row in rows {
        let Some(m) = row.medians() else { continue };
        let none = row.tool.is_none();
        let or_dash = |text: String| if none { "–".to_owned() } else { text };
        // A tool that is started beside waits until it is idle: no time to compare.
        let setup = match (strace, row.tool.how) {
            (Some(strace), tool::How::Launch(_)) => format!("{:.1}", m.setup / strace),
            _ => "–".to_owned(),
        };
        let cell = |of: Event| event_cell(row, of);
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "\n| {} ({:.2} s) | {} | {:.3} ({:.3}–{:.3}) | {:.3} | {:.3} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.workload,
            m.base,
            row.tool.name,
            m.wall.median,
            m.wall.min,
            m.wall.max,
            m.cpu,
            m.own,
            or_dash(format!("{:.1}", m.tool * 100.0)),
            or_dash(format!("{:.1}", m.rss_kib / 1024.0)),
            or_dash(setup),
            or_dash(format!("{:.3}", m.teardown)),
            cell(Event::Fork),
            cell(Event::Exec),
            cell(Event::Exit),
            lost_cell(row),
        );
        by_tool.entry(row.tool.name).or_default().push(m);
    }
    let workloads = by_tool.values().map(Vec::len).max().unwrap_or(0);
    for (name, medians) in by_tool {
        // A mean over fewer workloads cannot be compared.
        if workloads < 2 || medians.len() < workloads {
            continue;
        }
        let mean =
            |of: fn(&Medians) -> f64| geometric_mean(&medians.iter().map(of).collect::<Vec<_>>());
        let _ = write!(
            out,
            "\n| all (geometric mean) | {name} | {:.3} | {:.3} | {:.3} | | | | | | | | |",
            mean(|m| m.wall.median),
            mean(|m| m.cpu),
            mean(|m| m.own),
        );
    }
    for (name, why) in skipped {
        let _ = write!(out, "\n\n- {name} was not measured: {why}");
    }
    out
}

/// Median of the time that strace takes to start its command, s.
fn strace_setup(rows: &[Row]) -> Option<f64> {
    let strace = rows.iter().filter(|row| row.tool.name == tool::STRACE);
    let pairs = strace.flat_map(|row| &row.pairs);
    Some(Spread::of(pairs.map(|pair| pair.traced.setup.as_secs_f64()))?.median)
}

#[derive(Clone, Copy)]
enum Event {
    Fork,
    Exec,
    Exit,
}

/// What was reported, and what the truth is.
fn reported(tool: &Tool, truth: &Truth, counts: &Counts, of: Event) -> Option<(u64, u64)> {
    let threads = if tool.threads { truth.threads } else { 0 };
    Some(match of {
        Event::Fork => (counts.fork?, truth.forks + threads),
        Event::Exec => (counts.exec?, truth.execs),
        Event::Exit => (counts.exit?, truth.exits + threads),
    })
}

/// `all N`, or the worst deviation.
fn event_cell(row: &Row, of: Event) -> String {
    let runs = row
        .pairs
        .iter()
        .filter_map(|pair| reported(&row.tool, &pair.traced.truth, &pair.traced.counts, of));
    match runs.max_by_key(|(got, want)| got.abs_diff(*want)) {
        None => "–".to_owned(),
        Some((got, want)) if got == want => format!("all {want}"),
        Some((got, want)) => {
            let sign = if got < want { '-' } else { '+' };
            format!("**{sign}{}** of {want}", got.abs_diff(want))
        }
    }
}

/// The most that the tool itself said it lost.
fn lost_cell(row: &Row) -> String {
    let lost = row.pairs.iter().filter_map(|pair| pair.traced.counts.lost);
    lost.max().map_or("–".to_owned(), |lost| lost.to_string())
}

pub fn row_json(row: &Row) -> Value {
    let pair = |pair: &Pair| {
        let counts = pair.traced.counts;
        let event = |of| {
            reported(&row.tool, &pair.traced.truth, &counts, of)
                .map(|(reported, truth)| json!({"reported": reported, "truth": truth}))
        };
        json!({
            "untraced": measured(&pair.base),
            "traced": measured(&pair.traced),
            "fork": event(Event::Fork),
            "exec": event(Event::Exec),
            "exit": event(Event::Exit),
            "lost": counts.lost,
        })
    };
    json!({
        "workload": row.workload,
        "tool": row.tool.name,
        "pairs": row.pairs.iter().map(pair).collect::<Value>(),
    })
}

pub fn measured(run: &Measured) -> Value {
    json!({
        "wall_s": run.wall.as_secs_f64(),
        "machine_cpu_during_s": run.busy_during.as_secs_f64(),
        "machine_cpu_s": run.busy.as_secs_f64(),
        "workload_cpu_s": run.workload_cpu.as_secs_f64(),
        "setup_s": run.setup.as_secs_f64(),
        "teardown_s": run.teardown.as_secs_f64(),
        "tool_cpu_before_s": run.tool_cpu_before.as_secs_f64(),
        "tool_cpu_during_s": run.tool_cpu_during.as_secs_f64(),
        "tool_cpu_s": run.tool_cpu.as_secs_f64(),
        "rss_kib": run.rss_kib,
    })
}
