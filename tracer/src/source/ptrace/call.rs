//! The system calls of a tracer, one function each. Signals are plain numbers
//! here: real-time signals must pass through unharmed.

use std::io;
use std::mem::MaybeUninit;

use super::rusage::Rusage;

/// Options that every tracee gets; children inherit them.
const OPTIONS: i32 = libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT;

/// What wait4(2) reported of one task.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub tid: u32,
    /// Raw wait status, ptrace event in bits 16…23.
    pub status: i32,
    /// The whole process's resources, with those of children it has waited for.
    pub rusage: Rusage,
    /// Of an end: it has left its CPU for good, so that nothing is added to `rusage`.
    pub complete: bool,
}

fn request(request: libc::c_uint, tid: u32, data: usize) -> io::Result<()> {
    // A tid comes from the kernel and is at most 2^22.
    let pid = tid.cast_signed();
    let null = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: of the requests used here none dereferences `addr` (null) or
    // `data` (a number) in this process.
    let r = unsafe { libc::ptrace(request, pid, null, data) };
    if r == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Begins to trace `tid` without stopping it. With `kill`, the kernel kills
/// the tracees when this thread ends.
pub fn seize(tid: u32, kill: bool) -> io::Result<()> {
    let options = OPTIONS | if kill { libc::PTRACE_O_EXITKILL } else { 0 };
    request(libc::PTRACE_SEIZE, tid, options.unsigned_abs() as usize)
}

/// Lets a stopped tracee go on, delivering `signal` (0: none).
pub fn cont(tid: u32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, signal.unsigned_abs() as usize)
}

/// Leaves a tracee in its group-stop, so that SIGCONT and further events act.
pub fn listen(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, tid, 0)
}

/// The number that goes with one of the ptrace `events`, at which `tid` stands: the
/// new task's tid, the former tid of a thread that called execve. ESRCH also where it
/// was killed meanwhile and has gone on to its exit stop, whose number is its status.
pub fn event_message(tid: u32, events: &[i32]) -> io::Result<u64> {
    let message = any_message(tid)?;
    // A stop only ever gives way to a later one: after the number it is looked at
    // which one it was.
    let event = signal_info(tid)?.si_code >> 8;
    if events.contains(&event) {
        Ok(message)
    } else {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}

fn any_message(tid: u32) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    let null = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: PTRACE_GETEVENTMSG writes one unsigned long to `data`, which
    // points to one.
    let r = unsafe {
        libc::ptrace(
            libc::PTRACE_GETEVENTMSG,
            tid.cast_signed(),
            null,
            &raw mut message,
        )
    };
    if r == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(message)
    }
}

/// What is known of the signal at which a tracee stands.
pub fn signal_info(tid: u32) -> io::Result<libc::siginfo_t> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let null = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: PTRACE_GETSIGINFO writes one siginfo_t to `data`, which has the
    // room for it.
    let r = unsafe {
        libc::ptrace(
            libc::PTRACE_GETSIGINFO,
            tid.cast_signed(),
            null,
            info.as_mut_ptr(),
        )
    };
    if r == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed before, and filled by the kernel: every bit pattern is a
    // valid siginfo_t.
    Ok(unsafe { info.assume_init() })
}

/// The next child or tracee of this thread with something to report, which
/// [`take`] takes, and whether it has ended. `None`: nothing waits (only if not
/// `block`). ECHILD: none is left.
pub fn peek(block: bool) -> io::Result<Option<(u32, bool)>> {
    let flags = libc::WEXITED
        | libc::WSTOPPED
        | libc::WNOWAIT
        | MINE
        | if block { 0 } else { libc::WNOHANG };
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the pointer is to a writable siginfo_t.
    let r = unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags) };
    if r == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed before, every bit pattern is a valid siginfo_t.
    let info = unsafe { info.assume_init() };
    // SAFETY: waitid fills the members of SIGCHLD, or leaves all zero.
    let pid = unsafe { info.si_pid() };
    let stopped = matches!(
        info.si_code,
        libc::CLD_TRAPPED | libc::CLD_STOPPED | libc::CLD_CONTINUED
    );
    let tid = u32::try_from(pid).ok().filter(|tid| *tid != 0);
    Ok(tid.map(|tid| (tid, !stopped)))
}

/// Children of other threads are not ours to reap.
const MINE: libc::c_int = libc::__WALL | libc::__WNOTHREAD;

/// The report of `tid`; `None`: it has taken back what it had to report.
pub fn take(tid: u32) -> io::Result<Option<Report>> {
    let mut status = 0;
    let mut rusage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to writable objects of the right type.
    let pid = unsafe {
        libc::wait4(
            tid.cast_signed(),
            &raw mut status,
            MINE | libc::WNOHANG,
            rusage.as_mut_ptr(),
        )
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => {
            // SAFETY: zeroed before; all members are integers.
            let rusage = unsafe { rusage.assume_init() };
            Ok(Some(Report {
                tid,
                status,
                rusage: Rusage::from(&rusage),
                complete: false,
            }))
        }
    }
}
