//! From a trigger's names to an event's bytes (`parse_field`, `create_hist_field`,
//! `create_key_field`, `create_sort_keys`).

use super::super::filter::Machine;
use super::super::format::{Class, Field};
use super::super::trigger::{Modifier, Subject, Term};
use super::share::Member;
use super::{
    Aggregate, Column, Compare, EventFormat, Fault, KEY_SIZE_MAX, Key, KeyForm, Plan, Predicate,
    STACK_DEPTH, SortBy, Source, TEXT_MAX, Transform, Trigger, Value, ValueForm,
};

/// Pseudo-fields that every event has.
const PSEUDO: [&str; 4] = [
    "common_timestamp",
    "common_cpu",
    "common_stacktrace",
    "hitcount",
];

/// Clocks of ftrace, and whether they count nanoseconds.
const CLOCKS: [(&str, bool); 10] = [
    ("local", true),
    ("global", true),
    ("counter", false),
    ("uptime", false),
    ("perf", true),
    ("mono", true),
    ("mono_raw", true),
    ("boot", true),
    ("tai", true),
    ("x86-tsc", false),
];

const STACK_NAME: &str = "common_stacktrace";

/// What a name stands for.
struct Found {
    /// As rows have it.
    name: String,
    /// As `trigger info` has it, without a modifier.
    spec: String,
    source: Source,
    /// The member of the record, where it is one.
    field: Option<Field>,
}

struct Context<'a> {
    trigger: &'a Trigger,
    format: &'a EventFormat,
    /// Time stamps are in µs: one modifier says so for all.
    usecs: bool,
}

pub(super) fn resolve(
    trigger: &Trigger,
    format: &EventFormat,
    machine: &dyn Machine,
) -> Result<Plan, Fault> {
    let terms = || trigger.values.iter().chain(&trigger.keys);
    let is_stamp = |t: &Term| t.subject == Subject::Field("common_timestamp".to_owned());
    let clock = terms().any(is_stamp).then(|| clock(trigger)).transpose()?;
    let in_ns = clock.as_ref().is_some_and(|c| c.1);
    let usecs = terms().any(|t| is_stamp(t) && t.modifier == Some(Modifier::Usecs));
    let context = Context {
        trigger,
        format,
        usecs: usecs && in_ns,
    };
    let mut warnings = Vec::new();
    let values = trigger.values.iter();
    let values = values
        .map(|t| context.value(t, &mut warnings))
        .collect::<Result<Vec<_>, _>>()?;
    let keys = context.keys(&mut warnings)?;
    let sort = context.sort(&keys, &values)?;
    let filter = trigger.filter.as_ref().map(|f| {
        Predicate::parse(&f.text, format, machine)
            .map_err(|fault| fault.within(&trigger.text, f.at))
    });
    Ok(Plan {
        event: if format.is_own() {
            format.name.clone()
        } else {
            format!("{}:{}", format.system, format.name)
        },
        name: trigger.name.as_ref().map(|n| n.text.clone()),
        keys,
        values,
        sort,
        size: trigger.size,
        clock: clock.map(|c| c.0),
        no_hitcount: trigger.no_hitcount,
        filter: filter.transpose()?,
        filter_text: trigger.filter.as_ref().map(|f| f.text.clone()),
        warnings,
    })
}

/// The clock's name, and whether it counts nanoseconds.
fn clock(trigger: &Trigger) -> Result<(String, bool), Fault> {
    let Some(word) = &trigger.clock else {
        return Ok(("global".to_owned(), true));
    };
    let names = CLOCKS.iter().map(|c| c.0);
    match CLOCKS.iter().find(|c| c.0 == word.text) {
        Some((name, in_ns)) => Ok(((*name).to_owned(), *in_ns)),
        None => Err(
            Fault::new(&trigger.text, word.at, "Couldn't set trace_clock")
                .near("clocks", &word.text, names),
        ),
    }
}

impl Context<'_> {
    fn fault(&self, at: usize, message: impl Into<String>) -> Fault {
        Fault::new(&self.trigger.text, at, message)
    }

    fn find(&self, term: &Term) -> Result<Found, Fault> {
        let name = match &term.subject {
            Subject::Field(name) => name,
            Subject::Stack => STACK_NAME,
            Subject::Constant(number) => {
                return Ok(Found {
                    name: String::new(),
                    spec: number.to_string(),
                    source: Source::Constant(*number),
                    field: None,
                });
            }
        };
        let found = |source, spec: &str, field| Found {
            name: name.to_owned(),
            spec: spec.to_owned(),
            source,
            field,
        };
        let usecs = self.usecs;
        Ok(match name {
            "common_timestamp" => found(Source::Timestamp { usecs }, name, None),
            STACK_NAME => found(Source::Stack, name, None),
            "common_cpu" => found(Source::Cpu, name, None),
            "hitcount" => found(Source::One, name, None),
            _ => {
                let field = self.format.find(name).filter(|f| f.class != Class::Comm);
                let field = field.ok_or_else(|| self.unknown(term.at, name))?;
                match field.class {
                    // The old names of these two.
                    Class::Cpu => found(Source::Cpu, "common_cpu", Some(field)),
                    Class::Stacktrace => Found {
                        name: STACK_NAME.to_owned(),
                        ..found(Source::Stack, STACK_NAME, None)
                    },
                    _ => found(self.source(term.at, &field)?, name, Some(field)),
                }
            }
        })
    }

    fn unknown(&self, at: usize, name: &str) -> Fault {
        let event = &self.format.name;
        let known = self.format.names().chain(PSEUDO);
        self.fault(at, format!("Couldn't find field: {event} has no `{name}`"))
            .near("fields", name, known)
    }

    fn source(&self, at: usize, field: &Field) -> Result<Source, Fault> {
        let &Field { offset, size, .. } = field;
        match field.class {
            _ if size == 0 => Err(self.unknown(at, &field.name)),
            Class::StaticString => Ok(Source::StaticText { offset, size }),
            Class::DynString | Class::RelDynString => Ok(Source::DynText {
                offset,
                relative: field.class == Class::RelDynString,
            }),
            _ if field.is_number_sized() => Ok(Source::Int {
                offset,
                size,
                signed: field.signed,
            }),
            _ => Err(self.fault(
                at,
                format!(
                    "`{}` ({}, {size} bytes) is neither a number nor a text",
                    field.name, field.ty
                ),
            )),
        }
    }

    fn value(&self, term: &Term, warnings: &mut Vec<String>) -> Result<Value, Fault> {
        let mut found = self.find(term)?;
        match found.source {
            Source::Stack => {
                return Err(self.fault(term.at, "Invalid field modifier: a stack is no value"));
            }
            Source::StaticText { .. } | Source::DynText { .. } => {
                warnings.push(format!(
                    "the value `{}` is a text: the kernel adds up addresses there, which mean nothing",
                    found.name
                ));
                found.source = Source::TextAddress;
            }
            _ => {}
        }
        let (form, aggregate) = match term.modifier {
            Some(Modifier::Hex) => (ValueForm::Hex, Aggregate::Sum),
            Some(Modifier::Percent) => (ValueForm::Percent, Aggregate::Sum),
            Some(Modifier::Graph) => (ValueForm::Graph, Aggregate::Sum),
            Some(Modifier::Max) => (ValueForm::Decimal, Aggregate::Max),
            Some(Modifier::Min) => (ValueForm::Decimal, Aggregate::Min),
            Some(Modifier::Avg) => (ValueForm::Decimal, Aggregate::Avg),
            _ => (ValueForm::Decimal, Aggregate::Sum),
        };
        Ok(Value {
            name: found.name,
            source: found.source,
            form,
            aggregate,
            spec: spec(&found.spec, term.modifier),
            member: found.field.as_ref().map(Member::of),
        })
    }

    fn keys(&self, warnings: &mut Vec<String>) -> Result<Vec<Key>, Fault> {
        let mut keys: Vec<Key> = Vec::new();
        for term in &self.trigger.keys {
            keys.push(self.key(term, warnings)?);
            let size: u32 = keys.iter().map(|k| k.size).sum();
            if size > KEY_SIZE_MAX {
                let message = format!(
                    "The key is too long: {size} bytes with this part, {KEY_SIZE_MAX} are possible"
                );
                return Err(self.fault(term.at, message).help(format!(
                    "a text of unbounded length takes {TEXT_MAX} bytes, a stack {}",
                    8 * STACK_DEPTH
                )));
            }
        }
        Ok(keys)
    }

    fn key(&self, term: &Term, warnings: &mut Vec<String>) -> Result<Key, Fault> {
        let mut found = self.find(term)?;
        let is_text = matches!(
            found.source,
            Source::StaticText { .. } | Source::DynText { .. }
        );
        // As large as the kernel makes it, whatever becomes of it.
        let size = match found.source {
            Source::StaticText { size, .. } => size.next_multiple_of(8),
            Source::DynText { .. } => TEXT_MAX,
            Source::Stack => 8 * STACK_DEPTH,
            _ => 8,
        };
        let compare = match (found.source, &found.field) {
            (Source::Stack, _) => Compare::None,
            (Source::Cpu, _) | (_, None) => Compare::Number {
                size: 8,
                signed: false,
            },
            // An address of a text is compared as if it were one.
            (_, Some(f)) if f.class.is_text() => Compare::Text,
            (_, Some(f)) => Compare::Number {
                size: f.size,
                signed: f.signed,
            },
        };
        let computed = !matches!(found.source, Source::Stack | Source::One);
        let stepped = matches!(term.modifier, Some(Modifier::Log2 | Modifier::Buckets(_)));
        if stepped && !computed {
            // The kernel looks for the name where it would be if this were computed.
            found.name.clear();
        }
        let transform = match term.modifier {
            Some(Modifier::Log2) if computed => Transform::Log2,
            Some(Modifier::Buckets(width)) if computed => Transform::Buckets(width),
            _ => Transform::None,
        };
        if is_text && transform != Transform::None {
            warnings.push(format!(
                "`{}` is a text: the kernel computes with its address there, which means nothing",
                found.name
            ));
            found.source = Source::TextAddress;
        }
        let form = match term.modifier {
            Some(Modifier::Hex) => KeyForm::Hex,
            Some(Modifier::Sym) => KeyForm::Symbol,
            Some(Modifier::SymOffset) => KeyForm::SymbolOffset,
            Some(Modifier::ExecName) => KeyForm::ExecName,
            Some(Modifier::Syscall) => KeyForm::Syscall,
            _ if found.source == Source::Stack => KeyForm::Stack,
            Some(Modifier::Log2) => KeyForm::Log2,
            Some(Modifier::Buckets(width)) => KeyForm::Buckets(width),
            _ if is_text => KeyForm::Text,
            _ => KeyForm::Decimal,
        };
        let spec = match found.source {
            Source::Stack => STACK_NAME.to_owned(),
            Source::One => spec(&found.name, term.modifier),
            _ => spec(&found.spec, term.modifier),
        };
        Ok(Key {
            name: found.name,
            source: found.source,
            transform,
            form,
            size,
            compare,
            spec,
            member: found.field.as_ref().map(Member::of),
        })
    }

    fn sort(&self, keys: &[Key], values: &[Value]) -> Result<Vec<SortBy>, Fault> {
        if self.trigger.sort.is_empty() {
            return Ok(vec![SortBy {
                column: Column::Hitcount,
                descending: false,
            }]);
        }
        let column = |name: &str| match name {
            "hitcount" => Some(Column::Hitcount),
            _ => {
                let value = values.iter().position(|v| v.name == name);
                let key = || keys.iter().position(|k| k.name == name);
                value.map(Column::Value).or_else(|| key().map(Column::Key))
            }
        };
        let sort = self.trigger.sort.iter();
        sort.map(|by| match column(&by.field.text) {
            Some(column) => Ok(SortBy {
                column,
                descending: by.descending,
            }),
            None => {
                let names = values.iter().map(|v| v.name.as_str());
                let names = names.chain(keys.iter().map(|k| k.name.as_str()));
                Err(self
                    .fault(by.field.at, "Sort field must be a key or a val")
                    .near("keys and values", &by.field.text, names.chain(["hitcount"])))
            }
        })
        .collect()
    }
}

/// `hist_field_print`
fn spec(name: &str, modifier: Option<Modifier>) -> String {
    match modifier {
        None => name.to_owned(),
        // The kernel prints it as a signed number.
        Some(Modifier::Buckets(width)) => format!("{name}.buckets={}", width.cast_signed()),
        Some(modifier) => format!("{name}.{}", modifier.name()),
    }
}
