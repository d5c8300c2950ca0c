//! `tracer hist`'s clocks: those of ftrace, as far as a BPF program can read them.

use tracer_tests::hist::{closes, json, rows};
use tracer_tests::require;

/// The time stamps of a hundred events.
fn stamps(clock: &str) -> Vec<u64> {
    let trigger = format!("hist:keys=common_timestamp:clock={clock} if fd >= 1000000");
    let table = json(&closes(&trigger).expect_code(0));
    let mut stamps: Vec<u64> = rows(&table)
        .iter()
        .map(|r| r["key"]["common_timestamp"].as_u64().expect("a number"))
        .collect();
    stamps.sort_unstable();
    stamps
}

fn now(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes a timespec, which this is.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[test]
fn clocks_tell_their_own_time() {
    require!(bpf);
    for (name, clock) in [
        ("mono", libc::CLOCK_MONOTONIC),
        ("boot", libc::CLOCK_BOOTTIME),
        ("tai", libc::CLOCK_TAI),
    ] {
        let before = now(clock);
        let stamps = stamps(name);
        let after = now(clock);
        assert_eq!(stamps.len(), 100, "{name}");
        assert!(
            stamps.iter().all(|s| (before..=after).contains(s)),
            "{name}: {before} {stamps:?}"
        );
    }
    assert_eq!(stamps("counter"), (1..=100).collect::<Vec<u64>>());
    // Ticks of 10 ms; the boot clock does not begin with the first of them.
    let before = now(libc::CLOCK_MONOTONIC) / 10_000_000;
    let stamps = stamps("uptime");
    let after = now(libc::CLOCK_MONOTONIC) / 10_000_000;
    let near = before.saturating_sub(500)..=after + 500;
    assert!(
        stamps.iter().all(|s| near.contains(s)),
        "{before} {stamps:?}"
    );
    for clock in ["mono_raw", "x86-tsc"] {
        let outcome = closes(&format!("hist:keys=common_timestamp:clock={clock}"));
        assert_eq!(outcome.code(), 125);
        assert!(
            outcome.stderr().contains("cannot be read"),
            "{}",
            outcome.stderr()
        );
    }
}
