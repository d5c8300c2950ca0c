//! What ftrace recorded, as text or as pages of its ring buffer, to records.
//!
//! [`family`] turns records into events. Two decoders yield the same
//! [`Record`]:
//!
//! * [`page`] reads `per_cpu/cpuN/trace_pipe_raw` by the kernel's own `format`
//!   files. Names have their lengths there, so nothing in a name can be taken
//!   for a record.
//! * [`text`] reads what `trace`, `trace_pipe`, `trace-cmd report` and `perf
//!   script` print. Names are printed raw there, so a file name can hold a line
//!   that looks like a record; [`text`] says what it does about that.

mod body;
pub mod family;
#[cfg(test)]
mod family_tests;
pub mod format;
mod head;
mod lookup;
pub mod page;
#[cfg(test)]
mod page_tests;
pub mod record;
pub mod text;
#[cfg(test)]
mod text_props;
#[cfg(test)]
mod text_tests;

pub use family::Family;
pub use lookup::{Look, Lookup, NoLookup};
pub use record::{Body, Record};
pub use text::{Item, Text};
