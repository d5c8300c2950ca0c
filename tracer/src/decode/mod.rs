//! From the bytes of a source to events.

mod convert;
mod error;
mod exec;
#[cfg(test)]
mod exec_tests;
pub mod ftrace;
pub mod jsonl;
mod read;
mod recent;
pub mod record;
#[cfg(test)]
mod record_tests;
pub mod seeds;
mod settings;
mod usage;

pub use error::DecodeError;
pub use record::Decoder;
pub use settings::{Known, ResolveCgroup, Settings};
