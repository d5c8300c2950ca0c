//! tracefs: where it is, and instances of our own in it.
//!
//! Where it is mounted nowhere it is opened without being mounted:
//! fsopen(2) and fsmount(2) yield a directory that nobody else sees and that
//! ends with its descriptor, however this process ends.
//!
//! An instance's name says whose it is: `tracer-PIDNS-PID-START-N`. One whose
//! process is no more is stale, and whoever comes next removes it. The kernel
//! refuses to remove an instance of which a file is open.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::mounts;
use super::procfs::Proc;

const PREFIX: &str = "tracer-";
/// debugfs mounts tracefs here by itself when somebody enters.
const IN_DEBUGFS: &str = "/sys/kernel/debug/tracing";
/// A child that was forked by us and has not yet reached its exec holds our
/// files open; how often and how long that is waited for.
const BUSY_TRIES: u32 = 200;
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// Bytes; the kernel gives a page at once.
const PIECE: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    #[error(
        "tracefs, where ftrace is, cannot be opened: {0}; it needs root and CONFIG_TRACING: \
         `sudo tracer ...`, or use --backend ptrace"
    )]
    Open(io::Error),
    #[error(
        "{}: {error}; tracefs belongs to root: `sudo tracer ...`, or use --backend ptrace",
        path.display()
    )]
    Instance { path: PathBuf, error: io::Error },
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
}

/// tracefs, mounted or opened for us alone.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Keeps our own mount, which `root` names, alive.
    _own: Option<OwnedFd>,
}

impl Tracefs {
    /// Where it is mounted, or else opened for this process alone.
    ///
    /// # Errors
    /// Not root, or a kernel without it.
    pub fn open(proc: &Path) -> Result<Self, TracefsError> {
        let points = mounts::mounts(proc).unwrap_or_default().into_iter();
        let points = points.filter(|m| m.fs_type == "tracefs").map(|m| m.point);
        // `instances` tells tracefs from an empty directory, and whether we may enter.
        if let Some(root) = points
            .chain([IN_DEBUGFS.into()])
            .find(|p| p.join("instances").is_dir())
        {
            return Ok(Self { root, _own: None });
        }
        let own = mount_unseen(c"tracefs").map_err(TracefsError::Open)?;
        Ok(Self {
            root: format!("/proc/self/fd/{}", own.as_raw_fd()).into(),
            _own: Some(own),
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn instances(&self) -> PathBuf {
        self.root.join("instances")
    }

    /// Makes an instance of our own.
    pub fn instance(self, proc: &Proc) -> Result<Instance, TracefsError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let owner = Owner::of_us(proc).map_err(TracefsError::Open)?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.instances().join(format!("{owner}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => Ok(Instance {
                path,
                _tracefs: self,
            }),
            Err(error) => Err(TracefsError::Instance { path, error }),
        }
    }

    /// Instances of tracers that are no more. Those of other PID namespaces
    /// cannot be judged from here and are left alone.
    pub fn stale(&self, proc: &Proc) -> io::Result<Vec<PathBuf>> {
        let ours = Owner::of_us(proc)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(self.instances())? {
            let entry = entry?;
            let name = entry.file_name();
            if let Some(owner) = name.to_str().and_then(Owner::parse)
                && owner.namespace == ours.namespace
                && !owner.is_alive(proc)
            {
                found.push(entry.path());
            }
        }
        Ok(found)
    }

    /// Removes what [`Self::stale`] finds, and says what it removed. One of
    /// which a file is open is in somebody's use and stays.
    pub fn remove_stale(&self, proc: &Proc) -> io::Result<Vec<PathBuf>> {
        let mut found = self.stale(proc)?;
        found.retain(|path| fs::remove_dir(path).is_ok());
        Ok(found)
    }
}

/// Whose an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    /// Inode of the PID namespace in which `pid` is meant.
    namespace: u64,
    pid: u32,
    /// As `/proc/PID/stat` has it, ns.
    start: u64,
}

impl Owner {
    fn of_us(proc: &Proc) -> io::Result<Self> {
        let pid = std::process::id();
        Ok(Self {
            namespace: fs::metadata(proc.root().join("self/ns/pid"))?.ino(),
            pid,
            start: proc.stat(pid)?.id.start,
        })
    }

    fn parse(name: &str) -> Option<Self> {
        let mut numbers = name.strip_prefix(PREFIX)?.split('-').map(str::parse);
        let mut next = || numbers.next()?.ok();
        let (namespace, pid, start, _count) = (next()?, next()?, next()?, next()?);
        Some(Self {
            namespace,
            pid: u32::try_from(pid).ok()?,
            start,
        })
        .filter(|_| numbers.next().is_none())
    }

    fn is_alive(&self, proc: &Proc) -> bool {
        match proc.stat(self.pid) {
            Ok(stat) => stat.id.start == self.start,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            namespace,
            pid,
            start,
        } = self;
        write!(f, "{PREFIX}{namespace}-{pid}-{start}")
    }
}

/// A trace buffer with settings of its own. It ends with this value, for which
/// all of its files must be closed by then.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    _tracefs: Tracefs,
}

impl Instance {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(&self, file: &str, value: &str) -> Result<(), TracefsError> {
        let path = self.path.join(file);
        // Not `fs::write`: O_TRUNC empties `set_event_pid`.
        let opened = OpenOptions::new().write(true).open(&path);
        opened
            .and_then(|mut f| f.write_all(value.as_bytes()))
            .map_err(|error| TracefsError::File { path, error })
    }

    pub fn read(&self, file: &str) -> Result<String, TracefsError> {
        let path = self.path.join(file);
        // Room for most files in one read. Those that change meanwhile lack something where
        // they are read in pieces, such as `set_event_pid`, which goes on by the number of lines.
        let mut text = String::with_capacity(PIECE);
        File::open(&path)
            .and_then(|mut f| f.read_to_string(&mut text))
            .map_err(|error| TracefsError::File { path, error })?;
        Ok(text)
    }

    /// What the kernel counted on one CPU.
    pub fn cpu_stats(&self, cpu: u32) -> Option<CpuStats> {
        let path = self.path.join(format!("per_cpu/cpu{cpu}/stats"));
        // By one read: the kernel writes this text anew for each (kernel/trace/trace.c,
        // tracing_stats_read), and pieces of several do not fit together.
        let mut text = [0; 1024];
        let length = File::open(path).and_then(|mut f| f.read(&mut text)).ok()?;
        CpuStats::parse(std::str::from_utf8(text.get(..length)?).ok()?)
    }
}

/// Figures of a CPU's buffer, in records since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuStats {
    /// Overwritten before they were read.
    pub overrun: u64,
    /// Not written for want of room.
    pub dropped: u64,
    /// Given to a reader.
    pub read: u64,
}

impl CpuStats {
    fn parse(text: &str) -> Option<Self> {
        // `commit overrun:` ends like `overrun:`.
        let figure = |key| -> Option<u64> {
            text.lines()
                .find_map(|l| l.strip_prefix(key)?.trim().parse().ok())
        };
        Some(Self {
            overrun: figure("overrun: ")?,
            dropped: figure("dropped events: ")?,
            read: figure("read events: ")?,
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        for _ in 0..BUSY_TRIES {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(BUSY_PAUSE);
                }
                _ => return,
            }
        }
        eprintln!(
            "tracer: {} is still in use and stays until tracer is started again",
            self.path.display()
        );
    }
}

/// A file system's directory that is in no mount table.
pub fn mount_unseen(fs_type: &CStr) -> io::Result<OwnedFd> {
    const CLOEXEC: u32 = 1;
    const FSCONFIG_CMD_CREATE: u32 = 6;
    let none = std::ptr::null::<u8>();
    // SAFETY: the name is a string that ends in NUL.
    let context =
        descriptor(unsafe { libc::syscall(libc::SYS_fsopen, fs_type.as_ptr(), CLOEXEC) })?;
    let fd = context.as_raw_fd();
    // SAFETY: a command without arguments, on a descriptor that is open.
    if unsafe { libc::syscall(libc::SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, none, none, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes numbers only.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, fd, CLOEXEC, 0) })
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(result) {
        // SAFETY: the kernel has just given it to us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests;
