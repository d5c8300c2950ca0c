//! The end of the line: a descriptor, with a compressor before it where asked.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;

/// zstd's own default.
const ZSTD_LEVEL: i32 = 3;

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

pub enum Writer {
    Plain(Target),
    Zstd(Box<zstd::Encoder<'static, Target>>),
}

impl Writer {
    pub fn new(target: Target, zstd: bool) -> io::Result<Self> {
        if !zstd {
            return Ok(Self::Plain(target));
        }
        Ok(Self::Zstd(Box::new(zstd::Encoder::new(
            target, ZSTD_LEVEL,
        )?)))
    }

    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(w) => w.write_all(bytes),
            Self::Zstd(w) => w.write_all(bytes),
        }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(w) => w.flush(),
            Self::Zstd(w) => w.flush(),
        }
    }

    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Zstd(w) => w.finish().map(drop),
        }
    }
}
