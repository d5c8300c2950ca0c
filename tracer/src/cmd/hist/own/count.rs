//! A trigger evaluated on records in memory.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use tracer_common::hist::Pattern;

use super::record::Record;
use crate::hist::filter::{Next, Number, Op, Test, Text};
use crate::hist::plan::{Aggregate, Key, Source, Transform, Value, log2};
use crate::hist::{KeyValue, Plan, Row, Table};
use crate::source::hist::pattern;

/// The rows of one trigger.
pub struct Counts {
    plan: Plan,
    /// For each step of the filter that compares a text.
    patterns: Vec<Option<Box<Pattern>>>,
    rows: Vec<Row>,
    places: HashMap<Vec<KeyValue>, usize>,
    dropped: u64,
    paused: bool,
    /// Members that were asked for and not known.
    pub absent: u64,
}

impl Counts {
    /// An empty table.
    ///
    /// # Errors
    /// A pattern of the filter that is too long.
    pub fn new(plan: &Plan) -> Result<Self> {
        let steps = plan.filter.as_ref().map(|f| f.steps()).unwrap_or_default();
        let patterns = steps.iter().map(|step| match step.test {
            Test::Text { from, pattern, .. } => {
                let array = match from {
                    Text::Static { size, .. } => Some(*size as usize),
                    _ => None,
                };
                let compiled = pattern::compile(pattern, array);
                let compiled =
                    compiled.context("a text of the filter is longer than 63 characters")?;
                Ok(Some(Box::new(compiled)))
            }
            _ => Ok(None),
        });
        Ok(Self {
            patterns: patterns.collect::<Result<_>>()?,
            plan: plan.clone(),
            rows: Vec::new(),
            places: HashMap::new(),
            dropped: 0,
            paused: false,
            absent: 0,
        })
    }

    pub fn act(&mut self, paused: Option<bool>, clear: bool) {
        self.paused = paused.unwrap_or(self.paused);
        if clear {
            self.rows.clear();
            self.places.clear();
            self.dropped = 0;
        }
    }

    pub fn table(&self) -> Table {
        Table {
            rows: self.rows.clone(),
            hits: self.rows.iter().map(|r| r.hitcount).sum(),
            dropped: self.dropped,
            missed: Some(0),
        }
    }

    /// Counts a record of that time, boot ns.
    pub fn add(&mut self, record: &Record, ts: u64) {
        if self.paused || !self.passes(record) {
            return;
        }
        let keys: Vec<_> = self.plan.keys.iter().map(|k| key(k, record, ts)).collect();
        let room = self.plan.size as usize;
        let at = match self.places.get(&keys) {
            Some(at) => *at,
            None if self.rows.len() >= room => {
                self.dropped += 1;
                return;
            }
            None => {
                self.rows.push(Row {
                    keys: keys.clone(),
                    hitcount: 0,
                    values: vec![0; self.plan.values.len()],
                });
                self.places.insert(keys, self.rows.len() - 1);
                self.rows.len() - 1
            }
        };
        let Some(row) = self.rows.get_mut(at) else {
            return;
        };
        let first = row.hitcount == 0;
        row.hitcount += 1;
        for (value, to) in self.plan.values.iter().zip(&mut row.values) {
            if let Source::Int { offset, .. } = value.source
                && record.absent.contains(&offset)
            {
                self.absent += 1;
                continue;
            }
            *to = fold(value, *to, number(value.source, record, ts), first);
        }
    }

    fn passes(&self, record: &Record) -> bool {
        let Some(filter) = &self.plan.filter else {
            return true;
        };
        let steps = filter.steps();
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            let pattern = self.patterns.get(at).and_then(Option::as_deref);
            let next = match holds(step.test, pattern, record) {
                true => step.on_true,
                false => step.on_false,
            };
            match next {
                Next::Accept => return true,
                Next::Reject => return false,
                Next::Step(next) => at = next,
            }
        }
        false
    }
}

fn fold(value: &Value, old: u64, new: u64, first: bool) -> u64 {
    let signed = value.shows_sign();
    match value.aggregate {
        Aggregate::Sum | Aggregate::Avg => old.wrapping_add(new),
        _ if first => new,
        Aggregate::Min if signed => old.cast_signed().min(new.cast_signed()).cast_unsigned(),
        Aggregate::Max if signed => old.cast_signed().max(new.cast_signed()).cast_unsigned(),
        Aggregate::Min => old.min(new),
        Aggregate::Max => old.max(new),
    }
}

fn key(key: &Key, record: &Record, ts: u64) -> KeyValue {
    if let Source::StaticText { offset, size } = key.source {
        return KeyValue::Text(text(record, offset, size).to_vec());
    }
    let value = number(key.source, record, ts);
    KeyValue::Number(match key.transform {
        Transform::None => value,
        Transform::Log2 => log2(value),
        Transform::Buckets(width) => value / width.max(1) * width,
    })
}

fn number(source: Source, record: &Record, ts: u64) -> u64 {
    match source {
        Source::Int { offset, size, .. } => integer(record, offset, size),
        Source::Timestamp { usecs: true } => ts.saturating_add(500) / 1000,
        Source::Timestamp { usecs: false } => ts,
        Source::One => 1,
        Source::Constant(number) => number,
        _ => 0,
    }
}

/// Members of these records have eight bytes.
fn integer(record: &Record, offset: u32, size: u32) -> u64 {
    let bytes = bytes(record, offset, size);
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

fn bytes(record: &Record, offset: u32, size: u32) -> &[u8] {
    let at = offset as usize;
    record.bytes.get(at..at + size as usize).unwrap_or_default()
}

fn text(record: &Record, offset: u32, size: u32) -> &[u8] {
    let bytes = bytes(record, offset, size);
    bytes.split(|b| *b == 0).next().unwrap_or_default()
}

fn holds(test: &Test, automaton: Option<&Pattern>, record: &Record) -> bool {
    match test {
        Test::Never => false,
        Test::Number { from, op, value } => match *from {
            Number::Field {
                offset,
                size,
                signed,
            } => compare(integer(record, offset, size), *value, *op, signed),
            Number::Cpu => false,
        },
        Test::Text { from, negate, .. } => {
            let Text::Static { offset, size } = *from else {
                return false;
            };
            let text = text(record, offset, size);
            automaton.is_some_and(|a| pattern::matches(a, text) != *negate)
        }
    }
}

fn compare(left: u64, right: u64, op: Op, signed: bool) -> bool {
    let order = match signed {
        true => left.cast_signed().cmp(&right.cast_signed()),
        false => left.cmp(&right),
    };
    match op {
        Op::Eq => order.is_eq(),
        Op::Ne => order.is_ne(),
        Op::Lt => order.is_lt(),
        Op::Le => order.is_le(),
        Op::Gt => order.is_gt(),
        Op::Ge => order.is_ge(),
        Op::And => left & right != 0,
    }
}
