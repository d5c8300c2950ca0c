//! A field that could be cut or missing says so.

/// Why a field is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// This source never knows it.
    Source,
    /// The record that carried it was lost.
    Lost,
    /// It was gone before it could be read.
    Gone,
    /// The kernel could not read it (a fault in user memory).
    Fault,
    /// This kernel does not have it.
    Kernel,
    /// Reading it was refused.
    Denied,
}

impl Reason {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Lost => "lost",
            Self::Gone => "gone",
            Self::Fault => "fault",
            Self::Kernel => "kernel",
            Self::Denied => "denied",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field<T> {
    Full(T),
    Truncated(T),
    Missing(Reason),
}

impl<T> Field<T> {
    /// The value, whole or cut.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Full(v) | Self::Truncated(v) => Some(v),
            Self::Missing(_) => None,
        }
    }

    /// Why there is no value.
    pub const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Missing(reason) => Some(reason.name()),
            _ => None,
        }
    }

    /// `full`, `truncated` or `missing`, as in the JSONL `*_state` members.
    pub const fn state(&self) -> &'static str {
        match self {
            Self::Full(_) => "full",
            Self::Truncated(_) => "truncated",
            Self::Missing(_) => "missing",
        }
    }
}
