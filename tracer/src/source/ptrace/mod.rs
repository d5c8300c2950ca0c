//! The source that needs no privilege: ptrace(2) events and /proc.
//!
//! ```no_run
//! # use tracer::source::ptrace::{Options, PtraceSource};
//! # struct Held; impl Held { fn pid(&self) -> u32 { 0 } fn release(self) {} }
//! # fn hold() -> std::io::Result<Held> { Ok(Held) }
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let (mut source, held) = PtraceSource::start(Options::default(), || {
//!     let held = hold()?; // forked, waits before its exec
//!     Ok((held.pid(), held))
//! })?;
//! held.release();
//! while let Some(_events) = source.recv().await {} // in order of `ts`
//! let _end = source.root_end(); // wait status and resources of the command
//! # Ok(()) }
//! ```
//!
//! One thread forks the command, seizes it and waits for all that it starts.
//! Nothing but that thread may wait for the command. There are no system-call
//! stops: a task stops when it creates a task, runs a program, gets a signal
//! or ends.
//!
//! What this source cannot know: execs that failed, the CPU of an event, delay
//! by block I/O, the sender of a SIGKILL. Start times are those of /proc
//! (10 ms). A ptracer is told of an end while the task is still on its way off
//! the CPU; it is given the time for that, so that totals are those which wait4
//! gives to the parent, or they are not called final. Without CAP_SYS_PTRACE setuid programs run without their privileges ([`Note`]).

mod adopt;
mod call;
mod end;
mod exec;
mod feed;
mod group;
mod note;
mod outbox;
mod parse;
mod proc;
mod rusage;
mod signal;
mod stack;
mod stop;
mod tracer;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};

use crate::model::{Event, ProcId, Status};
pub use note::Note;
use note::Notes;
pub use rusage::Rusage;
use tracer::Tracer;

/// Batches that may wait for the consumer before the tracees are held up.
const CHANNEL: usize = 1024;

/// How long [`PtraceSource::recv`] gathers: the consumer is woken by time, not by event.
const GATHER: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub struct Options {
    /// Cap of argv (and of the environment), bytes.
    pub max_argv: usize,
    /// Record the environment at exec.
    pub env: bool,
    /// A fork and an exit for each thread too.
    pub threads: bool,
    /// Tell who sent a deadly signal.
    pub signals: bool,
    /// Go on until the last descendant has ended; otherwise what runs when the
    /// command ends is let go, undisturbed.
    pub wait_all: bool,
    /// Kill what is still traced when tracing ends, for whatever reason.
    pub kill_on_exit: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_argv: 64 * 1024,
            env: false,
            threads: false,
            signals: false,
            wait_all: false,
            kill_on_exit: false,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PtraceError {
    #[error("cannot start a thread for tracing: {0}")]
    Thread(#[source] io::Error),
    #[error("cannot fork the command: {0}")]
    Hold(#[source] io::Error),
    #[error("cannot open /proc: {0}; mount it, the ptrace source reads names and totals there")]
    Proc(#[source] io::Error),
    #[error(
        "/proc is not mounted, or is that of another PID namespace, in which other processes have \
         these numbers: mount -t proc proc /proc"
    )]
    OtherProc,
    #[error("ptrace was refused: {error}; {remedy}")]
    Seize {
        error: io::Error,
        remedy: &'static str,
    },
}

/// How the command itself ended.
#[derive(Clone, Copy, Debug)]
pub struct RootEnd {
    /// As wait(2) encodes it.
    pub wait_status: u32,
    pub status: Status,
    /// With the children that it waited for.
    pub rusage: Rusage,
}

pub struct PtraceSource {
    root: ProcId,
    batches: mpsc::Receiver<Vec<Event>>,
    done: Arc<Notify>,
    /// `None`: somebody else waits for it.
    end: Option<oneshot::Receiver<RootEnd>>,
    notes: Notes,
    wait_all: bool,
    /// Received, not yet given out.
    ahead: Vec<Event>,
    closed: bool,
    /// Events given out, and the time of the last one.
    order: u64,
    last: u64,
}

impl PtraceSource {
    /// Forks the command with `hold` in the thread that will trace it and
    /// seizes the pid that `hold` returns. The second value of `hold` is given
    /// back, to release the command with.
    pub fn start<H, F>(options: Options, hold: F) -> Result<(Self, H), PtraceError>
    where
        F: FnOnce() -> io::Result<(u32, H)> + Send + 'static,
        H: Send + 'static,
    {
        let (ready_tx, ready_rx) = std::sync::mpsc::sync_channel(1);
        let (batch_tx, batches) = mpsc::channel(CHANNEL);
        let (end_tx, end) = oneshot::channel();
        let notes = Notes::default();
        let done = Arc::new(Notify::new());
        let wait_all = options.wait_all;
        let (thread_notes, thread_done) = (notes.clone(), Arc::clone(&done));
        let thread = move || {
            let seized = hold().map_err(PtraceError::Hold).and_then(|(pid, held)| {
                let tracer = Tracer::seize(pid, options, batch_tx, end_tx, thread_notes)?;
                Ok((tracer, held))
            });
            match seized {
                Ok((tracer, held)) => {
                    // An error means that the caller is gone: then `held` is dropped, too.
                    let _ = ready_tx.send(Ok((tracer.root(), held)));
                    tracer.run();
                    // The channel is closed by now: `recv` need not gather any more.
                    thread_done.notify_one();
                }
                Err(e) => {
                    let _ = ready_tx.send(Err(e));
                }
            }
        };
        std::thread::Builder::new()
            .name("ptrace".into())
            .spawn(thread)
            .map_err(PtraceError::Thread)?;
        let gone = || PtraceError::Thread(io::Error::other("it ended at once"));
        let (root, held) = ready_rx.recv().map_err(|_| gone())??;
        let source = Self {
            root,
            batches,
            done,
            end: Some(end),
            notes,
            wait_all,
            ahead: Vec::new(),
            closed: false,
            order: 0,
            last: 0,
        };
        Ok((source, held))
    }

    /// The command. Its own fork is not reported.
    pub const fn root(&self) -> ProcId {
        self.root
    }

    /// The next events, in order of time. `None`: nothing is left to trace, or
    /// the command has ended and the rest was let go. Cancel safe.
    pub async fn recv(&mut self) -> Option<Vec<Event>> {
        if self.ahead.is_empty() {
            self.gather().await;
        }
        self.collect();
        (!self.ahead.is_empty()).then(|| std::mem::take(&mut self.ahead))
    }

    /// How the command ended, once it has; `None` before that.
    pub fn root_end(&mut self) -> Option<RootEnd> {
        self.end.as_mut()?.try_recv().ok()
    }

    /// Where the end of the command will be told, for who wants to be woken by
    /// it. [`Self::root_end`] knows nothing after that.
    pub const fn take_end(&mut self) -> Option<oneshot::Receiver<RootEnd>> {
        self.end.take()
    }

    /// What the user should be told; each is given once.
    pub fn take_notes(&self) -> Vec<Note> {
        self.notes.take()
    }
}
