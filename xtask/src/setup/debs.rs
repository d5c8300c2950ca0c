//! Debian packages that are unpacked into the cache and not installed: the system stays as it is, and no root is needed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::{apt, lock};
use crate::{paths, process};

/// What to fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// The package alone.
    Alone,
    /// The package and those that it needs and that are not installed.
    WithDependencies,
}

/// The directory in the cache that holds the package's files, fetched unless they are there.
pub fn unpacked(package: &str, fetch: Fetch) -> Result<PathBuf> {
    let place = paths::cache()?.join("debs").join(package);
    if place.is_dir() {
        return Ok(place);
    }
    if !apt::exists() {
        bail!("{package} is taken from Debian's archive, and this system has no apt-get");
    }
    let _lock = lock::take()?;
    if place.is_dir() {
        return Ok(place);
    }
    eprintln!(
        "xtask: fetching Debian's {package} into {} (nothing is installed)",
        place.display()
    );
    let work =
        tempfile::tempdir_in(paths::cache()?).context("cannot make a directory in the cache")?;
    let [debs, files] = [work.path().join("debs"), work.path().join("files")];
    for dir in [&debs.join("partial"), &files] {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    download(package, fetch, &debs)?;
    for deb in fs::read_dir(&debs)?.flatten().map(|entry| entry.path()) {
        if deb.extension().is_some_and(|extension| extension == "deb") {
            process::output(Command::new("dpkg-deb").arg("-x").args([&deb, &files]))?;
        }
    }
    fs::create_dir_all(place.parent().unwrap_or(&place))?;
    fs::rename(&files, &place)
        .with_context(|| format!("cannot move the files to {}", place.display()))?;
    Ok(place)
}

fn download(package: &str, fetch: Fetch, dir: &Path) -> Result<()> {
    if apt::is_root() {
        apt::update_if_needed(&[package])?;
    }
    let mut command = Command::new("apt-get");
    // The cache may lie in a home directory that apt's own unprivileged user cannot enter.
    command
        .args(["-q", "-o", "APT::Sandbox::User=root"])
        .current_dir(dir);
    match fetch {
        Fetch::Alone => command.args(["download", package]),
        Fetch::WithDependencies => {
            let mut archives = std::ffi::OsString::from("Dir::Cache::archives=");
            archives.push(dir);
            command
                .args([
                    "install",
                    "--download-only",
                    "-y",
                    "--no-install-recommends",
                ])
                .args(["-o", "Debug::NoLocking=1", "-o"])
                .arg(archives)
                .arg(package)
        }
    };
    process::output(&mut command)
        .map(drop)
        .with_context(|| format!("cannot download {package}; as root, `apt-get update` may help"))
}
