//! Debian's packages.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Result, bail};

use crate::process;

/// Package lists older than this are fetched anew before something is installed.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// Whether this is Debian or one of its kin.
pub fn exists() -> bool {
    process::on_path("apt-get") && Path::new("/var/lib/dpkg/status").is_file()
}

/// The command that installs packages without ever removing one.
pub fn command(packages: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(["install", "-y", "--no-install-recommends", "--no-remove"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Installs packages, or fails with the command that would.
pub fn install(packages: &[&str], purpose: &str) -> Result<()> {
    let by_hand = format!(
        "apt-get install -y --no-install-recommends --no-remove {}",
        packages.join(" ")
    );
    if !is_root() {
        bail!("{purpose} needs packages, which only root can install. Run:\n    sudo {by_hand}");
    }
    eprintln!("xtask: {purpose}: installing {}", packages.join(", "));
    update_if_needed(packages)?;
    process::run(&mut command(packages))
}

/// Fetches the package lists if there are none, if they are old, or if one of the packages is not in them.
pub fn update_if_needed(packages: &[&str]) -> Result<()> {
    if !lists_are_fresh() || !packages.iter().all(|package| is_known(package)) {
        process::run(Command::new("apt-get").args(["update", "-q"]))?;
    }
    Ok(())
}

/// Whether the package lists have a version of the package that can be installed.
pub fn is_known(package: &str) -> bool {
    process::output(Command::new("apt-cache").args(["show", "--no-all-versions", package])).is_ok()
}

pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|ours| {
        use std::os::unix::fs::MetadataExt as _;
        ours.uid() == 0
    })
}

fn lists_are_fresh() -> bool {
    let Ok(lists) = fs::read_dir("/var/lib/apt/lists") else {
        return false;
    };
    // The modification time of a list is the server's; the time that `update` ran is its directory's.
    let mut files = lists
        .flatten()
        .filter(|file| file.file_name().to_string_lossy().contains("Packages"));
    let updated = ["/var/lib/apt/lists/partial", "/var/lib/apt/lists"]
        .iter()
        .filter_map(|dir| fs::metadata(dir).and_then(|dir| dir.modified()).ok())
        .max();
    files.next().is_some()
        && updated.is_some_and(|at| {
            SystemTime::now()
                .duration_since(at)
                .is_ok_and(|age| age < STALE)
        })
}
