//! The types that sources produce and sinks consume.

pub mod event;
pub mod field;
pub mod owner;
pub mod proc_id;
pub mod process;
pub mod text;
pub mod time;
pub mod usage;

pub use event::{
    Event, Exec, ExecFailed, Exit, Final, Fork, LossKind, LossPlace, Lost, Seed, Signal, SignalBy,
};
pub use field::{Field, Reason};
pub use owner::{Container, Owner};
pub use proc_id::{Precision, ProcId};
pub use process::{End, Meta, Process, Status};
pub use text::{Args, Bytes, Comm};
pub use usage::Usage;
