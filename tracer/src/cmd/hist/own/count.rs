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
    /// Since when it is paused, or is not, boot ns. Records come some time after what they
    /// tell of, so each is judged by its own time.
    changes: Vec<(u64, bool)>,
    /// What was before this does not count, boot ns.
    cleared: u64,
    /// Numbers that were asked for and not known.
    pub absent: u64,
}

impl Counts {
    /// An empty table.
    pub fn new(plans: Vec<Plan>, paused: bool) -> Self {
        Self {
            plans,
            rows: Vec::new(),
            places: HashMap::new(),
            dropped: 0,
            changes: vec![(0, paused)],
            cleared: 0,
            absent: 0,
        }
    }

    /// From `now` on, boot ns, nothing counts, or what comes does again.
    pub fn pause(&mut self, paused: bool, now: u64) {
        self.changes.push((now, paused));
    }

    /// Forgets all that was before `now`, boot ns.
    pub fn clear(&mut self, now: u64) {
        self.rows.clear();
        self.places.clear();
        self.dropped = 0;
        self.absent = 0;
        self.cleared = now;
    }

    fn counts_at(&self, ts: u64) -> bool {
        let last = self.changes.iter().rev().find(|(since, _)| *since <= ts);
        ts >= self.cleared && last.is_some_and(|(_, paused)| !paused)
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
        if !self.counts_at(ts) {
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
                    unknown: vec![0; plan.values.len()],
                });
                self.places.insert(keys, self.rows.len() - 1);
                self.rows.len() - 1
            }
        };
        let Some(row) = self.rows.get_mut(at) else {
            return;
        };
        row.hitcount += 1;
        let figures = row.values.iter_mut().zip(&mut row.unknown);
        for (value, (to, unknown)) in plan.values.iter().zip(figures) {
            if is_absent(value.source, record) {
                self.absent += 1;
                *unknown += 1;
                continue;
            }
            let new = number(value.source, record, ts);
            let first = row.hitcount - *unknown == 1;
            *to = if first { new } else { value.join(*to, new) };
        }
        let keys = plan.keys.iter().filter(|k| is_absent(k.source, record));
        self.absent += keys.count() as u64;
    }
}

/// Whether it is a number that is not known of this process.
fn is_absent(source: Source, record: &Record) -> bool {
    matches!(source, Source::Int { offset, .. } if record.absent.contains(&offset))
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

#[cfg(test)]
mod tests {
    use super::super::record::{PROCESS_EXIT, format};
    use super::*;
    use crate::hist::Trigger;
    use crate::hist::filter::Bare;
    use crate::sink::samples;

    fn plan(trigger: &str) -> Plan {
        let trigger = Trigger::parse(trigger).unwrap();
        Plan::resolve(&trigger, &format(PROCESS_EXIT).unwrap(), &Bare { cpus: 1 }).unwrap()
    }

    /// The values of the one row that three processes make, of the first of which the CPU time
    /// is not known.
    fn values(trigger: &str) -> Vec<u64> {
        let plan = plan(trigger);
        let mut counts = Counts::new(vec![plan.clone()], false);
        for cpu_ns in [None, Some(500), Some(300)] {
            let mut process = samples::process(samples::pid(7, 1), None, &["true"], 3);
            process.usage.cpu_ns = cpu_ns;
            counts.add(&Record::of(&process), 9);
        }
        assert_eq!(counts.absent, plan.values.len() as u64);
        let table = counts.table();
        assert_eq!((table.rows.len(), table.hits), (1, 3));
        (0..plan.values.len())
            .map(|i| table.rows[0].value(&plan, i))
            .collect()
    }

    #[test]
    fn what_is_not_known_is_in_no_figure() {
        let extremes = values("hist:keys=pid:vals=cpu_ns.min,cpu_ns.max");
        assert_eq!(extremes, [300, 500]);
        assert_eq!(values("hist:keys=pid:vals=cpu_ns,cpu_ns.avg"), [800, 400]);
    }

    #[test]
    fn a_record_that_comes_late_is_judged_by_its_own_time() {
        let process = samples::process(samples::pid(7, 1), None, &["true"], 3);
        let record = Record::of(&process);
        let mut counts = Counts::new(vec![plan("hist:keys=pid")], false);
        counts.pause(true, 100);
        counts.pause(false, 200);
        for ts in [99, 100, 199, 200] {
            counts.add(&record, ts);
        }
        assert_eq!(counts.table().hits, 2);
        counts.clear(300);
        for ts in [299, 300] {
            counts.add(&record, ts);
        }
        assert_eq!(counts.table().hits, 1);
        let mut counts = Counts::new(vec![plan("hist:keys=pid")], true);
        counts.add(&record, 1);
        assert_eq!(counts.table().hits, 0);
    }
}
