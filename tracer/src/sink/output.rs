//! Where an output's bytes go: a private file, or one of the standard streams,
//! plain or as a zstd stream, written by a thread of its own so that a slow
//! reader never holds up the pipeline.

mod target;

use std::collections::VecDeque;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use target::{Target, Writer, is_quiet};

use crate::sys::signals;

/// Bytes that are handed to the thread at a time: each costs two switches
/// between threads.
const CHUNK: usize = 256 * 1024;
/// Above this the producer waits: the last resort of a caller that does not
/// look at [`Output::backlog`], and the rule when a long tree is written at the end.
const LIMIT: usize = 64 * 1024 * 1024;
/// Buffers kept for reuse.
const SPARE: usize = 4;
/// How long compressed bytes may wait inside the encoder: a capture that is
/// killed misses no more than its last second.
const ENCODER_FLUSH: Duration = Duration::from_millis(500);

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
    let file = open.map_err(|cause| OpenError::Open {
        path: path.into(),
        remedy: remedy(&cause),
        cause,
    })?;
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
            empty.map_err(|cause| OpenError::Open {
                path: path.into(),
                remedy: remedy(&cause),
                cause,
            })?;
        }
    }
    Ok(file)
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

/// A stream of bytes to one destination. [`Write::write`] appends to a local
/// buffer; full buffers, and at `flush` any, go to the thread. An error of the
/// thread comes back from the next call, and from each after it.
///
/// A reader of stdout or stderr that goes away (`| head`) is no error: the
/// rest is dropped quietly.
pub struct Output {
    buf: Vec<u8>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Output {
    /// Opens the destination and starts its thread.
    pub fn open(to: &Destination, zstd: bool) -> Result<Self, OpenError> {
        let file = match to {
            Destination::File(path) => Ok(open_private(path, true, true)?),
            Destination::Stdout if signals::was_closed(libc::STDOUT_FILENO) => {
                Err(io::Error::from_raw_os_error(libc::EBADF))
            }
            Destination::Stdout => io::stdout().as_fd().try_clone_to_owned().map(File::from),
            Destination::Stderr => io::stderr().as_fd().try_clone_to_owned().map(File::from),
        };
        let start = |cause, remedy| OpenError::Start {
            name: to.name(),
            cause,
            remedy,
        };
        let file = file.map_err(|e| start(e, "is it closed? redirect it, or use -o FILE"))?;
        let target = Target {
            file,
            quiet: !matches!(to, Destination::File(_)),
        };
        let writer = Writer::new(target, zstd).map_err(|e| start(e, "write it without .zst"))?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("output".into())
            .spawn(move || run(&theirs, writer));
        let thread = thread.map_err(|e| start(e, "raise the limit of processes (ulimit -u)"))?;
        Ok(Self {
            buf: Vec::with_capacity(CHUNK),
            shared,
            thread: Some(thread),
        })
    }

    /// Lets `fill` append to the buffer without a copy.
    pub fn append(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        fill(&mut self.buf);
        if self.buf.len() >= CHUNK {
            self.hand_over()
        } else {
            Ok(())
        }
    }

    /// Bytes that wait for the destination. Above a bound of its choice the
    /// caller stops reading its source.
    pub fn backlog(&self) -> usize {
        self.buf.len() + self.shared.backlog.load(Ordering::Relaxed)
    }

    /// Writes all that waits, ends the compressed frame and the thread.
    pub fn finish(&mut self) -> io::Result<()> {
        let handed = self.hand_over();
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            return Err(io::Error::other("the writing thread ended unexpectedly"));
        }
        handed.and_then(|()| self.shared.lock().check())
    }

    fn hand_over(&mut self) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.check()?;
        if state.quiet || self.buf.is_empty() {
            self.buf.clear();
            return Ok(());
        }
        while state.bytes > LIMIT && state.failed.is_none() && !state.quiet {
            state = self
                .shared
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let empty = state
            .spare
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(CHUNK));
        let full = std::mem::replace(&mut self.buf, empty);
        state.bytes += full.len();
        self.shared.backlog.store(state.bytes, Ordering::Relaxed);
        state.queue.push_back(full);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(|buf| buf.extend_from_slice(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_over()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Nobody is left to take the error.
            let _ = self.finish();
        }
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    room: Condvar,
    backlog: AtomicUsize,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    /// In the queue or being written.
    bytes: usize,
    spare: Vec<Vec<u8>>,
    closed: bool,
    failed: Option<(ErrorKind, String)>,
    /// Nobody reads any more, which is no error.
    quiet: bool,
}

impl State {
    fn check(&self) -> io::Result<()> {
        match &self.failed {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None => Ok(()),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next chunk; `None` when there is none within `patience`, or (then
    /// `closed` is set) will be none.
    fn next(&self, patience: Option<Duration>) -> (Option<Vec<u8>>, bool) {
        let mut state = self.lock();
        loop {
            if let Some(chunk) = state.queue.pop_front() {
                return (Some(chunk), false);
            }
            if state.closed {
                return (None, true);
            }
            match patience {
                None => {
                    state = self
                        .work
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner)
                }
                Some(time) => {
                    let (s, out) = self
                        .work
                        .wait_timeout(state, time)
                        .unwrap_or_else(PoisonError::into_inner);
                    if out.timed_out() && s.queue.is_empty() && !s.closed {
                        return (None, false);
                    }
                    state = s;
                }
            }
        }
    }

    fn done(&self, mut chunk: Vec<u8>) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(chunk.len());
        self.backlog.store(state.bytes, Ordering::Relaxed);
        if state.spare.len() < SPARE && chunk.capacity() <= 4 * CHUNK {
            chunk.clear();
            state.spare.push(chunk);
        }
        drop(state);
        self.room.notify_one();
    }

    /// No more can be written: what waits, and what is still to come, is dropped.
    fn stop(&self, error: Option<&io::Error>) {
        let mut state = self.lock();
        match error {
            Some(e) => state.failed = Some((e.kind(), e.to_string())),
            None => state.quiet = true,
        }
        state.queue.clear();
        state.bytes = 0;
        self.backlog.store(0, Ordering::Relaxed);
        drop(state);
        self.room.notify_one();
    }
}

fn run(shared: &Shared, mut writer: Writer) {
    let mut inside = false;
    let mut flushed = Instant::now();
    let result = loop {
        let patience = inside.then(|| ENCODER_FLUSH.saturating_sub(flushed.elapsed()));
        let (chunk, closed) = shared.next(patience);
        if closed {
            break writer.finish();
        }
        if let Some(chunk) = chunk {
            let written = writer.write_all(&chunk);
            shared.done(chunk);
            if written.is_err() {
                break written;
            }
            inside = matches!(writer, Writer::Zstd(_));
        }
        if inside && flushed.elapsed() >= ENCODER_FLUSH {
            if let Err(e) = writer.flush() {
                break Err(e);
            }
            inside = false;
            flushed = Instant::now();
        }
    };
    if let Err(e) = result {
        shared.stop(if is_quiet(&e) { None } else { Some(&e) });
    }
}

#[cfg(test)]
mod tests;
