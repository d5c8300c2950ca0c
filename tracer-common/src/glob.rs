//! How both sides evaluate a compiled comm glob, see [`Glob`].
//!
//! One word holds up to 64 states of several patterns. A byte moves every
//! active state one place up, where `accept` allows it, and keeps those that
//! stand on a `*`. Loops have constant bounds and no early end, so that the
//! verifier walks one path: 16 steps a word.

use crate::config::{GLOB_WORDS, Glob};
use crate::record::COMM_LEN;

impl Glob {
    /// Without patterns: matches nothing.
    pub const EMPTY: Self = Self {
        accept: [[0; 256]; GLOB_WORDS],
        first: [0; GLOB_WORDS],
        stay: [0; GLOB_WORDS],
        last: [0; GLOB_WORDS],
    };
}

/// Whether one of the patterns matches `comm` up to its first NUL.
///
/// Each load is volatile: on the kernel side `glob` is a global whose value the
/// compiler sees as the one from before load, and would fold.
///
/// The words go inside, and what does not change is loaded anew: the other way
/// round sixteen offsets wait on the kernel side's small stack.
#[inline(always)]
pub fn matches(glob: &Glob, comm: &[u8; COMM_LEN]) -> bool {
    let mut active = [0; GLOB_WORDS];
    for (active, first) in active.iter_mut().zip(&glob.first) {
        *active = load(first);
    }
    // All ones until the NUL; then the states no longer change.
    let mut within = u64::MAX;
    for byte in comm {
        within &= 0u64.wrapping_sub(u64::from(*byte != 0));
        for (w, active) in active.iter_mut().enumerate() {
            let accept = load(&glob.accept[w][usize::from(*byte)]);
            let next = ((*active << 1) & accept) | (*active & load(&glob.stay[w]));
            *active = (next & within) | (*active & !within);
        }
    }
    let mut hit = 0;
    for (active, last) in active.iter().zip(&glob.last) {
        hit |= active & load(last);
    }
    hit != 0
}

#[inline(always)]
fn load(from: &u64) -> u64 {
    // SAFETY: a reference is valid and aligned for a read of its type.
    unsafe { core::ptr::read_volatile(from) }
}
