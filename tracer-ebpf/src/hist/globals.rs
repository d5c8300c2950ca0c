//! Read-only globals that the user side fills in before load.

use tracer_common::hist::{Config, LongPattern, MAX_LONG_PATTERNS, MAX_PATTERNS, Pattern, Tracer};
use tracer_common::offsets::Offsets;

#[unsafe(no_mangle)]
pub static HIST: Config = Config::NONE;

#[unsafe(no_mangle)]
pub static PATTERNS: [Pattern; MAX_PATTERNS] = [Pattern::NONE; MAX_PATTERNS];

#[unsafe(no_mangle)]
pub static LONG_PATTERNS: [LongPattern; MAX_LONG_PATTERNS] = [LongPattern::NONE; MAX_LONG_PATTERNS];

#[unsafe(no_mangle)]
pub static TRACER: Tracer = Tracer {
    pid: 0,
    _pad: 0,
    dev: 0,
    ino: 0,
};

#[unsafe(no_mangle)]
pub static OFFSETS: Offsets = Offsets::UNKNOWN;

/// Reads a global; volatile, as the compiler knows only its value from before load.
#[inline(always)]
pub fn read<T: Copy>(global: &'static T) -> T {
    // SAFETY: a reference is valid for a read of its type.
    unsafe { core::ptr::read_volatile(global) }
}

/// A member of [`HIST`].
macro_rules! config {
    ($($member:tt)+) => { $crate::globals::read(&$crate::globals::HIST.$($member)+) };
}

/// The offset of a kernel member, see [`OFFSETS`].
macro_rules! offset {
    ($member:ident) => {
        $crate::globals::read(&$crate::globals::OFFSETS.$member)
    };
}

pub(crate) use {config, offset};
