//! Read-only globals that the user side fills in before load. The verifier
//! knows their values, so a branch on one costs nothing and code for what is
//! off is removed.

use tracer_common::config::{Config, Glob, MAX_CGROUPS, MAX_UIDS};
use tracer_common::offsets::Offsets;

#[unsafe(no_mangle)]
pub static CONFIG: Config = Config {
    flags: 0,
    tracer_pid: 0,
    pidns_ino: 0,
    max_argv: 0,
    piece: 0,
    wake_bytes: 0,
    wake_mask: 0,
    sigaction_size: 0,
    percpu_counter_size: 0,
    n_uids: 0,
    n_cgroups: 0,
    uids: [0; MAX_UIDS],
    cgroups: [0; MAX_CGROUPS],
};

#[unsafe(no_mangle)]
pub static OFFSETS: Offsets = Offsets::UNKNOWN;

#[unsafe(no_mangle)]
pub static COMM_GLOB: Glob = Glob::EMPTY;

#[unsafe(no_mangle)]
pub static EXCLUDE_COMM_GLOB: Glob = Glob::EMPTY;

/// Reads a global; volatile, as the compiler knows only its value from before load.
#[inline(always)]
pub fn read<T: Copy>(global: &'static T) -> T {
    // SAFETY: a reference is valid for a read of its type.
    unsafe { core::ptr::read_volatile(global) }
}

/// A member of [`CONFIG`].
macro_rules! config {
    ($($member:tt)+) => { $crate::globals::read(&$crate::globals::CONFIG.$($member)+) };
}

/// The offset of a kernel member, see [`OFFSETS`].
macro_rules! offset {
    ($member:ident) => {
        $crate::globals::read(&$crate::globals::OFFSETS.$member)
    };
}

pub(crate) use {config, offset};

#[inline(always)]
pub fn has(option: u64) -> bool {
    config!(flags) & option != 0
}
