//! The iterator over tasks: who runs already. It tells of each process once,
//! in a stream of its own, and begins to follow it.
//!
//! It runs after the other programs were attached, and is repeated until no
//! process is undecided. Then each process that lived is either followed since
//! its fork, which has a record, or it was told of here:
//! - A task is visible before sched_process_fork reports it, and does not run
//!   (`TASK_NEW`) until after that. One that is new and not followed may have been
//!   reported before the programs were attached, or is still to be: undecided.
//! - One that is about to end has no living thread but still a record to come,
//!   which is written only while its tree is being looked for: undecided, too.
//! - The pass is within an RCU read section. A task that has not been released
//!   (which comes before sched_process_free's grace period) gets its free after
//!   it, so that what is added here will be removed again.
//! - Of `-p`, those that are named are looked for first. From then on all that
//!   descends from them is followed as it is heard of, whether the iterator has
//!   come to it or not ([`tracked::adopt`]), and so are the children of one that
//!   ends ([`tracked::adopt_children`]).
//! - The stream's buffer may be full: then the same task comes again, so one
//!   counts as told only when that was written.

use core::ffi::c_void;

use aya_ebpf::bindings::seq_file;
use aya_ebpf::helpers::generated::bpf_seq_write;
use tracer_common::config::{opt, seeding};
use tracer_common::seed::{SeedRecord, flags};
use tracer_common::tracked::{Key, Tracked, before, bits};

use crate::filter;
use crate::globals::has;
use crate::maps::{NAMED, STATE};
use crate::task::{PF_KTHREAD, Task, View, load};
use crate::tracked::{self, atomic_add};

#[inline(always)]
pub fn seed_task(ctx: *const u8) {
    // SAFETY: `struct bpf_iter__task` has two pointers, to bpf_iter_meta and to
    // the task; the first member of bpf_iter_meta is the seq_file.
    let (meta, task): (*const u8, *const u8) = unsafe { (load(ctx, 0), load(ctx, 8)) };
    if task.is_null() {
        return;
    }
    // SAFETY: as above.
    let seq: *mut seq_file = unsafe { load(meta, 0) };
    let v = View::of(Task(task));
    let task = v.task;
    if task.pid() != task.tgid() || task.is_released() {
        return;
    }
    let key = v.key();
    if v.signal.live() == 0 {
        if has(opt::TREES) && is_ending(&v) && tracked::find(&key).is_none() && is_of_trees(task) {
            undecided();
        }
        return;
    }
    let Some(process) = tracked::find(&key).or_else(|| begin(&v, &key)) else {
        return;
    };
    // SAFETY: a value of our map; it stays while this process lives.
    let (bits, before) = unsafe { ((*process).flags, (*process).before) };
    if bits & (bits::BEFORE | bits::ENDED) != bits::BEFORE || before & before::SEEDED != 0 {
        return;
    }
    let known = know(&v, process);
    if bits & bits::EMIT == 0 || tell(seq, &v, &key) {
        if known & before::THREADS_KNOWN != 0 {
            // SAFETY: as above.
            unsafe { atomic_add(&raw mut (*process).threads, 1) };
        }
        // SAFETY: as above; nobody else changes this word.
        unsafe { (*process).before = known | before::SEEDED };
    }
}

/// Follows a process from now on.
#[inline(always)]
fn begin(v: &View, key: &Key) -> Option<*mut Tracked> {
    if has(opt::TREES) && !is_of_trees(v.task) {
        return None;
    }
    if v.task.is_new() {
        undecided();
        return None;
    }
    let mut value = Tracked::BEFORE;
    if filter::passes_other(v.task) {
        value.flags |= bits::EMIT;
    }
    tracked::insert(key, &value);
    tracked::find(key)
}

/// What can be known of the time before. Everything that changes from now on is
/// added by the other programs, as the process is followed already.
#[inline(always)]
fn know(v: &View, process: *mut Tracked) -> u32 {
    // It changes at exec, and at the end, only: so this is from the last exec.
    let maxrss = v.signal.maxrss();
    // In this order: an ended thread is missing in `live` first, then in
    // `nr_threads`, and has left something in the sums by then.
    let live = v.signal.live();
    let threads = v.signal.nr_threads();
    let s = v.signal;
    let ended = s.runtime() | s.utime() | s.stime() | s.minflt() | s.nvcsw() | s.nivcsw();
    let mut known = 0;
    if threads == live && ended == 0 {
        known |= before::SUMS_KNOWN;
        if threads == 1 {
            known |= before::THREADS_KNOWN;
        }
    }
    if has(opt::DELAYACCT) && !v.task.has_delays() {
        known |= before::NO_BLKIO_DELAY;
    }
    // SAFETY: a value of our map; it stays while this process lives.
    unsafe {
        if (*process).exec_maxrss == u64::MAX {
            (*process).exec_maxrss = maxrss;
        }
    }
    known
}

/// Writes to the iterator's stream; whether that had room.
#[inline(always)]
fn tell(seq: *mut seq_file, v: &View, key: &Key) -> bool {
    let parent = v.parent_key();
    let (uid, gid) = (v.cred.uid(), v.cred.gid());
    let mut bits = 0;
    if v.task.flags() & PF_KTHREAD != 0 {
        bits |= flags::KTHREAD;
    }
    let record = SeedRecord {
        tgid: key.tgid,
        pid_here: v.task.pid_for_current(),
        start: key.start,
        ppid: parent.tgid,
        flags: bits,
        parent_start: parent.start,
        cgroup_id: v.task.cgroup().id(),
        uid,
        gid,
        comm: v.task.comm(),
    };
    let size = size_of::<SeedRecord>() as u32;
    // SAFETY: the record is as long as said.
    unsafe { bpf_seq_write(seq, (&raw const record).cast::<c_void>(), size) == 0 }
}

/// A further pass is wanted.
#[inline(always)]
fn undecided() {
    if let Some(state) = STATE.get_ptr_mut(0) {
        // SAFETY: the one element of an array map; there is one reader of the iterator.
        unsafe { (*state).undecided += 1 };
    }
}

/// Whether a process without a living thread may still be before its
/// sched_process_exit: `live` is 0 from the beginning of do_exit() on, and up to
/// Linux 6.15 its memory is given back in between. A leader that is a zombie may
/// have ended before its last thread.
#[inline(always)]
fn is_ending(v: &View) -> bool {
    !v.leader.is_zombie() || v.signal.nr_threads() > 1
}

/// Whether the process is in the trees that `-p` names, as far as is known now.
#[inline(always)]
fn is_of_trees(task: Task) -> bool {
    match tracked::seeding() {
        seeding::NAMED => is_named(task),
        _ => tracked::descends(task),
    }
}

/// Whether `-p` names the process.
#[inline(always)]
fn is_named(task: Task) -> bool {
    let pid = task.pid_for_current();
    NAMED.get_ptr(pid).is_some()
}
