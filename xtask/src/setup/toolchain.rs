//! The Rust compiler for the kernel side.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

use super::{apt, lock};
use crate::{
    bpf_toolchain::{BpfToolchain, DEBIAN, OVERRIDE},
    process,
};

/// Debian's compiler and its ready `core` for BPF.
const PACKAGES: [&str; 2] = ["rustc-web", "libstd-rust-web-dev-bpf"];
/// The other way to a compiler for BPF.
const NIGHTLY: &str = "rustup toolchain install nightly --profile minimal --component rust-src";
/// The linter that goes with it.
const CLIPPY: &str = "rust-web-clippy";
const TARGET: &str = "/usr/lib/rustlib/bpfel-unknown-none";

/// Whether there is this compiler (cc, c++), with the C library's headers.
pub fn has_compiler(program: &str) -> bool {
    process::on_path(program) && Path::new("/usr/include/stdlib.h").exists()
}

/// Installs the compiler unless it is there: parts of the user side and of bpf-linker are C and C++.
pub fn install_compiler(program: &str, packages: &[&str]) -> Result<()> {
    if has_compiler(program) {
        return Ok(());
    }
    if !apt::exists() {
        bail!("no {program}: install your system's gcc, g++ and the headers of its C library");
    }
    apt::install(packages, &format!("the compiler {program}"))
}

/// Finds the toolchain, or installs Debian's.
pub fn install() -> Result<BpfToolchain> {
    if let Some(toolchain) = BpfToolchain::find() {
        return Ok(toolchain);
    }
    if let Ok(name) = std::env::var(OVERRIDE) {
        bail!(
            "{OVERRIDE}={name} cannot build the kernel side.\n\
             Run `rustup component add rust-src --toolchain {name}`, or unset {OVERRIDE}."
        );
    }
    if !process::on_path("rustup") {
        bail!(
            "rustup is not on PATH; both ways to build the kernel side need it. Install rustup, then run this again."
        );
    }
    if !Path::new(TARGET).is_dir() || !Path::new("/usr/bin/rustc").is_file() {
        if !apt::exists() {
            bail!(
                "the kernel side needs a Rust compiler for BPF. Run\n    {NIGHTLY}\nand then `cargo xtask setup` again"
            );
        }
        apt::install(&PACKAGES, "a Rust compiler for BPF").with_context(|| {
            format!("Debian's Rust compiler for BPF is missing; `{NIGHTLY}` would do instead")
        })?;
    }
    process::run(Command::new("rustup").args(["toolchain", "link", DEBIAN, "/usr"]))?;
    BpfToolchain::find().with_context(|| {
        format!(
            "`rustup run {DEBIAN} rustc` does not work though /usr/bin/rustc and {TARGET} are there"
        )
    })
}

/// Installs the clippy of Debian's compiler where that is possible; the reason where there is none.
pub fn install_clippy(toolchain: &BpfToolchain) -> Result<Option<String>> {
    let runs = || {
        let mut driver = Command::new("rustup");
        process::output(driver.args(["run", &toolchain.name, "clippy-driver", "--version"])).is_ok()
    };
    if runs() {
        return Ok(None);
    }
    if toolchain.name != DEBIAN {
        return Ok(Some(format!(
            "`rustup component add clippy --toolchain {}` adds it",
            toolchain.name
        )));
    }
    if !apt::is_root() || !apt::exists() {
        return Ok(Some(format!("`apt-get install {CLIPPY}` adds it")));
    }
    let _lock = lock::take()?;
    apt::install(&[CLIPPY], "clippy for the kernel side")?;
    Ok((!runs()).then(|| {
        format!("{CLIPPY} is installed, but `rustup run {DEBIAN} clippy-driver` does not work")
    }))
}
