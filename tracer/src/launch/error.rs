//! Why a command could not be started.

use std::ffi::{OsStr, OsString};
use std::io;

use thiserror::Error;

/// What the child was doing when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    Exec = 1,
    Groups = 2,
    Gid = 3,
    Uid = 4,
}

impl Step {
    const fn from_byte(byte: u8) -> Self {
        match byte {
            2 => Self::Groups,
            3 => Self::Gid,
            4 => Self::Uid,
            _ => Self::Exec,
        }
    }
}

#[derive(Debug, Error)]
pub enum LaunchError {
    #[error("no command was given; write it after --, as in: tracer -- make -j4")]
    NoCommand,
    #[error("{}: command not found in PATH; check its spelling, or give its path with a slash", .0.display())]
    NotFound(OsString),
    #[error("cannot run {}: {}; {}", .name.display(), io::Error::from_raw_os_error(*.errno), remedy(*.errno))]
    Exec { name: OsString, errno: i32 },
    #[error("argument {0:?} holds a NUL byte, which no command can be given; remove it")]
    Nul(OsString),
    #[error(
        "only root can run a command as another user; start tracer with sudo, or leave --uid out"
    )]
    NotRoot,
    #[error(
        "cannot become the user of --uid ({}): {}; inside a container, its uid and gid must be mapped",
        step_name(*.step),
        io::Error::from_raw_os_error(*.errno)
    )]
    User { step: Step, errno: i32 },
    #[error(
        "cannot start the command: {0}; `ulimit -u` and `ulimit -n` show the limits that apply"
    )]
    Start(#[source] io::Error),
}

const fn step_name(step: Step) -> &'static str {
    match step {
        Step::Exec => "exec",
        Step::Groups => "setgroups",
        Step::Gid => "setgid",
        Step::Uid => "setuid",
    }
}

const fn remedy(errno: i32) -> &'static str {
    match errno {
        libc::ENOENT => "check the path; for a script, that the interpreter after #! exists",
        libc::EACCES => {
            "it must be a file with execute permission (chmod +x), on a file system not mounted noexec"
        }
        libc::E2BIG => "the arguments and the environment are too long together",
        libc::ETXTBSY => "somebody has the file open for writing",
        libc::ELOOP => "too many symbolic links or nested interpreters",
        libc::ENOEXEC => "it is not a program for this machine",
        _ => "run it without tracer to see whether the fault is tracer's",
    }
}

impl LaunchError {
    pub(super) fn in_child(name: &OsStr, step: u8, errno: i32) -> Self {
        match Step::from_byte(step) {
            Step::Exec => Self::Exec {
                name: name.to_owned(),
                errno,
            },
            step => Self::User { step, errno },
        }
    }

    /// Exit status of tracer, as env(1) and timeout(1) have it: 127 not found,
    /// 126 found but not executable, 125 for everything else.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_)
            | Self::Exec {
                errno: libc::ENOENT,
                ..
            } => 127,
            Self::Exec { .. } => 126,
            _ => 125,
        }
    }
}
