//! The only reader of an event's record.
//!
//! The verifier accepts loads from a tracepoint's context at offsets that stand
//! in the instruction only. So there is an instruction for each word, and the
//! configuration says which one it is: all others are dead code to the verifier.
//! What these cannot reach is read with a helper.

use aya_ebpf::helpers::generated::{bpf_probe_read_kernel, bpf_probe_read_kernel_str};
use tracer_common::hist::{WORDS_END, from};

/// Offset by offset, with one instruction each.
macro_rules! load_at {
    ($ctx:ident, $offset:ident, $width:literal, $($at:literal)*) => {
        match $offset {
            $($at => {
                let value: u64;
                // SAFETY: the verifier checks the access: within the record, or refused.
                unsafe {
                    core::arch::asm!(
                        concat!("{v} = *(", $width, " *)({c} + ", $at, ")"),
                        v = out(reg) value, c = in(reg) $ctx, options(nostack),
                    );
                }
                value
            })*
            _ => 0,
        }
    };
}

/// Eight bytes of the record; the user side asks for what is in this list only
/// (`tracer_common::hist::WORDS_END`).
#[inline(always)]
pub fn word8(ctx: *const u8, offset: u32) -> u64 {
    load_at!(ctx, offset, "u64", 8 16 24 32 40 48 56 64 72 80 88 96 104 112 120)
}

/// Four bytes of the record; as [`word8`].
#[inline(always)]
pub fn word4(ctx: *const u8, offset: u32) -> u64 {
    load_at!(ctx, offset, "u32",
        8 12 16 20 24 28 32 36 40 44 48 52 56 60 64 68 72 76 80 84 88 92 96 100 104 108 112 116 120 124)
}

/// Up to eight bytes anywhere in the record.
#[inline(always)]
pub fn bytes(ctx: *const u8, offset: u32, size: u32) -> u64 {
    let mut value = 0_u64;
    // SAFETY: the destination has eight bytes; its start are the value's low bytes (x86-64 and
    // all other targets of tracer are little-endian).
    unsafe {
        bpf_probe_read_kernel(
            (&raw mut value).cast(),
            if size > 8 { 8 } else { size },
            ctx.wrapping_add(offset as usize).cast(),
        );
    }
    value
}

/// The u32 of a `__data_loc`, or eight bytes of an address, wherever it lies.
#[inline(always)]
pub fn pointer(ctx: *const u8, offset: u32, size: u32) -> u64 {
    match (offset + size <= WORDS_END, size) {
        (true, 4) => word4(ctx, offset),
        (true, _) => word8(ctx, offset),
        (false, _) => bytes(ctx, offset, size),
    }
}

/// Eight bytes, `at` bytes behind where the word at `offset` points to.
#[inline(always)]
pub fn located(ctx: *const u8, offset: u32, at: u64) -> u64 {
    let start = (pointer(ctx, offset, 4) & 0xffff) + at;
    let mut value = 0_u64;
    // SAFETY: the destination has eight bytes.
    unsafe {
        bpf_probe_read_kernel(
            (&raw mut value).cast(),
            size_of::<u64>() as u32,
            ctx.wrapping_add(start as usize).cast(),
        );
    }
    value
}

/// A word of the record, as [`from`] says.
#[inline(always)]
pub fn word(ctx: *const u8, kind: u32, offset: u32, size: u32) -> u64 {
    match kind {
        from::WORD8 => word8(ctx, offset),
        from::WORD4 => word4(ctx, offset),
        _ => bytes(ctx, offset, size),
    }
}

/// A text up to its NUL, to where there are zeroes. Whether it could be read.
#[inline(always)]
pub unsafe fn text(to: *mut u64, size: u32, at: *const u8) -> bool {
    // SAFETY: the caller has `size` bytes there.
    unsafe { bpf_probe_read_kernel_str(to.cast(), size, at.cast()) >= 0 }
}
