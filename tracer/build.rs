//! Builds the kernel side, so that the binary can embed it from `$OUT_DIR/tracer-ebpf`.

#[path = "../xtask/src/bpf_toolchain.rs"]
mod bpf_toolchain;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use aya_build::{Package, Toolchain};
use bpf_toolchain::{BOOTSTRAP, BpfToolchain, OVERRIDE, workspace_root};

const PACKAGE: &str = "tracer-ebpf";

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<()> {
    let manifest_dir =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("cargo sets CARGO_MANIFEST_DIR")?);
    let root = workspace_root(&manifest_dir);
    for source in [
        "tracer-common/src",
        "xtask/src/bpf_toolchain.rs",
        "Cargo.toml",
        "Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    for name in [OVERRIDE, "XDG_CACHE_HOME", "HOME", "RUSTUP_HOME"] {
        println!("cargo::rerun-if-env-changed={name}");
    }

    let toolchain = BpfToolchain::find().with_context(no_toolchain)?;
    let linker = toolchain
        .linker()
        .context("neither XDG_CACHE_HOME nor HOME is an absolute path")?;
    println!("cargo::rerun-if-changed={}", linker.display());
    if !linker.is_file() {
        bail!(
            "{} is missing: no bpf-linker for LLVM {}, which the toolchain {} uses.\n\
             Run `cargo xtask setup`: it builds one there.",
            linker.display(),
            toolchain.llvm,
            toolchain.name
        );
    }
    prepare_environment(&toolchain, &linker)?;

    let source = root.join(PACKAGE);
    aya_build::build_ebpf(
        [Package {
            name: PACKAGE,
            root_dir: source
                .to_str()
                .context("the path of the workspace is not UTF-8")?,
            ..Package::default()
        }],
        Toolchain::Custom(&toolchain.name),
    )
}

/// Tells the cargo that aya-build starts where the linker is and which unstable features may be used.
fn prepare_environment(toolchain: &BpfToolchain, linker: &Path) -> Result<()> {
    let bin = linker.parent().context("the linker is in a directory")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([bin.to_owned()].into_iter().chain(env::split_paths(&path)))
        .context("the cache directory's path contains a colon")?;
    // SAFETY: the build script has started no thread, so nobody reads the environment meanwhile.
    unsafe {
        env::set_var("PATH", path);
        // aya-build repeats each line of this cargo as a warning: leave only those that are warnings.
        env::set_var("CARGO_TERM_QUIET", "true");
        env::set_var("RUSTUP_LOG", "error");
        if toolchain.prebuilt_core {
            env::set_var("RUSTC_BOOTSTRAP", BOOTSTRAP);
        }
    }
    Ok(())
}

fn no_toolchain() -> String {
    match env::var(OVERRIDE) {
        Ok(name) if !name.is_empty() => format!(
            "{OVERRIDE}={name} cannot build the kernel side: `rustup run {name} rustc` does not work, or it has \
             neither a `core` for bpfel-unknown-none nor rust-src.\n\
             Run `rustup component add rust-src --toolchain {name}`, or unset {OVERRIDE}."
        ),
        _ => "no Rust toolchain can build the kernel side for BPF.\n\
              Run `cargo xtask setup`: on Debian, as root, it installs rustc-web with a `core` for BPF and links it \
              into rustup; elsewhere it prints what to install (a nightly with rust-src, and LLVM for bpf-linker)."
            .to_owned(),
    }
}
