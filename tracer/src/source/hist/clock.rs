//! The clocks of ftrace (`trace_clocks`), as far as a BPF program can read them.

use std::mem::MaybeUninit;

use tracer_common::hist::{Item, from};

/// What time stamps are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// CLOCK_MONOTONIC, which `global`, `local` and `perf` are near to, too.
    Mono,
    Boot,
    /// Needs Linux 6.1.
    Tai,
    /// Ticks of USER_HZ since the boot.
    Uptime,
    /// The number of time stamps so far.
    Counter,
}

impl Clock {
    /// `None`: there is no way to read it (`mono_raw`, `x86-tsc`).
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "global" | "local" | "mono" | "perf" => Self::Mono,
            "boot" => Self::Boot,
            "tai" => Self::Tai,
            "uptime" => Self::Uptime,
            "counter" => Self::Counter,
            _ => return None,
        })
    }

    /// `usecs`: in µs, where it counts nanoseconds.
    pub fn item(self, usecs: bool) -> Item {
        let from = match (self, usecs) {
            (Self::Mono, false) => from::TIME,
            (Self::Mono, true) => from::TIME_USECS,
            (Self::Boot, false) => from::BOOT_TIME,
            (Self::Boot, true) => from::BOOT_TIME_USECS,
            (Self::Tai, false) => from::TAI_TIME,
            (Self::Tai, true) => from::TAI_TIME_USECS,
            (Self::Counter, _) => from::COUNTER,
            (Self::Uptime, _) => {
                let jiffy = jiffy_ns();
                return Item {
                    from: from::UPTIME,
                    left: jiffy,
                    right: initial_jiffies(jiffy),
                    ..Item::NONE
                };
            }
        };
        Item { from, ..Item::NONE }
    }
}

/// `TICK_NSEC`: the coarse clocks go on once each jiffy.
fn jiffy_ns() -> u32 {
    /// That of CONFIG_HZ_250.
    const DEFAULT: u32 = 4_000_000;
    let mut resolution = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel writes a timespec, which this has room for.
    let result =
        unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, resolution.as_mut_ptr()) };
    if result != 0 {
        return DEFAULT;
    }
    // SAFETY: it has been written.
    let ns = unsafe { resolution.assume_init() }.tv_nsec;
    u32::try_from(ns)
        .ok()
        .filter(|ns| *ns != 0)
        .unwrap_or(DEFAULT)
}

/// `INITIAL_JIFFIES`: five minutes before 2^32.
fn initial_jiffies(jiffy_ns: u32) -> u32 {
    let hz = (1_000_000_000 + jiffy_ns / 2) / jiffy_ns.max(1);
    hz.wrapping_mul(300).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jiffies_begin_five_minutes_before_they_wrap() {
        for (ns, hz) in [
            (10_000_000, 100),
            (4_000_000, 250),
            (3_333_333, 300),
            (1_000_000, 1000),
        ] {
            assert_eq!(initial_jiffies(ns), u32::MAX - 300 * hz + 1);
        }
        assert!((1_000_000..=10_000_000).contains(&jiffy_ns()));
    }

    #[test]
    fn what_cannot_be_read_is_none() {
        assert_eq!(Clock::of("x86-tsc"), None);
        assert_eq!(Clock::of("mono_raw"), None);
        assert_eq!(Clock::of("tai"), Some(Clock::Tai));
    }
}
