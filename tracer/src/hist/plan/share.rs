//! Triggers that are alike: of one name, which count in one table, or the same (`hist_trigger_match`).

use std::mem::discriminant;

use super::super::format::Field;
use super::{Key, KeyForm, Plan, Source, Transform, Value};

/// What a member of a record must have to be taken for that of another event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    name: String,
    ty: String,
    size: u32,
    signed: bool,
}

impl Member {
    pub(super) fn of(field: &Field) -> Self {
        Self {
            name: field.name.clone(),
            ty: field.ty.clone(),
            size: field.size,
            signed: field.signed,
        }
    }
}

fn same_key(a: &Key, b: &Key) -> bool {
    // How wide buckets are is not compared.
    let form = match (a.form, b.form) {
        (KeyForm::Buckets(_), KeyForm::Buckets(_)) => true,
        (a, b) => a == b,
    };
    let source = discriminant(&a.source) == discriminant(&b.source)
        && modifier(&a.spec) == modifier(&b.spec);
    form && source && a.member == b.member && a.size == b.size
}

fn same_value(a: &Value, b: &Value) -> bool {
    let source = discriminant(&a.source) == discriminant(&b.source)
        && modifier(&a.spec) == modifier(&b.spec);
    source && a.member == b.member && a.form == b.form && a.aggregate == b.aggregate
}

/// Without the width of buckets.
fn modifier(spec: &str) -> &str {
    let modifier = spec.split_once('.').map_or("", |(_, modifier)| modifier);
    modifier.split('=').next().unwrap_or_default()
}

fn same<T>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

impl Plan {
    /// Whether the kernel takes both for one trigger, of which an event has one only,
    /// whatever their sizes and clocks.
    pub fn is_like(&self, other: &Self) -> bool {
        self.event == other.event
            && self.name == other.name
            && self.filter_text == other.filter_text
            && self.differs_in(other).is_none()
    }

    /// In what two triggers differ that cannot count in one table.
    fn differs_in(&self, first: &Self) -> Option<&'static str> {
        if !same(&self.keys, &first.keys, same_key) {
            return Some("keys");
        }
        if !same(&self.values, &first.values, same_value) {
            return Some("values");
        }
        (self.sort != first.sort).then_some("sorting")
    }

    /// Makes this plan count in the table of another one, which has its name: the
    /// table is as the first trigger says, of whatever size this one would be.
    ///
    /// # Errors
    /// In what they differ and must not.
    pub fn share(&mut self, first: &Self) -> Result<(), &'static str> {
        if let Some(what) = self.differs_in(first) {
            return Err(what);
        }
        for (key, first) in self.keys.iter_mut().zip(&first.keys) {
            if let Transform::Buckets(_) = key.transform {
                key.transform = first.transform;
            }
            if let Source::Constant(_) = key.source {
                key.source = first.source;
            }
            key.form = first.form;
            key.spec.clone_from(&first.spec);
        }
        for (value, first) in self.values.iter_mut().zip(&first.values) {
            if let Source::Constant(_) = value.source {
                value.source = first.source;
            }
        }
        self.size = first.size;
        self.clock.clone_from(&first.clock);
        Ok(())
    }
}
