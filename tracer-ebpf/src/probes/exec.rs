//! sched_process_exec: a process began to run a program. The kernel has just
//! written argv and environment to the new stack, so they can be read whole.

use aya_ebpf::programs::BtfTracePointContext;
use tracer_common::config::opt;
use tracer_common::record::{ExecRecord, Header, flags, kind, section};

use super::text::Writer;
use crate::emit;
use crate::filter;
use crate::globals::{config, has, offset};
use crate::maps::{Key, TRACKED, Tracked, tracked};
use crate::task::{PF_KTHREAD, Task, peek};

#[inline(always)]
pub fn process_exec(ctx: &BtfTracePointContext) {
    let task = Task(ctx.arg::<*const u8>(0));
    let key = task.key();
    let process = match TRACKED.get_ptr_mut(&key) {
        Some(process) => process,
        None if has(opt::ALL) => {
            // It ran before the capture began.
            if TRACKED.insert(&key, &Tracked::NEW, 0).is_err() {
                return;
            }
            let Some(process) = TRACKED.get_ptr_mut(&key) else {
                return;
            };
            process
        }
        None => return,
    };
    // SAFETY: a value of our map; it stays while this process lives.
    let bits = unsafe {
        (*process).exec_maxrss = task.signal().maxrss();
        let mut bits = (*process).flags & !tracked::EMIT;
        if filter::passes(task) {
            bits |= tracked::EMIT;
        }
        (*process).flags = bits;
        bits
    };
    if bits & tracked::EMIT != 0 {
        emit_exec(ctx, task, &key, bits);
    }
}

#[inline(always)]
fn emit_exec(ctx: &BtfTracePointContext, task: Task, key: &Key, bits: u64) {
    let old_pid: u32 = ctx.arg::<i32>(1) as u32;
    let Some(entry) = emit::begin::<ExecRecord>(kind::EXEC, key, task.pid()) else {
        return;
    };
    let r = entry.as_ptr();
    let mm = task.mm();
    let (arg_start, arg_end, env_start, env_end) =
        (mm.arg_start(), mm.arg_end(), mm.env_start(), mm.env_end());
    let parent = task.real_parent();
    let parent_key = parent.key();
    let cred = task.cred();
    let signal = task.signal();
    let mut record_flags = 0;
    if bits & tracked::ROOT != 0 {
        record_flags |= flags::ROOT;
    }
    if parent.flags() & PF_KTHREAD != 0 {
        // A helper that the kernel started: core_pattern, modprobe.
        record_flags |= flags::KTHREAD;
    }
    // SAFETY: the entry is ours until it is submitted.
    let header = unsafe {
        (*r).comm = task.comm();
        (*r).ppid = parent_key.tgid;
        (*r).parent_start = parent_key.start;
        (*r).old_tid = if old_pid == task.pid() { 0 } else { old_pid };
        (*r).uid = cred.uid();
        (*r).euid = cred.euid();
        (*r).gid = cred.gid();
        (*r).egid = cred.egid();
        (*r).loginuid = task.loginuid();
        (*r).sid = signal.sid();
        (*r).pgid = signal.pgid();
        (*r).ns_pid = task.ns_pid();
        (*r).cgroup_id = aya_ebpf::helpers::generated::bpf_get_current_cgroup_id();
        (*r).tty = signal.tty();
        (*r).argv_len = arg_end.wrapping_sub(arg_start) as u32;
        (*r).env_len = env_end.wrapping_sub(env_start) as u32;
        (*r)._pad = 0;
        r.cast::<Header>().read()
    };
    let (mut pieces, mut lost) = (0, 1);
    if let Some(mut text) = Writer::new(header) {
        // SAFETY: peek() reads nothing that is not readable.
        let filename: usize =
            unsafe { peek(ctx.arg::<*const u8>(2).add(offset!(bprm_filename) as usize)) };
        let want = arg_end
            .wrapping_sub(arg_start)
            .min(u64::from(config!(max_argv))) as usize;
        let taken = text.first(filename as *const u8, task, arg_start, want);
        if taken < want && text.sent.flags & flags::USER_FAULT == 0 {
            text.rest(section::ARGV, arg_start, taken, want);
        }
        if has(opt::ENV) {
            let want = env_end
                .wrapping_sub(env_start)
                .min(u64::from(config!(max_argv))) as usize;
            text.rest(section::ENV, env_start, 0, want);
        }
        (pieces, lost) = (text.sent.pieces, text.sent.lost);
        record_flags |= text.sent.flags;
    }
    // SAFETY: as above.
    unsafe {
        (*r).pieces = pieces;
        (*r).pieces_lost = lost;
    }
    entry.set_flags(record_flags);
    entry.submit();
}
