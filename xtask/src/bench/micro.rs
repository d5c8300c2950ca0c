//! The micro-benchmark of tracer's user side.

use std::process::ExitCode;

use anyhow::Result;

use crate::process;

/// Runs the example `throughput` of tracer, optimised.
pub fn main() -> Result<ExitCode> {
    crate::setup::for_build()?;
    let mut cargo = process::cargo();
    cargo.args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "tracer",
        "--example",
        "throughput",
    ]);
    let status = cargo.status()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
