//! Configuration that the user side writes into the kernel side's read-only
//! global before load; the verifier then sees constants and drops dead code.

/// Bits of [`Config::flags`].
pub mod opt {
    /// The whole machine, not one subtree.
    pub const ALL: u64 = 1;
    /// A record for each thread's start and end.
    pub const THREADS: u64 = 2;
    pub const ENV: u64 = 4;
    pub const FAILED_EXECS: u64 = 8;
    pub const SIGNALS: u64 = 16;
    pub const KTHREADS: u64 = 32;
    /// Ends with status 0 are not recorded.
    pub const FAILED_ONLY: u64 = 64;
    pub const COMM: u64 = 128;
    pub const EXCLUDE_COMM: u64 = 256;
    pub const UID: u64 = 512;
    pub const CGROUP: u64 = 1024;
    /// sched_process_exit has its second argument, group_dead (Linux ≥ 6.16).
    pub const EXIT_GROUP_DEAD: u64 = 2048;
    /// The kernel accounts block-I/O delay for tasks created now.
    pub const DELAYACCT: u64 = 4096;
    /// oom:mark_victim gives the victim's task (Linux ≥ 6.8), not its pid.
    pub const OOM_TASK: u64 = 8192;
    /// The kernel side logs its own diagnostics.
    pub const DEBUG: u64 = 16384;
    /// The trees of some running processes.
    pub const TREES: u64 = 32768;
}

/// Most users that `--uid-filter` can name.
pub const MAX_UIDS: usize = 8;

/// Most groups that `--cgroup` can name.
pub const MAX_CGROUPS: usize = 8;

/// 64-bit words of glob automaton states; see `tracer::filter::glob`.
pub const GLOB_WORDS: usize = 4;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub flags: u64,
    /// Own pid as seen in our PID namespace, and that namespace's inode.
    pub tracer_pid: u32,
    pub pidns_ino: u32,
    /// Caps in bytes.
    pub max_argv: u32,
    /// Size of one text piece: at most a quarter of the ring, at most 16 KiB.
    pub piece: u32,
    /// Wake the reader when this many bytes wait.
    pub wake_bytes: u64,
    /// Look how many wait where a record's `seq` has none of these bits.
    pub wake_mask: u32,
    /// `sizeof(struct k_sigaction)`.
    pub sigaction_size: u32,
    /// `sizeof(struct percpu_counter)`.
    pub percpu_counter_size: u32,
    pub n_uids: u32,
    pub n_cgroups: u32,
    pub uids: [u32; MAX_UIDS],
    /// Ids (kernfs nodes) of the groups of `--cgroup`.
    pub cgroups: [u64; MAX_CGROUPS],
}

/// A glob automaton step table: bit i of `accept[c]` says that state i may be
/// entered with byte c; `stay` are the states of `*`; `last` the accepting ones.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Glob {
    pub accept: [[u64; 256]; GLOB_WORDS],
    pub first: [u64; GLOB_WORDS],
    pub stay: [u64; GLOB_WORDS],
    pub last: [u64; GLOB_WORDS],
}

/// [`State::seeding`]: where the look-up of running processes is.
pub mod seeding {
    /// Not begun, or over.
    pub const OFF: u32 = 0;
    /// Those that `-p` names.
    pub const NAMED: u32 = 1;
    /// Everybody; until it is over, whoever descends from one that is followed
    /// is followed, too.
    pub const ALL: u32 = 2;
}

/// [`State::root`], and what the map `ROOT` of `tracer hist` holds.
pub mod root {
    /// The next process that tracer forks is the root.
    pub const ARMED: u32 = 1;
    /// The kernel has recognised it.
    pub const FOUND: u32 = 2;
}

/// The state shared while running; one element of an array map.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// One of [`root`], or 0.
    pub root: u32,
    pub root_tgid: u32,
    pub root_start: u64,
    /// One of [`seeding`].
    pub seeding: u32,
    /// Processes that were being forked when they were looked up, see the
    /// kernel side's `probes::seed`.
    pub undecided: u32,
}
