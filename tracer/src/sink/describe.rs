//! Words for what happened to a process, shared by tree, summary and log.

use std::fmt::Write;

use super::escape::{command, escape};
use super::names::signal_name;
use crate::model::{Comm, Exec, Field, LossPlace, Process, Signal, SignalBy, Status};

/// `exit 2`, `SIGSEGV (core dumped)`; empty after success.
pub fn outcome(status: Status) -> String {
    match (status.signal, status.exit_code) {
        (Some(n), _) => {
            let mut s = signal(n);
            if status.core_dumped {
                s.push_str(" (core dumped)");
            }
            s
        }
        (None, Some(code)) if code != 0 => format!("exit {code}"),
        _ => String::new(),
    }
}

pub fn signal(n: i32) -> String {
    signal_name(n).map_or_else(|| format!("signal {n}"), str::to_owned)
}

/// `by 98 sh`; empty for a signal of the kernel's own, which its name explains.
pub fn sender(s: &Signal) -> String {
    let mut text = String::new();
    match s.by {
        SignalBy::Oom => text.push_str("by the OOM killer"),
        SignalBy::Process => {
            text.push_str("by");
            if let Some(id) = s.sender {
                // Writing to a String does not fail.
                let _ = write!(text, " {}", id.pid);
            }
            if let Some(comm) = &s.sender_comm {
                text.push(' ');
                escape(&mut text, comm.as_slice());
            }
            if text == "by" {
                text.push_str(" another process");
            }
        }
        SignalBy::Kernel => {}
    }
    text
}

/// The arguments as a shell would take them; the file name where they are
/// missing. `limit` is in bytes; what is cut ends in `…`.
pub fn exec_command(out: &mut String, e: &Exec, limit: usize) {
    match &e.argv {
        Field::Full(args) => command(out, args.iter(), limit, false),
        Field::Truncated(args) => command(out, args.iter(), limit, true),
        Field::Missing(_) => match e.filename.value() {
            Some(file) => command(out, std::iter::once(file.as_slice()), limit, true),
            None => escape(out, e.comm.as_slice()),
        },
    }
}

/// Name of the program: the last part of its file name. A program that was
/// started by descriptor, or is its parent's, goes by its comm.
pub fn program(p: &Process) -> String {
    let mut name = String::new();
    let file = p
        .exec
        .as_deref()
        .and_then(|e| e.filename.value())
        .map(|f| f.as_slice());
    let by_descriptor = |f: &[u8]| f.starts_with(b"/dev/fd/") || f.starts_with(b"/proc/self/fd/");
    match file
        .filter(|f| !by_descriptor(f))
        .and_then(|f| f.rsplit(|b| *b == b'/').find(|part| !part.is_empty()))
    {
        Some(base) => escape(&mut name, base),
        None => comm(&mut name, p.comm),
    }
    if p.kthread { format!("[{name}]") } else { name }
}

pub fn comm(out: &mut String, comm: Comm) {
    let bytes = comm.as_slice();
    if bytes.is_empty() {
        out.push('-')
    } else {
        escape(out, bytes)
    }
}

/// What a user can do about a loss.
pub const fn remedy(place: LossPlace) -> &'static str {
    match place {
        LossPlace::Ring | LossPlace::Ftrace => "a larger --ring-size helps",
        LossPlace::Table => "too many processes at once: narrow the trace with a filter",
        LossPlace::Channel | LossPlace::Sink => {
            "an output was too slow: write to a file, or to fewer outputs"
        }
    }
}
