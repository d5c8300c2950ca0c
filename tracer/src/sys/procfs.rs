//! What /proc says of a process, in bytes and without decoding the rest of it.

mod status;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::model::{Args, Bytes, Comm, Field, Precision, ProcId, Reason};

pub use status::Status;

/// Where procfs is.
#[derive(Clone, Debug)]
pub struct Proc {
    root: PathBuf,
    /// Length of a tick of `/proc/PID/stat`, ns.
    tick_ns: u64,
}

/// From `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub id: ProcId,
    pub ppid: u32,
    pub comm: Comm,
    pub kthread: bool,
    /// It has ended and waits to be reaped.
    pub zombie: bool,
    /// Its leader is about to end, or has.
    pub exiting: bool,
}

/// How often the arguments of a program that exec is just loading are asked for.
const PATIENCE: usize = 64;

/// `PF_KTHREAD` of the kernel's `include/linux/sched.h`.
const PF_KTHREAD: u64 = 0x0020_0000;
const PF_EXITING: u64 = 0x4;

impl Default for Proc {
    fn default() -> Self {
        Self::at(Path::new("/proc"))
    }
}

impl Proc {
    pub fn at(root: &Path) -> Self {
        // SAFETY: asks for a number.
        let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        let ticks = u64::try_from(ticks).ok().filter(|t| *t > 0).unwrap_or(100);
        Self {
            root: root.to_path_buf(),
            tick_ns: 1_000_000_000 / ticks,
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn file(&self, pid: u32, name: &str) -> PathBuf {
        self.root.join(pid.to_string()).join(name)
    }

    /// Identity, parent and name. The comm may hold spaces and brackets.
    ///
    /// # Errors
    /// The process is gone (`NotFound`), or the line is not understood.
    pub fn stat(&self, pid: u32) -> io::Result<Stat> {
        let line = fs::read(self.file(pid, "stat")).map_err(gone)?;
        parse_stat(&line, pid, self.tick_ns).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("/proc/{pid}/stat is not understood"),
            )
        })
    }

    /// Arguments as they are in memory now, at most `max` bytes of them. Those
    /// of a kernel thread are empty.
    pub fn argv(&self, pid: u32, max: usize) -> Field<Args> {
        let read = || {
            // Room for most in one read: the process may be gone before a second.
            let mut bytes = Vec::with_capacity(4096);
            // One more tells whether there was more.
            let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
            File::open(self.file(pid, "cmdline"))?
                .take(limit)
                .read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        for _ in 0..PATIENCE {
            match read() {
                Ok(mut bytes) if bytes.len() > max => {
                    bytes.truncate(max);
                    return Field::Truncated(Args(bytes.into()));
                }
                // Linux gives every program one argument at least. So this is a
                // kernel thread, a zombie, or a program that exec is just loading.
                Ok(bytes) if bytes.is_empty() => match self.stat(pid) {
                    Ok(stat) if stat.kthread => return Field::Full(Args::default()),
                    Ok(stat) if !stat.zombie => std::thread::yield_now(),
                    _ => break,
                },
                // It ended, or wrote over them, between two reads.
                Ok(bytes) if !bytes.ends_with(b"\0") => {
                    return Field::Truncated(Args(bytes.into()));
                }
                Ok(bytes) => return Field::Full(Args(bytes.into())),
                Err(error) => return Field::Missing(reason(&error)),
            }
        }
        Field::Missing(Reason::Gone)
    }

    /// The program's file. The kernel adds ` (deleted)` to one that is no more.
    pub fn exe(&self, pid: u32) -> Field<Bytes> {
        self.link(pid, "exe")
    }

    pub fn cwd(&self, pid: u32) -> Field<Bytes> {
        self.link(pid, "cwd")
    }

    fn link(&self, pid: u32, name: &str) -> Field<Bytes> {
        match fs::read_link(self.file(pid, name)) {
            Ok(path) => Field::Full(Bytes::from(path.into_os_string().into_vec())),
            Err(error) => Field::Missing(reason(&error)),
        }
    }

    fn sysctl(&self, name: &str) -> io::Result<String> {
        Ok(fs::read_to_string(self.root.join("sys/kernel").join(name))?
            .trim_end()
            .to_owned())
    }

    /// Identifies this boot, so that captures of several are not mixed.
    pub fn boot_id(&self) -> io::Result<String> {
        self.sysctl("random/boot_id")
    }

    pub fn hostname(&self) -> io::Result<String> {
        self.sysctl("hostname")
    }

    /// Kernel release, as of `uname -r`.
    pub fn kernel(&self) -> io::Result<String> {
        self.sysctl("osrelease")
    }

    /// A sysctl that is a number, as `task_delayacct`; `None`: this kernel does
    /// not have it, or we may not read it.
    pub fn kernel_number(&self, name: &str) -> Option<u64> {
        self.sysctl(name).ok()?.parse().ok()
    }
}

/// `6.18` of a kernel's release such as `6.18.44-fc`.
pub fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether our pids are those that the kernel itself uses.
pub fn in_initial_pid_namespace() -> bool {
    /// `PROC_PID_INIT_INO` of the kernel's include/linux/proc_ns.h.
    const INITIAL: u64 = 0xEFFF_FFFC;
    fs::metadata("/proc/self/ns/pid").is_ok_and(|m| m.ino() == INITIAL)
}

/// Whether the procfs at `root` has the pids that system calls use, and is not that of
/// another PID namespace.
pub fn has_own_pids(root: &Path) -> bool {
    let own = fs::read_link(root.join("self"));
    own.is_ok_and(|own| own.as_os_str() == &*std::process::id().to_string())
}

/// CPUs that are online.
pub fn cpus() -> u32 {
    // SAFETY: asks for a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(count).unwrap_or(1).max(1)
}

/// A process may end between opening and reading its file.
fn gone(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::ESRCH) {
        io::ErrorKind::NotFound.into()
    } else {
        error
    }
}

/// Why something of a process, or of its memory, could not be read.
pub(crate) fn reason(error: &io::Error) -> Reason {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Reason::Denied,
        Some(libc::EIO | libc::EFAULT) => Reason::Fault,
        // A path that is too long for a link of /proc.
        Some(libc::ENAMETOOLONG) => Reason::Source,
        _ => Reason::Gone,
    }
}

/// Fields after the comm, which ends at the last `)`: state, ppid, … flags is
/// the 9th field of the line, the start time the 22nd.
fn parse_stat(line: &[u8], pid: u32, tick_ns: u64) -> Option<Stat> {
    let open = memchr::memchr(b'(', line)?;
    let close = memchr::memrchr(b')', line).filter(|c| *c > open)?;
    let number = |word: &str| word.parse::<u64>().ok();
    let mut words = std::str::from_utf8(&line[close + 1..])
        .ok()?
        .split_ascii_whitespace();
    let state = words.next()?;
    let ppid = number(words.next()?)?;
    let flags = number(words.nth(4)?)?;
    let start = number(words.nth(12)?)?;
    Some(Stat {
        id: ProcId {
            pid,
            start: start.checked_mul(tick_ns)?,
            precision: Precision::Tick,
        },
        ppid: u32::try_from(ppid).ok()?,
        comm: Comm::new(&line[open + 1..close]),
        kthread: flags & PF_KTHREAD != 0,
        zombie: matches!(state, "Z" | "X"),
        exiting: flags & PF_EXITING != 0,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::model::time;

    #[test]
    fn a_comm_with_brackets_does_not_shift_the_fields() {
        let line = b"7 (a) S 1 (\n) R 3 7 7 0 -1 2129984 1 0 0 0 0 0 0 0 20 0 1 0 500 0 0";
        let stat = parse_stat(line, 7, 10_000_000).unwrap();
        assert_eq!(
            stat.id,
            ProcId {
                pid: 7,
                start: 5_000_000_000,
                precision: Precision::Tick
            }
        );
        assert_eq!(
            (stat.ppid, stat.comm.as_slice(), stat.kthread, stat.zombie),
            (3, &b"a) S 1 (\n"[..], true, false)
        );
        for cut in 0..line.len() - 8 {
            assert_eq!(parse_stat(&line[..cut], 7, 1), None, "{cut}");
        }
        assert_eq!(parse_stat(b"7 )(", 7, 1), None);
        assert_eq!(
            parse_stat(
                b"7 (x) R 3 7 7 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 99999999999999999999",
                7,
                1
            ),
            None
        );
    }

    #[test]
    fn a_child_of_ours_is_read_whole() {
        let before = time::boot_ns();
        // Waits for its input before it looks at its second argument.
        let mut child = Command::new("cat")
            .args(["-", ""])
            .current_dir("/")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let proc = Proc::default();
        let pid = child.id();
        // spawn() returns when the exec can no longer fail, which is before
        // the kernel has put the arguments in their place.
        let deadline = Instant::now() + Duration::from_secs(10);
        while proc.argv(pid, 4096).value().is_none() {
            assert!(Instant::now() < deadline, "exec does not end");
            std::thread::yield_now();
        }
        let stat = proc.stat(pid).unwrap();
        let (argv, cut) = (proc.argv(pid, 4096), proc.argv(pid, 5));
        let (exe, cwd) = (proc.exe(pid), proc.cwd(pid));
        child.kill().unwrap();
        while proc.argv(pid, 10) != Field::Missing(Reason::Gone) {
            assert!(Instant::now() < deadline, "a zombie has no arguments");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(
            (stat.ppid, stat.comm.as_slice(), stat.kthread),
            (std::process::id(), &b"cat"[..], false)
        );
        let tolerance = Precision::Tick.tolerance_ns();
        assert!(
            stat.id.start + tolerance >= before && stat.id.start <= time::boot_ns(),
            "{stat:?} {before}"
        );
        assert_eq!(argv, Field::Full(Args::from_strings(["cat", "-", ""])));
        assert_eq!(cut, Field::Truncated(Args(b"cat\0-"[..].into())));
        assert_eq!(cwd, Field::Full(Bytes::from(&b"/"[..])));
        assert!(
            exe.value().is_some_and(|e| e.as_slice().starts_with(b"/")),
            "{exe:?}"
        );
        assert_eq!(proc.stat(pid).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(proc.argv(pid, 10), Field::Missing(Reason::Gone));
        assert_eq!(proc.exe(pid), Field::Missing(Reason::Gone));
    }

    #[test]
    fn the_machine_is_named_as_uname_names_it() {
        let proc = Proc::default();
        let uname = |flag| {
            String::from_utf8(Command::new("uname").arg(flag).output().unwrap().stdout).unwrap()
        };
        assert_eq!(proc.kernel().unwrap(), uname("-r").trim_end());
        assert_eq!(proc.hostname().unwrap(), uname("-n").trim_end());
        assert_eq!(proc.boot_id().unwrap().len(), 36);
        let nproc = Command::new("getconf")
            .arg("_NPROCESSORS_ONLN")
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(nproc.stdout).unwrap().trim_end(),
            cpus().to_string()
        );
        assert_eq!(proc.kernel_number("no_such_sysctl"), None);
    }

    #[test]
    fn the_root_can_be_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys/kernel")).unwrap();
        fs::write(dir.path().join("sys/kernel/osrelease"), "6.1.0-test\n").unwrap();
        let proc = Proc::at(dir.path());
        assert_eq!(proc.kernel().unwrap(), "6.1.0-test");
        assert!(proc.boot_id().is_err());
    }

    #[test]
    fn versions() {
        assert_eq!(version_of("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(version_of("5.10-rc1"), Some((5, 10)));
        assert_eq!(version_of("?"), None);
        assert_eq!(version_of("6"), None);
    }
}
