//! sched_process_exec: a process began to run a program. The kernel has just
//! written argv and environment to the new stack, so they can be read whole.

use aya_ebpf::helpers::generated::bpf_get_current_cgroup_id;
use aya_ebpf::programs::BtfTracePointContext;
use tracer_common::config::opt;
use tracer_common::record::{ExecRecord, ExecShort, GoneRecord, flags, kind};
use tracer_common::tracked::{Key, bits};

use super::text;
use crate::emit;
use crate::filter;
use crate::globals::{config, has};
use crate::task::{PF_KTHREAD, Task, View, filename};
use crate::tracked;

#[inline(always)]
pub fn process_exec(ctx: &BtfTracePointContext) {
    let v = View::of(Task(ctx.arg::<*const u8>(0)));
    v.task.prefetch_cgroup();
    let key = v.key();
    let Some(process) = tracked::find(&key).or_else(|| tracked::adopt(&key, v.task, || 0)) else {
        return;
    };
    // SAFETY: a value of our map; it stays while this process lives.
    let (before, now) = unsafe {
        (*process).exec_maxrss = v.signal.maxrss();
        let before = (*process).flags;
        let mut now = before & !bits::EMIT;
        if filter::passes() {
            now |= bits::EMIT;
        }
        (*process).flags = now;
        (before, now)
    };
    if now & bits::EMIT != 0 {
        emit_exec(ctx, &v, &key, now);
    } else if before & bits::EMIT != 0
        && let Some(entry) = emit::begin::<GoneRecord>(kind::GONE, &key, v.task.pid())
    {
        entry.set_flags(flags::LEFT);
        entry.submit();
    }
}

#[inline(always)]
fn emit_exec(ctx: &BtfTracePointContext, v: &View, key: &Key, bits: u64) {
    let mut record_flags = 0;
    if bits & bits::ROOT != 0 {
        record_flags |= flags::ROOT;
    }
    if v.parent.flags() & PF_KTHREAD != 0 {
        // A helper that the kernel started: core_pattern, modprobe.
        record_flags |= flags::KTHREAD;
    }
    let Some(draft) = text::Draft::new(record_flags) else {
        return;
    };
    let mm = v.mm;
    let (arg_start, env_start) = (mm.arg_start(), mm.env_start());
    let arg_len = mm.arg_end().wrapping_sub(arg_start);
    let env_len = mm.env_end().wrapping_sub(env_start);
    let old_pid = ctx.arg::<i32>(1) as u32;
    let parent = v.parent_key();
    let signal = v.signal;
    let r = draft.record();
    // SAFETY: this CPU's scratch memory.
    unsafe {
        (*r).comm = v.task.comm();
        (*r).ppid = parent.tgid;
        (*r).parent_start = parent.start;
        (*r).old_tid = if old_pid == v.task.pid() { 0 } else { old_pid };
        (*r).uid = v.cred.uid();
        (*r).euid = v.cred.euid();
        (*r).gid = v.cred.gid();
        (*r).egid = v.cred.egid();
        (*r).loginuid = v.task.loginuid();
        (*r).sid = signal.sid();
        (*r).pgid = signal.pgid();
        (*r).ns_pid = v.task.ns_pid();
        (*r).cgroup_id = bpf_get_current_cgroup_id();
        (*r).tty = signal.tty();
        (*r).argv_len = arg_len as u32;
        (*r).env_len = env_len as u32;
        (*r)._pad = 0;
        (*r).pieces = 0;
        (*r).pieces_lost = 0;
    }
    let cap = config!(max_argv) as usize;
    let request = text::Request {
        filename: filename(ctx.arg(2)),
        task: v.task,
        arg_start,
        arg_len: (arg_len as usize).min(cap),
        env_start,
        env_len: if has(opt::ENV) {
            (env_len as usize).min(cap)
        } else {
            0
        },
    };
    let read = draft.read(&request);
    let tid = v.task.pid();
    if read.is_short(&request) {
        if let Some(entry) = emit::begin::<ExecShort>(kind::EXEC, key, tid) {
            read.fill_short(entry.as_ptr());
            entry.submit();
        }
    } else if let Some(entry) = emit::begin::<ExecRecord>(kind::EXEC, key, tid) {
        read.fill_and_send(entry.as_ptr(), &request);
        entry.submit();
    }
}
