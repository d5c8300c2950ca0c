//! `cargo xtask check`: what can be judged without running the program.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use crate::{
    bpf_toolchain::BpfToolchain,
    licences, paths, process,
    setup::{self, Tool},
};

/// `cargo xtask ci --full` installs it.
const DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    options: &[],
};

/// Check the format, the lints and the dependencies' licences
///
/// Lints are errors. The licences are judged by cargo-deny where it is installed, else by their names alone.
#[derive(clap::Args)]
pub struct Args {}

pub fn main() -> Result<()> {
    process::run(process::cargo().args(["fmt", "--all", "--check"]))?;
    let toolchain = setup::for_build()?;
    process::run(process::cargo().args([
        "clippy",
        "--workspace",
        "--exclude",
        "tracer-ebpf",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    kernel_clippy(&toolchain)?;
    match DENY.find() {
        Some(deny) => {
            process::run(cargo_deny(&deny).args(["check", "bans", "licenses", "sources"]))
        }
        None => licences::check(),
    }
}

/// All of cargo-deny's checks; it is built into the cache first, which takes minutes.
pub fn full_deny() -> Result<()> {
    let deny = DENY.get()?;
    process::run(cargo_deny(&deny).args(["check", "bans", "licenses", "sources"]))?;
    if let Err(error) = process::output(cargo_deny(&deny).args(["fetch", "db"])) {
        eprintln!("xtask: advisories skipped: their database cannot be fetched: {error:#}");
        return Ok(());
    }
    process::run(cargo_deny(&deny).args(["check", "advisories"]))
}

fn cargo_deny(program: &PathBuf) -> Command {
    let mut command = Command::new(program);
    command.current_dir(paths::root());
    command
}

/// Lints the kernel side with its own compiler's clippy.
fn kernel_clippy(toolchain: &BpfToolchain) -> Result<()> {
    if let Some(reason) = setup::clippy_is_missing(toolchain)? {
        eprintln!("xtask: clippy for the kernel side skipped: {reason}");
        return Ok(());
    }
    let target_dir = paths::target().join("clippy-ebpf");
    let mut clippy = Command::new("rustup");
    clippy
        .current_dir(paths::root())
        .args([
            "run",
            &toolchain.name,
            "cargo",
            "clippy",
            "--package",
            "tracer-ebpf",
            "--bins",
            "--release",
        ])
        .args(["--target", "bpfel-unknown-none", "--target-dir"])
        .arg(target_dir)
        // Without this rustup tells each time that a linked toolchain has no cargo and which one it takes.
        .env("RUSTUP_LOG", "error")
        .env(
            "RUSTFLAGS",
            format!("--cfg=bpf_target_arch=\"{}\"", std::env::consts::ARCH),
        );
    if toolchain.prebuilt_core {
        clippy.env("RUSTC_BOOTSTRAP", crate::bpf_toolchain::BOOTSTRAP);
    } else {
        clippy.args(["-Z", "build-std=core"]);
    }
    process::run(clippy.args(["--", "-D", "warnings"])).context("the kernel side has lints")
}
