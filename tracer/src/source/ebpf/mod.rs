//! eBPF: the programs of `tracer-ebpf` on the sched tracepoints.

mod config;
mod error;
mod load;
mod permit;
mod ring;

pub use config::Options;
pub use error::EbpfError;
pub use load::Loaded;
pub use ring::EbpfSource;
