//! What can be wrong with a record.

use thiserror::Error;

/// A record that does not fit its layout. The kernel side and the user side of
/// one build agree, so each of these is a fault of tracer: count and report it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    #[error("a record of {len} bytes is too short for its kind {kind}; please report this")]
    Short { kind: u8, len: usize },
    #[error(
        "a record has the unknown kind {kind}; the kernel side is of another version, rebuild tracer"
    )]
    Kind { kind: u8 },
    #[error("a record names CPU {cpu}, this machine has {cpus}; please report this")]
    Cpu { cpu: u16, cpus: usize },
    #[error("a record of kind {kind} names more text than it holds; please report this")]
    Length { kind: u8 },
    #[error("text of exec {exec_seq} on CPU {cpu} came without its exec; please report this")]
    Orphan { cpu: u16, exec_seq: u32 },
    #[error("an exec on CPU {cpu} announced text that never came; it is shown as truncated")]
    Incomplete { cpu: u16 },
}
