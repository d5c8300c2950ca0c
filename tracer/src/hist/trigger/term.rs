//! One key or value: a field and at most one modifier (`parse_atom`, `parse_field`).

use super::super::number;
use super::{Fault, Part, Word};

/// A key or a value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub subject: Subject,
    pub modifier: Option<Modifier>,
    /// Where the field's name begins.
    pub at: usize,
    /// Where the modifier begins, without its dot; where there is none, as `at`.
    pub modifier_at: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A field or pseudo-field of this name.
    Field(String),
    /// The key `stacktrace`, whatever fields the event has.
    Stack,
    /// A number, the same for all.
    Constant(u64),
}

/// How a field is counted or shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modifier {
    /// In hexadecimal.
    Hex,
    /// An address as a symbol.
    Sym,
    /// An address as symbol, offset and size.
    SymOffset,
    /// `common_pid` with the name of the task that came first.
    ExecName,
    /// A number as the name of a system call.
    Syscall,
    /// The least power of two that is no smaller.
    Log2,
    /// Steps of this width, never 0.
    Buckets(u64),
    /// A time stamp in µs.
    Usecs,
    /// A value's share of all rows, in per cent.
    Percent,
    /// A value as a bar.
    Graph,
    /// The greatest value, not the sum. Not in the kernel.
    Max,
    /// The least value, not the sum. Not in the kernel.
    Min,
    /// The mean value, not the sum. Not in the kernel.
    Avg,
}

impl Modifier {
    /// As the kernel writes it (`get_hist_field_flags`), without the width of buckets.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hex => "hex",
            Self::Sym => "sym",
            Self::SymOffset => "sym-offset",
            Self::ExecName => "execname",
            Self::Syscall => "syscall",
            Self::Log2 => "log2",
            Self::Buckets(_) => "buckets",
            Self::Usecs => "usecs",
            Self::Percent => "percent",
            Self::Graph => "graph",
            Self::Max => "max",
            Self::Min => "min",
            Self::Avg => "avg",
        }
    }

    fn is_for_keys(self) -> bool {
        !matches!(
            self,
            Self::Percent | Self::Graph | Self::Max | Self::Min | Self::Avg
        )
    }

    /// `__create_val_field`
    fn is_for_values(self) -> bool {
        matches!(
            self,
            Self::Hex
                | Self::ExecName
                | Self::Usecs
                | Self::Percent
                | Self::Graph
                | Self::Max
                | Self::Min
                | Self::Avg
        )
    }
}

const FOR_KEYS: [&str; 8] = [
    "hex",
    "sym",
    "sym-offset",
    "execname",
    "syscall",
    "log2",
    "buckets=N",
    "usecs",
];
const FOR_VALUES: [&str; 8] = [
    "hex", "percent", "graph", "max", "min", "avg", "usecs", "execname",
];

impl Term {
    pub(super) fn key(part: Part<'_>) -> Result<Self, Fault> {
        if part.text == "stacktrace" {
            return Ok(Self::plain(Subject::Stack, part));
        }
        let term = Self::read(part, &FOR_KEYS)?;
        term.check(part, Modifier::is_for_keys, "key", &FOR_KEYS)
    }

    pub(super) fn value(part: Part<'_>) -> Result<Self, Fault> {
        let term = Self::read(part, &FOR_VALUES)?;
        term.check(part, Modifier::is_for_values, "value", &FOR_VALUES)
    }

    fn plain(subject: Subject, part: Part<'_>) -> Self {
        Self {
            subject,
            modifier: None,
            at: part.at,
            modifier_at: part.at,
        }
    }

    fn read(part: Part<'_>, known: &[&str]) -> Result<Self, Fault> {
        // The one minus that is none.
        let masked = part.text.replace(".sym-offset", ".sym_offset");
        if let Some(at) = masked.find(['+', '-', '*', '/']) {
            return Err(part
                .from(at)
                .fault("Expressions are not part of tracer's hist triggers")
                .help("name one field, with at most one modifier"));
        }
        if part.text.starts_with(|c: char| c.is_ascii_digit()) {
            let number = number::unsigned(part.text);
            let number = number.ok_or_else(|| part.fault("Expecting numeric literal"))?;
            return Ok(Self::plain(Subject::Constant(number), part));
        }
        let part = unqualified(part);
        if part.text.starts_with('$') {
            return Err(part.fault("Variables are not part of tracer's hist triggers"));
        }
        let (field, modifier) = part.split('.');
        let mut term = Self::plain(Subject::Field(field.text.to_owned()), field);
        if let Some(text) = modifier {
            term.modifier_at = text.at;
            term.modifier = Some(modifier_of(field.text, text, known)?);
        }
        Ok(term)
    }

    fn check(
        self,
        part: Part<'_>,
        fits: impl Fn(Modifier) -> bool,
        what: &str,
        known: &[&str],
    ) -> Result<Self, Fault> {
        match self.modifier {
            Some(modifier) if !fits(modifier) => Err(Fault::new(
                part.whole,
                self.modifier_at,
                format!(
                    "Invalid field modifier: `.{}` is not for a {what}",
                    modifier.name()
                ),
            )
            .help(format!("a {what} can have: {}", known.join(", ")))),
            _ => Ok(self),
        }
    }

    /// The name, for messages; empty for a constant.
    pub fn name(&self) -> Word {
        let text = match &self.subject {
            Subject::Field(name) => name.clone(),
            Subject::Stack => "stacktrace".to_owned(),
            Subject::Constant(_) => String::new(),
        };
        Word { text, at: self.at }
    }
}

/// Of `GROUP.EVENT.FIELD…`, the field: the kernel takes the first two parts for
/// the place of a variable, and forgets them where there is none.
fn unqualified(part: Part<'_>) -> Part<'_> {
    match part.split('.') {
        (_, Some(behind)) => match behind.split('.') {
            (_, Some(behind)) => behind,
            _ => part,
        },
        _ => part,
    }
}

fn modifier_of(field: &str, text: Part<'_>, known: &[&str]) -> Result<Modifier, Fault> {
    Ok(match text.text {
        "hex" => Modifier::Hex,
        "sym" => Modifier::Sym,
        // The kernel replaces the minus by an X, to know it from a difference.
        "sym-offset" | "symXoffset" => Modifier::SymOffset,
        "execname" if field == "common_pid" => Modifier::ExecName,
        "execname" => {
            return Err(text.fault("Invalid field modifier: `.execname` is for common_pid alone"));
        }
        "syscall" => Modifier::Syscall,
        "log2" => Modifier::Log2,
        "usecs" => Modifier::Usecs,
        "max" => Modifier::Max,
        "min" => Modifier::Min,
        "avg" => Modifier::Avg,
        other if other.starts_with("bucket") => {
            let width = text.from("bucket".len());
            let width = width.strip_prefix("s").unwrap_or(width);
            let number = width.strip_prefix("=");
            match number.and_then(|n| number::unsigned(n.text)) {
                Some(number) if number > 0 => Modifier::Buckets(number),
                _ => {
                    return Err(number
                        .unwrap_or(width)
                        .fault("Invalid field modifier: buckets have a width")
                        .help("as in `buckets=10`; it is at least 1"));
                }
            }
        }
        other if other.starts_with("percent") => Modifier::Percent,
        other if other.starts_with("graph") => Modifier::Graph,
        other => {
            return Err(text
                .fault(format!("Invalid field modifier `{other}`"))
                .near("modifiers", other, known.iter().copied()));
        }
    })
}
