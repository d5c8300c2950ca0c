//! sched_process_fork: follow the child, record it. task_newtask: only for
//! threads that the kernel itself makes (io_uring, vhost), which fork does not
//! report though they exit and count like others.

use aya_ebpf::programs::BtfTracePointContext;
use tracer_common::config::{opt, root};
use tracer_common::record::{ForkRecord, flags, kind};
use tracer_common::tracked::{Key, Tracked, bits};

use crate::emit;
use crate::filter;
use crate::globals::has;
use crate::maps::STATE;
use crate::task::{PF_IO_WORKER, PF_KTHREAD, PF_USER_WORKER, Task};
use crate::tracked::{self, atomic_add};

#[inline(always)]
pub fn process_fork(ctx: &BtfTracePointContext) {
    let parent = Task(ctx.arg::<*const u8>(0));
    let child = Task(ctx.arg::<*const u8>(1));
    // All pointers here, on the one path that leads to everything, see View.
    let parent_key = parent.key();
    let real_parent_key = child.real_parent().key();
    if child.tgid() == child.pid() {
        new_process(parent, &parent_key, child, &real_parent_key);
    } else {
        new_thread(parent, &parent_key, child);
    }
}

#[inline(always)]
pub fn task_newtask(ctx: &BtfTracePointContext) {
    let child = Task(ctx.arg::<*const u8>(0));
    let is_worker = child.flags() & (PF_IO_WORKER | PF_USER_WORKER) != 0;
    if !is_worker || child.tgid() == child.pid() {
        return;
    }
    // The creator is a task of the same process, the current one. It is counted
    // at its end, see probes::exit: without `--threads` this is not attached.
    let key = child.key();
    if let Some(process) = tracked::find(&key) {
        emit_thread(Task::current(), &key, child, process);
    }
}

#[inline(always)]
fn new_process(parent: Task, parent_key: &Key, child: Task, real: &Key) {
    let mut new = Tracked::NEW;
    let mut shown = true;
    let wanted = || if filter::passes() { bits::EMIT } else { 0 };
    if let Some(by) = tracked::find(parent_key) {
        // SAFETY: a value of our map; it stays while this process lives.
        new.flags = unsafe { (*by).flags } & bits::EMIT;
    } else if is_root(parent, child) {
        new.flags = bits::ROOT;
        if !has(opt::COMM | opt::EXCLUDE_COMM) && filter::passes() {
            new.flags |= bits::EMIT;
        }
        // The fork of the command is tracer's own doing.
        shown = false;
    } else if let Some(by) = tracked::adopt(parent_key, parent, wanted) {
        // SAFETY: as above.
        new.flags = unsafe { (*by).flags } & bits::EMIT;
    } else if has(opt::ALL) {
        // The tracked set is full, which was counted.
        if filter::passes() {
            new.flags = bits::EMIT;
        }
    } else {
        return;
    }
    if !has(opt::KTHREADS) {
        if child.flags() & PF_KTHREAD != 0 {
            new.flags &= !bits::EMIT;
        } else if parent.flags() & PF_KTHREAD != 0 && filter::passes_other(child) {
            // A helper that the kernel starts, see probes::exec.
            new.flags |= bits::EMIT;
        }
    }
    let key = child.key_with(child);
    // With CLONE_PARENT the parent is the creator's own.
    new.orig_ppid = real.tgid;
    new.orig_parent_start = real.start;
    tracked::add(&key, &new);
    if shown && new.flags & bits::EMIT != 0 {
        emit_fork(parent, parent_key, child, &key, real, 0);
    }
}

#[inline(always)]
fn new_thread(parent: Task, key: &Key, child: Task) {
    let wanted = || if filter::passes() { bits::EMIT } else { 0 };
    let Some(process) = tracked::find(key).or_else(|| tracked::adopt(key, parent, wanted)) else {
        return;
    };
    // SAFETY: a value of our map; it stays while this process lives.
    unsafe { atomic_add(&raw mut (*process).threads, 1) };
    emit_thread(parent, key, child, process);
}

#[inline(always)]
fn emit_thread(parent: Task, key: &Key, child: Task, process: *const Tracked) {
    // SAFETY: a value of our map; it stays while this process lives.
    let emit = unsafe { (*process).flags } & bits::EMIT != 0;
    if emit && has(opt::THREADS) {
        emit_fork(parent, key, child, key, key, flags::THREAD);
    }
}

#[inline(always)]
fn emit_fork(
    parent: Task,
    parent_key: &Key,
    child: Task,
    child_key: &Key,
    real: &Key,
    mut bits: u8,
) {
    let Some(entry) = emit::begin::<ForkRecord>(kind::FORK, parent_key, parent.pid()) else {
        return;
    };
    let r = entry.as_ptr();
    if child.flags() & PF_KTHREAD != 0 {
        bits |= flags::KTHREAD;
    }
    // SAFETY: the entry is ours until it is submitted.
    unsafe {
        (*r).comm = parent.comm();
        (*r).child_tgid = child_key.tgid;
        (*r).child_tid = child.pid();
        (*r).child_start = child_key.start;
        (*r).real_ppid = real.tgid;
        (*r).child_ns_pid = child.ns_pid();
        (*r).real_parent_start = real.start;
    }
    entry.set_flags(bits);
    entry.submit();
}

/// Whether `child` is the command that tracer now starts.
#[inline(always)]
fn is_root(parent: Task, child: Task) -> bool {
    let Some(state) = STATE.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: the one element of an array map; only tracer's own fork, of which
    // there is one at a time, gets past the two conditions.
    unsafe {
        if (*state).root != root::ARMED || !parent.is_tracer() {
            return false;
        }
        (*state).root_tgid = child.tgid();
        (*state).root_start = child.start();
        (*state).root = root::FOUND;
    }
    if has(opt::DEBUG) {
        super::debug::root(child.tgid());
    }
    true
}
