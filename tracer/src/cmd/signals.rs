//! Signals to tracer itself.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Those that are caught while a capture runs.
pub(super) const CAUGHT: [i32; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

pub(super) struct Signals {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// What a signal to tracer means.
pub(super) enum Asked {
    /// From the terminal: a command there has got it too, and decides.
    Terminal,
    /// To tracer alone: to be passed on.
    PassOn(i32),
}

impl Signals {
    pub(super) fn new() -> Result<Self> {
        let catch = |kind| signal(kind).context("signals cannot be caught");
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            quit: catch(SignalKind::quit())?,
            terminate: catch(SignalKind::terminate())?,
            hang_up: catch(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Terminal,
            _ = self.quit.recv() => Asked::Terminal,
            _ = self.terminate.recv() => Asked::PassOn(libc::SIGTERM),
            _ = self.hang_up.recv() => Asked::PassOn(libc::SIGHUP),
        }
    }
}
