//! A cgroup for one test, removed at its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Cgroup {
    path: PathBuf,
    mount: PathBuf,
}

impl Cgroup {
    /// One of the v2 hierarchy.
    ///
    /// # Errors
    /// Why there can be none here.
    pub fn new() -> Result<Self, String> {
        let mount = mount_of(|kind, _| kind == "cgroup2").ok_or("no cgroup2 is mounted")?;
        Self::below(mount)
    }

    /// One whose members may use `bytes` of memory together; v1 where v2 does
    /// not have the controller.
    ///
    /// # Errors
    /// Why there can be none here.
    pub fn with_memory(bytes: u64) -> Result<Self, String> {
        let v2 = mount_of(|kind, _| kind == "cgroup2").filter(|m| {
            fs::read_to_string(m.join("cgroup.controllers"))
                .is_ok_and(|c| c.split_whitespace().any(|c| c == "memory"))
        });
        let (mount, file) = match v2 {
            Some(mount) => {
                write(&mount.join("cgroup.subtree_control"), "+memory")?;
                (mount, "memory.max")
            }
            None => {
                let v1 = |kind: &str, options: &str| {
                    kind == "cgroup" && options.split(',').any(|o| o == "memory")
                };
                (
                    mount_of(v1).ok_or("no memory controller")?,
                    "memory.limit_in_bytes",
                )
            }
        };
        let group = Self::below(mount)?;
        write(&group.path.join(file), &bytes.to_string())?;
        // Without swap the limit is one; kernels without it have no such file.
        let _ = fs::write(group.path.join("memory.swap.max"), "0");
        Ok(group)
    }

    fn below(mount: PathBuf) -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "tracer-test-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = mount.join(name);
        fs::create_dir(&path).map_err(|e| format!("cannot create {}: {e}", path.display()))?;
        Ok(Self { path, mount })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// As `/proc/PID/cgroup` shows it.
    pub fn name(&self) -> String {
        format!(
            "/{}",
            self.path
                .strip_prefix(&self.mount)
                .unwrap_or(&self.path)
                .display()
        )
    }

    /// Shell words that move the shell itself in.
    pub fn enter(&self) -> String {
        format!("echo $$ >'{}'", self.path.join("cgroup.procs").display())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A member that is just ending keeps it busy for a moment; a leftover group does no harm.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// Where the file system of which kind and options `fit` is mounted.
fn mount_of(fit: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, target, kind, options, ..] = fields[..] else {
            return None;
        };
        fit(kind, options).then(|| target.into())
    })
}
