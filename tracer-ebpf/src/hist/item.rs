//! Keys, values and left sides of comparisons: where they come from and what
//! becomes of them.

use aya_ebpf::helpers::generated::{
    bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_get_stack,
    bpf_jiffies64, bpf_ktime_get_boot_ns, bpf_ktime_get_ns, bpf_ktime_get_tai_ns,
    bpf_probe_read_user_str,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use tracer_common::hist::{Item, STACK_DEPTH, TEXT, TICK, change, from};

use crate::globals::read;
use crate::record;

/// Bytes of a task's name.
const COMM: usize = 16;

/// An integer, sign-extended where it has a sign.
#[inline(always)]
pub fn number(ctx: *const u8, item: &'static Item) -> u64 {
    let kind = read(&item.from);
    let value = match kind {
        from::WORD8 | from::WORD4 | from::BYTES => in_record(ctx, item, kind),
        // SAFETY: helpers without arguments.
        from::PID => unsafe { bpf_get_current_pid_tgid() & 0xffff_ffff },
        // SAFETY: as above.
        from::CPU => u64::from(unsafe { bpf_get_smp_processor_id() }),
        // SAFETY: as above.
        from::TIME => unsafe { bpf_ktime_get_ns() },
        // SAFETY: as above.
        from::BOOT_TIME => unsafe { bpf_ktime_get_boot_ns() },
        // SAFETY: as above.
        from::TAI_TIME => unsafe { bpf_ktime_get_tai_ns() },
        // SAFETY: as above.
        from::TAI_TIME_USECS => usecs(unsafe { bpf_ktime_get_tai_ns() }),
        from::UPTIME => uptime(item),
        from::COUNTER => counter(),
        from::LOCATED => record::located(ctx, read(&item.offset), read(&item.arg)),
        // SAFETY: as above.
        from::TIME_USECS => usecs(unsafe { bpf_ktime_get_ns() }),
        // SAFETY: as above.
        from::BOOT_TIME_USECS => usecs(unsafe { bpf_ktime_get_boot_ns() }),
        _ => read(&item.arg),
    };
    match read(&item.change) {
        change::NONE => value,
        change::LOG2 => log2(value),
        _ => bucket(value, read(&item.arg)),
    }
}

/// `ns2usecs()`
#[inline(always)]
fn usecs(ns: u64) -> u64 {
    (ns + 500) / 1000
}

/// `trace_clock_jiffies()`
#[inline(always)]
fn uptime(item: &'static Item) -> u64 {
    // SAFETY: a helper without arguments.
    let jiffies = unsafe { bpf_jiffies64() };
    jiffies.wrapping_sub(u64::from(read(&item.right))) * u64::from(read(&item.left)) / TICK
}

/// The clock `counter`.
#[map]
static COUNTER: Array<u64> = Array::with_max_entries(1, 0);

/// `trace_clock_counter()`
#[inline(always)]
fn counter() -> u64 {
    let Some(at) = COUNTER.get_ptr_mut(0) else {
        return 0;
    };
    let mut value = 1_u64;
    // SAFETY: an aligned u64 in our map. This target has no `fetch_add`.
    unsafe {
        core::arch::asm!("{v} = atomic_fetch_add((u64 *)({p} + 0), {v})", p = in(reg) at, v = inout(reg) value);
    }
    value + 1
}

#[inline(always)]
fn in_record(ctx: *const u8, item: &'static Item, kind: u32) -> u64 {
    let word = record::word(ctx, kind, read(&item.offset), read(&item.size));
    let right = read(&item.right);
    // A word that is whole, or has no sign and is the low half, needs nothing.
    if right == 0 {
        return word;
    }
    let word = word << (read(&item.left) & 63);
    if read(&item.signed) != 0 {
        (word.cast_signed() >> (right & 63)).cast_unsigned()
    } else {
        word >> (right & 63)
    }
}

/// `ilog2(roundup_pow_of_two(value))`; as the kernel's, 0 for 0, and 64 for what is
/// above 2^63.
#[inline(always)]
fn log2(value: u64) -> u64 {
    let mut rest = value.wrapping_sub(1);
    if value <= 1 {
        return 0;
    }
    let mut bits = 1;
    // How long `rest` is, without a count of zeroes, which this target lacks.
    let mut half = 32;
    while half != 0 {
        let wide = u64::from(rest >> half != 0) * half;
        bits += wide;
        rest >>= wide;
        half >>= 1;
    }
    bits
}

#[inline(always)]
fn bucket(value: u64, size: u64) -> u64 {
    // A size of 0 is refused by the user side; this keeps the verifier content.
    let size = if size == 0 { 1 } else { size };
    value / size * size
}

/// A key into its place. `key` has the room that the configuration says. Returns
/// whether it could be read.
#[inline(always)]
pub unsafe fn put(ctx: *const u8, item: &'static Item, key: *mut u64) -> bool {
    let kind = read(&item.from);
    // SAFETY: the user side has laid the key out.
    unsafe {
        let to = key.add(read(&item.slot) as usize);
        if kind < from::STACK {
            to.write(number(ctx, item));
        } else if kind == from::STACK {
            let size = (STACK_DEPTH * 8) as u32;
            // It clears what it does not fill.
            bpf_get_stack(ctx.cast_mut().cast(), to.cast(), size, 0);
        } else {
            return put_text(ctx, item, kind, to);
        }
    }
    true
}

#[inline(always)]
unsafe fn put_text(ctx: *const u8, item: &'static Item, kind: u32, to: *mut u64) -> bool {
    // SAFETY: as put().
    unsafe {
        match kind {
            from::TEXT8 => {
                put_words(ctx, item, to);
                return true;
            }
            from::TEXT => clear(to, read(&item.size).div_ceil(8)),
            from::COMM => return bpf_get_current_comm(to.cast(), COMM as u32) == 0,
            _ => clear(to, (TEXT / 8) as u32),
        }
        let offset = read(&item.offset);
        match kind {
            from::TEXT => record::text(to, read(&item.size), ctx.wrapping_add(offset as usize)),
            from::DATA_LOC => {
                let at = record::pointer(ctx, offset, 4) & 0xffff;
                record::text(to, TEXT as u32, ctx.wrapping_add(at as usize))
            }
            from::REL_LOC => {
                let at = (record::pointer(ctx, offset, 4) & 0xffff) + u64::from(offset) + 4;
                record::text(to, TEXT as u32, ctx.wrapping_add(at as usize))
            }
            from::POINTER => {
                let at = record::pointer(ctx, offset, 8) as *const u8;
                record::text(to, TEXT as u32, at)
            }
            _ => {
                let at = record::pointer(ctx, offset, 8) as *const u8;
                bpf_probe_read_user_str(to.cast(), TEXT as u32, at.cast()) >= 0
            }
        }
    }
}

/// Most words of a text that is loaded word by word.
const WORDS: u32 = 4;

/// A text of whole words, up to its NUL and at most to its last byte but one.
#[inline(always)]
unsafe fn put_words(ctx: *const u8, item: &'static Item, to: *mut u64) {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let offset = read(&item.offset);
    let words = read(&item.size) / 8;
    // All ones until the NUL.
    let mut within = u64::MAX;
    for i in 0..WORDS {
        if i >= words {
            break;
        }
        let mut word = record::word8(ctx, offset + 8 * i) & within;
        if i + 1 == words {
            word &= u64::MAX >> 8;
        }
        // The lowest 0x80 here stands at the first NUL.
        let nul = word.wrapping_sub(LOW) & !word & (LOW << 7);
        let before = (nul & nul.wrapping_neg()).wrapping_sub(1) >> 7;
        // Without a NUL `before` has all bits but seven of a byte that is whole.
        let keep = if nul == 0 { u64::MAX } else { before };
        word &= keep;
        within = if nul == 0 { within } else { 0 };
        // SAFETY: as put().
        unsafe { to.add(i as usize).write(word) };
    }
}

#[inline(always)]
unsafe fn clear(to: *mut u64, words: u32) {
    for i in 0..(TEXT / 8) as u32 {
        if i < words {
            // SAFETY: as put(). Volatile: not a call of memset.
            unsafe { to.add(i as usize).write_volatile(0) };
        }
    }
}
