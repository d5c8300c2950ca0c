//! Which Rust compiler and which linker build the kernel side; shared by `xtask` and tracer's build script.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Names another rustup toolchain for the kernel side, ahead of those that are looked for.
pub const OVERRIDE: &str = "TRACER_BPF_TOOLCHAIN";
/// The name under which `cargo xtask setup` links Debian's compiler, which lies in /usr, into rustup.
pub const DEBIAN: &str = "tracer-bpf";
/// The release of bpf-linker that `cargo xtask setup` builds.
pub const LINKER_VERSION: &str = "0.13.0";

/// The value of RUSTC_BOOTSTRAP for a compiler with a ready `core`: the crates in which a stable compiler accepts
/// nightly features. aya-build builds `core` from source where the value is "1" or the package's name; not for a list.
pub const BOOTSTRAP: &str = "aya_ebpf,tracer_ebpf,tracer_hist";

/// A compiler that can produce BPF code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfToolchain {
    /// The name rustup knows it by.
    pub name: String,
    /// It ships a ready `core` for the BPF target; otherwise it is a nightly that builds `core` from rust-src.
    pub prebuilt_core: bool,
    /// The major version of its LLVM, which bpf-linker must have been built against.
    pub llvm: u32,
}

impl BpfToolchain {
    /// The toolchain to use: the one named by the environment, a nightly with rust-src, or Debian's.
    ///
    /// Returns `None` when there is none, or when the one named by the environment is of no use.
    pub fn find() -> Option<Self> {
        match env::var(OVERRIDE) {
            Ok(name) if !name.is_empty() => Self::examine(&name),
            _ => ["nightly", DEBIAN]
                .iter()
                .find_map(|name| Self::examine(name)),
        }
    }

    fn examine(name: &str) -> Option<Self> {
        let sysroot = PathBuf::from(rustc(name, &["--print", "sysroot"])?.trim());
        let rustlib = sysroot.join("lib/rustlib");
        let prebuilt_core = rustlib.join("bpfel-unknown-none").is_dir();
        if !prebuilt_core && !rustlib.join("src/rust/library/core").is_dir() {
            return None;
        }
        let llvm = llvm_major(&rustc(name, &["-vV"])?)?;
        Some(Self {
            name: name.to_owned(),
            prebuilt_core,
            llvm,
        })
    }

    /// Where `cargo xtask setup` puts the bpf-linker for this toolchain; `None` without a home directory.
    pub fn linker(&self) -> Option<PathBuf> {
        Some(
            cache_dir()?
                .join(format!("bpf-linker-{LINKER_VERSION}-llvm-{}", self.llvm))
                .join("bin/bpf-linker"),
        )
    }
}

/// What the machine-wide, rebuildable things are kept in: never inside the repository.
pub fn cache_dir() -> Option<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("tracer"))
}

/// What `rustc ARGS` of a rustup toolchain prints; `None` where it does not exist or cannot run.
pub fn rustc(toolchain: &str, args: &[&str]) -> Option<String> {
    // A toolchain that is missing must not be downloaded by merely asking for it.
    let output = Command::new("rustup")
        .args(["run", toolchain, "rustc"])
        .args(args)
        .env("RUSTUP_AUTO_INSTALL", "0")
        .env_remove("RUSTC")
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8(output.stdout).ok())?
}

/// The major version in the line `LLVM version: 22.1.8` of `rustc -vV`.
pub fn llvm_major(version: &str) -> Option<u32> {
    let line = version
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))?;
    line.split('.').next()?.trim().parse().ok()
}

/// The workspace's root, given the directory of one of its members.
pub fn workspace_root(member: &Path) -> &Path {
    member.parent().unwrap_or(member)
}
