//! Durations and sizes as people read them. Sums are made before this rounds.

use std::fmt;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const SECOND: u64 = 1_000 * MS;

/// Nanoseconds: `850ns`, `4.1ms`, `12.3s`, `2m03s`, `1h02m`, `3d04h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        // A value that would round up to the next unit is shown in that.
        for (unit, limit, name) in [
            (US, MS, "µs"),
            (MS, SECOND, "ms"),
            (SECOND, 60 * SECOND, "s"),
        ] {
            let tenths = rounded(ns, unit / 10);
            if ns >= US && tenths < limit / unit * 10 {
                return write!(f, "{}.{}{name}", tenths / 10, tenths % 10);
            }
        }
        if ns < US {
            return write!(f, "{ns}ns");
        }
        let seconds = rounded(ns, SECOND);
        if seconds < 3_600 {
            return write!(f, "{}m{:02}s", seconds / 60, seconds % 60);
        }
        let minutes = rounded(ns, 60 * SECOND);
        if minutes < 24 * 60 {
            return write!(f, "{}h{:02}m", minutes / 60, minutes % 60);
        }
        let hours = rounded(ns, 3_600 * SECOND);
        write!(f, "{}d{:02}h", hours / 24, hours % 24)
    }
}

/// Bytes in powers of 1024: `512B`, `3.1M`, `61M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        if bytes < 1024 {
            return write!(f, "{bytes}B");
        }
        let mut shift = 10;
        for name in ["K", "M", "G", "T", "P"] {
            let unit = 1u64 << shift;
            let whole = rounded(bytes, unit);
            let tenths = tenths(bytes, unit);
            if tenths < 100 {
                return write!(f, "{}.{}{name}", tenths / 10, tenths % 10);
            }
            if whole < 1024 {
                return write!(f, "{whole}{name}");
            }
            shift += 10;
        }
        write!(f, "{}E", rounded(bytes, 1 << 60))
    }
}

/// `n / unit`, to the nearest.
const fn rounded(n: u64, unit: u64) -> u64 {
    n / unit + (n % unit >= unit.div_ceil(2)) as u64
}

/// `n / unit` in tenths, to the nearest, without overflow.
const fn tenths(n: u64, unit: u64) -> u64 {
    let rest = (n % unit) as u128;
    (n / unit)
        .saturating_mul(10)
        .saturating_add(((rest * 10 + unit as u128 / 2) / unit as u128) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.0µs"),
            (999_949, "999.9µs"),
            (999_950, "1.0ms"),
            (4_100_000, "4.1ms"),
            (999_960_000, "1.0s"),
            (12_340_000_000, "12.3s"),
            (59_949_999_999, "59.9s"),
            (59_950_000_000, "1m00s"),
            (123_000_000_000, "2m03s"),
            (3_720 * SECOND, "1h02m"),
            (86_399 * SECOND, "1d00h"),
            (76 * 3_600 * SECOND, "3d04h"),
        ] {
            assert_eq!(Time(ns).to_string(), text, "{ns}");
        }
        let _ = Time(u64::MAX).to_string();
    }

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0B"),
            (1_023, "1023B"),
            (1_024, "1.0K"),
            (10 * 1_024, "10K"),
            (1_048_575, "1.0M"),
            (61 << 20, "61M"),
            (3_250_586, "3.1M"),
            (5 << 40, "5.0T"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(Size(bytes).to_string(), text, "{bytes}");
        }
    }
}
