//! A started command: its end can be waited for, by threads and by tokio.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A child of tracer's own. Dropped, it goes on.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    ended: Option<Ended>,
}

/// How a child ended and what it and its reaped descendants used.
#[derive(Clone, Copy)]
pub struct Ended {
    /// In the encoding of wait(2).
    pub status: i32,
    pub usage: libc::rusage,
}

/// A status of wait(2) as a shell says it: the exit code, or 128 + signal.
pub const fn shell_code(status: i32) -> u8 {
    // Both are at most 255: a code has 8 bits, a signal 7.
    if libc::WIFSIGNALED(status) {
        (128 + libc::WTERMSIG(status)) as u8
    } else {
        libc::WEXITSTATUS(status) as u8
    }
}

impl Ended {
    /// As a shell says it, see [`shell_code`].
    pub const fn exit_code(&self) -> u8 {
        shell_code(self.status)
    }
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ended")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl Child {
    /// Takes charge of the child `pid`, which nobody has reaped yet.
    pub(super) fn adopt(pid: libc::pid_t) -> io::Result<Self> {
        // SAFETY: takes numbers only. The flag O_CLOEXEC is implied.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor, nobody else's; descriptors fit into an int.
        let pidfd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        Ok(Self {
            pid,
            pidfd,
            ended: None,
        })
    }

    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Becomes readable when the child has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Sends a signal; to a child that has ended it does nothing.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        let fd = self.pidfd.as_raw_fd();
        // SAFETY: no siginfo is given, the kernel fills it as kill(2) does.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                fd,
                signal,
                std::ptr::null::<u8>(),
                0,
            )
        };
        match result {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                e if e.raw_os_error() == Some(libc::ESRCH) => Ok(()),
                e => Err(e),
            },
        }
    }

    /// Reaps the child if it has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<Ended>> {
        self.wait4(libc::WNOHANG)
    }

    /// Waits for the end; blocks the thread.
    pub fn wait(&mut self) -> io::Result<Ended> {
        loop {
            if let Some(ended) = self.wait4(0)? {
                return Ok(ended);
            }
        }
    }

    /// Waits for the end inside a tokio runtime with its I/O driver on. May be
    /// dropped and called again.
    pub async fn wait_async(&mut self) -> io::Result<Ended> {
        loop {
            if let Some(ended) = self.try_wait()? {
                return Ok(ended);
            }
            // SAFETY: the pidfd stays open and the same as long as it is borrowed.
            let fd =
                unsafe { AsyncFd::register_with_interest(self.pidfd.as_fd(), Interest::READABLE) }?;
            fd.readable().await?.retain_ready();
        }
    }

    fn wait4(&mut self, options: i32) -> io::Result<Option<Ended>> {
        if let Some(ended) = self.ended {
            return Ok(Some(ended));
        }
        let mut status = 0;
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        loop {
            // SAFETY: both places are large enough for what the kernel writes.
            match unsafe { libc::wait4(self.pid, &mut status, options, usage.as_mut_ptr()) } {
                0 => return Ok(None),
                -1 => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
                _ => {
                    // SAFETY: all zeroes is a valid rusage, and the kernel filled it.
                    let usage = unsafe { usage.assume_init() };
                    let ended = Ended { status, usage };
                    self.ended = Some(ended);
                    return Ok(Some(ended));
                }
            }
        }
    }
}
