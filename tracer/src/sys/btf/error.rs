//! Why a blob could not be read.

use thiserror::Error;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BtfError {
    #[error("this is not BTF of this machine's byte order (no magic number at its start)")]
    Magic,
    #[error("BTF version {0} is not known; a newer tracer may read it")]
    Version(u8),
    #[error("BTF is cut or damaged: {0}")]
    Damaged(&'static str),
    #[error("BTF has a type of unknown kind {kind} (type {id}); a newer tracer may read it")]
    Kind { kind: u32, id: u32 },
}
