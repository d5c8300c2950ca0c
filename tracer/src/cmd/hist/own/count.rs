//! A trigger evaluated on records in memory.

use std::collections::HashMap;

use super::record::Record;
use crate::hist::filter;
use crate::hist::plan::{Key, Source};
use crate::hist::{KeyValue, Plan, Row, Table};

/// The rows of the triggers that share one table.
pub struct Counts {
    plans: Vec<Plan>,
    rows: Vec<Row>,
    places: HashMap<Vec<KeyValue>, usize>,
    dropped: u64,
    paused: bool,
    /// Members that were asked for and not known.
    pub absent: u64,
}

impl Counts {
    /// An empty table.
    pub fn new(plans: Vec<Plan>) -> Self {
        Self {
            plans,
            rows: Vec::new(),
            places: HashMap::new(),
            dropped: 0,
            paused: false,
            absent: 0,
        }
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
        if self.paused {
            return;
        }
        let plans = std::mem::take(&mut self.plans);
        for plan in plans.iter().filter(|plan| passes(plan, record)) {
            self.add_by(plan, record, ts);
        }
        self.plans = plans;
    }

    fn add_by(&mut self, plan: &Plan, record: &Record, ts: u64) {
        let keys: Vec<_> = plan.keys.iter().map(|k| key(k, record, ts)).collect();
        let room = plan.size as usize;
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
                    values: vec![0; plan.values.len()],
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
        for (value, to) in plan.values.iter().zip(&mut row.values) {
            if let Source::Int { offset, .. } = value.source
                && record.absent.contains(&offset)
            {
                self.absent += 1;
                continue;
            }
            let new = number(value.source, record, ts);
            *to = if first { new } else { value.join(*to, new) };
        }
    }
}

fn passes(plan: &Plan, record: &Record) -> bool {
    plan.filter.as_ref().is_none_or(|filter| {
        filter.holds(filter::Record {
            bytes: &record.bytes,
            cpu: 0,
            comm: &[],
        })
    })
}

fn key(key: &Key, record: &Record, ts: u64) -> KeyValue {
    if let Source::StaticText { offset, size } = key.source {
        return KeyValue::Text(text(record, offset, size).to_vec());
    }
    KeyValue::Number(key.transform.apply(number(key.source, record, ts)))
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
