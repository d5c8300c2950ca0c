//! What tracer itself costs, under the names that every Prometheus exporter uses.

use std::fs;

use super::text::Text;

/// CPU and memory of this process; absent where /proc does not say.
pub struct Own {
    cpu_seconds: Option<f64>,
    resident: Option<u64>,
    peak: Option<u64>,
    virtual_size: Option<u64>,
    open_fds: Option<usize>,
    threads: Option<u64>,
    start_seconds: Option<f64>,
}

impl Own {
    pub fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find(|l| l.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        let kib = |name| Some(field(name)? * 1024);
        Self {
            cpu_seconds: cpu_seconds(),
            resident: kib("VmRSS:"),
            peak: kib("VmHWM:"),
            virtual_size: kib("VmSize:"),
            // One of them is the directory itself.
            open_fds: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|d| d.count().saturating_sub(1)),
            threads: field("Threads:"),
            start_seconds: start_seconds(),
        }
    }

    pub fn render(&self, text: &mut Text) {
        if let Some(n) = self.cpu_seconds {
            text.counter(
                "process_cpu_seconds_total",
                "CPU time of tracer itself, user and system, in seconds.",
            )
            .value(n);
        }
        for (name, help, n) in [
            (
                "process_resident_memory_bytes",
                "Resident memory of tracer itself.",
                self.resident,
            ),
            (
                "process_resident_memory_max_bytes",
                "Highest resident memory of tracer itself so far.",
                self.peak,
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory of tracer itself.",
                self.virtual_size,
            ),
            ("process_threads", "Threads of tracer itself.", self.threads),
            (
                "process_open_fds",
                "File descriptors that tracer has open.",
                self.open_fds.map(|n| n as u64),
            ),
        ] {
            if let Some(n) = n {
                text.gauge(name, help).value(n);
            }
        }
        if let Some(n) = self.start_seconds {
            text.gauge(
                "process_start_time_seconds",
                "When tracer started, in seconds since 1970.",
            )
            .value(n);
        }
    }
}

/// To the nanosecond, where /proc/self/stat counts ticks.
fn cpu_seconds() -> Option<f64> {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `ts` is a valid, writable timespec for the duration of the call.
    let r = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut ts) };
    (r == 0).then(|| ts.tv_sec as f64 + ts.tv_nsec as f64 / 1e9)
}

fn start_seconds() -> Option<f64> {
    use crate::model::time::{boot_ns, wall_ns};
    let stat = crate::sys::procfs::Proc::default()
        .stat(std::process::id())
        .ok()?;
    let wall = wall_ns().saturating_sub(boot_ns()) + stat.id.start;
    // To the tick in which /proc counts.
    Some((wall / 10_000_000) as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_own_cost() {
        let own = Own::read();
        assert!(own.cpu_seconds.is_some_and(|s| s > 0.0));
        assert!(own.resident.is_some_and(|n| n > 1 << 16));
        assert!(own.open_fds.is_some_and(|n| n >= 3));
        let now = crate::model::time::wall_ns() as f64 / 1e9;
        assert!(
            own.start_seconds
                .is_some_and(|s| s <= now && s > now - 3600.0)
        );
    }
}
