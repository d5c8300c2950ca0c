//! sched_process_exit: a thread ended, and with the last one the process.
//!
//! The totals here are those so far: the rest of do_exit still costs time.
//! `probes::free` amends them.

use aya_ebpf::helpers::generated::bpf_get_current_cgroup_id;
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use aya_ebpf::programs::BtfTracePointContext;
use tracer_common::config::{opt, seeding};
use tracer_common::record::{ExitRecord, GoneRecord, ShortTotals, Totals, flags, kind};
use tracer_common::tracked::{Acc, Key, Tracked, bits};

use crate::emit;
use crate::filter;
use crate::globals::has;
use crate::task::{PF_IO_WORKER, PF_KTHREAD, PF_USER_WORKER, Task, View};
use crate::tracked::{self, atomic_add, set_flags};

/// The record in the making. A program does not interrupt itself.
#[map]
static EXIT: PerCpuArray<ExitRecord> = PerCpuArray::with_max_entries(1, 0);

/// Words of a record with short totals.
const SHORT: usize = (size_of::<ExitRecord>() - size_of::<ShortTotals>()) / 8;

/// `SIGNAL_GROUP_EXIT` of include/linux/sched/signal.h.
const SIGNAL_GROUP_EXIT: u32 = 4;

#[inline(always)]
pub fn process_exit(ctx: &BtfTracePointContext) {
    let v = View::of(Task(ctx.arg::<*const u8>(0)));
    v.task.prefetch_cgroup();
    let key = v.key();
    let wanted = || if filter::passes() { bits::EMIT } else { 0 };
    let Some(process) = tracked::find(&key).or_else(|| tracked::adopt(&key, v.task, wanted)) else {
        return;
    };
    if v.task.flags() & (PF_IO_WORKER | PF_USER_WORKER) != 0 {
        // Threads that the kernel made are not counted by probes::fork.
        // SAFETY: a value of our map; it stays while this process lives.
        unsafe { atomic_add(&raw mut (*process).threads, 1) };
    }
    // Before 6.16 the tracepoint does not say whether this is the last thread;
    // `live` is 0 then, but two threads that end at once can both see that.
    // The second report is of a thread then; where both come in the same moment
    // the user side drops one.
    let group_dead = if has(opt::EXIT_GROUP_DEAD) {
        ctx.arg::<u64>(1) & 1 != 0
    } else {
        v.signal.live() == 0
    };
    // SAFETY: a value of our map; it stays while this process lives.
    let group_dead = group_dead && unsafe { (*process).flags } & bits::ENDED == 0;
    let leader = v.task.pid() == key.tgid;
    // SAFETY: a value of our map; it stays while this process lives.
    let emit = unsafe {
        if group_dead && leader {
            set_flags(process, bits::LEADER_LAST);
        } else {
            accumulate(process, &v.task.acc());
        }
        if group_dead {
            set_flags(process, bits::ENDED);
        }
        if has(opt::TREES) && group_dead && tracked::seeding() == seeding::ALL {
            tracked::adopt_children(v.task, (*process).flags & bits::EMIT);
        }
        (*process).flags & bits::EMIT != 0
    };
    if group_dead {
        if emit {
            process_end(&v, &key, process);
        }
        // Who waits for the last end may stop listening from now on.
        // SAFETY: a value of our map; it stays until the free of the leader.
        unsafe { set_flags(process, bits::TOLD) };
    } else if emit && has(opt::THREADS) {
        thread_end(&v, &key, process);
    }
}

#[inline(always)]
unsafe fn accumulate(process: *mut Tracked, acc: &Acc) {
    // SAFETY: the caller gives a value of our map.
    unsafe {
        let to = &raw mut (*process).acc;
        atomic_add(&raw mut (*to).rchar, acc.rchar);
        atomic_add(&raw mut (*to).wchar, acc.wchar);
        atomic_add(&raw mut (*to).read_bytes, acc.read_bytes);
        atomic_add(&raw mut (*to).write_bytes, acc.write_bytes);
        atomic_add(
            &raw mut (*to).cancelled_write_bytes,
            acc.cancelled_write_bytes,
        );
        atomic_add(&raw mut (*to).run_delay_ns, acc.run_delay_ns);
        atomic_add(&raw mut (*to).blkio_delay_ns, acc.blkio_delay_ns);
    }
}

/// Writes `acc`, plus `own` where `add`, into the record.
#[inline(always)]
pub unsafe fn put_acc(to: *mut Totals, acc: &Acc, own: &Acc, add: bool) {
    let k = u64::from(add);
    // SAFETY: the caller gives a record of its own.
    unsafe {
        (*to).rchar = acc.rchar + k * own.rchar;
        (*to).wchar = acc.wchar + k * own.wchar;
        (*to).read_bytes = acc.read_bytes + k * own.read_bytes;
        (*to).write_bytes = acc.write_bytes + k * own.write_bytes;
        (*to).cancelled_write_bytes = acc.cancelled_write_bytes + k * own.cancelled_write_bytes;
        (*to).run_delay_ns = acc.run_delay_ns + k * own.run_delay_ns;
        (*to).blkio_delay_ns = acc.blkio_delay_ns + k * own.blkio_delay_ns;
    }
}

/// The wait status of the whole process.
#[inline(always)]
fn status(v: &View) -> u32 {
    // Both are loaded first: from a choice of pointers and offsets a verifier
    // of Linux 6.1 takes any combination.
    let (group, leader) = (v.signal.group_exit_code(), v.leader.exit_code());
    if v.signal.flags() & SIGNAL_GROUP_EXIT != 0 {
        group
    } else {
        leader
    }
}

#[inline(always)]
fn process_end(v: &View, key: &Key, process: *mut Tracked) {
    let (task, leader, signal) = (v.task, v.leader, v.signal);
    let status = status(v);
    if status == 0 {
        // SAFETY: a value of our map; it stays until the free of the leader.
        unsafe { set_flags(process, bits::GOOD_END) };
    }
    if has(opt::FAILED_ONLY) && status == 0 {
        if let Some(entry) = emit::begin::<GoneRecord>(kind::GONE, key, task.pid()) {
            entry.submit();
        }
        return;
    }
    let Some(r) = EXIT.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's value of our map; `process` as above.
    let (bits, before) = unsafe {
        let t = &raw mut (*r).totals;
        let leader_last = task.pid() == key.tgid;
        // A leader that ended before stays as a zombie: signal has the sums of
        // those only that are gone.
        let own = u64::from(!leader_last);
        (*t).utime_ns = signal.utime() + task.utime() + own * leader.utime();
        (*t).stime_ns = signal.stime() + task.stime() + own * leader.stime();
        (*t).runtime_ns = signal.runtime() + task.runtime() + own * leader.runtime();
        (*t).minflt = signal.minflt() + task.minflt() + own * leader.minflt();
        (*t).majflt = signal.majflt() + task.majflt() + own * leader.majflt();
        (*t).nvcsw = signal.nvcsw() + task.nvcsw() + own * leader.nvcsw();
        (*t).nivcsw = signal.nivcsw() + task.nivcsw() + own * leader.nivcsw();
        // As task_io_get_inblock() of include/linux/task_io_accounting_ops.h.
        (*t).inblock =
            signal.inblock() + (task.read_bytes() >> 9) + own * (leader.read_bytes() >> 9);
        (*t).oublock =
            signal.oublock() + (task.write_bytes() >> 9) + own * (leader.write_bytes() >> 9);
        (*t).prev_utime_ns = signal.prev_utime();
        (*t).prev_stime_ns = signal.prev_stime();
        put_acc(t, &(*process).acc, &v.task.acc(), leader_last);
        (*t).maxrss_pages = signal.maxrss();
        (*t).exec_maxrss_pages = (*process).exec_maxrss;
        (*t).mm_peak_pages = if has(opt::EXIT_GROUP_DEAD) {
            v.mm.peak_rss()
        } else {
            0
        };
        (*t).threads = (*process).known_threads();
        fill(r, v, status, process);
        ((*process).flags, tracked::record_flags(&*process))
    };
    let flags = record_flags(task, bits) | before;
    emit::with_totals::<_, SHORT>(r, kind::EXIT, key, task.pid(), flags);
}

#[inline(always)]
fn thread_end(v: &View, key: &Key, process: *mut Tracked) {
    let task = v.task;
    let Some(r) = EXIT.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's value of our map; `process` stays while the process lives.
    let bits = unsafe {
        let t = &raw mut (*r).totals;
        (*t).utime_ns = task.utime();
        (*t).stime_ns = task.stime();
        (*t).runtime_ns = task.runtime();
        (*t).prev_utime_ns = 0;
        (*t).prev_stime_ns = 0;
        (*t).minflt = task.minflt();
        (*t).majflt = task.majflt();
        (*t).nvcsw = task.nvcsw();
        (*t).nivcsw = task.nivcsw();
        (*t).inblock = task.read_bytes() >> 9;
        (*t).oublock = task.write_bytes() >> 9;
        let acc = v.task.acc();
        put_acc(t, &acc, &acc, false);
        (*t).maxrss_pages = 0;
        (*t).exec_maxrss_pages = 0;
        (*t).mm_peak_pages = 0;
        (*t).threads = 1;
        fill(r, v, task.exit_code(), process);
        (*process).flags
    };
    let flags = record_flags(task, bits) | flags::THREAD;
    emit::with_totals::<_, SHORT>(r, kind::EXIT, key, task.pid(), flags);
}

#[inline(always)]
fn record_flags(task: Task, bits: u64) -> u8 {
    let mut f = 0;
    if bits & bits::ROOT != 0 {
        f |= flags::ROOT;
    }
    if task.flags() & PF_KTHREAD != 0 {
        f |= flags::KTHREAD;
    }
    f
}

/// What the ends of threads and processes have in common.
#[inline(always)]
unsafe fn fill(r: *mut ExitRecord, v: &View, status: u32, process: *const Tracked) {
    let parent = v.parent_key();
    // SAFETY: the caller gives a record of its own and a value of our map.
    unsafe {
        (*r).comm = v.task.comm();
        (*r).ppid = parent.tgid;
        (*r).parent_start = parent.start;
        (*r).orig_ppid = (*process).orig_ppid;
        (*r).orig_parent_start = (*process).orig_parent_start;
        (*r).status = status;
        (*r).ns_pid = v.task.ns_pid();
        (*r).uid = v.cred.uid();
        (*r).gid = v.cred.gid();
        (*r).thread_start = v.task.start();
        (*r).cgroup_id = bpf_get_current_cgroup_id();
    }
}
