//! Why a trigger cannot be executed, and what to do.

use std::io;

use crate::source::ebpf::EbpfError;

#[derive(Debug, thiserror::Error)]
pub enum HistError {
    #[error(transparent)]
    Ebpf(#[from] EbpfError),
    #[error("the program cannot be attached to the event: {0}; {remedy}", remedy = not_attached(.0))]
    Attach(io::Error),
    #[error(
        "there is no memory for a table of {entries} rows, which takes {mib} MiB; give the trigger a smaller size=, \
         or tracer more memory (that of its cgroup may be limited)"
    )]
    NoMemory { entries: u32, mib: usize },
    #[error("the table cannot be read: {0}")]
    Table(io::Error),
    #[error(
        "the embedded kernel side is not what it should be; this is a fault of tracer, please report it"
    )]
    Object,
}

fn not_attached(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::E2BIG) => "the kernel runs 64 programs at one event at most: name it less often",
        // perf has no synthetic ones, and takes programs of another kind for probes.
        Some(libc::ENODEV | libc::EINVAL) => {
            "one that was made at run time (of a probe, a synthetic one) is no tracepoint: use --backend ftrace"
        }
        Some(libc::EMFILE) => {
            "each trigger needs some five open files: raise their limit (ulimit -n), or name fewer"
        }
        _ => "see: tracer check",
    }
}
