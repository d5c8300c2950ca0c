//! A trigger for one event: which bytes of its record are counted, and how
//! they are shown (`create_hist_data`, `create_hist_field`).

#[cfg(test)]
mod corpus_tests;
mod resolve;
mod share;
mod show;
#[cfg(test)]
mod tests;

use super::fault::Fault;
use super::filter::{Machine, Predicate};
use super::format::EventFormat;
use super::trigger::Trigger;

/// What a key may have in bytes, all its parts together (`HIST_KEY_SIZE_MAX`).
pub const KEY_SIZE_MAX: u32 = TEXT_MAX + 8 * STACK_DEPTH;
/// What is kept of a text of unbounded length, with its NUL (`MAX_FILTER_STR_VAL`).
pub const TEXT_MAX: u32 = 256;
/// Return addresses of a stack that are kept (`HIST_STACKTRACE_DEPTH`).
pub const STACK_DEPTH: u32 = 16;

/// A trigger, resolved for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// `sched:sched_process_exit`
    pub event: String,
    /// The trigger's `name=`: tables of the same name are one.
    pub name: Option<String>,
    /// One to three.
    pub keys: Vec<Key>,
    /// None to two, besides the count of hits.
    pub values: Vec<Value>,
    /// One or two.
    pub sort: Vec<SortBy>,
    /// The most entries that the table holds.
    pub size: u32,
    /// `clock=`, or `global`, where a time stamp is used.
    pub clock: Option<String>,
    pub no_hitcount: bool,
    /// Records to which it does not apply are no hits.
    pub filter: Option<Predicate>,
    /// The filter's text, as it is shown.
    pub filter_text: Option<String>,
    /// What a user should be told: things that the kernel accepts but that mean nothing.
    pub warnings: Vec<String>,
}

/// A part of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// As it is written before each row's value.
    pub name: String,
    pub source: Source,
    pub transform: Transform,
    pub form: KeyForm,
    /// Bytes in the key: a multiple of 8. Numbers are extended to 8 by their sign.
    pub size: u32,
    pub compare: Compare,
    /// As `trigger info` has it, with its modifier.
    spec: String,
    member: Option<share::Member>,
}

/// A value that is added up for each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub name: String,
    /// Never a stack.
    pub source: Source,
    pub form: ValueForm,
    pub aggregate: Aggregate,
    spec: String,
    member: Option<share::Member>,
}

/// Where a key or value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An integer in the record.
    Int {
        offset: u32,
        /// 1, 2, 4 or 8 bytes.
        size: u32,
        signed: bool,
    },
    /// `char[size]` in the record. All of it is the key but for its last byte,
    /// which is taken for a NUL if `size` is a multiple of 8.
    StaticText { offset: u32, size: u32 },
    /// A text that the u32 at `offset` points to: low half where (from the
    /// record's start, or from behind that u32 if `relative`), high half how long,
    /// NUL included. At most [`TEXT_MAX`] - 1 bytes are the key.
    DynText { offset: u32, relative: bool },
    /// When it happened, by [`Plan::clock`]; `usecs`: divided by 1000 where
    /// that counts nanoseconds.
    Timestamp { usecs: bool },
    /// The CPU's number.
    Cpu,
    /// The kernel's stack outward from the tracepoint: [`STACK_DEPTH`] addresses, the rest 0.
    Stack,
    /// The number 1 (`hitcount`).
    One,
    /// A number from the trigger's text.
    Constant(u64),
    /// The address of a text in the kernel's buffer, which is what it adds up or
    /// counts there. Means nothing; any number will do.
    TextAddress,
}

/// What happens to a number before it becomes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    None,
    /// [`log2`]
    Log2,
    /// Rounded down to a multiple.
    Buckets(u64),
}

impl Transform {
    /// What becomes of the number.
    pub fn apply(self, value: u64) -> u64 {
        match self {
            Self::None => value,
            Self::Log2 => log2(value),
            Self::Buckets(width) => value / width.max(1) * width,
        }
    }
}

/// The exponent of the least power of two that is no less than `value`; 64 for
/// what is beyond 2^63, negative numbers among them, and 0 for 0.
pub fn log2(value: u64) -> u64 {
    match value {
        0 => 0,
        value => u64::from(u64::BITS - (value - 1).leading_zeros()),
    }
}

/// How a key's part is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// `%10llu`
    Decimal,
    Hex,
    Symbol,
    SymbolOffset,
    /// The name of the task that was running when the entry was made, and the number.
    ExecName,
    Syscall,
    /// A line for each address.
    Stack,
    Log2,
    /// A range of this width.
    Buckets(u64),
    /// `%-50s`
    Text,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueForm {
    Decimal,
    Hex,
    /// Its share of all rows.
    Percent,
    /// A bar as long as its part of the greatest row.
    Graph,
}

/// What becomes of a key's values. All but `Sum` are extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Modulo 2^64, signed ones extended, as in the kernel.
    Sum,
    Max,
    Min,
    /// A table's row has the sum; it is divided by the hits when it is shown.
    Avg,
}

/// The order of a key's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// All are equal.
    None,
    /// Bytes up to a NUL.
    Text,
    /// The low `size` bytes.
    Number { size: u32, signed: bool },
}

/// By what rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortBy {
    pub column: Column,
    pub descending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Hitcount,
    /// Index into [`Plan::values`].
    Value(usize),
    /// Index into [`Plan::keys`].
    Key(usize),
}

impl Plan {
    /// Resolves a trigger's fields, sorting and filter for an event.
    ///
    /// # Errors
    /// What the kernel rejects for this event on this machine.
    pub fn resolve(
        trigger: &Trigger,
        format: &EventFormat,
        machine: &dyn Machine,
    ) -> Result<Self, Fault> {
        resolve::resolve(trigger, format, machine)
    }

    /// The key's size in bytes: its parts lie one behind the other.
    pub fn key_size(&self) -> u32 {
        self.keys.iter().map(|k| k.size).sum()
    }

    /// Whether an entry keeps the name of the task that made it.
    pub fn keeps_comm(&self) -> bool {
        self.keys.iter().any(|k| k.form == KeyForm::ExecName)
    }

    /// What the kernel does not have, as it was written: such a trigger runs here only.
    pub fn extensions(&self) -> Vec<String> {
        let values = self.values.iter();
        let extended = values.filter(|v| v.aggregate != Aggregate::Sum);
        extended.map(|v| v.spec.clone()).collect()
    }

    /// Names as kernels before 6.3 have them, to whom a stack is `stacktrace`.
    #[cfg(test)]
    pub fn in_words_of_6_1(mut self) -> Self {
        for key in self.keys.iter_mut().filter(|k| k.source == Source::Stack) {
            key.spec = "stacktrace".to_owned();
            if !key.name.is_empty() {
                key.name.clone_from(&key.spec);
            }
        }
        self
    }

    /// The trigger in the kernel's own words, without its state:
    /// `hist:keys=comm:vals=hitcount:sort=hitcount:size=2048`.
    pub fn info(&self) -> String {
        show::info(self)
    }
}

impl Key {
    /// As `trigger info` has it: `bytes_req.buckets=64`.
    pub fn spec(&self) -> &str {
        &self.spec
    }
}

impl Value {
    /// As `trigger info` has it: `bytes_req.percent`.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// Whether it is shown and sorted with its sign. The kernel's sums never are.
    pub fn shows_sign(&self) -> bool {
        let signed = matches!(self.source, Source::Int { signed: true, .. });
        signed && self.aggregate != Aggregate::Sum
    }

    /// What becomes of two figures of the same key.
    pub fn join(&self, a: u64, b: u64) -> u64 {
        let signed = self.shows_sign();
        match self.aggregate {
            Aggregate::Sum | Aggregate::Avg => a.wrapping_add(b),
            Aggregate::Min if signed => a.cast_signed().min(b.cast_signed()).cast_unsigned(),
            Aggregate::Max if signed => a.cast_signed().max(b.cast_signed()).cast_unsigned(),
            Aggregate::Min => a.min(b),
            Aggregate::Max => a.max(b),
        }
    }
}

impl Aggregate {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
            Self::Avg => "avg",
        }
    }
}
