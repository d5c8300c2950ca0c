//! The language of event filters (`kernel/trace/trace_events_filter.c`), as a
//! tree of typed tests on the bytes of a record.

mod cpus;
mod eval;
mod function;
mod machine;
#[cfg(test)]
mod machine_tests;
mod parse;
mod pred;
mod steps;
#[cfg(test)]
mod tests;

use super::fault::Fault;
use super::format::EventFormat;
pub use eval::Record;
pub use machine::{Bare, Machine};
pub use steps::{Next, Step};

/// A condition on a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Predicate {
    /// `&&`; two at least.
    All(Vec<Predicate>),
    /// `||`; two at least.
    Any(Vec<Predicate>),
    /// `!(…)`; never of another `Not`.
    Not(Box<Predicate>),
    Test(Test),
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    Number {
        from: Number,
        op: Op,
        /// Cut to the field's width and extended again by its sign, so that the
        /// field, extended likewise, is compared in 64 bits.
        value: u64,
    },
    Text {
        from: Text,
        pattern: Pattern,
        /// The test holds where the pattern does not match.
        negate: bool,
    },
    /// The number, less `base`, is that of a bit that is set.
    Bit { from: Number, base: u64, bits: u64 },
    /// Holds for no record: the kernel accepts the comparison but has no
    /// function for it (a number against an array, `&` on the CPU).
    Never,
}

/// A number in the record, or beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    Field {
        /// Bytes from the record's start.
        offset: u32,
        /// 1, 2, 4 or 8 bytes.
        size: u32,
        signed: bool,
    },
    /// Eight bytes of a mask: the low half of the u32 at `offset` says where it
    /// begins, they lie `at` bytes behind that.
    Located { offset: u32, at: u32 },
    /// The CPU that the event happened on, as an int.
    Cpu,
}

impl Number {
    /// Whether `<` and its like compare with signs.
    pub fn is_signed(self) -> bool {
        match self {
            Self::Field { signed, .. } => signed,
            Self::Located { .. } => false,
            Self::Cpu => true,
        }
    }
}

/// Comparison of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `&`: a common bit.
    And,
}

/// A text in the record, or beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// An array of `size` bytes at `offset`.
    Static { offset: u32, size: u32 },
    /// Where it is and how long (with its NUL) says the u32 at `offset`
    /// ([`super::Class::DynString`], [`super::Class::RelDynString`]).
    Dyn { offset: u32, relative: bool },
    /// Its address is in the eight bytes at `offset`. What cannot be read
    /// matches nothing, not even negated. At most 1023 bytes are read.
    Pointer {
        offset: u32,
        /// `.ustring`: the address is one of user memory.
        user: bool,
    },
    /// The running task's name, an array of 16 bytes.
    Comm,
}

/// What a text is compared with. `L` below is the size of the array, or the
/// length with the NUL of other texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The same up to the NUL, of the first `L` bytes (`strncmp`).
    Full(Vec<u8>),
    /// `abc*`
    Front(Vec<u8>),
    /// `*abc`: stands before the last of the `L` bytes. The kernel does not look
    /// for the NUL, so in an array it finds only what fills that.
    End(Vec<u8>),
    /// `*abc*`: anywhere in the `L` bytes, whatever NULs there are.
    Middle(Vec<u8>),
    /// With `*`, `?`, `[…]` and `\` in it (`glob_match`), up to the NUL.
    Glob(Vec<u8>),
}

impl Predicate {
    /// Parses what follows `if`.
    ///
    /// # Errors
    /// What the kernel rejects for this event on this machine.
    pub fn parse(text: &str, format: &EventFormat, machine: &dyn Machine) -> Result<Self, Fault> {
        parse::parse(text, format, machine)
    }

    /// Tests in the order of evaluation, each with where to go on from it:
    /// forward only, to accept or to reject.
    pub fn steps(&self) -> Vec<Step<'_>> {
        steps::steps(self)
    }
}
