//! The kernel's own clock and its count of forks.

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

/// Tasks forked since the machine started, threads included.
fn forks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("procfs is mounted");
    let line = stat.lines().find_map(|l| l.strip_prefix("processes "));
    line.and_then(|n| n.trim().parse().ok())
        .expect("/proc/stat has a line of processes")
}

/// The kernel's count of forks, and a time (boot ns) in whose vicinity there was none.
pub fn forks_at_rest() -> (u64, u64) {
    let begin = Instant::now();
    loop {
        let before = forks();
        let ts = boot_ns();
        sleep(Duration::from_millis(4));
        if forks() == before {
            return (before, ts + 2_000_000);
        }
        assert!(
            begin.elapsed() < Duration::from_secs(300),
            "somebody forks all the time"
        );
    }
}
