//! eBPF: the programs of `tracer-ebpf` on the sched tracepoints.

mod config;
mod error;
mod load;
mod permit;
mod ring;
mod seed;

pub use config::{Options, Whom};
pub use error::EbpfError;
pub use load::Loaded;
pub use ring::EbpfSource;

// What the loader of hist triggers has in common with this one.
pub(super) use config::PID_NAMESPACE;
pub(super) use error::{denied, errno};
pub(super) use load::{Plain, loader, refused, take};
