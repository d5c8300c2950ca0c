//! Cargo's own tools that take minutes to build: once, into the cache.

use std::path::PathBuf;

use anyhow::Result;

use crate::{paths, process};

/// A tool from the registry of crates; its program bears its name.
pub struct Tool {
    pub name: &'static str,
    /// The release that is installed where there is none.
    pub version: &'static str,
    /// More for `cargo install`.
    pub options: &'static [&'static str],
}

impl Tool {
    /// The program in the cache, or else on the PATH.
    pub fn find(&self) -> Option<PathBuf> {
        let cached = self.root().ok()?.join("bin").join(self.name);
        if cached.is_file() {
            return Some(cached);
        }
        process::on_path(self.name).then(|| self.name.into())
    }

    /// The same, built into the cache where it is nowhere.
    pub fn get(&self) -> Result<PathBuf> {
        if let Some(program) = self.find() {
            return Ok(program);
        }
        let root = self.root()?;
        let mut install = process::cargo();
        install
            .args(["install", self.name, "--version", self.version, "--locked"])
            .args(self.options)
            .arg("--root")
            .arg(&root);
        process::run(&mut install)?;
        Ok(root.join("bin").join(self.name))
    }

    fn root(&self) -> Result<PathBuf> {
        Ok(paths::cache()?.join(self.name))
    }
}
