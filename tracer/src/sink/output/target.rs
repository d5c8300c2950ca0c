//! A descriptor that others may share: a pipe, a terminal, a device.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;

/// Marks the error that is none: see [`Target`].
#[derive(Debug, thiserror::Error)]
#[error("the reader has gone")]
struct ReaderGone;

/// Whether the error says no more than that nobody reads.
pub fn is_quiet(e: &io::Error) -> bool {
    e.get_ref().is_some_and(|inner| inner.is::<ReaderGone>())
}

/// A file that waits where a non-blocking descriptor (shared with whoever set
/// it so) has no room.
pub struct Target {
    pub file: File,
    /// EPIPE is no error.
    pub quiet: bool,
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.file.write(bytes) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let mut poll = libc::pollfd {
                        fd: self.file.as_raw_fd(),
                        events: libc::POLLOUT,
                        revents: 0,
                    };
                    // SAFETY: `poll` is one valid pollfd, and the count says one.
                    unsafe { libc::poll(&raw mut poll, 1, -1) };
                }
                Err(e) if e.kind() == ErrorKind::BrokenPipe && self.quiet => {
                    return Err(io::Error::new(ErrorKind::BrokenPipe, ReaderGone));
                }
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
