//! Who ended whom: signal_generate for signals that will end their target, and
//! mark_victim for the OOM killer's choice.

use aya_ebpf::helpers::bpf_get_current_uid_gid;
use aya_ebpf::programs::BtfTracePointContext;
use tracer_common::config::opt;
use tracer_common::offsets::NONE;
use tracer_common::record::{SignalRecord, flags, kind};

use crate::emit;
use crate::globals::{config, has, offset};
use crate::task::{Task, peek};
use crate::tracked;

/// Signals whose default action does not end a process: CHLD, CONT, STOP,
/// TSTP, TTIN, TTOU, URG, WINCH (signal(7)).
const HARMLESS: u64 = 1 << 17 | 1 << 18 | 1 << 19 | 1 << 20 | 1 << 21 | 1 << 22 | 1 << 23 | 1 << 28;

const SIGKILL: u32 = 9;
const SIG_DFL: usize = 0;
/// `TRACE_SIGNAL_DELIVERED` of include/trace/events/signal.h.
const DELIVERED: i32 = 0;
/// `SEND_SIG_NOINFO` and `SEND_SIG_PRIV` of include/linux/signal.h.
const NOINFO: usize = 0;
const PRIV: usize = 1;
/// si_code of kill, sigqueue and tgkill.
const SI_USER: i32 = 0;
const SI_QUEUE: i32 = -1;
const SI_TKILL: i32 = -6;

#[inline(always)]
pub fn signal_generate(ctx: &BtfTracePointContext) {
    let signal = ctx.arg::<i32>(0) as u32;
    if ctx.arg::<i32>(4) != DELIVERED || HARMLESS >> (signal & 63) & 1 != 0 {
        return;
    }
    let target = Task(ctx.arg::<*const u8>(2));
    let info: *const u8 = ctx.arg(1);
    if signal != SIGKILL && handler(target, signal) != SIG_DFL {
        return;
    }
    let code = match info as usize {
        NOINFO => SI_USER,
        PRIV => i32::MAX,
        // SAFETY: peek() reads nothing that is not readable.
        _ => unsafe { peek(info.add(offset!(siginfo_code) as usize)) },
    };
    let by_kernel = !matches!(code, SI_USER | SI_QUEUE | SI_TKILL);
    let bits = if by_kernel { flags::BY_KERNEL } else { 0 };
    emit_signal(kind::SIGNAL, target, signal, code, bits);
}

/// `sighand->action[signal - 1].sa.sa_handler`.
#[inline(always)]
fn handler(target: Task, signal: u32) -> usize {
    let (sighand, action) = (offset!(task_sighand), offset!(sighand_action));
    if sighand == NONE || action == NONE {
        return SIG_DFL;
    }
    let index = signal.wrapping_sub(1) & 63;
    // SAFETY: peek() reads nothing that is not readable; sa_handler is the
    // first member of k_sigaction.
    unsafe {
        let sighand: usize = peek(target.0.add(sighand as usize));
        peek(
            (sighand as *const u8)
                .wrapping_add((action + index * config!(sigaction_size)) as usize),
        )
    }
}

#[inline(always)]
pub fn mark_victim(ctx: &BtfTracePointContext) {
    // An older kernel gives a pid only, in the initial namespace but without
    // a start time: not an identity.
    if has(opt::OOM_TASK) {
        emit_signal(
            kind::OOM,
            Task(ctx.arg::<*const u8>(0)),
            SIGKILL,
            i32::MAX,
            flags::BY_KERNEL,
        );
    }
}

#[inline(always)]
fn emit_signal(which: u8, target: Task, signal: u32, code: i32, bits: u8) {
    let key = target.key();
    if !tracked::is_wanted(&key) {
        return;
    }
    let Some(entry) = emit::begin::<SignalRecord>(which, &key, target.pid()) else {
        return;
    };
    let r = entry.as_ptr();
    let sender = Task::current();
    let sender_key = sender.key();
    // SAFETY: the entry is ours until it is submitted.
    unsafe {
        (*r).signal = signal;
        (*r).code = code;
        (*r).sender_tgid = sender_key.tgid;
        (*r).sender_uid = bpf_get_current_uid_gid() as u32;
        (*r).sender_start = sender_key.start;
        (*r).sender_comm = sender.comm();
    }
    entry.set_flags(bits);
    entry.submit();
}
