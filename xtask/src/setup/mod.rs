//! `cargo xtask setup`: what the machine lacks to build tracer.

mod apt;
mod debs;
mod extras;
mod linker;
mod lock;
mod tool;
mod toolchain;
pub mod vm;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
pub use tool::Tool;

use crate::bpf_toolchain::BpfToolchain;

/// Install what is missing to build tracer
///
/// The kernel side needs a Rust compiler for BPF (a rustup nightly with rust-src, or Debian's rustc-web) and a
/// bpf-linker built against the same LLVM. On Debian and its kin, as root, the packages are installed, never at
/// the price of one that is installed; elsewhere the commands to run are printed.
#[derive(clap::Args)]
pub struct Args {
    /// Also fetch, into the cache, what some tests use where it is there: duckdb, chdb, pyarrow and rotel (from
    /// PyPI, in an environment of their own), and promtool (from Debian's prometheus)
    #[arg(long)]
    extras: bool,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let toolchain = for_build()?;
    let linker = toolchain.linker().context("no cache directory")?;
    println!(
        "toolchain for the kernel side: {} (LLVM {})",
        toolchain.name, toolchain.llvm
    );
    println!("linker for the kernel side:    {}", linker.display());
    if args.extras {
        println!(
            "extras for tests:              {}",
            extras::install()?.join("bin").display()
        );
    }
    println!("Nothing else is missing: `cargo xtask build --release` builds tracer.");
    Ok(ExitCode::SUCCESS)
}

/// Sees to it that tracer can be built, and says with what; quick where nothing is missing.
pub fn for_build() -> Result<BpfToolchain> {
    if let Some(toolchain) = BpfToolchain::find()
        && linker::is_built(&toolchain)
        && has_compiler("cc")
    {
        return Ok(toolchain);
    }
    let _lock = lock::take()?;
    toolchain::install_compiler("cc", &["gcc", "libc6-dev"])?;
    let toolchain = toolchain::install()?;
    linker::install(&toolchain)?;
    Ok(toolchain)
}

/// Installs Debian packages, for what is not needed to build tracer.
pub fn install_packages(packages: &[&str], purpose: &str) -> Result<()> {
    if !apt::exists() {
        bail!(
            "{purpose} is taken from Debian's packages ({}), and this system has no apt-get",
            packages.join(", ")
        );
    }
    let _lock = lock::take()?;
    apt::install(packages, purpose)
}

pub use apt::is_root;
pub use extras::install as extras;
pub use toolchain::has_compiler;

/// Why the kernel side's clippy cannot run; where it can be installed, it is.
pub fn clippy_is_missing(toolchain: &BpfToolchain) -> Result<Option<String>> {
    toolchain::install_clippy(toolchain)
}
