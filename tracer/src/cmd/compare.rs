//! `tracer compare`: two recordings of the same processes, and all their differences.

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::live;
use crate::cli::{Backend, Compare};
use crate::compare::load::load;
use crate::compare::side::Side;
use crate::compare::{check, compare, show};

/// How far apart the times of one event may lie.
const TOLERANCE: Duration = Duration::from_millis(100);
/// A process that is stopped waits until tracer runs, and only then has a time.
const TOLERANCE_PTRACE: Duration = Duration::from_secs(5);

/// Compares and reports on stdout. The exit status: 0 equal, 1 different.
///
/// # Errors
/// A file is no recording; stdout cannot be written.
pub fn run(options: &Compare) -> Result<ExitCode> {
    // Before anything else: what cannot be written must be known first.
    let mut out: Box<dyn Write> = match &options.output {
        None => Box::new(io::stdout().lock()),
        Some(path) => Box::new(
            File::create(path).with_context(|| format!("{} cannot be written", path.display()))?,
        ),
    };
    let (a, b) = match &*options.files {
        [a, b] => {
            let (a, b) = (load(a)?, load(b)?);
            check(&a, &b)?;
            (a, b)
        }
        _ => live::run(options)?,
    };
    report(options, a, b, &mut out)
}

fn report(options: &Compare, a: Side, b: Side, out: &mut dyn Write) -> Result<ExitCode> {
    let late = options.files.is_empty() && options.with.contains(&Backend::Ptrace);
    let usual = if late { TOLERANCE_PTRACE } else { TOLERANCE };
    let tolerance = options.tolerance.unwrap_or(usual);
    let tolerance = u64::try_from(tolerance.as_nanos()).unwrap_or(u64::MAX);
    let comparison = compare(a, b, tolerance);
    let mut out = io::BufWriter::new(out);
    let written = if options.json {
        serde_json::to_writer_pretty(&mut out, &comparison.report)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out))
    } else {
        show(&comparison, options.all, &mut out)
    };
    match written.and_then(|()| out.flush()) {
        // A reader that goes away has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
        result => result.context("the report cannot be written")?,
    }
    Ok(ExitCode::from(comparison.report.verdict.exit_code()))
}
