//! Why the eBPF source cannot be used, and what to do.

use std::error::Error;
use std::io;

use aya::EbpfError as AyaError;
use aya::maps::MapError;

use super::config::PID_NAMESPACE;
use crate::sys::btf::{BtfError, ResolveError, VMLINUX};

#[derive(Debug, thiserror::Error)]
pub enum EbpfError {
    #[error("the ring buffer cannot be read: {0}")]
    Ring(io::Error),
    #[error("{VMLINUX} cannot be read ({}): {}", .0, no_btf(.0))]
    NoBtf(io::Error),
    #[error(
        "{PID_NAMESPACE} cannot be read ({0}), and the kernel side must know tracer's PID namespace: \
         mount procfs (mount -t proc proc /proc)"
    )]
    NoProc(io::Error),
    #[error(transparent)]
    Btf(#[from] BtfError),
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(
        "the kernel refused bpf() ({0}); it needs root, or CAP_BPF and CAP_PERFMON, and a kernel that is not \
         locked down: run as root (sudo), and see: tracer check"
    )]
    Denied(io::Error),
    #[error("eBPF maps could not be made: {}; {}", chain(.0), remedy(.0))]
    Load(Box<AyaError>),
    #[error("the kernel did not accept the eBPF program {program}: {error}; {remedy}")]
    Program {
        program: &'static str,
        error: String,
        remedy: &'static str,
    },
    #[error("running processes cannot be listed by the iterator over tasks: {0}")]
    Seed(String),
    #[error("eBPF map {}: {}; {}", .0, chain(.1), remedy(.1))]
    Map(&'static str, MapError),
}

/// An error with all its causes: aya's own text ends where the kernel's reason begins.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Some repeat their cause.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// The errno at the bottom of an error.
pub fn errno(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut next = Some(error);
    while let Some(e) = next {
        if let Some(code) = e
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return Some(code);
        }
        next = e.source();
    }
    None
}

const FILES: &str = "raise the limit of open files, of which tracer needs about 40 (ulimit -n)";

/// What to do about an error of aya's.
pub fn remedy(error: &(dyn Error + 'static)) -> &'static str {
    match errno(error) {
        Some(libc::EMFILE) => FILES,
        Some(libc::ENOMEM | libc::EAGAIN) => {
            "give tracer more memory (ulimit -v, ulimit -l), or a smaller --ring-size"
        }
        _ => "see: tracer check",
    }
}

fn no_btf(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => FILES,
        _ => {
            "this kernel was built without CONFIG_DEBUG_INFO_BTF, or /sys is not mounted \
             (mount -t sysfs sysfs /sys)"
        }
    }
}

/// Whether an error means that bpf() itself is refused.
pub fn denied(error: &(dyn Error + 'static)) -> Option<io::Error> {
    let mut next = Some(error);
    while let Some(e) = next {
        if let Some(io) = e.downcast_ref::<io::Error>()
            && let Some(code) = io.raw_os_error()
            // Not EACCES: so the verifier says that it does not accept a program.
            && code == libc::EPERM
        {
            return Some(io::Error::from_raw_os_error(code));
        }
        next = e.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to create map `X`")]
    struct Map(#[source] io::Error);

    #[test]
    fn the_cause_is_named_with_its_own_remedy() {
        let error = Map(io::Error::from_raw_os_error(libc::EMFILE));
        assert_eq!(
            chain(&error),
            "failed to create map `X`: Too many open files (os error 24)"
        );
        assert!(remedy(&error).contains("ulimit -n"));
        let error = Map(io::Error::other("odd"));
        assert_eq!(chain(&error), "failed to create map `X`: odd");
        assert!(remedy(&error).contains("tracer check"));
    }
}
