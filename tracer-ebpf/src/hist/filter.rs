//! The trigger's filter: a small program of comparisons, each of which says
//! which one comes next.

use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use tracer_common::hist::{MAX_PATTERNS, MAX_TESTS, TEXT, Test, from, goto, op};

use crate::globals::{HIST, PATTERNS, config, read};
use crate::{item, scan};

/// Where a text is put to be looked at.
#[map]
static TEXT_BUFFER: PerCpuArray<[u64; TEXT / 8]> = PerCpuArray::with_max_entries(1, 0);

/// Whether the filter lets the event through.
#[inline(always)]
pub fn passes(ctx: *const u8) -> bool {
    let n = config!(n_tests);
    if n == 0 {
        return true;
    }
    let mut at = 0;
    // Forward only, which the verifier sees by itself: it knows all these numbers.
    while at < n {
        at = next(ctx, at);
    }
    at == goto::PASS
}

/// Where to go from a test. A function of its own, verified for each of them.
#[inline(never)]
fn next(ctx: *const u8, index: u32) -> u32 {
    let index = index as usize;
    if index >= MAX_TESTS {
        return goto::FAIL;
    }
    let test = &HIST.tests[index];
    if holds(ctx, test) {
        read(&test.yes)
    } else {
        read(&test.no)
    }
}

#[inline(always)]
fn holds(ctx: *const u8, test: &'static Test) -> bool {
    let operation = read(&test.op);
    if operation == op::TRUE {
        return true;
    }
    if read(&test.item.from) >= from::STACK {
        return match operation {
            op::SCAN_MATCHES => scan::matches(ctx, test),
            op::SCAN_DIFFERS => scan::differs(ctx, test),
            _ => matches(ctx, test, operation == op::MATCHES),
        };
    }
    let left = item::number(ctx, &test.item);
    let right = read(&test.value);
    match operation {
        op::EQ => left == right,
        op::NE => left != right,
        op::LT => left < right,
        op::LE => left <= right,
        op::GT => left > right,
        op::GE => left >= right,
        op::SIGNED_LT => left.cast_signed() < right.cast_signed(),
        op::SIGNED_LE => left.cast_signed() <= right.cast_signed(),
        op::SIGNED_GT => left.cast_signed() > right.cast_signed(),
        op::SIGNED_GE => left.cast_signed() >= right.cast_signed(),
        op::BIT => {
            let bit = left.wrapping_sub(read(&test.item.arg));
            bit < 64 && right >> (bit & 63) & 1 != 0
        }
        _ => left & right != 0,
    }
}

/// Whether a test's pattern matches its text, or does not, as wanted. Neither is so
/// of a text that cannot be read.
#[inline(always)]
fn matches(ctx: *const u8, test: &'static Test, wanted: bool) -> bool {
    let Some(buffer) = TEXT_BUFFER.get_ptr_mut(0) else {
        return false;
    };
    let text = buffer.cast::<u64>();
    let index = read(&test.pattern) as usize;
    if index >= MAX_PATTERNS {
        return false;
    }
    // SAFETY: the buffer has room for the longest text; `slot` is 0 here.
    if !unsafe { item::put(ctx, &test.item, text) } {
        return false;
    }
    let pattern = &PATTERNS[index];
    let longest = read(&test.item.size);
    let stay = read(&pattern.stay);
    let mut active = read(&pattern.first);
    for i in 0..TEXT {
        if i as u32 >= longest {
            break;
        }
        // SAFETY: within the buffer.
        let byte = unsafe { text.cast::<u8>().add(i).read() };
        if byte == 0 {
            break;
        }
        let accept = read(&pattern.accept[usize::from(byte)]);
        active = ((active << 1) & accept) | (active & stay);
        if active == 0 {
            break;
        }
    }
    (active & read(&pattern.last) != 0) == wanted
}
