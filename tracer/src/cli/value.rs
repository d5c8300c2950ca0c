//! Sizes and durations as users write them.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::filter::glob;

/// Longest argument list that Linux's own limit makes usual.
const MAX_ARGV: u64 = 2 << 20;
/// Largest buffer; the kernel counts it in 32 bits.
const MAX_RING: u64 = 1 << 31;

/// `4096`, `4K`, `64KiB`, `8M`, `1G`: bytes, in powers of 1024.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let fault = || {
        format!(
            "{text:?} is not a size; write bytes, or a number with K, M or G, as in 64K or 8MiB"
        )
    };
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err(fault()),
    };
    let number: u64 = number.parse().map_err(|_| fault())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("{text} is too large"))
}

/// A pattern of names.
pub(super) fn pattern() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new()
        .try_map(|text| glob::compile(&[text.as_encoded_bytes()]).map(|_| text))
}

/// Bytes as a user would write them.
fn show(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Of a file before the next one begins.
pub(super) fn file_size(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 4096;
    match size(text)? {
        bytes if bytes < LEAST => Err(format!(
            "{text} is too small for a file; the least is {}",
            show(LEAST)
        )),
        bytes => Ok(bytes),
    }
}

/// Memory of an output.
pub(super) fn hold(text: &str) -> Result<usize, String> {
    usize::try_from(size(text)?).map_err(|_| format!("{text} is too large"))
}

/// Time before the next file begins.
pub(super) fn rotation(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        short if short < Duration::from_secs(1) => {
            Err(format!("{text} is too short for a file; the least is 1s"))
        }
        time => Ok(time),
    }
}

pub(super) fn max_argv(text: &str) -> Result<u32, String> {
    let bytes = size(text)?;
    if bytes > MAX_ARGV {
        return Err(format!(
            "{text} is more than {}, the most that can be recorded",
            show(MAX_ARGV)
        ));
    }
    u32::try_from(bytes).map_err(|_| format!("{text} is too large"))
}

/// Memory of a queue.
#[cfg(feature = "otlp")]
pub(super) fn queue(text: &str) -> Result<usize, String> {
    /// A batch of long command lines.
    const MIN_QUEUE: u64 = 1 << 20;
    let bytes = size(text)?;
    if bytes < MIN_QUEUE {
        return Err(format!(
            "{text} is too small; the smallest is {}",
            show(MIN_QUEUE)
        ));
    }
    usize::try_from(bytes).map_err(|_| format!("{text} is too large"))
}

pub(super) fn ring_size(text: &str) -> Result<u32, String> {
    ring_size_for(text, page_size())
}

fn ring_size_for(text: &str, page: u64) -> Result<u32, String> {
    let bytes = size(text)?;
    if bytes < page {
        return Err(format!(
            "a buffer of {} is too small; the smallest is one page, {}",
            show(bytes),
            show(page)
        ));
    }
    if bytes > MAX_RING {
        return Err(format!(
            "{text} is too large; the largest buffer is {}",
            show(MAX_RING)
        ));
    }
    if !bytes.is_power_of_two() {
        // At least a page and below 2^31: neither overflows.
        let above = bytes.next_power_of_two();
        return Err(format!(
            "{text} is not a power of two; take {} or {}",
            show(above / 2),
            show(above)
        ));
    }
    u32::try_from(bytes).map_err(|_| format!("{text} is too large"))
}

fn page_size() -> u64 {
    // SAFETY: asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

/// As timeout(1) has it, a number of seconds, with s, m, h or d; else as
/// humantime has it (`1h 30min`, `250ms`).
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let fault =
        || format!("{text:?} is not a duration; write seconds, or as in 1.5m, 250ms, 1h 30min");
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        Some((at, 'd')) => (&text[..at], 86_400.0),
        _ => (text, 1.0),
    };
    // Not `inf` or `1e3`, which are numbers to Rust.
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match number.parse::<f64>() {
        Ok(seconds) if is_number => {
            Duration::try_from_secs_f64(seconds * unit).map_err(|_| fault())
        }
        _ => humantime::parse_duration(text).map_err(|_| fault()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("64KiB", 65_536),
            ("8M", 8 << 20),
            ("8 MiB", 8 << 20),
            ("1G", 1 << 30),
            ("7b", 7),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "K",
            "-1",
            "1.5M",
            "4KB",
            "4 x",
            "0x10",
            "99999999999999999999",
            "99999999999999999G",
            "é",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(max_argv("2MiB"), Ok(2 << 20));
        assert!(max_argv("2097153").unwrap_err().contains("2MiB"));
    }

    #[test]
    fn a_wrong_ring_size_names_a_right_one() {
        let ring = |text| ring_size_for(text, 4096);
        assert_eq!(ring("4KiB"), Ok(4096));
        assert_eq!(ring("2G"), Ok(1 << 31));
        assert!(ring("0").unwrap_err().contains("4KiB"));
        assert!(ring("3KiB").unwrap_err().contains("4KiB"));
        assert!(ring("2KiB").is_err());
        let odd = ring("5M").unwrap_err();
        assert!(odd.contains("4MiB") && odd.contains("8MiB"), "{odd}");
        assert!(ring("3G").unwrap_err().contains("2GiB"));
        assert!(ring_size_for("4K", 16_384).is_err());
    }

    #[test]
    fn durations() {
        for (text, ms) in [
            ("30", 30_000),
            ("0", 0),
            ("0.5", 500),
            (".5s", 500),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("250ms", 250),
            ("1h 30min", 5_400_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            "s",
            "inf",
            "-1",
            "1e3",
            "nan",
            "5 apples",
            "9999999999999999999999d",
            "é",
            "1.2.3",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
