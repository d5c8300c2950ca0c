//! tracer's kernel side: entry points only. Each probe lives in `probes`.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod emit;
mod filter;
mod globals;
mod maps;
mod probes;
mod task;
mod tracked;

use aya_ebpf::{macros::btf_tracepoint, programs::BtfTracePointContext};

/// `TP_PROTO(struct task_struct *parent, struct task_struct *child)`
#[btf_tracepoint(function = "sched_process_fork")]
pub fn process_fork(ctx: BtfTracePointContext) -> i32 {
    probes::fork::process_fork(&ctx);
    0
}

/// `TP_PROTO(struct task_struct *task, unsigned long clone_flags)`
#[btf_tracepoint(function = "task_newtask")]
pub fn task_newtask(ctx: BtfTracePointContext) -> i32 {
    probes::fork::task_newtask(&ctx);
    0
}

/// `TP_PROTO(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)`
#[btf_tracepoint(function = "sched_process_exec")]
pub fn process_exec(ctx: BtfTracePointContext) -> i32 {
    probes::exec::process_exec(&ctx);
    0
}

/// `TP_PROTO(struct task_struct *p)`, since Linux 6.16 also `bool group_dead`
#[btf_tracepoint(function = "sched_process_exit")]
pub fn process_exit(ctx: BtfTracePointContext) -> i32 {
    probes::exit::process_exit(&ctx);
    0
}

/// `TP_PROTO(struct task_struct *p)`
#[btf_tracepoint(function = "sched_process_free")]
pub fn process_free(ctx: BtfTracePointContext) -> i32 {
    probes::free::process_free(&ctx);
    0
}

/// `TP_PROTO(struct pt_regs *regs, long ret)`
#[btf_tracepoint(function = "sys_exit")]
pub fn exec_failed(ctx: BtfTracePointContext) -> i32 {
    probes::exec_failed::sys_exit(&ctx);
    0
}

/// `TP_PROTO(int sig, struct kernel_siginfo *info, struct task_struct *task, int group, int result)`
#[btf_tracepoint(function = "signal_generate")]
pub fn signal_generate(ctx: BtfTracePointContext) -> i32 {
    probes::signal::signal_generate(&ctx);
    0
}

/// `TP_PROTO(int pid)`, since Linux 6.8 `(struct task_struct *task, uid_t uid)`
#[btf_tracepoint(function = "mark_victim")]
pub fn mark_victim(ctx: BtfTracePointContext) -> i32 {
    probes::signal::mark_victim(&ctx);
    0
}

/// Iterator over tasks: `struct bpf_iter__task` of kernel/bpf/task_iter.c.
#[unsafe(link_section = "iter/task")]
#[unsafe(no_mangle)]
pub extern "C" fn seed_task(ctx: *const u8) -> i32 {
    probes::seed::seed_task(ctx);
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
