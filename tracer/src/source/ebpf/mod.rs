//! eBPF: the programs of `tracer-ebpf` on the sched tracepoints.

mod config;
mod load;
mod ring;

pub use config::Options;
pub use load::{EbpfError, Loaded};
pub use ring::EbpfSource;
