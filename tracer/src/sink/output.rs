//! Where an output's bytes go: a private file, one after the other of a series, or one
//! of the standard streams, plain or as a zstd stream, written by a thread of its own
//! so that a slow reader or a full disk never holds up the pipeline.

pub mod encode;
mod feed;
pub mod part;
pub mod queue;
mod target;
mod worker;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use encode::{Plain, Zstd};
pub use feed::Feed;
use part::{Part, Publish};
use queue::Status;
use target::Target;
pub use worker::Place;

use super::series::Series;
use crate::sys::signals;

/// Bytes that are handed to the thread at a time: each costs two switches
/// between threads.
const CHUNK: usize = 256 * 1024;
/// Room for the record that makes a chunk full.
const SLACK: usize = 16 * 1024;
/// Default of `--hold`, bytes: what may wait in memory while a file system is full.
pub const HOLD: usize = 64 << 20;

/// Why an output cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot write to {path:?}: {cause}; {remedy}")]
    Open {
        path: PathBuf,
        cause: io::Error,
        remedy: &'static str,
    },
    #[error(
        "cannot make {path:?} private (mode 0600; command lines hold secrets): {cause}; \
         it belongs to somebody else: choose another file with -o"
    )]
    Private { path: PathBuf, cause: io::Error },
    #[error("cannot write to {name}: {cause}; {remedy}")]
    Start {
        name: String,
        cause: io::Error,
        remedy: &'static str,
    },
}

impl OpenError {
    /// With what to do about it.
    pub fn open(path: &Path, cause: io::Error) -> Self {
        Self::Open {
            path: path.into(),
            remedy: remedy(&cause),
            cause,
        }
    }
}

/// Where to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Stdout,
    Stderr,
    File(PathBuf),
}

impl Destination {
    /// `-` is stdout, as in `-o -`.
    pub fn from_arg(path: &Path) -> Self {
        if path.as_os_str() == "-" {
            Self::Stdout
        } else {
            Self::File(path.into())
        }
    }

    /// For messages.
    pub fn name(&self) -> String {
        match self {
            Self::Stdout => "stdout".into(),
            Self::Stderr => "stderr".into(),
            Self::File(path) => format!("{path:?}"),
        }
    }
}

/// Opens `path` for writing with mode 0600 and close-on-exec. A regular file
/// that exists becomes 0600 and, with `truncate`, empty; else it is appended to.
/// A name that is not the user's own choice is opened with `follow` false: in a
/// directory that others may write it could be their symbolic link.
pub fn open_private(path: &Path, truncate: bool, follow: bool) -> Result<File, OpenError> {
    let open = OpenOptions::new()
        .append(!truncate)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(if follow { 0 } else { libc::O_NOFOLLOW })
        .open(path);
    let file = open.map_err(|cause| OpenError::open(path, cause))?;
    let failed = |cause| OpenError::Private {
        path: path.into(),
        cause,
    };
    let meta = file.metadata().map_err(failed)?;
    if meta.is_file() {
        // Mode first: nothing may be readable for a moment, and a file that
        // cannot be made private keeps its contents.
        if meta.permissions().mode() & 0o7777 != 0o600 {
            file.set_permissions(Permissions::from_mode(0o600))
                .map_err(failed)?;
        }
        // Only where there is something: a truncated file is written to the disk
        // by whoever closes it (ext4_release_file), which costs as much again.
        if truncate && meta.len() > 0 {
            let empty = file.set_len(0);
            empty.map_err(|cause| OpenError::open(path, cause))?;
        }
    }
    Ok(file)
}

/// An empty file beside `path` that replaces it when it is published. What a tracer
/// that was killed left of one is used again.
pub fn open_replacement(path: &Path) -> Result<Part, OpenError> {
    let failed = |cause| OpenError::open(path, cause);
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".tmp");
    let unfinished = PathBuf::from(unfinished);
    let file = open_private(&unfinished, false, false)?;
    if file.try_lock().is_err() {
        let busy = io::Error::new(
            ErrorKind::ResourceBusy,
            "another output or tracer is writing it",
        );
        return Err(failed(busy));
    }
    let len = file.metadata().map_err(failed)?.len();
    // Not from nothing: it costs something at the end, see `open_private`.
    if len > 0 {
        file.set_len(0).map_err(failed)?;
    }
    Ok(Part::new(file, unfinished, Publish::Replace(path.into())))
}

fn remedy(cause: &io::Error) -> &'static str {
    match cause.kind() {
        ErrorKind::NotFound => "create the directory first (mkdir -p) or choose another with -o",
        ErrorKind::PermissionDenied => "choose a file that you may write with -o",
        ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only: choose another place with -o"
        }
        ErrorKind::IsADirectory => "name a file in that directory",
        ErrorKind::NotADirectory => "a part of the path is a file: choose another with -o",
        _ if cause.raw_os_error() == Some(libc::ELOOP) => {
            "it is a symbolic link: remove it, or choose another with -o"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "make room or choose another place with -o"
        }
        _ => "choose another file with -o",
    }
}

/// Makes the first file of a series.
pub fn open_series(series: &mut Series, path: &Path) -> Result<Place, OpenError> {
    let part = series.resume().and_then(|()| series.create());
    let part = part.map_err(|cause| OpenError::open(path, cause))?;
    Ok(Place::File(part))
}

/// Opens what is no series.
fn open(to: &Destination) -> Result<Place, OpenError> {
    let start = |cause| OpenError::Start {
        name: to.name(),
        cause,
        remedy: "is it closed? redirect it, or use -o FILE",
    };
    let stream = match to {
        Destination::File(path) => {
            let file = open_private(path, true, true)?;
            let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
            return Ok(match is_file {
                true => Place::File(Part::new(file, path.clone(), Publish::Named)),
                false => Place::Stream(Target { file, quiet: false }),
            });
        }
        Destination::Stdout if signals::was_closed(libc::STDOUT_FILENO) => {
            Err(io::Error::from_raw_os_error(libc::EBADF))
        }
        Destination::Stdout => io::stdout().as_fd().try_clone_to_owned(),
        Destination::Stderr => io::stderr().as_fd().try_clone_to_owned(),
    };
    Ok(Place::Stream(Target {
        file: File::from(stream.map_err(start)?),
        quiet: true,
    }))
}

/// A stream of whole lines to one destination. [`Write::write`] appends to a local
/// buffer; full buffers, and at `flush` any, go to the thread. An error of the
/// thread comes back from the next call, and from each after it.
///
/// A reader of stdout or stderr that goes away (`| head`) is no error: the
/// rest is dropped quietly.
pub struct Output {
    buf: Vec<u8>,
    chunk: usize,
    feed: Feed<Vec<u8>>,
}

impl Output {
    /// Opens the destination and starts its thread.
    pub fn open(to: &Destination, zstd: bool) -> Result<Self, OpenError> {
        Self::start(open(to)?, None, to.name(), zstd, HOLD, CHUNK)
    }

    /// The same; what is written goes to a series of files beside `to` if there is one.
    /// `hold` are the bytes that may wait while a file system is full, `size` those that
    /// a part may have.
    pub fn open_parts(
        to: &Destination,
        zstd: bool,
        series: Option<Series>,
        hold: usize,
        size: Option<u64>,
    ) -> Result<Self, OpenError> {
        // A part is ended between chunks; small parts want small ones.
        let eighth = usize::try_from(size.unwrap_or(u64::MAX) / 8).unwrap_or(CHUNK);
        let chunk = eighth.clamp(1, CHUNK);
        match (to, series) {
            (Destination::File(path), Some(mut series)) => {
                let place = open_series(&mut series, path)?;
                Self::start(place, Some(series), to.name(), zstd, hold, chunk)
            }
            _ => Self::start(open(to)?, None, to.name(), zstd, hold, chunk),
        }
    }

    fn start(
        place: Place,
        series: Option<Series>,
        name: String,
        zstd: bool,
        hold: usize,
        chunk: usize,
    ) -> Result<Self, OpenError> {
        let status = Arc::new(Status::new(hold));
        let feed = match zstd {
            true => Feed::start(status, Zstd::new(chunk), place, series, name),
            false => Feed::start(status, Plain, place, series, name),
        };
        Ok(Self {
            buf: Vec::with_capacity(chunk + SLACK),
            chunk,
            feed: feed?,
        })
    }

    /// Lets `fill` append whole lines to the buffer without a copy.
    pub fn append(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        fill(&mut self.buf);
        if self.buf.len() >= self.chunk {
            self.hand_over()?;
        }
        self.feed.status().set_pending(self.buf.len());
        Ok(())
    }

    /// Bytes that wait for the destination. Above a bound of its choice the
    /// caller stops reading its source.
    pub fn backlog(&self) -> usize {
        self.buf.len() + self.feed.status().backlog()
    }

    /// Bytes that are handed over at a time, more or less.
    pub fn chunk(&self) -> u64 {
        self.chunk as u64
    }

    pub fn status(&self) -> &Arc<Status> {
        self.feed.status()
    }

    /// What follows goes to the next file.
    pub fn next_part(&mut self) -> io::Result<()> {
        self.flush()?;
        self.feed.next_part()
    }

    /// Writes all that waits, ends the compressed frame and the thread.
    pub fn finish(&mut self) -> io::Result<()> {
        let handed = self.flush();
        let ended = self.feed.finish();
        handed.and(ended)
    }

    /// Gives the thread the whole lines that there are.
    fn hand_over(&mut self) -> io::Result<()> {
        let Some(end) = memchr::memrchr(b'\n', &self.buf) else {
            return self.feed.check();
        };
        let rest = self.buf.split_off(end + 1);
        self.flush()?;
        self.buf.extend_from_slice(&rest);
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(|buf| buf.extend_from_slice(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.feed.check()?;
        if self.buf.is_empty() {
            return Ok(());
        }
        let empty = self.feed.push(std::mem::take(&mut self.buf))?;
        self.feed.status().set_pending(0);
        self.buf = empty.unwrap_or_else(|| Vec::with_capacity(self.chunk + SLACK));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
