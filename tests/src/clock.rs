//! The kernel's own clock, its count of forks, and how late it made somebody.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// CLOCK_BOOTTIME, ns, as in every record.
pub fn boot_ns() -> u64 {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes one timespec, which this is.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut ts) };
    let number = |n: i64| u64::try_from(n).expect("the clock does not run backwards");
    number(ts.tv_sec) * 1_000_000_000 + number(ts.tv_nsec)
}

/// How long the threads of a process have waited for a CPU since they began, ns: what is to be
/// done in some time is done later by that, on a machine that has no time for it.
pub fn waited_for_cpu(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let waited = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    tasks.flatten().filter_map(waited).sum()
}

/// Tasks forked since the machine started, threads included.
fn forks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("procfs is mounted");
    let line = stat.lines().find_map(|l| l.strip_prefix("processes "));
    line.and_then(|n| n.trim().parse().ok())
        .expect("/proc/stat has a line of processes")
}

/// For so long nobody forks. A fork that is counted has its record a moment later, which a
/// hypervisor that takes the CPU away makes some 10 ms.
const REST: Duration = Duration::from_millis(40);

/// The kernel's count of forks, and a time (boot ns) in whose vicinity there was none.
pub fn forks_at_rest() -> (u64, u64) {
    let begin = Instant::now();
    loop {
        let before = forks();
        let ts = boot_ns();
        sleep(REST);
        if forks() == before {
            let half = u64::try_from(REST.as_nanos() / 2).expect("short");
            return (before, ts + half);
        }
        assert!(
            begin.elapsed() < Duration::from_secs(300),
            "somebody forks all the time"
        );
    }
}
