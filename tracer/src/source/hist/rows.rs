//! From the kernel side's rows to those of a table.

use std::collections::HashMap;

use tracer_common::hist::{Row as OnCpu, STACK_DEPTH, TEXT};

use super::compile::{constant, counted};
use super::load::RawRow;
use crate::hist::plan::{Aggregate, Key, KeyForm, STACK_DEPTH as STACK_SHOWN, Source, Value};
use crate::hist::{KeyValue, Plan, Row};

/// Reads a table's rows by their plan, with the sums of all CPUs.
pub fn rows(plan: &Plan, raw: &[RawRow]) -> Vec<Row> {
    raw.iter().map(|raw| row(plan, raw)).collect()
}

/// Takes the frames out of all stacks that `inner` names, as long as they come
/// first, and `skip` more, and cuts what is left to the kernel's depth. Rows that
/// have become equal are put together.
pub fn trim_stacks(
    plan: &Plan,
    rows: Vec<Row>,
    inner: impl Fn(u64) -> bool,
    skip: usize,
) -> Vec<Row> {
    if !plan.keys.iter().any(|k| k.source == Source::Stack) {
        return rows;
    }
    let mut found: Vec<Row> = Vec::new();
    let mut places: HashMap<Vec<KeyValue>, usize> = HashMap::new();
    for mut row in rows {
        for key in &mut row.keys {
            if let KeyValue::Stack(frames) = key {
                let outer = frames.iter().copied().skip_while(|a| inner(*a)).skip(skip);
                *frames = outer.take(STACK_SHOWN as usize).collect();
            }
        }
        match places.get(&row.keys).and_then(|at| found.get_mut(*at)) {
            Some(first) => merge(plan, first, &row),
            None => {
                places.insert(row.keys.clone(), found.len());
                found.push(row);
            }
        }
    }
    found
}

fn merge(plan: &Plan, into: &mut Row, row: &Row) {
    into.hitcount += row.hitcount;
    let values = into.values.iter_mut().zip(&row.values);
    for (value, (into, more)) in plan.values.iter().zip(values) {
        *into = value.join(*into, *more);
    }
}

fn row(plan: &Plan, raw: &RawRow) -> Row {
    let hitcount = raw.rows.iter().map(|r| r.hits).sum();
    let mut values: Vec<u64> = plan
        .values
        .iter()
        .map(|v| of_constant(v, hitcount))
        .collect();
    for (slot, (at, value)) in counted(plan).enumerate() {
        let parts = raw.rows.iter().filter_map(|r| r.vals.get(slot).copied());
        if let Some(to) = values.get_mut(at) {
            *to = parts.reduce(|a, b| value.join(a, b)).unwrap_or(0);
        }
    }
    let mut rest = raw.key.as_slice();
    Row {
        keys: plan
            .keys
            .iter()
            .map(|key| part(key, &mut rest, &raw.rows))
            .collect(),
        hitcount,
        values,
        ..Row::default()
    }
}

fn of_constant(value: &Value, hits: u64) -> u64 {
    let constant = constant(value.source).unwrap_or(0);
    match value.aggregate {
        Aggregate::Sum | Aggregate::Avg => constant.wrapping_mul(hits),
        Aggregate::Min | Aggregate::Max => constant,
    }
}

/// The next part of a key, as the kernel side lays them out.
fn part(key: &Key, rest: &mut &[u64], rows: &[OnCpu]) -> KeyValue {
    let mut take = |words: usize| {
        let (part, behind) = rest.split_at(words.min(rest.len()));
        *rest = behind;
        part
    };
    match key.source {
        Source::StaticText { size, .. } => KeyValue::Text(text(take(size.div_ceil(8) as usize))),
        Source::DynText { .. } => KeyValue::Text(text(take(TEXT / 8))),
        Source::Stack => {
            let frames = take(STACK_DEPTH).iter().copied();
            KeyValue::Stack(frames.take_while(|a| *a != 0).collect())
        }
        _ => {
            let number = take(1).first().copied().unwrap_or(0);
            match key.form {
                KeyForm::ExecName => KeyValue::Task {
                    number,
                    comm: comm(rows),
                },
                _ => KeyValue::Number(number),
            }
        }
    }
}

fn text(words: &[u64]) -> Vec<u8> {
    let bytes = words.iter().flat_map(|w| w.to_ne_bytes());
    bytes.take_while(|b| *b != 0).collect()
}

/// The name is on the CPU that began the row.
fn comm(rows: &[OnCpu]) -> Vec<u8> {
    let named = rows.iter().find(|r| r.comm.first() != Some(&0));
    let comm = named.map(|r| r.comm.as_slice()).unwrap_or_default();
    comm.split(|b| *b == 0).next().unwrap_or_default().to_vec()
}
