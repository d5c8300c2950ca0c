//! bpf-linker, built from source against the LLVM of the compiler whose output it links.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context as _, Result, bail};

use super::{apt, toolchain::install_compiler};
use crate::{
    bpf_toolchain::{BpfToolchain, LINKER_VERSION},
    paths,
    process::{cargo, display, run},
};

/// The major versions of LLVM that this bpf-linker can be built against.
const SUPPORTED: [u32; 3] = [21, 22, 23];

pub fn is_built(toolchain: &BpfToolchain) -> bool {
    toolchain.linker().is_some_and(|linker| linker.is_file())
}

/// Builds the linker into the cache unless it is there; takes some two minutes.
pub fn install(toolchain: &BpfToolchain) -> Result<()> {
    if is_built(toolchain) {
        return Ok(());
    }
    let llvm = toolchain.llvm;
    if !SUPPORTED.contains(&llvm) {
        bail!(
            "bpf-linker {LINKER_VERSION} knows LLVM {SUPPORTED:?}, but the toolchain {} uses LLVM {llvm}. Choose another \
             with {}=NAME.",
            toolchain.name,
            crate::bpf_toolchain::OVERRIDE
        );
    }
    let place = toolchain.linker().context("no cache directory")?;
    let [bin, root] = [place.parent(), place.parent().and_then(Path::parent)];
    let (Some(bin), Some(root)) = (bin, root) else {
        bail!("{} has no parent directory", place.display());
    };
    install_compiler("c++", &["g++"])?;
    let prefix = llvm_prefix(llvm)?;
    eprintln!(
        "xtask: building bpf-linker {LINKER_VERSION} for LLVM {llvm} into {}: some two minutes",
        bin.display()
    );

    // Built beside its place and then moved, so that a build that is interrupted leaves nothing half done.
    let work = paths::cache()?.join(format!("bpf-linker-build-{}", process::id()));
    let mut install = cargo();
    install
        .args([
            "install",
            "bpf-linker",
            "--version",
            LINKER_VERSION,
            "--locked",
        ])
        .args([
            "--no-default-features",
            "--features",
            &format!("llvm-{llvm}"),
            "--root",
        ])
        .arg(work.join("root"))
        .arg("--target-dir")
        .arg(work.join("target"))
        // Its build script asks this one; any other llvm-config on PATH may be of another version.
        .env("LLVM_PREFIX", &prefix);
    let built = run(&mut install).with_context(|| {
        format!("bpf-linker could not be built; by hand it is\n    {}\nThen run `cargo xtask setup` again", display(&install))
    });
    let moved = built.and_then(|()| {
        fs::create_dir_all(root)?;
        let _ = fs::remove_dir_all(bin);
        fs::rename(work.join("root/bin"), bin)
            .with_context(|| format!("cannot move bpf-linker to {}", bin.display()))
    });
    let _ = fs::remove_dir_all(&work);
    moved
}

/// The prefix of that LLVM with its headers, installed first if need be.
fn llvm_prefix(llvm: u32) -> Result<PathBuf> {
    let prefix = PathBuf::from(format!("/usr/lib/llvm-{llvm}"));
    let is_there = || {
        ["bin/llvm-config", "include/llvm-c/Core.h", "lib/libPolly.a"]
            .iter()
            .all(|file| prefix.join(file).exists())
    };
    if is_there() {
        return Ok(prefix);
    }
    if !apt::exists() {
        bail!(
            "bpf-linker has to be built against LLVM {llvm}. Install LLVM {llvm} with its headers, so that {} exists \
             (a symbolic link will do), then run `cargo xtask setup` again.",
            prefix.join("bin/llvm-config").display()
        );
    }
    let [dev, polly] = [format!("llvm-{llvm}-dev"), format!("libpolly-{llvm}-dev")];
    apt::install(&[&dev, &polly], &format!("LLVM {llvm}, for bpf-linker")).with_context(|| {
        format!("no LLVM {llvm} for bpf-linker; the LLVM project's own apt archive has it too")
    })?;
    if !is_there() {
        bail!(
            "{dev} is installed, but {} is not what was expected",
            prefix.display()
        );
    }
    Ok(prefix)
}
