//! How the instance is set up, and what it says of itself.

use std::fs;
use std::io;
use std::path::Path;

use super::Options;
use crate::decode::ftrace::format::{EVENTS, FormatError, Formats};
use crate::sys::tracefs::{Instance, TracefsError};

pub(super) fn configure(instance: &Instance, options: &Options) -> Result<(), TracefsError> {
    instance.write("tracing_on", "0")?;
    instance.write("trace_clock", "boot")?;
    instance.write("buffer_size_kb", &options.buffer_kib.max(1).to_string())?;
    if !options.whole_system {
        instance.write("options/event-fork", "1")?;
    }
    // Wake us at once: the sooner, the more of argv. An instance takes its other
    // options from the system's. Not every kernel has them all.
    for (file, value) in [
        ("buffer_percent", "0"),
        ("options/overwrite", "1"),
        ("options/context-info", "1"),
        ("options/raw", "0"),
        ("options/hex", "0"),
        ("options/bin", "0"),
        ("options/fields", "0"),
    ] {
        if instance.path().join(file).exists() {
            instance.write(file, value)?;
        }
    }
    Ok(())
}

/// How the kernel says that its records look; the inner error: in a way of its own.
pub(super) fn formats(instance: &Instance) -> Result<Result<Formats, FormatError>, TracefsError> {
    let read = |event| instance.read(&format!("events/{event}/format"));
    let [a, b, c, d] = EVENTS;
    let texts = [read(a)?, read(b)?, read(c)?, read(d)?];
    Ok(Formats::parse(texts.each_ref().map(String::as_str)))
}

/// From `field: char data; offset:16; size:4080;`; a page where that is not understood.
pub(super) fn page_size(header: &str) -> usize {
    let number = |line: &str, key: &str| -> Option<usize> {
        let (_, rest) = line.split_once(key)?;
        rest.split(';').next()?.parse().ok()
    };
    header
        .lines()
        .find(|l| l.contains("char data;"))
        .and_then(|l| Some(number(l, "offset:")? + number(l, "size:")?))
        .unwrap_or(4096)
}

pub(super) fn cpu_numbers(instance: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(instance.join("per_cpu"))? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix("cpu"));
        numbers.extend(number.and_then(|n| n.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}
