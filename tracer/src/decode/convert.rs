//! Records that stand alone, to their events.

use tracer_common::record::{
    ExecFailedRecord, ExitRecord, FinalRecord, ForkRecord, GoneRecord, Header, SignalRecord,
    Totals, flags, kind,
};

use super::error::DecodeError;
use super::settings::Settings;
use super::usage::usage;
use crate::model::{
    Args, Bytes, Comm, Event, ExecFailed, Exit, Field, Final, Fork, ProcId, Reason, Signal,
    SignalBy, Status, Usage,
};

/// An id of which `u32::MAX` says that it is not set or not known.
pub(super) fn known_id(id: u32) -> Option<u32> {
    Some(id).filter(|id| *id != u32::MAX)
}

/// The kernel side gives zeros for a parent that it does not know.
pub(super) fn parent(pid: u32, start: u64) -> Option<ProcId> {
    Some(ProcId::exact(pid, start)).filter(|id| id.pid != 0 || id.start != 0)
}

const fn subject(h: &Header) -> ProcId {
    ProcId::exact(h.tgid, h.start)
}

const fn has(h: &Header, flag: u8) -> bool {
    h.flags & flag != 0
}

fn cpu(h: &Header) -> Option<u32> {
    Some(u32::from(h.cpu))
}

fn non_zero(n: u32) -> Option<u32> {
    Some(n).filter(|n| *n != 0)
}

pub(super) fn fork(r: &ForkRecord) -> Event {
    let thread = has(&r.h, flags::THREAD);
    let real = parent(r.real_ppid, r.real_parent_start).filter(|_| !thread);
    Event::Fork(Fork {
        ts: r.h.ts,
        cpu: cpu(&r.h),
        parent: real.unwrap_or(subject(&r.h)),
        tid: r.h.tid,
        comm: Comm(r.comm),
        child: ProcId::exact(r.child_tgid, r.child_start),
        child_tid: r.child_tid,
        child_ns_pid: non_zero(r.child_ns_pid),
        thread,
        kthread: has(&r.h, flags::KTHREAD),
    })
}

pub(super) fn exit(r: &ExitRecord, settings: &mut Settings) -> Event {
    let thread = has(&r.h, flags::THREAD);
    Event::Exit(Box::new(Exit {
        ts: r.h.ts,
        cpu: cpu(&r.h),
        id: subject(&r.h),
        tid: r.h.tid,
        thread,
        thread_start: Some(r.thread_start).filter(|start| *start != 0),
        parent: parent(r.ppid, r.parent_start),
        orig_parent: parent(r.orig_ppid, r.orig_parent_start),
        comm: Comm(r.comm),
        status: Some(Status::from_wait(r.status)),
        uid: known_id(r.uid),
        gid: known_id(r.gid),
        ns_pid: non_zero(r.ns_pid),
        cgroup: settings.cgroup_path(r.cgroup_id),
        threads: Some(r.totals.threads).filter(|n| *n != 0 && !thread),
        usage: known_usage(&r.h, &r.totals, settings, false),
        kthread: has(&r.h, flags::KTHREAD),
        root: has(&r.h, flags::ROOT),
    }))
}

pub(super) fn totals_final(r: &FinalRecord, settings: &Settings) -> Event {
    Event::Final(Box::new(Final {
        ts: r.h.ts,
        id: subject(&r.h),
        threads: Some(r.totals.threads).filter(|n| *n != 0),
        usage: known_usage(&r.h, &r.totals, settings, true),
        told_ns: Some((r.totals.prev_utime_ns, r.totals.prev_stime_ns)),
    }))
}

/// Without what is not known of a process that began before the capture.
fn known_usage(h: &Header, totals: &Totals, settings: &Settings, is_final: bool) -> Usage {
    let mut usage = usage(totals, settings.page_size, &settings.known, is_final);
    // A thread's own figures are those of all its life.
    if has(h, flags::SUMS_UNKNOWN) && !has(h, flags::THREAD) {
        usage = Usage {
            rchar: None,
            wchar: None,
            read_bytes: None,
            write_bytes: None,
            cancelled_write_bytes: None,
            run_delay_ns: None,
            blkio_delay_ns: None,
            ..usage
        };
    }
    if has(h, flags::NO_BLKIO_DELAY) {
        usage.blkio_delay_ns = None;
    }
    usage
}

pub(super) fn gone(r: &GoneRecord) -> Event {
    Event::Gone {
        ts: r.h.ts,
        id: subject(&r.h),
        left: has(&r.h, flags::LEFT),
    }
}

pub(super) fn exec_failed(r: &ExecFailedRecord) -> Result<Event, DecodeError> {
    let bad = DecodeError::Length { kind: r.h.kind };
    let (filename, rest) = r
        .text
        .split_at_checked(usize::from(r.filename_len))
        .ok_or(bad)?;
    let argv = rest.get(..usize::from(r.argv_len)).ok_or(bad)?;
    let fault = has(&r.h, flags::USER_FAULT);
    let filename = match Bytes::from(filename) {
        name if has(&r.h, flags::FILENAME_CUT) => Field::Truncated(name),
        name if fault && name.as_slice().is_empty() => Field::Missing(Reason::Fault),
        name => Field::Full(name),
    };
    let strings = argv.iter().filter(|b| **b == 0).count();
    let argv = match Args(argv.into()) {
        args if r.argv_cut == 0 && strings == usize::from(r.argc) => Field::Full(args),
        args if fault && args.0.is_empty() => Field::Missing(Reason::Fault),
        args => Field::Truncated(args),
    };
    Ok(Event::ExecFailed(Box::new(ExecFailed {
        ts: r.h.ts,
        cpu: cpu(&r.h),
        id: subject(&r.h),
        tid: r.h.tid,
        comm: Comm(r.comm),
        filename,
        argv,
        // errno numbers are small and positive.
        errno: i32::try_from(r.errno).unwrap_or(i32::MAX),
    })))
}

pub(super) fn signal(r: &SignalRecord) -> Event {
    let by = if r.h.kind == kind::OOM {
        SignalBy::Oom
    } else if has(&r.h, flags::BY_KERNEL) {
        SignalBy::Kernel
    } else {
        SignalBy::Process
    };
    let sender = parent(r.sender_tgid, r.sender_start);
    Event::Signal(Box::new(Signal {
        ts: r.h.ts,
        cpu: cpu(&r.h),
        signal: i32::try_from(r.signal).unwrap_or(i32::MAX),
        by,
        sender,
        sender_comm: sender.map(|_| Comm(r.sender_comm)),
        target: subject(&r.h),
    }))
}
