//! Where events come from. A source knows nothing of tables or sinks.

pub mod ebpf;
pub mod ftrace;
pub mod hist;
pub(crate) mod over;
pub mod ptrace;
mod seeds;

use std::io;
use std::os::fd::OwnedFd;

use crate::model::Event;

/// What a [`Source::drain`] says of its completeness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Every event with `ts` up to here has been given out (boot ns).
    pub complete_to: u64,
    /// Nothing more waits for now.
    pub empty: bool,
}

/// A source's buffer, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// At its fullest since the last look.
    pub used: u64,
    pub size: u64,
}

/// A stream of events.
pub trait Source {
    /// Whether totals become final only some time after a process has ended,
    /// so that it is worth waiting for them.
    const FINALS_COME: bool = false;

    /// Waits until events may be there. Cancel safe. It need not return for
    /// every event: the caller drains by a timer as well.
    fn ready(&mut self) -> impl Future<Output = io::Result<()>>;

    /// Takes what is there, in a bounded amount, so that the caller can look
    /// after everything else between two calls. `out` gets each event with its
    /// place in the source's own order, by which equal times are told apart.
    fn drain(&mut self, out: &mut Vec<(u64, Event)>) -> Drained;

    /// Whether a process that is followed still runs.
    fn any_alive(&mut self) -> io::Result<bool>;

    /// Stops the source and takes what is left, with what was lost at the very end.
    fn finish(&mut self, out: &mut Vec<(u64, Event)>);

    /// How full its buffer was, where that is known.
    fn fill(&mut self) -> Option<Fill> {
        None
    }

    /// BPF programs that run for it, by name.
    fn programs(&self) -> Vec<(String, OwnedFd)> {
        Vec::new()
    }

    /// What users should be told of this run, each remark once.
    fn remarks(&mut self) -> Vec<String> {
        Vec::new()
    }
}
