//! `tracer hist`: the kernel's hist triggers as a language, without the kernel.
//!
//! ```text
//! text ──trigger──► Trigger ─┐
//! format file ──format──► EventFormat ─┴─plan──► Plan ──► (a program counts) ──► Table ──render──► text, JSON, …
//! ```
//!
//! The language is that of Linux 6.12 (`kernel/trace/trace_events_hist.c` and
//! `trace_events_filter.c`): what it accepts is accepted, what it rejects is
//! rejected. Not part of it here are variables, actions (`onmatch`, `onmax`,
//! `onchange`) and expressions. Extensions are the modifiers of [`Aggregate`]
//! and events of our own; [`Plan::extensions`] lists those that a trigger uses.
//!
//! Nothing in here does I/O but the readers in [`resolve`].

pub mod fault;
pub mod filter;
pub mod format;
mod number;
pub mod plan;
pub mod render;
pub mod resolve;
#[cfg(test)]
mod samples;
pub mod table;
pub mod trigger;

pub use fault::Fault;
pub use filter::{Predicate, Test};
pub use format::{Class, EventFormat, Field};
pub use plan::{Aggregate, Key, Plan, Value};
pub use render::View;
pub use table::{KeyValue, Row, Table};
pub use trigger::{Modifier, Trigger};
