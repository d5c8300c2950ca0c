//! `cargo xtask build`: the binary, with the kernel side in it.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::{paths, process, setup};

/// Build tracer, after setting up what is missing for it
#[derive(clap::Args)]
pub struct Args {
    /// Leave the optimised, self-contained binary in target/release
    #[arg(long)]
    release: bool,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    setup::for_build()?;
    process::run(&mut cargo_build(args.release))?;
    let profile = if args.release { "release" } else { "debug" };
    eprintln!(
        "xtask: built {}",
        paths::target().join(profile).join("tracer").display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Makes `paths::tracer()` current, without a word unless that takes long.
pub fn release_quietly() -> Result<()> {
    setup::for_build()?;
    process::run_quietly(&mut cargo_build(true))
}

fn cargo_build(release: bool) -> Command {
    let mut cargo = process::cargo();
    cargo.args(["build", "--package", "tracer"]);
    if release {
        cargo.arg("--release");
    }
    cargo
}
