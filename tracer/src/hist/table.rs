//! What has been counted, and in which order it is shown (`tracing_map_sort_entries`).

use std::cmp::Ordering;

use super::plan::{Aggregate, Column, Compare, Plan};

/// The counts of a trigger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub rows: Vec<Row>,
    /// Events that were counted in a row.
    pub hits: u64,
    /// Events that were not, because the table was full.
    pub dropped: u64,
    /// Events that no program saw, where that is known.
    pub missed: Option<u64>,
}

/// One key and its counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// One for each of [`Plan::keys`].
    pub keys: Vec<KeyValue>,
    pub hitcount: u64,
    /// One for each of [`Plan::values`]; of [`Aggregate::Avg`] the sum.
    pub values: Vec<u64>,
    /// At how many of the hits each value was not known; empty: at none.
    pub unknown: Vec<u64>,
}

/// A part of a row's key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyValue {
    /// After [`super::plan::Transform`].
    Number(u64),
    /// Without its NUL.
    Text(Vec<u8>),
    /// A number and the name of the task that made the entry.
    Task { number: u64, comm: Vec<u8> },
    /// Return addresses, the innermost first, without zeros.
    Stack(Vec<u64>),
}

impl KeyValue {
    /// What the kernel would read as a number there: of texts and stacks the first eight bytes.
    pub fn number(&self) -> u64 {
        match self {
            Self::Number(number) | Self::Task { number, .. } => *number,
            Self::Text(text) => {
                let mut bytes = [0; 8];
                bytes.iter_mut().zip(text).for_each(|(b, t)| *b = *t);
                u64::from_ne_bytes(bytes)
            }
            Self::Stack(stack) => stack.first().copied().unwrap_or(0),
        }
    }

    fn text(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            _ => &[],
        }
    }
}

impl Row {
    /// At how many of the hits a value was known.
    pub fn known(&self, index: usize) -> u64 {
        let unknown = self.unknown.get(index).copied().unwrap_or(0);
        self.hitcount.saturating_sub(unknown)
    }

    /// A value as it is shown: the mean where the plan says so.
    pub fn value(&self, plan: &Plan, index: usize) -> u64 {
        let sum = self.values.get(index).copied().unwrap_or(0);
        match plan.values.get(index) {
            Some(v) if v.aggregate == Aggregate::Avg => {
                let known = self.known(index).max(1);
                if v.shows_sign() {
                    let known = i64::try_from(known).unwrap_or(i64::MAX);
                    return sum.cast_signed().wrapping_div(known).cast_unsigned();
                }
                sum / known
            }
            _ => sum,
        }
    }
}

impl Table {
    /// Sorts as the plan says. The kernel leaves rows that are equal in that in
    /// no order at all; here they are in order of their keys, so that the same
    /// counts always give the same text.
    pub fn sort(&mut self, plan: &Plan) {
        self.rows.sort_by(|a, b| {
            let keys = plan.keys.iter().zip(a.keys.iter().zip(&b.keys));
            keys.map(|(key, (a, b))| compare_key(key.compare, a, b).then_with(|| a.cmp(b)))
                .find(|o| o.is_ne())
                .unwrap_or(Ordering::Equal)
        });
        self.sort_stable(plan);
    }

    /// Sorts as the plan says and leaves rows that are equal in that as they are.
    pub fn sort_stable(&mut self, plan: &Plan) {
        self.rows.sort_by(|a, b| {
            plan.sort
                .iter()
                .map(|by| {
                    let order = compare(plan, by.column, a, b);
                    if by.descending {
                        order.reverse()
                    } else {
                        order
                    }
                })
                .find(|o| o.is_ne())
                .unwrap_or(Ordering::Equal)
        });
    }
}

fn compare(plan: &Plan, column: Column, a: &Row, b: &Row) -> Ordering {
    match column {
        Column::Hitcount => a.hitcount.cmp(&b.hitcount),
        Column::Value(i) => {
            let (a, b) = (a.value(plan, i), b.value(plan, i));
            match plan.values.get(i) {
                Some(v) if v.shows_sign() => a.cast_signed().cmp(&b.cast_signed()),
                _ => a.cmp(&b),
            }
        }
        Column::Key(i) => match (plan.keys.get(i), a.keys.get(i), b.keys.get(i)) {
            (Some(key), Some(a), Some(b)) => compare_key(key.compare, a, b),
            _ => Ordering::Equal,
        },
    }
}

fn compare_key(compare: Compare, a: &KeyValue, b: &KeyValue) -> Ordering {
    match compare {
        Compare::None => Ordering::Equal,
        Compare::Text => a.text().cmp(b.text()),
        Compare::Number { size, signed } => {
            // The low bytes, extended again.
            let shift = 64 - 8 * size.clamp(1, 8);
            let (a, b) = (a.number() << shift, b.number() << shift);
            if signed {
                a.cast_signed().cmp(&b.cast_signed())
            } else {
                a.cmp(&b)
            }
        }
    }
}
