//! The kernel side of `tracer hist`: one generic program on a tracepoint of
//! tracefs, which does what its read-only configuration says.
//!
//! The configuration is frozen before load: the verifier knows its values and
//! removes what one trigger does not use.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod filter;
mod globals;
mod item;
mod record;
mod scan;
mod table;
mod tree;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::macros::{btf_tracepoint, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, TracePointContext};

/// Any event. 0: perf has nothing more to do with it.
#[tracepoint]
#[inline(always)]
pub fn hist(ctx: TracePointContext) -> u32 {
    let ctx = ctx.as_ptr().cast::<u8>().cast_const();
    if tree::is_wanted() && filter::passes(ctx) {
        table::add(ctx);
    }
    0
}

/// `TP_PROTO(struct task_struct *parent, struct task_struct *child)`
#[btf_tracepoint(function = "sched_process_fork")]
pub fn follow_fork(ctx: BtfTracePointContext) -> i32 {
    tree::process_fork(ctx.arg(0), ctx.arg(1));
    0
}

/// `TP_PROTO(struct task_struct *p)`
#[btf_tracepoint(function = "sched_process_free")]
pub fn follow_free(ctx: BtfTracePointContext) -> i32 {
    tree::process_free(ctx.arg(0));
    0
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // Unreachable: the verifier refuses a program that could get here, as it never ends.
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
