//! What a service manager wants to hear (sd_notify): that the capture has begun, that it goes on,
//! that it ends. Without a manager nothing is said.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::Instant;

use crate::sys::capabilities::{Need, keep_only};

/// The line to the service manager.
pub(super) struct Service {
    /// How often it wants to hear that the capture goes on.
    period: Option<Duration>,
    next: Instant,
}

impl Service {
    /// Says that the capture has begun.
    pub fn ready() -> Self {
        say(&[NotifyState::Ready, NotifyState::Status("recording")]);
        Self {
            // Twice as often as it must.
            period: sd_notify::watchdog_enabled().map(|limit| limit / 2),
            next: Instant::now(),
        }
    }

    /// Says that the loop still turns, when it is time to.
    pub fn alive(&mut self) {
        let now = Instant::now();
        if let Some(period) = self.period
            && now >= self.next
        {
            say(&[NotifyState::Watchdog]);
            self.next = now + period;
        }
    }

    pub fn stopping(&self) {
        say(&[NotifyState::Stopping]);
    }
}

/// A manager that does not listen is no reason to end a capture.
fn say(what: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(what);
}

/// Runs `work` in a thread that can do no more than write files; threads that it starts cannot
/// either.
pub(super) fn with_files_only<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            restrict(Need::Files);
            work()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Gives up what is needed no longer. That it cannot be is no reason not to record.
pub(super) fn restrict(need: Need) {
    if let Err(error) = keep_only(need) {
        eprintln!("tracer: {error}");
    }
}
