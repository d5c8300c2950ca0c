//! sched_process_free: the leader's task is about to be freed, some RCU grace
//! period after it was reaped (kernel/exit.c, delayed_put_task_struct). Its
//! signal_struct now holds the complete sums of all threads.

use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use aya_ebpf::programs::BtfTracePointContext;
use tracer_common::config::opt;
use tracer_common::record::{FinalRecord, ShortTotals, kind};
use tracer_common::tracked::{Key, Tracked, bits};

use super::exit::put_acc;
use crate::emit;
use crate::globals::has;
use crate::task::{Signal, Task};
use crate::tracked;

/// The record in the making. A program does not interrupt itself.
#[map]
static FINAL: PerCpuArray<FinalRecord> = PerCpuArray::with_max_entries(1, 0);

/// Words of a record with short totals.
const SHORT: usize = (size_of::<FinalRecord>() - size_of::<ShortTotals>()) / 8;

#[inline(always)]
pub fn process_free(ctx: &BtfTracePointContext) {
    let task = Task(ctx.arg::<*const u8>(0));
    if task.pid() != task.tgid() {
        return;
    }
    let key = task.key_with(task);
    let signal = task.signal();
    // Nobody has looked at these for a grace period: they are fetched together,
    // and while the set is searched, instead of one after the other.
    signal.prefetch();
    task.prefetch();
    let Some(process) = tracked::find(&key) else {
        return;
    };
    // SAFETY: a value of our map; it stays until it is removed below, and
    // nobody changes it any more: the process is gone.
    let process = unsafe { &*process };
    if wanted(process.flags) {
        emit_final(task, signal, &key, process);
    }
    tracked::remove(&key);
}

#[inline(always)]
fn wanted(flags: u64) -> bool {
    let recorded = bits::EMIT | bits::ENDED;
    flags & recorded == recorded && !(has(opt::FAILED_ONLY) && flags & bits::GOOD_END != 0)
}

#[inline(always)]
fn emit_final(task: Task, signal: Signal, key: &Key, process: &Tracked) {
    let Some(r) = FINAL.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's value of our map.
    unsafe {
        let t = &raw mut (*r).totals;
        (*t).utime_ns = signal.utime();
        (*t).stime_ns = signal.stime();
        (*t).runtime_ns = signal.runtime();
        (*t).prev_utime_ns = signal.prev_utime();
        (*t).prev_stime_ns = signal.prev_stime();
        (*t).minflt = signal.minflt();
        (*t).majflt = signal.majflt();
        (*t).nvcsw = signal.nvcsw();
        (*t).nivcsw = signal.nivcsw();
        (*t).inblock = signal.inblock();
        (*t).oublock = signal.oublock();
        put_acc(
            t,
            &process.acc,
            &task.acc(),
            process.flags & bits::LEADER_LAST != 0,
        );
        (*t).maxrss_pages = signal.maxrss();
        (*t).exec_maxrss_pages = process.exec_maxrss;
        (*t).mm_peak_pages = 0;
        (*t).threads = process.known_threads();
    }
    let flags = tracked::record_flags(process);
    emit::with_totals::<_, SHORT>(r, kind::FINAL, key, key.tgid, flags);
}
