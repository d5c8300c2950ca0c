//! Texts that are compared one byte a call (Linux 5.17 and later), for filters with
//! many texts or long patterns: the verifier looks at the call once, where it would
//! follow the loop of [`crate::filter`] byte by byte, and give up.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_loop;
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use tracer_common::hist::{LONG_WORDS, MAX_LONG_PATTERNS, MAX_PATTERNS, TEXT, Test};

use crate::globals::{LONG_PATTERNS, PATTERNS, read};
use crate::item;

/// A text and what of its pattern has matched. The verifier does not track what lies here.
#[repr(C)]
struct Scan {
    text: [u64; TEXT / 8],
    active: [u64; LONG_WORDS],
    pattern: u64,
}

#[map]
static SCAN: PerCpuArray<Scan> = PerCpuArray::with_max_entries(1, 0);

/// Whether a test's pattern matches its text.
#[inline(always)]
pub fn matches(ctx: *const u8, test: &'static Test) -> bool {
    run(ctx, test) == Some(true)
}

/// Whether its text can be read, and does not match.
#[inline(always)]
pub fn differs(ctx: *const u8, test: &'static Test) -> bool {
    run(ctx, test) == Some(false)
}

#[inline(always)]
fn run(ctx: *const u8, test: &'static Test) -> Option<bool> {
    let scan = SCAN.get_ptr_mut(0)?;
    let index = read(&test.pattern) as usize;
    // SAFETY: this CPU's value of our map; its text has room for the longest one, and `slot`
    // is 0 here.
    unsafe {
        if !item::put(ctx, &test.item, (&raw mut (*scan).text).cast()) {
            return None;
        }
        (*scan).pattern = index as u64;
        let last = if index < MAX_PATTERNS {
            let pattern = &PATTERNS[index];
            (*scan).active = [read(&pattern.first), 0, 0, 0];
            [read(&pattern.last), 0, 0, 0]
        } else {
            let pattern = LONG_PATTERNS.get(index - MAX_PATTERNS)?;
            (*scan).active = read(&pattern.first);
            read(&pattern.last)
        };
        bpf_loop(
            read(&test.item.size),
            step as *mut c_void,
            core::ptr::null_mut(),
            0,
        );
        let active = (*scan).active;
        let found = active.iter().zip(&last).fold(0, |f, (a, l)| f | (a & l));
        Some(found != 0)
    }
}

/// bpf_loop callback: the byte of this index. Returns 1 to stop.
unsafe extern "C" fn step(index: u64, _context: *mut c_void) -> i64 {
    let Some(scan) = SCAN.get_ptr_mut(0) else {
        return 1;
    };
    // SAFETY: this CPU's value of our map; nobody else works on it meanwhile.
    unsafe {
        let at = bounded(index, TEXT - 1);
        let byte = (&raw const (*scan).text).cast::<u8>().add(at).read();
        if byte == 0 {
            return 1;
        }
        let byte = bounded(u64::from(byte), 255);
        let pattern = (*scan).pattern;
        let here = (*scan).active;
        if pattern < MAX_PATTERNS as u64 {
            let pattern = PATTERNS.as_ptr().add(bounded(pattern, MAX_PATTERNS - 1));
            let accept = (&raw const (*pattern).accept).cast::<u64>().add(byte);
            let active =
                ((here[0] << 1) & frozen(accept)) | (here[0] & frozen(&raw const (*pattern).stay));
            (*scan).active[0] = active;
            return i64::from(active == 0);
        }
        let pattern = bounded(pattern - MAX_PATTERNS as u64, MAX_LONG_PATTERNS - 1);
        let pattern = LONG_PATTERNS.as_ptr().add(pattern);
        let accept = (&raw const (*pattern).accept)
            .cast::<[u64; LONG_WORDS]>()
            .add(byte);
        let (accept, stay) = (frozen(accept), frozen(&raw const (*pattern).stay));
        let mut active = here;
        let mut carry = 0;
        for (word, (accept, stay)) in active.iter_mut().zip(accept.iter().zip(&stay)) {
            let here = *word;
            *word = (((here << 1) | carry) & accept) | (here & stay);
            carry = here >> 63;
        }
        (*scan).active = active;
    }
    0
}

/// Reads what is within a global, as [`read`] does.
#[inline(always)]
unsafe fn frozen<T: Copy>(at: *const T) -> T {
    // SAFETY: the caller's pointer is into a global.
    unsafe { at.read_volatile() }
}

/// The smaller of the two, for a verifier as well that does not see all that the compiler
/// sees: what that could prove, and so leave out, stays.
#[inline(always)]
fn bounded(value: u64, most: usize) -> usize {
    let mut value = value as usize;
    // SAFETY: a register is copied to itself.
    unsafe { core::arch::asm!("{v} = {v}", v = inout(reg) value) };
    value.min(most)
}
