//! CLOCK_BOOTTIME, and wall time at the edge.

/// Reads `clock` in ns since its epoch.
fn read(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `ts` is a valid, writable timespec for the duration of the call.
    unsafe { libc::clock_gettime(clock, &raw mut ts) };
    // Both clocks count up from a past moment: neither member is negative.
    ts.tv_sec.unsigned_abs() * 1_000_000_000 + ts.tv_nsec.unsigned_abs()
}

/// CLOCK_BOOTTIME, ns since boot, suspended time included.
pub fn boot_ns() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// CLOCK_REALTIME, ns since 1970.
pub fn wall_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}
