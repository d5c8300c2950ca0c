//! The loop that serves every stop of every tracee.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::{mpsc, oneshot};

use super::adopt::Pending;
use super::call::{self, Report};
use super::group::{Group, Newest, Task};
use super::note::Notes;
use super::outbox::Outbox;
use super::proc::Proc;
use super::rusage::Rusage;
use super::stop::{FORKS, Stop};
use super::{Options, PtraceError, RootEnd};
use crate::model::{Bytes, Comm, Event, Precision, ProcId};
use crate::sys::procfs::has_own_pids;

const PROC: &str = "/proc";

/// How long ends that have happened already are collected after the command's own.
const DRAIN: Duration = Duration::from_millis(20);

/// How often, and for how long each time, a creator's event is waited for while a
/// task that it created stands still. A leader that was killed tells nothing, and
/// its end is not told before that of its threads.
const PATIENCE: u32 = 100;
const PAUSE: Duration = Duration::from_micros(500);

/// How long a process that has ended may take to leave its CPU before its totals are
/// taken as they are, and not called final. It takes some µs, but for one whose CPU
/// interrupts or a hypervisor take away just then.
const SETTLE: Duration = Duration::from_millis(50);

/// With it in its tracer, a setuid program keeps its privileges
/// (`ptracer_capable`, kernel/ptrace.c).
const CAP_SYS_PTRACE: u64 = 1 << 19;

pub struct Tracer {
    pub(super) options: Options,
    pub(super) proc: Proc,
    pub(super) out: Outbox,
    pub(super) notes: Notes,
    /// By tid.
    pub(super) tasks: FxHashMap<u32, Task>,
    /// By tgid. A pid is taken out at its end, before it can be used again.
    pub(super) groups: FxHashMap<u32, Group>,
    /// Reports of tasks whose creator has not told of them yet; they stand still.
    pub(super) pending: FxHashMap<u32, Pending>,
    /// Tasks that were taken in before their creator's event, and their start:
    /// it may still come, even after their end.
    pub(super) early: FxHashMap<u32, u64>,
    /// Those of the last tick.
    pub(super) newest: Newest,
    /// A task has ended while others were pending: its event may never come.
    pub(super) creator_died: bool,
    /// Resources of processes that ended after the parent that is known of them.
    pub(super) stray: Rusage,
    /// The last that have ended, where senders of signals are asked for.
    pub(super) ended: VecDeque<(ProcId, Comm)>,
    /// Programs that were found to run without their privileges.
    pub(super) unprivileged: FxHashSet<Bytes>,
    /// The tracer has no privileges that its tracees could keep.
    pub(super) ordinary: bool,
    /// The last that was seen.
    pub(super) loginuid: Option<u32>,
    /// Length of a clock tick, ns.
    pub(super) tick: u64,
    /// For argv, environment and file name.
    pub(super) memory: Vec<u8>,
    pub(super) root: ProcId,
    pub(super) end: Option<oneshot::Sender<RootEnd>>,
}

impl Tracer {
    /// Takes hold of `pid`, a child of this thread that waits for its exec.
    pub fn seize(
        pid: u32,
        options: Options,
        channel: mpsc::Sender<Vec<Event>>,
        end: oneshot::Sender<RootEnd>,
        notes: Notes,
    ) -> Result<Self, PtraceError> {
        let mut proc = Proc::new(Path::new(PROC)).map_err(PtraceError::Proc)?;
        if !has_own_pids(Path::new(PROC)) {
            return Err(PtraceError::OtherProc);
        }
        // SAFETY: sysconf has no preconditions.
        let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        let tick = 1_000_000_000 / u64::try_from(hz).unwrap_or(100).max(1);
        let own = proc.status(std::process::id());
        let ordinary = own.is_none_or(|s| s.cap_eff & CAP_SYS_PTRACE == 0);
        let stat = proc
            .stat(pid)
            .ok_or_else(|| PtraceError::Proc(io::Error::other("the command is not in it")))?;
        if let Err(error) = call::seize(pid, options.kill_on_exit) {
            let other = proc.status(pid).is_some_and(|s| s.tracer_pid != 0);
            return Err(refused(error, other));
        }
        let root = ProcId {
            pid,
            start: stat.start * tick,
            precision: Precision::Tick,
        };
        let mut tracer = Self {
            options,
            proc,
            out: Outbox::new(channel),
            notes,
            tasks: FxHashMap::default(),
            groups: FxHashMap::default(),
            pending: FxHashMap::default(),
            early: FxHashMap::default(),
            newest: Newest::default(),
            creator_died: false,
            stray: Rusage::default(),
            ended: VecDeque::new(),
            unprivileged: FxHashSet::default(),
            ordinary,
            loginuid: None,
            tick,
            memory: Vec::new(),
            root,
            end: Some(end),
        };
        let parent = tracer.identify(stat.ppid);
        tracer.add_process(root, parent, stat.comm);
        Ok(tracer)
    }

    pub const fn root(&self) -> ProcId {
        self.root
    }

    pub(super) fn add_process(&mut self, id: ProcId, parent: Option<ProcId>, comm: Comm) {
        self.tasks.insert(
            id.pid,
            Task {
                tgid: id.pid,
                start: id.start,
                exiting: false,
                usage: None,
            },
        );
        self.groups.insert(id.pid, Group::new(id, parent, comm));
    }

    /// Who has this pid now.
    pub(super) fn identify(&mut self, pid: u32) -> Option<ProcId> {
        if pid == 0 {
            return None;
        }
        if let Some(group) = self.groups.get(&pid) {
            return Some(group.id);
        }
        let start = self.proc.stat(pid)?.start * self.tick;
        Some(ProcId {
            pid,
            start,
            precision: Precision::Tick,
        })
    }

    /// Serves the tracees until none is left or the command has ended. When
    /// the thread ends the kernel lets go of the others by itself, and in a
    /// gentler way than PTRACE_DETACH, which wants them stopped first.
    pub fn run(mut self) {
        let mut patience = PATIENCE;
        loop {
            // Events go out before the tracees' silence begins, and together otherwise.
            let block = self.out.is_empty() && !self.creator_died && self.pending.is_empty();
            match call::peek(block) {
                Ok(Some((tid, ended))) => {
                    patience = PATIENCE;
                    self.take(tid, ended);
                }
                Ok(None) => {
                    if std::mem::take(&mut self.creator_died) || patience == 0 {
                        self.resolve();
                    }
                    self.out.flush();
                    if !self.pending.is_empty() {
                        patience = patience.saturating_sub(1);
                        thread::sleep(PAUSE);
                    }
                }
                Err(e) if e.raw_os_error() == Some(libc::EINTR) => {}
                // ECHILD: all have ended.
                Err(_) => break,
            }
            if self.out.is_full() {
                self.out.flush();
            }
            if self.end.is_none() && !self.options.wait_all {
                self.drain();
                break;
            }
        }
        self.resolve();
        self.out.flush();
    }

    fn drain(&mut self) {
        let until = Instant::now() + DRAIN;
        while Instant::now() < until {
            match call::peek(false) {
                Ok(Some((tid, ended))) => self.take(tid, ended),
                // What has passed its exit stop ends at once.
                Ok(None) if self.tasks.values().any(|t| t.exiting) => thread::sleep(PAUSE),
                _ => break,
            }
        }
        self.resolve();
        self.find_untraced();
    }

    /// Takes the report of a task and serves it. One that has ended is given the
    /// moment that it needs to leave its CPU: what it costs until then counts too,
    /// and its parent cannot wait for it before.
    fn take(&mut self, tid: u32, ended: bool) {
        let is_process = self.tasks.get(&tid).is_none_or(|t| t.tgid == tid);
        let complete = ended && is_process && self.proc.settles(tid, SETTLE);
        // Otherwise it was killed meanwhile or goes on, and reports again.
        if let Ok(Some(mut report)) = call::take(tid) {
            report.complete = complete;
            self.serve(&report);
        }
    }

    pub(super) fn serve(&mut self, report: &Report) {
        let tid = report.tid;
        if !self.tasks.contains_key(&tid) {
            // It was quicker than its creator, which names its process and parent.
            self.wait_for_creator(report);
            return;
        }
        match Stop::new(report.status) {
            Stop::End(status) => {
                self.resolve_children(tid);
                self.on_end(status, report);
                self.creator_died = !self.pending.is_empty();
            }
            Stop::Signal(signal) => {
                self.on_signal(tid, signal);
                let stale = self.is_stale_stop(tid, signal);
                resume(tid, if stale { 0 } else { signal });
            }
            Stop::Group(_) => {
                // ESRCH: it was killed, and its end follows.
                let _ = call::listen(tid);
            }
            Stop::Fork => {
                let child = call::event_message(tid, &FORKS);
                // The child stands still; its creator need not.
                resume(tid, 0);
                if let Some(child) = child.ok().and_then(|c| u32::try_from(c).ok()) {
                    self.on_fork(tid, child);
                }
            }
            Stop::Exec => {
                self.on_exec(tid, &report.rusage);
                resume(tid, 0);
            }
            Stop::Exit => {
                self.on_exit_stop(tid, &report.rusage);
                resume(tid, 0);
            }
            Stop::Trap | Stop::Other => resume(tid, 0),
        }
    }
}

/// Lets a stopped task go on. ESRCH: it was killed meanwhile, and its end follows.
pub(super) fn resume(tid: u32, signal: i32) {
    let _ = call::cont(tid, signal);
}

/// `other`: somebody traces the command already, as it does tracer itself.
fn refused(error: io::Error, other: bool) -> PtraceError {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let remedy = match scope.trim() {
        _ if other => {
            "tracer itself runs under strace, a debugger or another ptracer, and a process can have only one; start \
             it without"
        }
        "3" => "kernel.yama.ptrace_scope is 3: ptrace is off until the next boot",
        "2" => {
            "kernel.yama.ptrace_scope is 2: run as root, or set it to 1 (sysctl kernel.yama.ptrace_scope=1)"
        }
        _ => {
            "a seccomp filter or a security module forbids it; in a container, allow ptrace (--cap-add SYS_PTRACE)"
        }
    };
    PtraceError::Seize { error, remedy }
}
