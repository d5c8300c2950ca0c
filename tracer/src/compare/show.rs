//! The report for people: counts first, then each difference with the records around it.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::{Map, Value};

use super::Comparison;
use super::kind::Kind;
use super::pair::{How, Match};
use super::report::{Counts, Difference, Report, SideReport, Verdict, What};
use super::side::{Entry, Side};
use crate::sink::escape::{command, escape, escaped};

/// Differences shown unless all are asked for.
const SHOWN: usize = 20;
/// Records shown before and after each.
const AROUND: usize = 2;
/// Bytes of a command and of a value at most.
const COMMAND_MAX: usize = 100;
const VALUE_MAX: usize = 200;
/// Pids listed at most.
const PIDS_MAX: usize = 10;

/// Prints the report; with `all`, every difference.
///
/// # Errors
/// `out` cannot be written.
pub fn show(comparison: &Comparison, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let report = &comparison.report;
    writeln!(out, "A  {}", side(&report.a))?;
    writeln!(out, "B  {}", side(&report.b))?;
    if report.copies {
        writeln!(
            out,
            "   (copies of one recording: every member must be equal)"
        )?;
    }
    writeln!(out)?;
    counts(report, out)?;
    tree(report, out)?;
    if let Some(skew) = &report.skew_ns {
        writeln!(
            out,
            "time skew, B less A: median {} µs, p99 {} µs, max {} µs, over {} records",
            micros(skew.median),
            micros(skew.p99.try_into().unwrap_or(i64::MAX)),
            micros(skew.max.try_into().unwrap_or(i64::MAX)),
            skew.pairs
        )?;
    }
    if !report.members.is_empty() {
        let members: Vec<String> = report
            .members
            .iter()
            .map(|(name, count)| format!("{name} ×{count}"))
            .collect();
        writeln!(out, "disagreements: {}", members.join(", "))?;
    }
    for (why, count) in &report.explained {
        writeln!(out, "explained: {count} × {}", harmless(why))?;
    }
    for note in &report.notes {
        writeln!(out, "note: {}", harmless(note))?;
    }
    let shown = if all { usize::MAX } else { SHOWN };
    let count = report.differences.len();
    for (index, difference) in report.differences.iter().take(shown).enumerate() {
        writeln!(out, "\n{} of {count}: {}", index + 1, headline(difference))?;
        around(comparison, difference, out)?;
    }
    if count > shown {
        writeln!(
            out,
            "\n{} more differences; --all shows them",
            count - shown
        )?;
    }
    writeln!(out, "\n{}", verdict(report))
}

fn side(side: &SideReport) -> String {
    let mut text = format!(
        "{}  {}, {} records",
        harmless(&side.name),
        harmless(&side.backend),
        side.records
    );
    for (kind, count) in &side.lost {
        let kind = if kind == "any" {
            "of any kind"
        } else {
            kind.as_str()
        };
        let _ = write!(text, ", {count} LOST ({})", harmless(kind));
    }
    if side.cut {
        text.push_str(", cut: it has no end");
    }
    text
}

fn counts(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<12}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>11}{:>7}",
        "", "matched", "differ", "only A", "only B", "twice A", "twice B", "explained", "lost"
    )?;
    for (kind, c) in &report.kinds {
        let Counts {
            matched,
            differ,
            only_a,
            only_b,
            twice_a,
            twice_b,
            explained,
            lost,
        } = c;
        writeln!(
            out,
            "{:<12}{matched:>9}{differ:>9}{only_a:>9}{only_b:>9}{twice_a:>9}{twice_b:>9}{explained:>11}{lost:>7}",
            kind.name()
        )?;
    }
    Ok(())
}

fn tree(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let tree = &report.tree;
    if tree.equal {
        return writeln!(out, "tree: equal, {} processes", tree.processes);
    }
    writeln!(out, "tree: different, {} processes in both", tree.processes)?;
    for (what, pids) in [
        ("another parent", &tree.other_parent),
        ("only in A", &tree.only_a),
        ("only in B", &tree.only_b),
    ] {
        if !pids.is_empty() {
            let shown: Vec<String> = pids.iter().take(PIDS_MAX).map(u32::to_string).collect();
            let more = if pids.len() > PIDS_MAX { " …" } else { "" };
            writeln!(out, "  {what}: {} ({}{more})", pids.len(), shown.join(" "))?;
        }
    }
    Ok(())
}

fn headline(d: &Difference) -> String {
    let mut text = match d.what {
        What::OnlyA => "only in A",
        What::OnlyB => "only in B",
        What::TwiceInA => "twice in A",
        What::TwiceInB => "twice in B",
        What::Differs => "differs",
    }
    .to_owned();
    let _ = write!(text, ": {}", d.kind.name());
    if let Some(pid) = d.pid {
        let _ = write!(text, " of {pid}");
    }
    let lines: Vec<String> = [("A", d.line_a), ("B", d.line_b)]
        .into_iter()
        .filter_map(|(side, line)| line.map(|line| format!("{side} line {line}")))
        .collect();
    if !lines.is_empty() {
        let _ = write!(text, " ({})", lines.join(", "));
    }
    if d.lost {
        text.push_str(", within what the other side lost");
    }
    text
}

fn around(c: &Comparison, d: &Difference, out: &mut dyn Write) -> io::Result<()> {
    let from = d.row.saturating_sub(AROUND);
    for (place, row) in c
        .rows
        .iter()
        .enumerate()
        .skip(from)
        .take(d.row - from + AROUND + 1)
    {
        let of = |side: &Side, at: usize| {
            let entry = side.entries.get(at).copied();
            entry
                .map(|e| line(side, &e, c.a.span.0))
                .unwrap_or_default()
        };
        let here = place == d.row;
        match *row {
            Match::Pair { a, b, how } if here => {
                let (x, y) = (of(&c.a, a), of(&c.b, b));
                if x == y && how == How::Alike {
                    writeln!(out, "  ! {x}")?;
                } else {
                    writeln!(out, "  - {x}\n  + {y}")?;
                }
                for m in &d.members {
                    let (name, a, b) = (harmless(&m.member), value(&m.a), value(&m.b));
                    writeln!(out, "      {name}: A {a}, B {b}")?;
                }
            }
            Match::Pair { a, .. } => writeln!(out, "    {}", of(&c.a, a))?,
            Match::OnlyA { a, .. } => writeln!(out, "  - {}", of(&c.a, a))?,
            Match::OnlyB { b, .. } => writeln!(out, "  + {}", of(&c.b, b))?,
        }
    }
    Ok(())
}

/// A record in a line.
fn line(side: &Side, entry: &Entry, begin: u64) -> String {
    let object = side.object(entry);
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| object.get(key).and_then(Value::as_u64);
    let mut line = String::new();
    if entry.ts == u64::MAX {
        line.push_str("          -");
    } else {
        let ns = i128::from(entry.ts) - i128::from(begin);
        let (sign, ns) = if ns < 0 { ("-", -ns) } else { ("", ns) };
        let seconds = format!("{sign}{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000);
        let _ = write!(line, "{seconds:>11}");
    }
    let pid = number("pid").map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    let _ = write!(line, " {pid:>7} {:<8} ", entry.kind.name());
    escape(&mut line, text("comm").as_bytes());
    match entry.kind {
        Kind::Fork => member(&mut line, " → ", number("child_pid")),
        Kind::Thread => member(&mut line, " → thread ", number("child_tid")),
        Kind::Exec | Kind::ExecFailed | Kind::Process => {
            line.push_str("  ");
            program(&mut line, &object);
        }
        Kind::ThreadExit => member(&mut line, " thread ", number("tid")),
        Kind::Lost => member(&mut line, " ", number("count")),
        _ => {}
    }
    if matches!(entry.kind, Kind::Exit | Kind::Process) {
        member(&mut line, "  exit ", number("exit_code"));
        member(&mut line, "  signal ", number("signal"));
    }
    line
}

fn member(line: &mut String, before: &str, number: Option<u64>) {
    if let Some(number) = number {
        let _ = write!(line, "{before}{number}");
    }
}

fn program(line: &mut String, object: &Map<String, Value>) {
    match object.get("argv").and_then(Value::as_array) {
        Some(argv) => {
            let words = argv.iter().filter_map(Value::as_str).map(str::as_bytes);
            command(line, words, COMMAND_MAX, false);
        }
        None => {
            let filename = object.get("filename").and_then(Value::as_str);
            escape(line, filename.unwrap_or_default().as_bytes());
        }
    }
}

fn value(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > VALUE_MAX {
        let end = (0..=VALUE_MAX).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    harmless(&text)
}

fn verdict(report: &Report) -> String {
    let count = report.differences.iter().filter(|d| !d.lost).count();
    match report.verdict {
        Verdict::Equal => "equal".to_owned(),
        Verdict::EqualButForLosses => {
            let lost: u64 = report.kinds.values().map(|c| c.lost).sum();
            format!("equal but for {lost} lost records; a larger buffer (--ring-size) loses fewer")
        }
        Verdict::Different if count == 0 && report.tree.equal => {
            "different: not the same run".to_owned()
        }
        Verdict::Different if count == 0 => "different: another tree".to_owned(),
        Verdict::Different if count == 1 => "different: 1 difference".to_owned(),
        Verdict::Different => format!("different: {count} differences"),
    }
}

fn harmless(text: &str) -> String {
    escaped(text.as_bytes())
}

/// ns as µs with one decimal.
fn micros(ns: i64) -> String {
    let size = ns.unsigned_abs();
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}.{}", size / 1000, size % 1000 / 100)
}
