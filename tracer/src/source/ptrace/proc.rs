//! A lean reader of /proc: one open and one read a file, one buffer for all.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::parse::{self, Io, Sched, Stat, Status};
use crate::model::Bytes;

/// Longest path that readlink(2) gives.
const PATH_MAX: usize = 4096;

/// How long who has ended needs at most to leave its CPU, unless that CPU is taken away.
const SHORTLY: Duration = Duration::from_micros(500);
const PAUSE: Duration = Duration::from_micros(100);

/// What identifies a program file for the question whether it has lost its
/// privileges.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// It carries file capabilities.
    pub caps: bool,
}

pub struct Proc {
    root: File,
    path: Vec<u8>,
    buf: Vec<u8>,
}

impl Proc {
    /// `root` is /proc, or what stands for it in a test.
    pub fn new(root: &Path) -> io::Result<Self> {
        Ok(Self {
            root: File::open(root)?,
            path: Vec::with_capacity(64),
            buf: vec![0; 16 * 1024],
        })
    }

    fn set_path(&mut self, path: std::fmt::Arguments<'_>) {
        self.path.clear();
        // Writing to a Vec cannot fail.
        let _ = self.path.write_fmt(path);
        self.path.push(0);
    }

    /// The content of a file of /proc.
    fn read(&mut self, path: std::fmt::Arguments<'_>) -> io::Result<&[u8]> {
        let mut file = self.open(path)?;
        fill(&mut file, &mut self.buf)
    }

    fn open(&mut self, path: std::fmt::Arguments<'_>) -> io::Result<File> {
        self.set_path(path);
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: `path` ends with a NUL, `root` is open.
        let fd = unsafe { libc::openat(self.root.as_raw_fd(), self.path.as_ptr().cast(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and belongs to nobody else.
        Ok(unsafe { File::from_raw_fd(fd) })
    }

    /// /proc/TID/stat: of the whole process.
    pub fn stat(&mut self, tid: u32) -> Option<Stat> {
        parse::stat(self.read(format_args!("{tid}/stat")).ok()?)
    }

    /// The same, and the owner of the file: the effective uid and gid, or 0
    /// where the process may not be looked into.
    pub fn stat_and_owner(&mut self, tid: u32) -> Option<(Stat, (u32, u32))> {
        let mut file = self.open(format_args!("{tid}/stat")).ok()?;
        let owner = file.metadata().ok().map(|m| (m.uid(), m.gid()))?;
        Some((parse::stat(fill(&mut file, &mut self.buf).ok()?)?, owner))
    }

    pub fn status(&mut self, tid: u32) -> Option<Status> {
        parse::status(self.read(format_args!("{tid}/status")).ok()?)
    }

    /// Bytes read and written by one thread.
    pub fn thread_io(&mut self, tgid: u32, tid: u32) -> Option<Io> {
        parse::io(self.read(format_args!("{tgid}/task/{tid}/io")).ok()?)
    }

    /// The same for a process that had no children and no other threads, with
    /// fewer directories to walk.
    pub fn process_io(&mut self, pid: u32) -> Option<Io> {
        parse::io(self.read(format_args!("{pid}/io")).ok()?)
    }

    /// CPU time and waiting time of one thread.
    pub fn sched(&mut self, tid: u32) -> Option<Sched> {
        parse::sched(self.read(format_args!("{tid}/schedstat")).ok()?)
    }

    /// Waits until a process that has ended has also left its CPU, for at most
    /// about `limit`; says whether it has.
    ///
    /// /proc/PID/syscall waits for that (`task_current_syscall`), unless the last
    /// switch has not begun yet: then it says `running`.
    pub fn settles(&mut self, pid: u32, limit: Duration) -> bool {
        let begin = Instant::now();
        loop {
            match self.read(format_args!("{pid}/syscall")) {
                Ok(text) if !text.starts_with(b"running") => return true,
                Ok(_) if begin.elapsed() < SHORTLY => thread::yield_now(),
                // It may need the very CPU that we wait on.
                Ok(_) if begin.elapsed() < limit => thread::sleep(PAUSE),
                _ => return false,
            }
        }
    }

    /// Whether a task that stands still is at the end of an exec: it has run no
    /// instruction of its program yet.
    pub fn ends_exec(&mut self, tid: u32) -> bool {
        let text = self.read(format_args!("{tid}/syscall"));
        let number = text.ok().and_then(|t| parse::numbers::<i64>(t).next());
        number.is_some_and(|n| n == libc::SYS_execve || n == libc::SYS_execveat)
    }

    pub fn loginuid(&mut self, tid: u32) -> Option<u32> {
        parse::loginuid(self.read(format_args!("{tid}/loginuid")).ok()?)
    }

    /// Path in the unified (v2) hierarchy. The error is that of opening.
    pub fn cgroup(&mut self, tid: u32) -> io::Result<Option<Bytes>> {
        Ok(parse::cgroup(self.read(format_args!("{tid}/cgroup"))?))
    }

    pub fn cmdline(&mut self, tid: u32) -> io::Result<&[u8]> {
        self.read(format_args!("{tid}/cmdline"))
    }

    /// Pids of the children of one thread (needs CONFIG_PROC_CHILDREN).
    pub fn children(&mut self, tgid: u32, tid: u32) -> Vec<u32> {
        match self.read(format_args!("{tgid}/task/{tid}/children")) {
            Ok(text) => parse::numbers(text).collect(),
            Err(_) => Vec::new(),
        }
    }

    pub fn cwd(&mut self, tid: u32) -> io::Result<Bytes> {
        self.set_path(format_args!("{tid}/cwd"));
        let mut target = [0_u8; PATH_MAX];
        // SAFETY: `path` ends with a NUL; the kernel writes at most the length given.
        let n = unsafe {
            libc::readlinkat(
                self.root.as_raw_fd(),
                self.path.as_ptr().cast(),
                target.as_mut_ptr().cast(),
                target.len(),
            )
        };
        match usize::try_from(n) {
            Ok(n) => Ok(Bytes::from(target.get(..n).unwrap_or_default())),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// The file that `tid` runs.
    pub fn program(&mut self, tid: u32) -> Option<Program> {
        self.set_path(format_args!("{tid}/exe"));
        // SAFETY: all-zero is a valid `stat`.
        let mut st: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `path` ends with a NUL, `st` is writable.
        let r = unsafe {
            libc::fstatat(
                self.root.as_raw_fd(),
                self.path.as_ptr().cast(),
                &raw mut st,
                0,
            )
        };
        if r != 0 {
            return None;
        }
        // There is no getxattrat(2) before 6.13: go through the link of the open directory.
        let path = format!("/proc/self/fd/{}/{tid}/exe", self.root.as_raw_fd());
        let path = std::ffi::CString::new(Path::new(&path).as_os_str().as_bytes()).ok()?;
        // SAFETY: both strings end with a NUL; a size of 0 asks for the length only.
        let len = unsafe {
            libc::getxattr(
                path.as_ptr(),
                c"security.capability".as_ptr(),
                std::ptr::null_mut(),
                0,
            )
        };
        Some(Program {
            mode: st.st_mode,
            uid: st.st_uid,
            gid: st.st_gid,
            caps: len > 0,
        })
    }
}

/// Reads a file of /proc from its beginning.
fn fill<'a>(file: &mut File, buf: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
    let mut n = file.read(buf)?;
    // The kernel fills the buffer as far as the file goes: only a full one asks for more.
    while n == buf.len() {
        buf.resize(n * 2, 0);
        n += file.read(buf.get_mut(n..).unwrap_or_default())?;
    }
    Ok(buf.get(..n).unwrap_or_default())
}

/// Reads consecutive ranges of a process's memory into `to`, as far as they
/// are there; gives the number of bytes read.
pub fn read_memory(tid: u32, ranges: &[(u64, usize)], to: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: to.len(),
    };
    let remote: Vec<libc::iovec> = ranges
        .iter()
        .map(|(at, len)| libc::iovec {
            // An address of another process: never dereferenced here.
            iov_base: std::ptr::without_provenance_mut(usize::try_from(*at).unwrap_or(0)),
            iov_len: *len,
        })
        .collect();
    // SAFETY: `local` describes `to`, which is writable; `remote` is read by the
    // kernel in the other process's address space and lives until the call ends.
    let n = unsafe {
        libc::process_vm_readv(
            tid.cast_signed(),
            &raw const local,
            1,
            remote.as_ptr(),
            libc::c_ulong::try_from(remote.len()).unwrap_or(0),
            0,
        )
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}
