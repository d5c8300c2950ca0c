//! What a wait status of a seized tracee means.

/// The events of [`Stop::Fork`].
pub const FORKS: [i32; 3] = [
    libc::PTRACE_EVENT_FORK,
    libc::PTRACE_EVENT_VFORK,
    libc::PTRACE_EVENT_CLONE,
];

/// Why a tracee was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It ended; the status is that of wait(2).
    End(u32),
    /// A signal is about to be delivered to it.
    Signal(i32),
    /// Its process was stopped by this signal and stays so until SIGCONT.
    Group(i32),
    /// A new task's first stop, or the end of a group-stop.
    Trap,
    /// It created a task: fork, vfork or clone.
    Fork,
    /// It runs a new program.
    Exec,
    /// It is about to end; its memory is still there.
    Exit,
    /// An event that was not asked for.
    Other,
}

impl Stop {
    pub fn new(status: i32) -> Self {
        if !libc::WIFSTOPPED(status) {
            return Self::End(status.cast_unsigned() & 0xffff);
        }
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            0 => Self::Signal(signal),
            libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Self::Trap,
            libc::PTRACE_EVENT_STOP => Self::Group(signal),
            event if FORKS.contains(&event) => Self::Fork,
            libc::PTRACE_EVENT_EXEC => Self::Exec,
            libc::PTRACE_EVENT_EXIT => Self::Exit,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event: i32, signal: i32) -> Stop {
        Stop::new((event << 16) | (signal << 8) | 0x7f)
    }

    #[test]
    fn a_sigtrap_of_the_command_is_a_signal() {
        assert_eq!(event(0, libc::SIGTRAP), Stop::Signal(libc::SIGTRAP));
        assert_eq!(event(libc::PTRACE_EVENT_STOP, libc::SIGTRAP), Stop::Trap);
    }

    #[test]
    fn a_stop_signal_is_told_from_its_effect() {
        assert_eq!(event(0, libc::SIGTSTP), Stop::Signal(libc::SIGTSTP));
        assert_eq!(
            event(libc::PTRACE_EVENT_STOP, libc::SIGTSTP),
            Stop::Group(libc::SIGTSTP)
        );
    }

    #[test]
    fn ends_and_events() {
        assert_eq!(Stop::new(7 << 8), Stop::End(7 << 8));
        assert_eq!(Stop::new(0x8b), Stop::End(0x8b));
        assert_eq!(event(libc::PTRACE_EVENT_VFORK, libc::SIGTRAP), Stop::Fork);
        assert_eq!(event(libc::PTRACE_EVENT_EXIT, libc::SIGTRAP), Stop::Exit);
        assert_eq!(
            event(libc::PTRACE_EVENT_SECCOMP, libc::SIGTRAP),
            Stop::Other
        );
        // A real-time signal.
        assert_eq!(event(0, 64), Stop::Signal(64));
    }
}
