//! JSON Lines, schema 1: one object a line, described by
//! `docs/events.schema.json`. What is not known is `null`, never zero.

mod owner;

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use super::Sink;
use super::json::{Key, Object, key};
use super::names::{errno_name, signal_name};
use super::output::Output;
use crate::model::{
    Bytes, Comm, End, Event, Exec, ExecFailed, Exit, Fork, Lost, Meta, Precision, ProcId, Process,
    Seed, Signal, SignalBy, Status, Usage,
};

/// Version of the format: raised when a member changes its meaning or goes.
pub const SCHEMA: u32 = 1;

/// Writes every event as it happens and every process record.
pub struct Jsonl {
    out: Output,
}

impl Jsonl {
    pub fn new(out: Output) -> Self {
        Self { out }
    }
}

impl Sink for Jsonl {
    fn begin(&mut self, m: &Meta) -> io::Result<()> {
        self.out.append(|buf| meta(buf, m))
    }

    fn event(&mut self, e: &Event, p: Option<&Process>) -> io::Result<()> {
        self.out.append(|buf| event(buf, e, p))
    }

    fn process(&mut self, p: &Process) -> io::Result<()> {
        self.out.append(|buf| process(buf, p))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::Write::flush(&mut self.out)
    }

    fn end(&mut self, e: &End) -> io::Result<()> {
        self.out.append(|buf| end(buf, e))?;
        self.out.finish()
    }

    fn next_part(&mut self, e: &End, m: &Meta) -> io::Result<()> {
        self.out.append(|buf| end(buf, e))?;
        self.out.next_part()?;
        self.out.append(|buf| meta(buf, m))
    }

    fn backlog(&self) -> usize {
        self.out.backlog()
    }
}

/// Appends the first line of a capture.
pub fn meta(buf: &mut Vec<u8>, m: &Meta) {
    let wall = humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(m.wall_start_ns))
        .to_string();
    let mut o = Object::line(buf, "meta");
    o.num(key!("schema"), SCHEMA);
    o.str(key!("tracer"), env!("CARGO_PKG_VERSION"));
    o.str(key!("backend"), m.backend);
    o.str(key!("kernel"), &m.kernel);
    o.str(key!("host"), &m.host);
    o.str(key!("boot_id"), &m.boot_id);
    o.num(key!("cpus"), m.cpus);
    o.str(key!("wall_start"), &wall);
    o.num(key!("boot_start"), m.boot_start_ns);
    o.strings(key!("command"), m.command.iter().map(Vec::as_slice));
    id(&mut o, ROOT, m.root);
    if let Some(part) = m.part {
        o.num(key!("part"), part);
    }
    o.end_line();
}

/// Appends the line of an event. Final totals have none of their own: they
/// are in the `process` line.
pub fn event(buf: &mut Vec<u8>, e: &Event, p: Option<&Process>) {
    match e {
        Event::Fork(e) => fork(buf, e),
        Event::Exec(e) => exec(buf, e),
        Event::ExecFailed(e) => exec_failed(buf, e),
        Event::Exit(e) => exit(buf, e, p),
        Event::Signal(e) => signal(buf, e),
        Event::Seed(e) => seed(buf, e),
        Event::Lost(e) => lost(buf, e),
        Event::Final(_) | Event::Gone { .. } => {}
    }
}

/// Names of the members that hold an identity.
type Keys = [Key; 3];
const SELF: Keys = [key!("pid"), key!("start"), key!("start_precision")];
const ROOT: Keys = [
    key!("root_pid"),
    key!("root_start"),
    key!("root_start_precision"),
];
const PARENT: Keys = [
    key!("ppid"),
    key!("parent_start"),
    key!("parent_start_precision"),
];
const ORIG_PARENT: Keys = [
    key!("orig_ppid"),
    key!("orig_parent_start"),
    key!("orig_parent_start_precision"),
];
const CHILD: Keys = [
    key!("child_pid"),
    key!("child_start"),
    key!("child_start_precision"),
];
const SENDER: Keys = [
    key!("sender_pid"),
    key!("sender_start"),
    key!("sender_start_precision"),
];

/// The precision only where it is not exact.
#[inline]
fn id(o: &mut Object<'_>, [pid, start, precision]: Keys, id: Option<ProcId>) {
    o.opt(pid, id.map(|id| id.pid));
    o.opt(start, id.map(|id| id.start));
    if let Some(ProcId {
        precision: p @ (Precision::Tick | Precision::Inferred),
        ..
    }) = id
    {
        o.str(precision, p.name());
    }
}

/// `ts`, `cpu`, and the thread that an event is about.
fn head<'a>(
    buf: &'a mut Vec<u8>,
    kind: &'static str,
    ts: u64,
    cpu: Option<u32>,
    who: ProcId,
    tid: u32,
    comm: Comm,
) -> Object<'a> {
    let mut o = Object::line(buf, kind);
    o.num(key!("ts"), ts);
    o.opt(key!("cpu"), cpu);
    id(&mut o, SELF, Some(who));
    o.num(key!("tid"), tid);
    o.bytes(key!("comm"), comm.as_slice());
    o
}

fn fork(buf: &mut Vec<u8>, e: &Fork) {
    let mut o = head(buf, "fork", e.ts, e.cpu, e.parent, e.tid, e.comm);
    id(&mut o, CHILD, Some(e.child));
    o.num(key!("child_tid"), e.child_tid);
    o.opt(key!("child_ns_pid"), e.child_ns_pid);
    o.bool(key!("thread"), e.thread);
    o.bool(key!("kthread"), e.kthread);
    o.end_line();
}

fn exec(buf: &mut Vec<u8>, e: &Exec) {
    let mut o = head(buf, "exec", e.ts, e.cpu, e.id, e.tid, e.comm);
    id(&mut o, PARENT, e.parent);
    program(&mut o, e);
    o.opt(key!("uid"), e.uid);
    o.opt(key!("gid"), e.gid);
    o.opt(key!("ns_pid"), e.ns_pid);
    o.opt(key!("old_tid"), e.old_tid);
    owner::cgroup(&mut o, &e.cgroup);
    o.end_line();
}

/// What an exec says of the program, for its own line and that of the process.
fn program(o: &mut Object<'_>, e: &Exec) {
    o.field(key!("filename"), &e.filename);
    o.args(key!("argv"), &e.argv);
    if let Some(env) = &e.env {
        o.args(key!("env"), env);
    }
    o.field(key!("cwd"), &e.cwd);
    o.opt(key!("euid"), e.euid);
    o.opt(key!("egid"), e.egid);
    o.opt(key!("loginuid"), e.loginuid);
    o.opt(key!("sid"), e.sid);
    o.opt(key!("pgid"), e.pgid);
    o.opt_bytes(key!("tty"), e.tty.as_ref().map(Bytes::as_slice));
    o.bool(key!("by_kernel"), e.by_kernel);
}

/// The same members for a process that runs its parent's program, or whose exec
/// was before the capture.
fn no_program(o: &mut Object<'_>, seeded: bool) {
    o.null(key!("filename"));
    o.null(key!("argv"));
    o.state(
        key!("argv"),
        "missing",
        Some(if seeded { "seeded" } else { "no_exec" }),
    );
    for key in [
        key!("cwd"),
        key!("euid"),
        key!("egid"),
        key!("loginuid"),
        key!("sid"),
        key!("pgid"),
        key!("tty"),
        key!("by_kernel"),
    ] {
        o.null(key);
    }
}

fn exec_failed(buf: &mut Vec<u8>, e: &ExecFailed) {
    let mut o = head(buf, "exec_failed", e.ts, e.cpu, e.id, e.tid, e.comm);
    o.field(key!("filename"), &e.filename);
    o.args(key!("argv"), &e.argv);
    o.num(key!("errno"), e.errno);
    o.opt_str(key!("errno_name"), errno_name(e.errno));
    o.end_line();
}

fn exit(buf: &mut Vec<u8>, e: &Exit, p: Option<&Process>) {
    let mut o = head(buf, "exit", e.ts, e.cpu, e.id, e.tid, e.comm);
    let started = if e.thread {
        o.opt(key!("thread_start"), e.thread_start);
        e.thread_start
    } else {
        Some(e.id.start)
    };
    id(&mut o, PARENT, e.parent);
    id(&mut o, ORIG_PARENT, e.orig_parent);
    o.opt_bytes(
        key!("exe"),
        p.and_then(|p| p.exe.as_ref()).map(Bytes::as_slice),
    );
    o.bool(key!("process"), !e.thread);
    status(&mut o, e.status);
    o.opt(key!("wall_ns"), started.map(|s| e.ts.saturating_sub(s)));
    o.opt(key!("threads"), e.threads);
    o.opt(key!("uid"), e.uid);
    o.opt(key!("gid"), e.gid);
    o.opt(key!("ns_pid"), e.ns_pid);
    o.field(key!("cgroup"), &e.cgroup);
    o.bool(key!("kthread"), e.kthread);
    usage(&mut o, &e.usage);
    o.end_line();
}

fn status(o: &mut Object<'_>, status: Option<Status>) {
    let signal = status.and_then(|s| s.signal);
    o.opt(key!("exit_code"), status.and_then(|s| s.exit_code));
    o.opt(key!("signal"), signal);
    o.opt_str(key!("signal_name"), signal.and_then(signal_name));
    o.opt_bool(key!("core_dumped"), status.map(|s| s.core_dumped));
}

fn usage(o: &mut Object<'_>, u: &Usage) {
    o.object(key!("usage"), |o| {
        o.bool(key!("final"), u.is_final);
        o.opt(key!("utime_ns"), u.utime_ns);
        o.opt(key!("stime_ns"), u.stime_ns);
        o.opt(key!("cpu_ns"), u.cpu_ns);
        o.opt(key!("max_rss_bytes"), u.max_rss_bytes);
        o.opt(key!("max_rss_upper_bytes"), u.max_rss_upper_bytes);
        o.opt(key!("minflt"), u.minflt);
        o.opt(key!("majflt"), u.majflt);
        o.opt(key!("nvcsw"), u.nvcsw);
        o.opt(key!("nivcsw"), u.nivcsw);
        o.opt(key!("inblock"), u.inblock);
        o.opt(key!("oublock"), u.oublock);
        o.opt(key!("read_bytes"), u.read_bytes);
        o.opt(key!("write_bytes"), u.write_bytes);
        o.opt(key!("cancelled_write_bytes"), u.cancelled_write_bytes);
        o.opt(key!("rchar"), u.rchar);
        o.opt(key!("wchar"), u.wchar);
        o.opt(key!("run_delay_ns"), u.run_delay_ns);
        o.opt(key!("blkio_delay_ns"), u.blkio_delay_ns);
    });
}

fn signal(buf: &mut Vec<u8>, e: &Signal) {
    let mut o = Object::line(buf, "signal");
    o.num(key!("ts"), e.ts);
    o.opt(key!("cpu"), e.cpu);
    o.num(key!("signal"), e.signal);
    o.opt_str(key!("signal_name"), signal_name(e.signal));
    sender(&mut o, e);
    id(&mut o, SELF, Some(e.target));
    o.end_line();
}

fn sender(o: &mut Object<'_>, e: &Signal) {
    o.str(key!("by"), e.by.name());
    // Whoever ran when memory ended is innocent.
    let known = e.by != SignalBy::Oom;
    id(o, SENDER, e.sender.filter(|_| known));
    o.opt_bytes(
        key!("sender_comm"),
        e.sender_comm.as_ref().filter(|_| known).map(Comm::as_slice),
    );
}

fn seed(buf: &mut Vec<u8>, e: &Seed) {
    let mut o = Object::line(buf, "seed");
    o.num(key!("ts"), e.ts);
    o.num(key!("pid"), e.id.pid);
    o.num(key!("start"), e.id.start);
    o.str(key!("start_precision"), e.id.precision.name());
    id(&mut o, PARENT, e.parent);
    o.bytes(key!("comm"), e.comm.as_slice());
    o.field(key!("exe"), &e.exe);
    o.args(key!("argv"), &e.argv);
    o.opt(key!("uid"), e.uid);
    owner::cgroup(&mut o, &e.cgroup);
    o.bool(key!("kthread"), e.kthread);
    o.end_line();
}

fn lost(buf: &mut Vec<u8>, e: &Lost) {
    let mut o = Object::line(buf, "lost");
    o.num(key!("ts"), e.ts);
    o.opt(key!("cpu"), e.cpu);
    o.str(key!("where"), e.place.name());
    o.str(key!("kind"), e.kind.name());
    o.num(key!("count"), e.count);
    o.end_line();
}

/// Appends the line that holds everything known of a process.
pub fn process(buf: &mut Vec<u8>, p: &Process) {
    let exec = p.exec.as_deref();
    let mut o = Object::line(buf, "process");
    id(&mut o, SELF, Some(p.id));
    o.opt(key!("end"), p.end);
    o.bool(key!("running"), p.end.is_none());
    id(&mut o, PARENT, p.parent);
    id(&mut o, ORIG_PARENT, p.orig_parent);
    o.bytes(key!("comm"), p.comm.as_slice());
    o.opt_bytes(key!("exe"), p.exe.as_ref().map(Bytes::as_slice));
    o.num(key!("execs"), p.execs);
    // What was read of a process that ran before has no time of an exec.
    o.opt(key!("exec_ts"), exec.filter(|_| p.execs > 0).map(|e| e.ts));
    match exec {
        Some(e) => program(&mut o, e),
        None => no_program(&mut o, p.seeded),
    }
    o.opt(key!("uid"), p.uid.or_else(|| exec.and_then(|e| e.uid)));
    o.opt(key!("gid"), p.gid.or_else(|| exec.and_then(|e| e.gid)));
    o.opt(
        key!("ns_pid"),
        p.ns_pid.or_else(|| exec.and_then(|e| e.ns_pid)),
    );
    match &p.cgroup {
        Some(cgroup) => owner::cgroup(&mut o, cgroup),
        None => o.null(key!("cgroup")),
    }
    status(&mut o, p.status);
    match &p.killed_by {
        Some(by) => o.object(key!("killed_by"), |o| {
            o.num(key!("ts"), by.ts);
            o.num(key!("signal"), by.signal);
            o.opt_str(key!("signal_name"), signal_name(by.signal));
            sender(o, by);
        }),
        None => o.null(key!("killed_by")),
    }
    o.opt(key!("wall_ns"), p.wall_ns());
    o.opt(key!("threads"), p.threads);
    o.bool(key!("kthread"), p.kthread);
    o.bool(key!("seeded"), p.seeded);
    o.bool(key!("fork_seen"), p.fork_seen);
    o.bool(key!("root"), p.root);
    usage(&mut o, &p.usage);
    o.end_line();
}

/// Appends the last line of a capture.
pub fn end(buf: &mut Vec<u8>, e: &End) {
    let mut o = Object::line(buf, "end");
    o.num(key!("ts"), e.ts);
    o.object(key!("events"), |o| {
        o.num(key!("fork"), e.forks);
        o.num(key!("exec"), e.execs);
        o.num(key!("exit"), e.exits);
        o.num(key!("threads"), e.threads);
    });
    o.num(key!("lost"), e.lost);
    if e.continued {
        o.null(key!("exit_code"));
        o.bool(key!("continued"), true);
    } else {
        o.num(key!("exit_code"), e.exit_code);
    }
    o.end_line();
}

#[cfg(test)]
mod tests;
