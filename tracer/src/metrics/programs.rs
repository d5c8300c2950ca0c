//! Run time of the BPF programs, where the kernel counts it (`kernel.bpf_stats_enabled`).

use std::fmt;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

use super::text::Text;

/// Programs by name.
#[derive(Default)]
pub struct Programs {
    programs: Vec<(String, OwnedFd)>,
    /// The kernel counts as long as this is open.
    counting: Option<OwnedFd>,
}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.programs.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

impl Programs {
    pub const fn of(programs: Vec<(String, OwnedFd)>) -> Self {
        Self {
            programs,
            counting: None,
        }
    }

    /// `counting` is what keeps the kernel counting (BPF_ENABLE_STATS).
    pub const fn counting(counting: OwnedFd) -> Self {
        Self {
            programs: Vec::new(),
            counting: Some(counting),
        }
    }

    pub(super) fn amend(&mut self, more: Self) {
        self.programs.extend(more.programs);
        self.counting = self.counting.take().or(more.counting);
    }

    /// Whether the kernel counts now.
    fn is_counting(&self) -> bool {
        self.counting.is_some()
            || fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled")
                .is_ok_and(|text| text.trim() == "1")
    }

    pub(super) fn render(&self, text: &mut Text) {
        if self.programs.is_empty() || !self.is_counting() {
            return;
        }
        let stats: Vec<_> = self
            .programs
            .iter()
            .filter_map(|(name, fd)| {
                let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()));
                Some((name, parse(&info.ok()?)?))
            })
            .collect();
        let mut seconds = text.counter(
            "tracer_bpf_run_seconds_total",
            "Time that a BPF program ran, on all CPUs, in seconds.",
        );
        for (name, (ns, _)) in &stats {
            seconds.sample(&[("program", name)], *ns as f64 / 1e9);
        }
        let mut runs = text.counter("tracer_bpf_runs_total", "How often a BPF program ran.");
        for (name, (_, runs_)) in &stats {
            runs.sample(&[("program", name)], runs_);
        }
    }
}

/// Nanoseconds and runs, of the kernel's `bpf_prog_show_fdinfo`.
fn parse(info: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        let line = info.lines().find_map(|l| l.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some((field("run_time_ns:")?, field("run_cnt:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_fdinfo() {
        let info = "pos:\t0\nprog_type:\t26\nprog_id:\t7\nrun_time_ns:\t1234\nrun_cnt:\t5\nverified_insns:\t99\n";
        assert_eq!(parse(info), Some((1234, 5)));
        assert_eq!(parse("pos:\t0\n"), None);
    }
}
