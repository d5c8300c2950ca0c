//! `tracer hist --compare`: both engines over the same run.

use std::collections::HashMap;
use std::io::Write;

use anyhow::{Context as _, Result};

use super::ebpf::Ebpf;
use super::targets::Targets;
use crate::hist::plan::KeyForm;
use crate::hist::render::View;
use crate::hist::resolve::Names;
use crate::hist::{Plan, Table};

/// Innermost frames of a stack that the kernel may leave out and we do not.
const SKIP: usize = 6;

/// A table as text, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    head: Vec<String>,
    /// Rows of several lines for a stack.
    rows: Vec<String>,
    totals: Vec<String>,
}

/// Prints for each table whether both are equal, or where they differ. Returns
/// whether all are equal.
///
/// # Errors
/// A table cannot be read, or the report cannot be written.
pub fn report(
    targets: &Targets,
    ebpf: &Ebpf,
    kernel: &[Vec<u8>],
    names: &Names,
    out: &mut dyn Write,
) -> Result<bool> {
    let mut equal = true;
    for (table, text) in kernel.iter().enumerate() {
        let Some(plan) = targets.plan(table) else {
            continue;
        };
        let theirs = Parts::of(text);
        let stacks = plan.keys.iter().any(|k| k.form == KeyForm::Stack);
        let mut best: Option<Vec<String>> = None;
        for skip in 0..=if stacks { SKIP } else { 0 } {
            let mut ours = ebpf.table(targets, table, names, skip)?;
            ours.sort(plan);
            let differences = differences(plan, &ours, &theirs, names);
            if best.as_ref().is_none_or(|b| differences.len() < b.len()) {
                best = Some(differences);
            }
        }
        let best = best.unwrap_or_default();
        let rows = theirs.rows.len();
        write_result(out, plan, rows, &best).context("the report cannot be written")?;
        equal &= best.is_empty();
    }
    Ok(equal)
}

fn write_result(
    out: &mut dyn Write,
    plan: &Plan,
    rows: usize,
    differences: &[String],
) -> std::io::Result<()> {
    let info = plan.info();
    if differences.is_empty() {
        return writeln!(out, "equal: {} {info} ({rows} rows)", plan.event);
    }
    writeln!(out, "different: {} {info}", plan.event)?;
    for line in differences {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

impl Parts {
    fn of(text: &[u8]) -> Self {
        let mut parts = Self::default();
        let text = String::from_utf8_lossy(text);
        let mut row: Option<String> = None;
        for line in text.lines() {
            // Before Linux 6.3 it had this name only.
            let line = &line
                .replace("{ stacktrace:", "{ common_stacktrace:")
                .replace(", stacktrace:", ", common_stacktrace:")
                .replace("keys=stacktrace", "keys=common_stacktrace");
            if let Some(open) = &mut row {
                open.push('\n');
                open.push_str(line);
                // No frame has one in it.
                if line.contains('}') {
                    parts.rows.extend(row.take());
                }
            } else if line.starts_with('{') {
                match line.contains(" }") {
                    true => parts.rows.push(line.to_owned()),
                    false => row = Some(line.to_owned()),
                }
            } else if line.starts_with('#') {
                // One of them may have been stopped by now.
                let line = line.replace("[paused]", "[active]");
                parts.head.push(line);
            } else if !line.is_empty() {
                parts.totals.push(line.to_owned());
            }
        }
        parts.rows.extend(row);
        parts
    }
}

/// Lines that only one of them has, rows of equal rank in any order.
fn differences(plan: &Plan, ours: &Table, theirs: &Parts, names: &Names) -> Vec<String> {
    let view = View {
        plan,
        table: ours,
        names,
        paused: false,
    };
    let mine = Parts::of(&view.text());
    let mut found = Vec::new();
    pairs(&mine.head, &theirs.head, &mut found);
    let mut at = 0;
    while at < mine.rows.len().max(theirs.rows.len()) {
        let end = end_of_ties(plan, ours, at).max(at + 1);
        let part = |rows: &[String]| {
            let end = match end >= mine.rows.len() {
                true => rows.len(),
                false => end.min(rows.len()),
            };
            let mut part = rows.get(at.min(end)..end).unwrap_or_default().to_vec();
            part.sort();
            part
        };
        pairs(&part(&mine.rows), &part(&theirs.rows), &mut found);
        at = match end >= mine.rows.len() {
            true => usize::MAX,
            false => end,
        };
    }
    pairs(&mine.totals, &theirs.totals, &mut found);
    found
}

/// Where the rows end that the sorting leaves in no order.
fn end_of_ties(plan: &Plan, table: &Table, from: usize) -> usize {
    let mut end = from + 1;
    while let (Some(a), Some(b)) = (table.rows.get(end - 1), table.rows.get(end)) {
        let mut turned = Table {
            rows: vec![b.clone(), a.clone()],
            ..Table::default()
        };
        turned.sort_stable(plan);
        if turned.rows.first() != Some(b) {
            break;
        }
        end += 1;
    }
    end
}

/// `+`: the program's, `-`: the kernel's.
fn pairs(ours: &[String], theirs: &[String], found: &mut Vec<String>) {
    let mut only = |a: &[String], b: &[String], sign: char| {
        // There may be as many rows of one rank as there are rows.
        let mut rest: HashMap<&str, usize> = HashMap::new();
        for line in b {
            *rest.entry(line).or_default() += 1;
        }
        for line in a {
            match rest.get_mut(line.as_str()) {
                Some(count) if *count > 0 => *count -= 1,
                _ => found.push(format!("{sign} {line}")),
            }
        }
    };
    only(theirs, ours, '-');
    only(ours, theirs, '+');
}
