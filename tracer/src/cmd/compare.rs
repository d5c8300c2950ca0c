//! `tracer compare`: two recordings of the same processes, and all their differences.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::cli::Compare;
use crate::compare::load::load;
use crate::compare::side::Side;
use crate::compare::{compare, show};

/// Compares and reports on stdout. The exit status: 0 equal, 1 different.
///
/// # Errors
/// A file is no recording; stdout cannot be written.
pub fn run(options: &Compare) -> Result<ExitCode> {
    let [a, b] = &*options.files else {
        anyhow::bail!("give two files, or a command after --");
    };
    report(options, load(Path::new(a))?, load(Path::new(b))?)
}

fn report(options: &Compare, a: Side, b: Side) -> Result<ExitCode> {
    let tolerance = u64::try_from(options.tolerance.as_nanos()).unwrap_or(u64::MAX);
    let comparison = compare(a, b, tolerance);
    let mut out = io::BufWriter::new(io::stdout().lock());
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
