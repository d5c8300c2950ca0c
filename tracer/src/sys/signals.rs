//! What tracer inherited: ignored and blocked signals, closed standard streams.
//!
//! Rust's runtime ignores SIGPIPE and opens `/dev/null` in place of a closed
//! standard stream before `main`, tokio replaces an ignored SIGINT by a handler,
//! and the C library takes signal 33 for its threads. A command must start as if
//! tracer were not there, so all this is noted before the runtime starts and put
//! back in the child before exec.
//!
//! The system calls are made directly, as the C library's functions refuse
//! signals 32 and 33. Bit `n - 1` of a set stands for signal `n`.

use std::ffi::{c_int, c_long};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);
/// Bit `n` stands for file descriptor `n`, 0…2.
static CLOSED: AtomicU64 = AtomicU64::new(0);

/// Every Linux but that for MIPS has 64 signals.
const SIGNALS: std::ops::RangeInclusive<c_int> = 1..=64;
const SET_SIZE: usize = size_of::<u64>();

/// The kernel's `struct sigaction`: the handler first; flags, restorer and mask
/// after it in an order of the architecture's, at most four words of 8 bytes.
type Action = [usize; 8];

// SAFETY: the section holds pointers to functions that the loader calls once
// each, before `main`; `capture` has the right type (arguments are ignored in
// the C ABI), needs nothing of Rust's runtime, and cannot unwind.
#[used]
#[unsafe(link_section = ".init_array")]
static CAPTURE: extern "C" fn() = capture;

extern "C" fn capture() {
    let mut ignored = 0;
    for signal in SIGNALS {
        let mut action: Action = [0; 8];
        if sigaction(signal, None, Some(&mut action)) == 0 && action[0] == libc::SIG_IGN {
            ignored |= bit(signal);
        }
    }
    let mut closed = 0;
    for fd in 0..3 {
        // SAFETY: asks for a flag; any number may be asked about.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            closed |= 1 << fd;
        }
    }
    IGNORED.store(ignored, Ordering::Relaxed);
    BLOCKED.store(change_mask(libc::SIG_BLOCK, 0), Ordering::Relaxed);
    CLOSED.store(closed, Ordering::Relaxed);
}

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

fn sigaction(signal: c_int, new: Option<&Action>, old: Option<&mut Action>) -> c_long {
    let new = new.map_or(null(), |a| a.as_ptr());
    let old = old.map_or(null_mut(), |a| a.as_mut_ptr());
    // SAFETY: both are null or large enough on every architecture; a new
    // action never names a function, see `restore_in_child`.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old, SET_SIZE) }
}

/// Changes this thread's mask and returns that of before.
fn change_mask(how: c_int, set: u64) -> u64 {
    let mut old = 0_u64;
    // SAFETY: both sets have the size that is given.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const set,
            &raw mut old,
            SET_SIZE,
        )
    };
    old
}

/// Whether the standard stream `fd` was closed when tracer was started: what is
/// written there since then goes to the runtime's `/dev/null`.
pub(crate) fn was_closed(fd: c_int) -> bool {
    (0..3).contains(&fd) && CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0
}

/// What tracer itself needs, whatever it was started with; the command gets the
/// dispositions back as they were.
///
/// - A file that grows beyond the limit (`ulimit -f`) is an error of its write, to
///   be reported as a full disk is, and not tracer's death.
/// - Where SIGCHLD is ignored, the kernel reaps children at once: nobody could be
///   told how the command ended.
pub fn set_own_actions() {
    let mut action: Action = [0; 8];
    // They take numbers that exist and valid actions: they do not fail.
    sigaction(libc::SIGCHLD, Some(&action), None);
    action[0] = libc::SIG_IGN;
    sigaction(libc::SIGXFSZ, Some(&action), None);
}

/// Gives `signals` their default actions back, but for those that were ignored
/// when tracer was started.
pub fn default_actions(signals: &[c_int]) {
    let default: Action = [0; 8];
    let ignored = IGNORED.load(Ordering::Relaxed);
    for signal in signals {
        if ignored & bit(*signal) == 0 {
            // It takes a number that exists and a valid action: it does not fail.
            sigaction(*signal, Some(&default), None);
        }
    }
}

/// As long as it lives no signal reaches this thread, nor those that it starts: a child
/// that is forked must not run tracer's handlers, and where a signal waits the kernel
/// breaks off what it verifies (EAGAIN).
pub struct Undisturbed(
    /// The mask of before.
    u64,
);

impl Undisturbed {
    pub fn begin() -> Self {
        Self(change_mask(libc::SIG_SETMASK, u64::MAX))
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        change_mask(libc::SIG_SETMASK, self.0);
    }
}

/// In the child, before exec: dispositions, closed standard streams and, last,
/// the mask are as tracer got them. Only async-signal-safe calls; signals must
/// be blocked, so that no handler of tracer's runs in the child.
pub(crate) fn restore_in_child() {
    let ignored = IGNORED.load(Ordering::Relaxed);
    let mut action: Action = [0; 8];
    for signal in SIGNALS {
        action[0] = if ignored & bit(signal) != 0 {
            libc::SIG_IGN
        } else {
            libc::SIG_DFL
        };
        // Refused for SIGKILL and SIGSTOP, which nobody can have changed.
        sigaction(signal, Some(&action), None);
    }
    for fd in 0..3 {
        if CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0 {
            // SAFETY: it is the runtime's /dev/null, and this process is about to exec.
            unsafe { libc::close(fd) };
        }
    }
    change_mask(libc::SIG_SETMASK, BLOCKED.load(Ordering::Relaxed));
}
