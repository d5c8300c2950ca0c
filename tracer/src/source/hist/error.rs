//! Why a trigger cannot be executed, and what to do.

use std::io;

use crate::source::ebpf::EbpfError;

#[derive(Debug, thiserror::Error)]
pub enum HistError {
    #[error(transparent)]
    Ebpf(#[from] EbpfError),
    #[error("the program cannot be attached to the event: {0}; see: tracer check")]
    Attach(io::Error),
    #[error("the table cannot be read: {0}")]
    Table(io::Error),
    #[error(
        "the embedded kernel side is not what it should be; this is a fault of tracer, please report it"
    )]
    Object,
}
