//! A pseudo terminal to run things on.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::ptr;
use std::thread::{self, JoinHandle};

/// One whose screen is read all the time: the kernel keeps a few KiB, and whoever writes
/// more than that waits for a reader.
pub struct Pty {
    master: File,
    slave: OwnedFd,
    screen: JoinHandle<Vec<u8>>,
}

impl Pty {
    pub fn open() -> Self {
        let (mut master, mut slave) = (-1, -1);
        // SAFETY: both numbers outlive the call; name, settings and size may be null.
        let r = unsafe {
            libc::openpty(
                &mut master,
                &mut slave,
                ptr::null_mut(),
                ptr::null(),
                ptr::null(),
            )
        };
        assert_eq!(r, 0, "openpty: {}", io::Error::last_os_error());
        // A copy of either in a child would keep the terminal open after its end.
        for fd in [master, slave] {
            // SAFETY: the descriptor was just opened and takes a plain flag.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        // SAFETY: openpty gave both descriptors to us alone.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let screen = master.try_clone().expect("a descriptor can be copied");
        Self {
            master,
            slave,
            screen: thread::spawn(|| read_all(screen)),
        }
    }

    /// What makes this the controlling terminal of a command, in a session of
    /// its own, and its standard input.
    pub fn controls(&self) -> impl FnOnce(&mut Command) + use<> {
        let slave = self.slave_copy();
        |command| {
            command.stdin(Stdio::from(slave));
            // SAFETY: between fork and exec only setsid and ioctl are called, both async-signal-safe.
            unsafe {
                command.pre_exec(|| {
                    if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                        return Err(io::Error::last_os_error());
                    }
                    Ok(())
                });
            }
        }
    }

    pub fn slave_copy(&self) -> OwnedFd {
        self.slave.try_clone().expect("a descriptor can be copied")
    }

    /// Types `keys`.
    pub fn typed(&mut self, keys: &[u8]) {
        io::Write::write_all(&mut self.master, keys).expect("a terminal takes keys");
    }

    /// All that was written to the terminal, after every other holder has left.
    pub fn written(self) -> Vec<u8> {
        drop(self.slave);
        self.screen.join().expect("no panic")
    }
}

fn read_all(mut screen: File) -> Vec<u8> {
    let (mut all, mut chunk) = (Vec::new(), [0; 4096]);
    // EIO: nobody holds the other side any more.
    while let Ok(n @ 1..) = screen.read(&mut chunk) {
        all.extend_from_slice(&chunk[..n]);
    }
    all
}
