//! Who sent a signal that ends its target. SIGKILL makes no stop: its sender
//! stays unknown here.

use super::call;
use super::tracer::Tracer;
use crate::model::time::boot_ns;
use crate::model::{Event, Signal, SignalBy};

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
            (
                SignalBy::Process,
                u32::try_from(pid).ok().and_then(|pid| self.identify(pid)),
            )
        } else {
            (SignalBy::Kernel, None)
        };
        let sender_comm = sender.and_then(|s| match self.groups.get(&s.pid) {
            Some(group) => Some(group.comm),
            None => self.proc.stat(s.pid).map(|s| s.comm),
        });
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
}
