//! Figures of a capture for whoever watches from outside (`--metrics`): Prometheus text over HTTP.
//!
//! The capture only writes atomics. Everything that a scrape costs is paid by a thread of its own,
//! at a lower priority, so that a slow or hostile client cannot hold up the capture.

mod address;
mod counters;
mod figures;
mod own;
mod programs;
mod server;
mod text;

pub use address::{Address, AddressError};
pub use counters::Counters;
pub use figures::{Figures, OutputFigures};
pub use programs::Programs;
pub use server::{ServeError, Server};
