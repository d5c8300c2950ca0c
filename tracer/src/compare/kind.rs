//! What kinds of records are compared.

use serde::Serialize;

/// In the order in which they happen to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Meta,
    Seed,
    Fork,
    /// A thread's creation.
    Thread,
    Exec,
    ExecFailed,
    Signal,
    /// A thread's end.
    ThreadExit,
    Exit,
    Process,
    Lost,
    End,
}

impl Kind {
    pub const ALL: [Self; 12] = [
        Self::Meta,
        Self::Seed,
        Self::Fork,
        Self::Thread,
        Self::Exec,
        Self::ExecFailed,
        Self::Signal,
        Self::ThreadExit,
        Self::Exit,
        Self::Process,
        Self::Lost,
        Self::End,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Seed => "seed",
            Self::Fork => "fork",
            Self::Thread => "thread",
            Self::Exec => "exec",
            Self::ExecFailed => "exec_failed",
            Self::Signal => "signal",
            Self::ThreadExit => "thread_exit",
            Self::Exit => "exit",
            Self::Process => "process",
            Self::Lost => "lost",
            Self::End => "end",
        }
    }

    /// What a `lost` record calls it.
    pub const fn lost_as(self) -> &'static str {
        match self {
            Self::Fork | Self::Thread => "fork",
            Self::Exit | Self::ThreadExit => "exit",
            other => other.name(),
        }
    }

    /// Of the capture itself rather than of a process: only copies of one
    /// capture have these in common.
    pub const fn is_of_capture(self) -> bool {
        matches!(self, Self::Meta | Self::Lost | Self::End)
    }
}
