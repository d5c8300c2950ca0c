//! `tracer-fixtures DIR`: compiles the workloads of the end-to-end tests into
//! DIR, for benchmarks and for guests that have no compiler.

use std::path::Path;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let Some(dir) = std::env::args_os().nth(1) else {
        bail!("usage: tracer-fixtures DIR")
    };
    tracer_tests::fixtures::build(Path::new(&dir))
}
