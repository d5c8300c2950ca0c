//! What bars a table has: a group for each key that is not counted in steps, a bar
//! for each step, those between that are empty included.

use rustc_hash::FxHashMap;

use super::super::plan::{Key, KeyForm};
use super::super::table::{KeyValue, Row};
use super::View;
use super::label::{figure, label};

/// Empty steps in a row that are drawn at most; beyond it they are left out.
const GAP_MAX: u64 = 64;

pub(super) struct Bars {
    /// What the bars' lengths are.
    pub measure: String,
    /// What the bars' labels are.
    pub axis: String,
    pub groups: Vec<Group>,
    /// The longest one, 1 at least.
    pub max: u64,
}

pub(super) struct Group {
    /// The keys besides the axis; empty where there are none.
    pub title: String,
    pub bars: Vec<Bar>,
}

pub(super) struct Bar {
    pub label: String,
    /// How long it is; what is below 0 has no length.
    pub value: u64,
    /// As it is written.
    pub number: String,
    /// For the order within a group, where bars are steps.
    step: u64,
}

impl Bars {
    pub(super) fn of(view: &View<'_>) -> Self {
        let plan = view.plan;
        let is_step = |k: &Key| matches!(k.form, KeyForm::Log2 | KeyForm::Buckets(_));
        let stepped = plan.keys.iter().rposition(is_step);
        let by_value = plan.no_hitcount.then(|| plan.values.first()).flatten();
        let mut bars = Self {
            measure: by_value.map_or("hitcount", |v| v.spec()).to_owned(),
            axis: String::new(),
            groups: Vec::new(),
            max: 1,
        };
        let names = plan.keys.iter().enumerate();
        let names = names.filter(|(i, _)| stepped.is_none_or(|s| s == *i));
        let names: Vec<&str> = names.map(|(_, k)| k.name.as_str()).collect();
        bars.axis = names.join(", ");
        let mut places: FxHashMap<String, usize> = FxHashMap::default();
        for row in view.rows() {
            let (value, number) = match by_value {
                Some(of) => {
                    let value = row.value(plan, 0);
                    let negative = of.shows_sign() && value.cast_signed() < 0;
                    (if negative { 0 } else { value }, figure(of, value))
                }
                None => (row.hitcount, row.hitcount.to_string()),
            };
            bars.max = bars.max.max(value);
            let title = joined(view, row, |i| stepped.is_some_and(|s| s != i), true);
            let text = joined(view, row, |i| stepped.is_none_or(|s| s == i), false);
            let step = stepped
                .and_then(|s| row.keys.get(s))
                .map_or(0, KeyValue::number);
            let bar = Bar {
                label: text,
                value,
                number,
                step,
            };
            let group = *places.entry(title.clone()).or_insert_with(|| {
                bars.groups.push(Group {
                    title,
                    bars: Vec::new(),
                });
                bars.groups.len() - 1
            });
            if let Some(group) = bars.groups.get_mut(group) {
                group.bars.push(bar);
            }
        }
        if let Some(key) = stepped.and_then(|s| plan.keys.get(s)) {
            for group in &mut bars.groups {
                group.in_steps(view, key);
            }
        }
        bars
    }
}

impl Group {
    /// Sorts the steps and draws the empty ones between them.
    fn in_steps(&mut self, view: &View<'_>, key: &Key) {
        self.bars.sort_by_key(|b| b.step);
        let width = match key.form {
            KeyForm::Buckets(width) => width,
            _ => 1,
        };
        let mut out: Vec<Bar> = Vec::new();
        for bar in self.bars.drain(..) {
            if let Some(before) = out.last().map(|b| b.step) {
                let missing = (bar.step.saturating_sub(before) / width.max(1)).saturating_sub(1);
                if missing <= GAP_MAX {
                    out.extend((1..=missing).map(|n| {
                        let step = before.saturating_add(n.saturating_mul(width));
                        let value = KeyValue::Number(step);
                        Bar {
                            label: label(view, key, &value),
                            value: 0,
                            number: "0".to_owned(),
                            step,
                        }
                    }));
                }
            }
            out.push(bar);
        }
        self.bars = out;
    }
}

/// The labels of the keys that are `wanted`, with their names or without.
fn joined(view: &View<'_>, row: &Row, wanted: impl Fn(usize) -> bool, named: bool) -> String {
    let keys = view.plan.keys.iter().zip(&row.keys).enumerate();
    let keys = keys.filter(|(i, _)| wanted(*i));
    let texts: Vec<String> = keys
        .map(|(_, (key, value))| {
            let text = label(view, key, value);
            if named {
                format!("{} {text}", key.name)
            } else {
                text
            }
        })
        .collect();
    texts.join(", ")
}

/// Of `value`, as a part of `max`, so many of `width`.
pub(super) fn length(value: u64, max: u64, width: usize) -> usize {
    let part = u128::from(value) * width as u128 / u128::from(max.max(1));
    usize::try_from(part).unwrap_or(width).min(width)
}
