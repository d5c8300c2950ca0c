//! Ctrl-C ends a benchmark in order: what was changed is put back, and what was measured is shown.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context as _, Result, bail};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// From now on SIGINT, SIGTERM and SIGHUP are only noted.
pub fn catch() -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: all-zero is a valid sigaction: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler only stores to an atomic, which is safe in a signal handler.
        if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error()).context("cannot catch signals");
        }
    }
    Ok(())
}

pub fn happened() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// An error after an interrupt.
pub fn check() -> Result<()> {
    if happened() {
        bail!("interrupted");
    }
    Ok(())
}
