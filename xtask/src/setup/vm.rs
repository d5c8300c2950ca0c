//! What `cargo xtask vm` needs: qemu, a static busybox and systemd for the guest, and Debian's kernels.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::{
    apt,
    debs::{Fetch, unpacked},
};
use crate::process;

const QEMU: &str = "qemu-system-x86_64";
/// `/lib` and `/bin` may be links to what is below `/usr`, which packages need not have.
const SYSTEMD: [&str; 2] = ["usr/lib/systemd/systemd", "lib/systemd/systemd"];
/// Where Debian's packages have shared libraries, below their root.
pub const LIBRARIES: [&str; 3] = [
    "usr/lib/x86_64-linux-gnu",
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/systemd",
];

/// A command that starts qemu: the system's own, else one in the cache.
pub fn qemu() -> Result<Command> {
    if process::on_path(QEMU) {
        return Ok(Command::new(QEMU));
    }
    let root = unpacked("qemu-system-x86", Fetch::WithDependencies)
        .context("no qemu-system-x86_64 on PATH: install your system's qemu for x86-64")?;
    let mut command = Command::new(root.join("usr/bin").join(QEMU));
    let libraries = LIBRARIES.map(|dir| root.join(dir));
    let path: OsString =
        std::env::join_paths(libraries).context("the cache directory's path contains a colon")?;
    command
        .env("LD_LIBRARY_PATH", path)
        // Its accelerators are modules, looked for where the package would have been installed.
        .env(
            "QEMU_MODULE_DIR",
            root.join("usr/lib/x86_64-linux-gnu/qemu"),
        );
    for firmware in ["qemu", "seabios"] {
        command.arg("-L").arg(root.join("usr/share").join(firmware));
    }
    Ok(command)
}

/// The root of the file system with systemd: the system's own, else one in the cache.
pub fn systemd() -> Result<PathBuf> {
    let is_there = |root: &Path| SYSTEMD.iter().any(|file| root.join(file).exists());
    let own = Path::new("/");
    if is_there(own) {
        return Ok(own.to_owned());
    }
    let root = unpacked("systemd", Fetch::WithDependencies)?;
    if !is_there(&root) {
        bail!(
            "Debian's package systemd holds no {}",
            SYSTEMD.join(", nor ")
        );
    }
    Ok(root)
}

/// A static busybox.
pub fn busybox() -> Result<PathBuf> {
    let root = unpacked("busybox-static", Fetch::Alone)?;
    [root.join("bin/busybox"), root.join("usr/bin/busybox")]
        .into_iter()
        .find(|path| path.is_file())
        .context("Debian's package busybox-static holds no busybox")
}

/// The image of a kernel: a version such as 6.12, of which Debian's newest is fetched, or a path.
pub fn kernel(name: &str) -> Result<PathBuf> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let cache = crate::paths::cache()?.join("debs");
    let cached = fs::read_dir(&cache).into_iter().flatten().flatten();
    let cached = cached
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect::<Vec<_>>();
    let package = match newest(name, cached.iter().map(String::as_str)) {
        Some(package) => package.to_owned(),
        None => {
            if apt::is_root() {
                apt::update_if_needed(&["linux-image-cloud-amd64"])?;
            }
            let pattern = format!("^linux-image-{}", name.replace('.', r"\."));
            let found = process::output(Command::new("apt-cache").args([
                "search",
                "--names-only",
                &pattern,
            ]))
            .with_context(|| {
                format!("Debian's kernel {name} cannot be looked for; give --kernel a path instead")
            })?;
            let names = found.lines().filter_map(|line| line.split(' ').next());
            newest(name, names).map(str::to_owned).with_context(|| {
                format!("this system's package lists have no cloud kernel {name}; give --kernel the path of an image")
            })?
        }
    };
    image(&unpacked(&package, Fetch::Alone)?)
}

fn image(root: &Path) -> Result<PathBuf> {
    let boot = root.join("boot");
    for entry in fs::read_dir(&boot)
        .with_context(|| format!("cannot read {}", boot.display()))?
        .flatten()
    {
        if entry.file_name().to_string_lossy().starts_with("vmlinuz-") {
            return Ok(entry.path());
        }
    }
    bail!("no vmlinuz in {}", boot.display())
}

/// The newest cloud kernel of a series among package names.
fn newest<'a>(series: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let prefix = format!("linux-image-{series}.");
    names
        .filter(|name| name.starts_with(&prefix) && name.ends_with("-cloud-amd64"))
        .max_by_key(|name| numbers(name))
}

/// The numbers in a package's name, which order as its versions do.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_of_a_series_is_taken() {
        let names = [
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-57-cloud-amd64",
            "linux-image-6.1.0-58-cloud-amd64-unsigned",
            "linux-image-6.1.0-59-amd64",
            "linux-image-6.12.99+deb12-cloud-amd64",
            "linux-image-6.12.117+deb12-cloud-amd64",
            "linux-image-6.12-cloud-amd64",
        ];
        assert_eq!(
            newest("6.1", names.into_iter()),
            Some("linux-image-6.1.0-57-cloud-amd64")
        );
        assert_eq!(
            newest("6.12", names.into_iter()),
            Some("linux-image-6.12.117+deb12-cloud-amd64")
        );
        assert_eq!(newest("6.13", names.into_iter()), None);
    }
}
