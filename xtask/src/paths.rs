//! Where things are.

use std::{env, fs, path::PathBuf};

use anyhow::{Context as _, Result};

use crate::bpf_toolchain;

/// The root of the workspace that this xtask was built from.
pub fn root() -> PathBuf {
    bpf_toolchain::workspace_root(env!("CARGO_MANIFEST_DIR").as_ref()).to_owned()
}

/// Cargo's target directory.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The released binary, which `build --release` leaves.
pub fn tracer() -> PathBuf {
    target().join("release/tracer")
}

/// The directory for what was downloaded or built for this machine; it is made if need be.
pub fn cache() -> Result<PathBuf> {
    let dir = bpf_toolchain::cache_dir().context(
        "no place for what is downloaded: set HOME or XDG_CACHE_HOME to an absolute path",
    )?;
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir)
}
