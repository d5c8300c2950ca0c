//! Who sent a signal that ends its target. SIGKILL makes no stop: its sender
//! stays unknown here.

use super::call;
use super::tracer::Tracer;
use crate::model::time::boot_ns;
use crate::model::{Comm, Event, ProcId, Signal, SignalBy};

/// Signals whose default action leaves the process alive.
const HARMLESS: [i32; 8] = [
    libc::SIGCHLD,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGCONT,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// Signals that stop a process.
const STOPS: [i32; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// So many that have ended are remembered.
const SENDERS: usize = 64;

impl Tracer {
    /// `tid` is about to take `signal`, which is passed on in any case.
    pub(super) fn on_signal(&mut self, tid: u32, signal: i32) {
        if !self.options.signals || HARMLESS.contains(&signal) {
            return;
        }
        let Some(status) = self.proc.status(tid) else {
            return;
        };
        let bit = 1_u64 << (signal - 1).clamp(0, 63);
        if (status.ignored | status.caught) & bit != 0 {
            return;
        }
        let Some(target) = self
            .tasks
            .get(&tid)
            .and_then(|t| self.groups.get(&t.tgid))
            .map(|g| g.id)
        else {
            return;
        };
        let Ok(info) = call::signal_info(tid) else {
            return;
        };
        // SI_USER and the other codes of processes are not above 0.
        let (by, sender) = if info.si_code <= 0 {
            // SAFETY: with these codes the kernel fills the sender's pid in.
            let pid = unsafe { info.si_pid() };
            let sender = u32::try_from(pid).ok().and_then(|pid| self.sender(pid));
            (SignalBy::Process, sender)
        } else {
            (SignalBy::Kernel, None)
        };
        let (sender, sender_comm) = sender.unzip();
        let event = Signal {
            ts: boot_ns(),
            cpu: None,
            signal,
            by,
            sender,
            sender_comm,
            target,
        };
        self.out.push(Event::Signal(Box::new(event)));
    }

    /// Whether this is a stop signal that a thread had taken when an exec ended it. The
    /// kernel then queues it anew (`ptrace_signal`, kernel/signal.c), even where a SIGCONT
    /// has come since, which is lost by that: the new program would stop for good. One that
    /// nobody has taken or continued looks the same; without a ptracer it would count, but
    /// of the two errors it is the lesser one that a program goes on.
    pub(super) fn is_stale_stop(&mut self, tid: u32, signal: i32) -> bool {
        let group = self.groups.get(&tid);
        STOPS.contains(&signal)
            && group.is_some_and(|g| g.ended_threads)
            && self.proc.ends_exec(tid)
    }

    /// Who sent a signal. It may have ended since.
    fn sender(&mut self, pid: u32) -> Option<(ProcId, Comm)> {
        if let Some(group) = self.groups.get(&pid) {
            return Some((group.id, group.comm));
        }
        let ended = self.ended.iter().rev().find(|(id, _)| id.pid == pid);
        if let Some(ended) = ended {
            return Some(*ended);
        }
        let id = self.identify(pid)?;
        Some((id, self.proc.stat(pid)?.comm))
    }

    /// Remembers those that have just ended, for the signals that they sent.
    pub(super) fn remember(&mut self, id: ProcId, comm: Comm) {
        if self.options.signals {
            if self.ended.len() >= SENDERS {
                self.ended.pop_front();
            }
            self.ended.push_back((id, comm));
        }
    }
}
