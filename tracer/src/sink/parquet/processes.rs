//! The table of processes: the columns of the process record.

use super::Capture;
use super::column::{Column, Group, Kind, Schema};
use crate::model::{Args, Bytes, Comm, Exec, Field, Process, Signal, SignalBy};
use crate::sink::names::signal_name;

pub const SCHEMA: Schema = Schema {
    name: "process",
    columns: || all().map(|(name, kind, _)| (*name, *kind)).collect(),
};

/// A column: its name, its kind, and how it is filled.
type Def = (&'static str, Kind, fn(&mut Column, &Process, &Capture));

/// Appends a row.
pub fn put(group: &mut Group, process: &Process, capture: &Capture) {
    for ((.., put), column) in all().zip(&mut group.columns) {
        put(column, process, capture);
    }
}

fn all() -> impl Iterator<Item = &'static Def> {
    [IDENTITY, PROGRAM, OUTCOME, &USAGE].into_iter().flatten()
}

fn exec(p: &Process) -> Option<&Exec> {
    p.exec.as_deref()
}

fn value(p: &Process, field: fn(&Exec) -> &Field<Bytes>) -> Option<&[u8]> {
    field(exec(p)?).value().map(Bytes::as_slice)
}

fn cgroup(p: &Process) -> Option<&[u8]> {
    p.cgroup.as_ref()?.value().map(Bytes::as_slice)
}

fn argv(p: &Process) -> Option<&Args> {
    exec(p)?.argv.value()
}

fn env(p: &Process) -> Option<&Args> {
    exec(p)?.env.as_ref()?.value()
}

fn tty(p: &Process) -> Option<&[u8]> {
    exec(p)?.tty.as_ref().map(Bytes::as_slice)
}

/// The killer, unless it was the kernel for want of memory: who ran then is innocent.
fn killer(p: &Process) -> Option<&Signal> {
    p.killed_by.as_deref().filter(|s| s.by != SignalBy::Oom)
}

fn killer_comm(p: &Process) -> Option<&[u8]> {
    killer(p)?.sender_comm.as_ref().map(Comm::as_slice)
}

use Kind::{Blob, Blobs, Bool, Int, Long, Text, Texts, Time};

const IDENTITY: &[Def] = &[
    ("host", Text, |c, _, m| c.text(Some(&m.host))),
    ("boot_id", Text, |c, _, m| c.text(Some(&m.boot_id))),
    ("pid", Int, |c, p, _| c.int(Some(p.id.pid))),
    ("start", Long, |c, p, _| c.long(Some(p.id.start))),
    ("start_time", Time, |c, p, m| c.time(Some(p.id.start), m)),
    ("start_precision", Text, |c, p, _| {
        c.text(Some(p.id.precision.name().as_bytes()));
    }),
    ("end", Long, |c, p, _| c.long(p.end)),
    ("end_time", Time, |c, p, m| c.time(p.end, m)),
    ("running", Bool, |c, p, _| c.bool(Some(p.end.is_none()))),
    ("ppid", Int, |c, p, _| c.int(p.parent.map(|i| i.pid))),
    ("parent_start", Long, |c, p, _| {
        c.long(p.parent.map(|i| i.start));
    }),
    ("orig_ppid", Int, |c, p, _| {
        c.int(p.orig_parent.map(|i| i.pid));
    }),
    ("orig_parent_start", Long, |c, p, _| {
        c.long(p.orig_parent.map(|i| i.start));
    }),
    ("ns_pid", Int, |c, p, _| {
        c.int(p.ns_pid.or_else(|| exec(p)?.ns_pid));
    }),
    ("kthread", Bool, |c, p, _| c.bool(Some(p.kthread))),
    ("seeded", Bool, |c, p, _| c.bool(Some(p.seeded))),
    ("fork_seen", Bool, |c, p, _| c.bool(Some(p.fork_seen))),
    ("root", Bool, |c, p, _| c.bool(Some(p.root))),
];

const PROGRAM: &[Def] = &[
    ("comm", Text, |c, p, _| c.text(Some(p.comm.as_slice()))),
    ("comm_bytes", Blob, |c, p, _| {
        c.blob(Some(p.comm.as_slice()));
    }),
    ("exe", Text, |c, p, _| {
        c.text(p.exe.as_ref().map(Bytes::as_slice));
    }),
    ("exe_bytes", Blob, |c, p, _| {
        c.blob(p.exe.as_ref().map(Bytes::as_slice));
    }),
    ("execs", Int, |c, p, _| c.int(Some(p.execs))),
    ("exec_ts", Long, |c, p, _| {
        c.long(exec(p).filter(|_| p.execs > 0).map(|e| e.ts));
    }),
    ("filename", Text, |c, p, _| {
        c.text(value(p, |e| &e.filename))
    }),
    ("filename_bytes", Blob, |c, p, _| {
        c.blob(value(p, |e| &e.filename));
    }),
    ("filename_state", Text, |c, p, _| {
        c.state(exec(p).map(|e| &e.filename));
    }),
    ("argv", Texts, |c, p, _| c.texts(argv(p))),
    ("argv_bytes", Blobs, |c, p, _| c.blobs(argv(p))),
    ("argv_state", Text, |c, p, _| {
        c.text(Some(
            exec(p).map_or("missing", |e| e.argv.state()).as_bytes(),
        ));
    }),
    ("env", Texts, |c, p, _| c.texts(env(p))),
    ("env_bytes", Blobs, |c, p, _| c.blobs(env(p))),
    ("env_state", Text, |c, p, _| {
        c.state(exec(p).and_then(|e| e.env.as_ref()));
    }),
    ("cwd", Text, |c, p, _| c.text(value(p, |e| &e.cwd))),
    ("cwd_bytes", Blob, |c, p, _| c.blob(value(p, |e| &e.cwd))),
    ("cwd_state", Text, |c, p, _| {
        c.state(exec(p).map(|e| &e.cwd))
    }),
    ("uid", Long, |c, p, _| {
        c.long(p.uid.or_else(|| exec(p)?.uid))
    }),
    ("euid", Long, |c, p, _| c.long(exec(p).and_then(|e| e.euid))),
    ("gid", Long, |c, p, _| {
        c.long(p.gid.or_else(|| exec(p)?.gid))
    }),
    ("egid", Long, |c, p, _| c.long(exec(p).and_then(|e| e.egid))),
    ("loginuid", Long, |c, p, _| {
        c.long(exec(p).and_then(|e| e.loginuid));
    }),
    ("sid", Int, |c, p, _| c.int(exec(p).and_then(|e| e.sid))),
    ("pgid", Int, |c, p, _| c.int(exec(p).and_then(|e| e.pgid))),
    ("tty", Text, |c, p, _| c.text(tty(p))),
    ("tty_bytes", Blob, |c, p, _| c.blob(tty(p))),
    ("cgroup", Text, |c, p, _| c.text(cgroup(p))),
    ("cgroup_bytes", Blob, |c, p, _| c.blob(cgroup(p))),
    ("cgroup_state", Text, |c, p, _| c.state(p.cgroup.as_ref())),
    ("unit", Text, |c, p, _| c.text(p.owner().unit)),
    ("user_unit", Text, |c, p, _| c.text(p.owner().user_unit)),
    ("slice", Text, |c, p, _| c.text(p.owner().slice)),
    ("container", Text, |c, p, _| {
        c.text(p.owner().container.map(|c| c.id));
    }),
    ("container_runtime", Text, |c, p, _| {
        let runtime = p.owner().container.and_then(|c| c.runtime);
        c.text(runtime.map(str::as_bytes));
    }),
    ("pod", Text, |c, p, _| c.text(p.owner().pod.as_deref())),
    ("by_kernel", Bool, |c, p, _| {
        c.bool(exec(p).map(|e| e.by_kernel));
    }),
];

const OUTCOME: &[Def] = &[
    ("exit_code", Int, |c, p, _| {
        c.int(p.status.and_then(|s| s.exit_code));
    }),
    ("signal", Int, |c, p, _| {
        c.int(p.status.and_then(|s| s.signal))
    }),
    ("signal_name", Text, |c, p, _| {
        let name = p.status.and_then(|s| signal_name(s.signal?));
        c.text(name.map(str::as_bytes));
    }),
    ("core_dumped", Bool, |c, p, _| {
        c.bool(p.status.map(|s| s.core_dumped));
    }),
    ("killed_by", Text, |c, p, _| {
        c.text(p.killed_by.as_deref().map(|s| s.by.name().as_bytes()));
    }),
    ("killed_by_pid", Int, |c, p, _| {
        c.int(killer(p).and_then(|s| s.sender).map(|i| i.pid));
    }),
    ("killed_by_start", Long, |c, p, _| {
        c.long(killer(p).and_then(|s| s.sender).map(|i| i.start));
    }),
    ("killed_by_comm", Text, |c, p, _| c.text(killer_comm(p))),
    ("killed_by_comm_bytes", Blob, |c, p, _| {
        c.blob(killer_comm(p));
    }),
    ("wall_ns", Long, |c, p, _| c.long(p.wall_ns())),
    ("threads", Long, |c, p, _| c.long(p.threads)),
    ("usage_final", Bool, |c, p, _| {
        c.bool(Some(p.usage.is_final))
    }),
];

macro_rules! usage {
    ($($name:ident)*) => {
        [$((stringify!($name), Long, |c, p, _| c.long(p.usage.$name)),)*]
    };
}

const USAGE: [Def; 18] = usage! {
    utime_ns stime_ns cpu_ns max_rss_bytes max_rss_upper_bytes minflt majflt nvcsw nivcsw inblock oublock
    read_bytes write_bytes cancelled_write_bytes rchar wchar run_delay_ns blkio_delay_ns
};
