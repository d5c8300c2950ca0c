//! Outputs. A sink takes events and process records in order of time and knows
//! nothing of where they come from.

pub mod csv;
mod decimal;
pub mod describe;
pub mod escape;
pub mod file_options;
pub mod format;
pub mod json;
pub mod jsonl;
pub mod log;
pub mod names;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod output;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod parts;
pub mod per_process;
pub mod series;
pub mod style;
pub mod tree;
pub mod units;

pub use format::{Encoding, Format, FormatError, SinkOptions, build, build_per_process};
pub use output::Destination;

use std::io;

use crate::model::{End, Event, Meta, Process};

/// What an output must be able to do. An error ends this sink only; the caller
/// reports it once and goes on with the others.
pub trait Sink: Send {
    /// Before everything else, once.
    fn begin(&mut self, _meta: &Meta) -> io::Result<()> {
        Ok(())
    }

    /// Each event, in order of `ts`. `process` is what the table knows of its
    /// subject after it was applied.
    fn event(&mut self, _event: &Event, _process: Option<&Process>) -> io::Result<()> {
        Ok(())
    }

    /// Each process, once: when its totals are final or will not become so.
    /// At the end also those that still run (`end` is `None`).
    fn process(&mut self, _process: &Process) -> io::Result<()> {
        Ok(())
    }

    /// Called when the source has nothing more for the moment: write out what waits.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Just before the end: waits, for a bounded time, until what was given to somebody else has
    /// been taken, so that [`Self::take_lost`] is complete.
    fn settle(&mut self) {}

    /// Records that this output had to drop since the last call. The caller puts them into the
    /// stream as lost.
    fn take_lost(&mut self) -> u64 {
        0
    }

    /// After everything else, once: writes what is left and waits until it is out.
    fn end(&mut self, _end: &End) -> io::Result<()> {
        Ok(())
    }

    /// Ends the present file and begins the next: `end` is the last record of the one,
    /// `meta` the first of the other.
    fn next_part(&mut self, _end: &End, _meta: &Meta) -> io::Result<()> {
        Ok(())
    }

    /// Asks for the next file now. Says whether there is one after the other.
    fn rotate(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// For those who watch tracer.
    fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Bytes that wait for a slow destination. The caller stops reading its
    /// source while any sink is above the caller's bound.
    fn backlog(&self) -> usize {
        0
    }
}

/// How an output is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes that wait to be written.
    pub waiting: u64,
    /// Bytes written, to all its files.
    pub written: u64,
    /// Records that were dropped because the destination could not be written.
    pub lost: u64,
    /// Files begun after the first.
    pub rotations: u64,
}

#[cfg(test)]
pub(crate) mod samples;
