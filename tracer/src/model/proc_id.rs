//! Who a process is: its pid *and* when it began, never a bare pid.

use std::hash::{Hash, Hasher};

/// How well a start time is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// `task_struct::start_boottime`, in ns.
    Exact,
    /// `/proc/PID/stat` field 22: ticks of `1/_SC_CLK_TCK` s (10 ms).
    Tick,
    /// The time stamp of the fork record, µs after the exact one.
    Inferred,
}

impl Precision {
    /// How far two start times of one process may lie apart, ns.
    pub const fn tolerance_ns(self) -> u64 {
        match self {
            Self::Exact => 0,
            Self::Tick => 10_000_000,
            Self::Inferred => 5_000_000,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Tick => "tick",
            Self::Inferred => "inferred",
        }
    }
}

/// A process (thread group). `pid` is the tgid in the initial PID namespace as
/// far as the source sees it; `start` is CLOCK_BOOTTIME, ns.
///
/// Equality and hash are those of one source, where precision does not vary
/// for one process; across sources use [`ProcId::matches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcId {
    pub pid: u32,
    pub start: u64,
    pub precision: Precision,
}

impl Hash for ProcId {
    /// One word: starts nearly never coincide, and then the pids differ.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.start ^ u64::from(self.pid).rotate_left(u32::BITS));
    }
}

impl ProcId {
    pub const fn exact(pid: u32, start: u64) -> Self {
        Self {
            pid,
            start,
            precision: Precision::Exact,
        }
    }

    /// Whether the two can be the same process. Starts that are known in different ways
    /// may be wrong in different directions: a tick's is too early, an inferred one too late.
    pub fn matches(&self, other: &Self) -> bool {
        let mut tolerance = self.precision.tolerance_ns();
        if self.precision != other.precision {
            tolerance += other.precision.tolerance_ns();
        }
        self.pid == other.pid && self.start.abs_diff(other.start) <= tolerance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarser_precision_decides() {
        let exact = ProcId::exact(7, 1_000_004_321);
        let tick = ProcId {
            pid: 7,
            start: 1_000_000_000,
            precision: Precision::Tick,
        };
        assert!(exact.matches(&tick) && tick.matches(&exact));
        assert!(!exact.matches(&ProcId::exact(7, 1_000_004_322)));
        assert!(!exact.matches(&ProcId { pid: 8, ..tick }));
        assert!(!exact.matches(&ProcId {
            start: 1_020_000_000,
            ..tick
        }));
        // It began at the very end of its tick, and its record came 2 ms after that.
        let inferred = ProcId {
            start: 1_011_999_999,
            precision: Precision::Inferred,
            ..tick
        };
        assert!(inferred.matches(&tick) && tick.matches(&inferred));
        assert!(!inferred.matches(&exact));
    }
}
