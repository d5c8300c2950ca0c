//! Control groups (v2): the kernel's 64-bit id ↔ path below the mount.
//!
//! The id is what `bpf_get_current_cgroup_id` gives. It is also the file handle
//! of the directory in cgroupfs, so that the kernel itself can be asked for the
//! path, and (on 64-bit machines) its inode number, for those who may not ask.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use thiserror::Error;

use super::mounts;
use crate::model::{Bytes, Field, Reason};

/// Paths that are remembered; beyond that all are forgotten and asked for anew.
const CACHE: usize = 8192;
/// `FILEID_KERNFS` of the kernel's `include/linux/exportfs.h`.
const FILEID_KERNFS: i32 = 0xfe;
/// `f_type` of cgroup v2.
const CGROUP2_MAGIC: i64 = 0x6367_7270;

/// A `struct file_handle` with a kernfs id.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    id: [u8; 8],
}

#[derive(Debug, Error)]
pub enum CgroupError {
    #[error("cgroup v2 is not mounted; mount it with: mount -t cgroup2 none /sys/fs/cgroup")]
    NotMounted,
    #[error("{}: {error}; list the groups with: find {} -type d", .path.display(), .mount.display())]
    Lookup {
        path: PathBuf,
        mount: PathBuf,
        error: io::Error,
    },
}

/// Looks cgroups up; remembers what it found.
#[derive(Debug)]
pub struct Cgroups {
    mount: Option<(PathBuf, File)>,
    cache: FxHashMap<u64, Field<Bytes>>,
    /// The kernel refuses handles (no CAP_DAC_READ_SEARCH).
    refused: bool,
}

impl Cgroups {
    /// `proc` is where procfs is. Without cgroup v2 every path is missing.
    pub fn new(proc: &Path) -> Self {
        let mount = mounts::mounts(proc)
            .unwrap_or_default()
            .into_iter()
            .find_map(|m| {
                // Another mount may lie over it.
                let dir = File::open(&m.point)
                    .ok()
                    .filter(|d| m.fs_type == "cgroup2" && is_cgroup2(d))?;
                Some((m.point, dir))
            });
        Self {
            mount,
            cache: FxHashMap::default(),
            refused: false,
        }
    }

    /// Where cgroup v2 is mounted.
    pub fn mount(&self) -> Option<&Path> {
        self.mount.as_ref().map(|(point, _)| point.as_path())
    }

    /// Path of the group with `id`, from the mount (`/` is the root group).
    pub fn path(&mut self, id: u64) -> &Field<Bytes> {
        if !self.cache.contains_key(&id) {
            if self.cache.len() >= CACHE {
                self.cache.clear();
            }
            let path = self.look_up(id);
            self.cache.insert(id, path);
        }
        self.cache.get(&id).unwrap_or(&Field::Missing(Reason::Gone))
    }

    fn look_up(&mut self, id: u64) -> Field<Bytes> {
        let Some((mount, dir)) = &self.mount else {
            return Field::Missing(Reason::Kernel);
        };
        if !self.refused {
            match by_handle(dir, id) {
                Ok(full) => {
                    return match full.strip_prefix(mount) {
                        Ok(below) => Field::Full(from_root(below)),
                        // Above what this mount shows (a cgroup namespace).
                        Err(_) => Field::Missing(Reason::Denied),
                    };
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.refused = true
                }
                Err(_) => return Field::Missing(Reason::Gone),
            }
        }
        match by_walking(mount, id) {
            Some(below) => Field::Full(from_root(&below)),
            None => Field::Missing(Reason::Gone),
        }
    }

    /// Id of the group at `path`, which may be a full path or one from the mount.
    pub fn id(&self, path: &Path) -> Result<u64, CgroupError> {
        let (mount, _) = self.mount.as_ref().ok_or(CgroupError::NotMounted)?;
        let full = |p: &Path| {
            let dir = File::open(p)?;
            let metadata = dir.metadata()?;
            if is_cgroup2(&dir) && metadata.is_dir() {
                Ok(metadata.ino())
            } else {
                Err(io::Error::other("is not a directory of cgroup v2"))
            }
        };
        let below = mount.join(path.strip_prefix("/").unwrap_or(path));
        full(path)
            .or_else(|first| match full(&below) {
                // What is there and of another kind says more than what is not there.
                Err(e) if e.kind() == io::ErrorKind::NotFound => Err(first),
                found => found,
            })
            .map_err(|error| CgroupError::Lookup {
                path: path.to_path_buf(),
                mount: mount.clone(),
                error,
            })
    }
}

fn from_root(below: &Path) -> Bytes {
    Bytes::from([b"/", below.as_os_str().as_bytes()].concat())
}

fn is_cgroup2(dir: &File) -> bool {
    let mut stat = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `stat` is large enough, and valid when zeroed.
    let stat = unsafe {
        libc::fstatfs(dir.as_raw_fd(), stat.as_mut_ptr());
        stat.assume_init()
    };
    stat.f_type == CGROUP2_MAGIC
}

/// Asks the kernel for the directory with `id`, and then for its path.
fn by_handle(mount: &File, id: u64) -> io::Result<PathBuf> {
    let mut handle = Handle {
        bytes: 8,
        kind: FILEID_KERNFS,
        id: id.to_ne_bytes(),
    };
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: `handle` has the layout of a struct file_handle with 8 bytes.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_fd().as_raw_fd(),
            &raw mut handle,
            flags,
        )
    };
    let fd = i32::try_from(fd)
        .ok()
        .filter(|fd| *fd >= 0)
        .ok_or_else(io::Error::last_os_error)?;
    // SAFETY: new, and nobody else's.
    let dir = unsafe { OwnedFd::from_raw_fd(fd) };
    let path = fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()))?
        .into_os_string()
        .into_vec();
    if path.ends_with(b" (deleted)") {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(OsString::from_vec(path).into())
}

/// Looks for the directory whose inode number is `id`, below `mount`.
fn by_walking(mount: &Path, id: u64) -> Option<PathBuf> {
    if fs::metadata(mount).ok()?.ino() == id {
        return Some(PathBuf::new());
    }
    let mut todo = vec![PathBuf::new()];
    while let Some(below) = todo.pop() {
        for entry in fs::read_dir(mount.join(&below))
            .into_iter()
            .flatten()
            .flatten()
        {
            if !entry.file_type().is_ok_and(|t| t.is_dir()) {
                continue;
            }
            let path = below.join(OsStr::new(&entry.file_name()));
            if entry.ino() == id {
                return Some(path);
            }
            todo.push(path);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_paths_lead_to_each_other() {
        let mut groups = Cgroups::new(Path::new("/proc"));
        let Some(mount) = groups.mount().map(Path::to_path_buf) else {
            eprintln!("skipped: no cgroup v2 here");
            assert!(matches!(
                groups.id(Path::new("/")),
                Err(CgroupError::NotMounted)
            ));
            return;
        };
        let root = groups.id(Path::new("/")).unwrap();
        assert_eq!(root, groups.id(&mount).unwrap());
        assert_eq!(groups.path(root), &Field::Full(Bytes::from(&b"/"[..])));
        assert!(
            groups
                .id(Path::new("no/such group"))
                .unwrap_err()
                .to_string()
                .contains("find")
        );
        assert!(groups.id(Path::new("cgroup.procs")).is_err(), "a file");

        let name = format!("tracer test-{}", std::process::id());
        let dir = mount.join(&name);
        if let Err(error) = fs::create_dir(&dir).and_then(|()| fs::create_dir(dir.join("inner"))) {
            eprintln!("skipped: cannot make a cgroup: {error}");
            return;
        }
        let relative = format!("{name}/inner");
        let id = groups.id(Path::new(&relative)).unwrap();
        let by_handle = groups.path(id).clone();
        groups.cache.clear();
        groups.refused = true;
        let by_walking = groups.path(id).clone();
        fs::remove_dir(dir.join("inner")).unwrap();
        assert_eq!(groups.path(id), &by_walking, "remembered");
        groups.cache.clear();
        let walked = groups.path(id).clone();
        groups.cache.clear();
        groups.refused = false;
        let asked = groups.path(id).clone();
        fs::remove_dir(dir).unwrap();
        let expected = Field::Full(Bytes::from(format!("/{relative}").as_bytes()));
        assert_eq!(by_handle, expected);
        assert_eq!(by_walking, expected);
        assert_eq!(
            (walked, asked),
            (Field::Missing(Reason::Gone), Field::Missing(Reason::Gone))
        );
    }

    #[test]
    fn without_a_mount_nothing_is_known() {
        let mut groups = Cgroups::new(Path::new("/no/such/proc"));
        assert_eq!(groups.path(1), &Field::Missing(Reason::Kernel));
    }
}
