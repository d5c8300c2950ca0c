//! From the options to what the kernel side is told before load.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use tracer_common::config::{Config, Glob, MAX_CGROUPS, MAX_UIDS, opt};

use super::error::EbpfError;
use crate::sys::btf::Btf;
use crate::sys::procfs::Proc;

/// Who is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The process that tracer is going to fork, see `EbpfSource::arm`.
    Command,
    /// The whole machine.
    All,
    /// These running processes and all their descendants.
    Trees(Vec<u32>),
}

impl Whom {
    /// Whether processes count that run already.
    pub fn runs_already(&self) -> bool {
        *self != Self::Command
    }
}

/// What to watch. Globs are compiled; see `filter::glob`.
#[derive(Clone, Debug)]
pub struct Options {
    pub whom: Whom,
    /// Running processes out of /proc, as where the kernel has no iterator.
    pub proc_seeds: bool,
    /// Bytes, a power of two, at least a page.
    pub ring_size: u32,
    /// Bytes of argv (and of the environment) at most.
    pub max_argv: u32,
    pub threads: bool,
    pub env: bool,
    pub failed_execs: bool,
    pub signals: bool,
    pub kthreads: bool,
    pub failed_only: bool,
    pub debug: bool,
    pub comm: Option<Box<Glob>>,
    pub exclude_comm: Option<Box<Glob>>,
    /// At most [`MAX_UIDS`]; none: everybody.
    pub uids: Vec<u32>,
    /// Ids of cgroups (v2), at most [`MAX_CGROUPS`]; none: all.
    pub cgroups: Vec<u64>,
}

impl Options {
    /// Everybody of `whom`, with nothing besides what every record has.
    pub fn new(whom: Whom, ring_size: u32) -> Self {
        Self {
            whom,
            proc_seeds: false,
            ring_size,
            max_argv: 64 << 10,
            threads: false,
            env: false,
            failed_execs: false,
            signals: false,
            kthreads: false,
            failed_only: false,
            debug: false,
            comm: None,
            exclude_comm: None,
            uids: Vec::new(),
            cgroups: Vec::new(),
        }
    }

    /// Whether some processes are followed and not shown.
    pub fn is_filtered(&self) -> bool {
        self.comm.is_some()
            || self.exclude_comm.is_some()
            || !self.uids.is_empty()
            || !self.cgroups.is_empty()
    }
}

pub const PID_NAMESPACE: &str = "/proc/self/ns/pid";

/// Largest text piece, bytes.
const PIECE_MAX: u32 = 16 << 10;

/// Most processes that can be followed at once, for a command and its descendants.
const PROCESSES: u32 = 32 << 10;
/// The same for the whole machine, where the kernel allows as many. An entry
/// has some 200 bytes, all of which the kernel takes at once.
const PROCESSES_ALL: u32 = 256 << 10;

/// Entries of the tracked set.
pub fn tracked_size(whom: &Whom, proc: &Proc) -> u32 {
    if *whom != Whom::All {
        return PROCESSES;
    }
    let limits = ["pid_max", "threads-max"].map(|name| proc.kernel_number(name));
    let most = limits.into_iter().flatten().min();
    let most = most.and_then(|n| u32::try_from(n).ok());
    most.unwrap_or(PROCESSES_ALL)
        .clamp(PROCESSES, PROCESSES_ALL)
}

/// Builds the kernel side's configuration from the options and what the
/// running kernel is like.
pub fn config(options: &Options, btf: &Btf<'_>, proc: &Proc) -> Result<Config, EbpfError> {
    let mut flags = 0;
    for (on, bit) in [
        (options.whom == Whom::All, opt::ALL),
        (matches!(options.whom, Whom::Trees(_)), opt::TREES),
        (options.threads, opt::THREADS),
        (options.env, opt::ENV),
        (options.failed_execs, opt::FAILED_EXECS),
        (options.signals, opt::SIGNALS),
        (options.kthreads, opt::KTHREADS),
        (options.failed_only, opt::FAILED_ONLY),
        (options.debug, opt::DEBUG),
        (options.comm.is_some(), opt::COMM),
        (options.exclude_comm.is_some(), opt::EXCLUDE_COMM),
        (!options.uids.is_empty(), opt::UID),
        (!options.cgroups.is_empty(), opt::CGROUP),
        // One more parameter than the tracepoint's own: the first is its data.
        (
            btf.typedef_params("btf_trace_sched_process_exit")? == Some(3),
            opt::EXIT_GROUP_DEAD,
        ),
        (
            btf.typedef_params("btf_trace_mark_victim")? == Some(3),
            opt::OOM_TASK,
        ),
        (
            proc.kernel_number("task_delayacct") == Some(1),
            opt::DELAYACCT,
        ),
    ] {
        if on {
            flags |= bit;
        }
    }
    let mut uids = [0; MAX_UIDS];
    for (to, from) in uids.iter_mut().zip(&options.uids) {
        *to = *from;
    }
    let mut cgroups = [0; MAX_CGROUPS];
    for (to, from) in cgroups.iter_mut().zip(&options.cgroups) {
        *to = *from;
    }
    Ok(Config {
        flags,
        tracer_pid: std::process::id(),
        pidns_ino: pid_namespace().map_err(EbpfError::NoProc)?,
        max_argv: options.max_argv,
        // A quarter of the ring at most, its own header and the exec record included.
        piece: (options.ring_size / 4).saturating_sub(128).min(PIECE_MAX),
        wake_bytes: u64::from(options.ring_size / 4 * 3),
        // A look costs the writers what the reader did to the ring's cache lines.
        wake_mask: if options.ring_size >= 1 << 20 { 7 } else { 0 },
        // x86-64: handler, flags, restorer, mask.
        sigaction_size: btf.struct_size("k_sigaction")?.unwrap_or(32),
        percpu_counter_size: btf.struct_size("percpu_counter")?.unwrap_or(0),
        n_uids: u32::try_from(options.uids.len().min(MAX_UIDS)).unwrap_or(0),
        n_cgroups: u32::try_from(options.cgroups.len().min(MAX_CGROUPS)).unwrap_or(0),
        uids,
        cgroups,
    })
}

/// Inode of our PID namespace; namespace inodes have 32 bits.
fn pid_namespace() -> io::Result<u32> {
    let inode = fs::metadata(PID_NAMESPACE)?.ino();
    u32::try_from(inode).map_err(io::Error::other)
}
