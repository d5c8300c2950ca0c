//! What goes into the guest: tracer, the end-to-end tests, their fixtures, and the shared libraries of them all.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::cpio::Archive;
use crate::{build, paths, process, setup, test};

/// A file of the guest, and the one of ours that it is a copy of.
struct Item {
    guest: PathBuf,
    host: PathBuf,
}

/// Builds and finds the tests, their fixtures, and tracer.
pub fn suite() -> Result<Payload> {
    build::release_quietly()?;
    let mut items = vec![tracer()];
    for (name, executable) in test::executables()? {
        items.push(Item {
            guest: Path::new("payload/tests").join(name),
            host: executable,
        });
    }
    let fixtures = test::fixtures()?;
    for entry in
        fs::read_dir(&fixtures).with_context(|| format!("cannot read {}", fixtures.display()))?
    {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            items.push(Item {
                guest: Path::new("payload/fixtures").join(entry.file_name()),
                host: entry.path(),
            });
        }
    }
    Ok(Payload::new(
        items,
        include_bytes!("init.sh"),
        Path::new("/"),
    ))
}

/// Builds and finds the tests of the service, which run where systemd does.
pub fn service() -> Result<Payload> {
    let mut items = vec![tracer()];
    for (name, executable) in test::executables()? {
        if name == SERVICE_TESTS {
            items.push(Item {
                guest: Path::new("payload/tests").join(name),
                host: executable,
            });
        }
    }
    let systemd = setup::vm::systemd()?;
    for file in SYSTEMD_FILES {
        let hosts = [systemd.join("usr").join(file), systemd.join(file)];
        // Later versions have more programs.
        if let Some(host) = hosts.into_iter().find(|host| host.exists()) {
            items.push(Item {
                guest: file.into(),
                host,
            });
        }
    }
    let init = include_bytes!("init-systemd.sh");
    Ok(Payload::new(items, init, &systemd))
}

/// The end-to-end tests that need systemd.
pub const SERVICE_TESTS: &str = "systemd";
/// What systemd needs of itself to start a service.
const SYSTEMD_FILES: [&str; 13] = [
    "lib/systemd/systemd",
    "lib/systemd/systemd-executor",
    "bin/systemctl",
    "lib/systemd/system/basic.target",
    "lib/systemd/system/local-fs.target",
    "lib/systemd/system/multi-user.target",
    "lib/systemd/system/paths.target",
    "lib/systemd/system/shutdown.target",
    "lib/systemd/system/slices.target",
    "lib/systemd/system/sockets.target",
    "lib/systemd/system/sysinit.target",
    "lib/systemd/system/timers.target",
    "lib/systemd/system/umount.target",
];

fn tracer() -> Item {
    Item {
        guest: "payload/tracer".into(),
        host: paths::tracer(),
    }
}

/// The files for the guest.
pub struct Payload {
    items: Vec<Item>,
    init: &'static [u8],
}

impl Payload {
    /// These, with the shared libraries that they need, those below `root` first.
    fn new(mut items: Vec<Item>, init: &'static [u8], root: &Path) -> Self {
        let libraries: BTreeSet<PathBuf> = items
            .iter()
            .flat_map(|item| libraries(&item.host, root))
            .collect();
        for library in libraries {
            let guest = library
                .strip_prefix(root)
                .or_else(|_| library.strip_prefix("/"));
            items.push(Item {
                guest: guest.unwrap_or(&library).to_owned(),
                host: library,
            });
        }
        Self { items, init }
    }

    /// The initramfs that runs this shell script.
    pub fn initramfs(&self, command: &str) -> Result<Vec<u8>> {
        let mut archive = Archive::new(Vec::new());
        for dir in ["dev", "etc", "proc", "root", "run", "sys", "tmp", "usr"] {
            archive.directory(Path::new(dir))?;
        }
        // Where the kernel's own output goes until devtmpfs is mounted.
        archive.character_device(Path::new("dev/console"), (5, 1))?;
        archive.file(Path::new("init"), 0o755, self.init)?;
        archive.file(Path::new("command"), 0o644, command.as_bytes())?;
        archive.file(
            Path::new("payload/run-tests"),
            0o755,
            include_bytes!("run-tests.sh"),
        )?;
        archive.file(
            Path::new("bin/busybox"),
            0o755,
            &fs::read(setup::vm::busybox()?)?,
        )?;
        archive.file(
            Path::new("etc/passwd"),
            0o644,
            b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n",
        )?;
        archive.file(
            Path::new("etc/group"),
            0o644,
            b"root:x:0:\nnogroup:x:65534:\n",
        )?;
        for link in ["sbin", "usr/bin", "usr/sbin"] {
            archive.symlink(Path::new(link), "/bin")?;
        }
        for item in &self.items {
            let permissions = fs::metadata(&item.host)
                .with_context(|| format!("cannot read {}", item.host.display()))?
                .permissions()
                .mode();
            archive.file(&item.guest, permissions & 0o7777, &stripped(&item.host)?)?;
        }
        Ok(archive.finish()?)
    }
}

/// The file's content, without debug information where binutils can take that out: the guest has little memory.
fn stripped(path: &Path) -> Result<Vec<u8>> {
    let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    const WORTH_IT: usize = 4 << 20;
    if content.len() < WORTH_IT {
        return Ok(content);
    }
    let smaller = tempfile::NamedTempFile::new()?;
    let strip = Command::new("strip")
        .args(["--strip-debug", "-o"])
        .args([smaller.path(), path])
        .output();
    match strip {
        Ok(output) if output.status.success() => Ok(fs::read(smaller.path())?),
        _ => Ok(content),
    }
}

/// The shared libraries that the program needs, with the dynamic linker; none for a static one or for data.
fn libraries(program: &Path, root: &Path) -> Vec<PathBuf> {
    let places = setup::vm::LIBRARIES.map(|dir| root.join(dir));
    let mut ldd = Command::new("ldd");
    if let Ok(path) = std::env::join_paths(places) {
        ldd.env("LD_LIBRARY_PATH", path);
    }
    let Ok(listing) = process::output(ldd.arg(program)) else {
        return Vec::new();
    };
    listing
        .split_whitespace()
        .filter(|word| word.starts_with('/') && !word.ends_with(':'))
        .map(PathBuf::from)
        .collect()
}
