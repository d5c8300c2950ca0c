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
/// The linter that goes with it.
const CLIPPY: &str = "rust-web-clippy";
const TARGET: &str = "/usr/lib/rustlib/bpfel-unknown-none";

/// Crates in the user side and bpf-linker have C parts.
pub fn has_c_compiler() -> bool {
    process::on_path("cc") && process::on_path("c++") && Path::new("/usr/include/stdlib.h").exists()
}

pub fn install_c_compiler() -> Result<()> {
    if has_c_compiler() {
        return Ok(());
    }
    if !apt::exists() {
        bail!(
            "no C and C++ compiler: install your system's gcc, g++ and the headers of its C library"
        );
    }
    apt::install(&["gcc", "g++", "libc6-dev"], "the C compiler")
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
            bail!("{}", by_hand(""));
        }
        apt::install(&PACKAGES, "a Rust compiler for BPF")
            .map_err(|error| error.context(by_hand(", or")))?;
    }
    process::run(Command::new("rustup").args(["toolchain", "link", DEBIAN, "/usr"]))?;
    BpfToolchain::find().with_context(|| {
        format!(
            "`rustup run {DEBIAN} rustc` does not work though /usr/bin/rustc and {TARGET} are there"
        )
    })
}

fn by_hand(or: &str) -> String {
    format!(
        "the kernel side needs a Rust compiler for BPF. Run{or}:\n    \
         rustup toolchain install nightly --profile minimal --component rust-src\n\
         and then `cargo xtask setup` again"
    )
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
