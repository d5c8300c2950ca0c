//! Events of our own.

use crate::hist::EventFormat;

/// A process's end, with all totals of its record.
pub const PROCESS_EXIT: &str = "process_exit";

/// The members of an event of our own.
pub fn format(_name: &str) -> Option<EventFormat> {
    None
}
