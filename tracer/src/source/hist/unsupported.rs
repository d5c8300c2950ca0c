//! Triggers that the kernel executes and the program cannot.

use tracer_common::hist::{MAX_LONG_PATTERNS, MAX_PATTERNS, MAX_TESTS};

/// What the kernel has and the program has not.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unsupported {
    #[error(
        "the field {0} is not in what a BPF program sees of a record; --backend ftrace has it, where the kernel has hist triggers"
    )]
    Common(&'static str),
    #[error(
        "the filter has {0} comparisons, and a program at most {MAX_TESTS}; use fewer, or one pattern for several texts"
    )]
    Tests(usize),
    #[error(
        "the filter compares with more texts than {MAX_PATTERNS} of up to 63 characters and {MAX_LONG_PATTERNS} of more; \
         use fewer, or one pattern for several"
    )]
    Patterns,
    #[error(
        "the text {0:?} of the filter reaches beyond the first 255 characters, which is all that a program looks at; \
         shorten it, or put a * behind it"
    )]
    Pattern(String),
    #[error("a key or value is longer than a program can keep")]
    TooLong,
    #[error(
        "the clock {0} cannot be read by a BPF program; use clock=mono, boot, tai, uptime or counter, or --backend ftrace, \
         where the kernel has hist triggers"
    )]
    Clock(String),
}
