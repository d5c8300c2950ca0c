//! The table of events: a row for each, all kinds in one table. A column that an event
//! does not have is null.

use super::Capture;
use super::column::{Column, Group, Kind, Schema};
use crate::model::{
    Args, Bytes, Comm, Event, Exec, Exit, Field, Fork, Lost, ProcId, Process, Signal, SignalBy,
};
use crate::sink::names::{errno_name, signal_name};

pub const SCHEMA: Schema = Schema {
    name: "event",
    columns: || all().map(|(name, kind, _)| (*name, *kind)).collect(),
};

/// An event with what the columns have in common.
struct Row<'a> {
    event: &'a Event,
    process: Option<&'a Process>,
    capture: &'a Capture,
    kind: &'static str,
}

/// A column: its name, its kind, and how it is filled.
type Def = (&'static str, Kind, fn(&mut Column, &Row<'_>));

/// Appends a row. False where the event has none of its own: final totals are in the
/// table of processes.
pub fn put(group: &mut Group, event: &Event, process: Option<&Process>, capture: &Capture) -> bool {
    let kind = match event {
        Event::Fork(_) => "fork",
        Event::Exec(_) => "exec",
        Event::ExecFailed(_) => "exec_failed",
        Event::Exit(_) => "exit",
        Event::Signal(_) => "signal",
        Event::Seed(_) => "seed",
        Event::Lost(_) => "lost",
        Event::Final(_) | Event::Gone { .. } => return false,
    };
    let row = Row {
        event,
        process,
        capture,
        kind,
    };
    for ((.., put), column) in all().zip(&mut group.columns) {
        put(column, &row);
    }
    true
}

fn all() -> impl Iterator<Item = &'static Def> {
    [HEAD, PROGRAM, OUTCOME].into_iter().flatten()
}

impl<'a> Row<'a> {
    fn exec(&self) -> Option<&'a Exec> {
        match self.event {
            Event::Exec(e) => Some(e),
            _ => None,
        }
    }

    fn exit(&self) -> Option<&'a Exit> {
        match self.event {
            Event::Exit(e) => Some(e),
            _ => None,
        }
    }

    fn signal(&self) -> Option<&'a Signal> {
        match self.event {
            Event::Signal(e) => Some(e),
            _ => None,
        }
    }

    fn fork(&self) -> Option<&'a Fork> {
        match self.event {
            Event::Fork(e) => Some(e),
            _ => None,
        }
    }

    fn lost(&self) -> Option<&'a Lost> {
        match self.event {
            Event::Lost(e) => Some(e),
            _ => None,
        }
    }

    fn cpu(&self) -> Option<u32> {
        match self.event {
            Event::Fork(e) => e.cpu,
            Event::Exec(e) => e.cpu,
            Event::ExecFailed(e) => e.cpu,
            Event::Exit(e) => e.cpu,
            Event::Signal(e) => e.cpu,
            Event::Lost(e) => e.cpu,
            Event::Seed(_) | Event::Final(_) | Event::Gone { .. } => None,
        }
    }

    /// Whom it is about; of a fork the parent, of a signal the target.
    fn id(&self) -> Option<ProcId> {
        match self.event {
            Event::Fork(e) => Some(e.parent),
            Event::Exec(e) => Some(e.id),
            Event::ExecFailed(e) => Some(e.id),
            Event::Exit(e) => Some(e.id),
            Event::Signal(e) => Some(e.target),
            Event::Seed(e) => Some(e.id),
            Event::Lost(_) | Event::Final(_) | Event::Gone { .. } => None,
        }
    }

    fn tid(&self) -> Option<u32> {
        match self.event {
            Event::Fork(e) => Some(e.tid),
            Event::Exec(e) => Some(e.tid),
            Event::ExecFailed(e) => Some(e.tid),
            Event::Exit(e) => Some(e.tid),
            _ => None,
        }
    }

    fn comm(&self) -> Option<&'a [u8]> {
        let comm = match self.event {
            Event::Fork(e) => &e.comm,
            Event::Exec(e) => &e.comm,
            Event::ExecFailed(e) => &e.comm,
            Event::Exit(e) => &e.comm,
            Event::Seed(e) => &e.comm,
            _ => return None,
        };
        Some(comm.as_slice())
    }

    fn parent(&self) -> Option<ProcId> {
        match self.event {
            Event::Exec(e) => e.parent,
            Event::Exit(e) => e.parent,
            Event::Seed(e) => e.parent,
            _ => None,
        }
    }

    fn argv_field(&self) -> Option<&'a Field<Args>> {
        match self.event {
            Event::Exec(e) => Some(&e.argv),
            Event::ExecFailed(e) => Some(&e.argv),
            Event::Seed(e) => Some(&e.argv),
            _ => None,
        }
    }

    fn argv(&self) -> Option<&'a Args> {
        self.argv_field()?.value()
    }

    fn filename(&self) -> Option<&'a [u8]> {
        let field = match self.event {
            Event::Exec(e) => &e.filename,
            Event::ExecFailed(e) => &e.filename,
            _ => return None,
        };
        field.value().map(Bytes::as_slice)
    }

    fn exe(&self) -> Option<&'a [u8]> {
        let exe = match self.event {
            Event::Seed(e) => e.exe.value(),
            Event::Exit(_) => self.process?.exe.as_ref(),
            _ => None,
        };
        exe.map(Bytes::as_slice)
    }

    fn cwd(&self) -> Option<&'a [u8]> {
        self.exec()?.cwd.value().map(Bytes::as_slice)
    }

    fn cgroup(&self) -> Option<&'a [u8]> {
        let field = match self.event {
            Event::Exec(e) => &e.cgroup,
            Event::Exit(e) => &e.cgroup,
            Event::Seed(e) => &e.cgroup,
            _ => return None,
        };
        field.value().map(Bytes::as_slice)
    }

    fn uid(&self) -> Option<u32> {
        match self.event {
            Event::Exec(e) => e.uid,
            Event::Exit(e) => e.uid,
            Event::Seed(e) => e.uid,
            _ => None,
        }
    }

    fn gid(&self) -> Option<u32> {
        match self.event {
            Event::Exec(e) => e.gid,
            Event::Exit(e) => e.gid,
            _ => None,
        }
    }

    fn ns_pid(&self) -> Option<u32> {
        match self.event {
            Event::Exec(e) => e.ns_pid,
            Event::Exit(e) => e.ns_pid,
            _ => None,
        }
    }

    fn thread(&self) -> Option<bool> {
        match self.event {
            Event::Fork(e) => Some(e.thread),
            Event::Exit(e) => Some(e.thread),
            _ => None,
        }
    }

    fn kthread(&self) -> Option<bool> {
        match self.event {
            Event::Fork(e) => Some(e.kthread),
            Event::Exit(e) => Some(e.kthread),
            Event::Seed(e) => Some(e.kthread),
            _ => None,
        }
    }

    fn errno(&self) -> Option<i32> {
        match self.event {
            Event::ExecFailed(e) => Some(e.errno),
            _ => None,
        }
    }

    fn signal_number(&self) -> Option<i32> {
        match self.event {
            Event::Signal(e) => Some(e.signal),
            _ => self.exit()?.status?.signal,
        }
    }

    /// None for the OOM killer: who ran then is innocent.
    fn sender(&self) -> Option<&'a Signal> {
        self.signal().filter(|s| s.by != SignalBy::Oom)
    }

    fn sender_comm(&self) -> Option<&'a [u8]> {
        self.sender()?.sender_comm.as_ref().map(Comm::as_slice)
    }

    fn wall_ns(&self) -> Option<u64> {
        let exit = self.exit()?;
        let start = match exit.thread {
            true => exit.thread_start?,
            false => exit.id.start,
        };
        Some(exit.ts.saturating_sub(start))
    }
}

fn name(text: Option<&'static str>) -> Option<&'static [u8]> {
    text.map(str::as_bytes)
}

use Kind::{Blob, Blobs, Bool, Int, Long, Text, Texts, Time};

const HEAD: &[Def] = &[
    ("host", Text, |c, r| c.text(Some(&r.capture.host))),
    ("boot_id", Text, |c, r| c.text(Some(&r.capture.boot_id))),
    ("type", Text, |c, r| c.text(name(Some(r.kind)))),
    ("ts", Long, |c, r| c.long(Some(r.event.ts()))),
    ("time", Time, |c, r| c.time(Some(r.event.ts()), r.capture)),
    ("cpu", Int, |c, r| c.int(r.cpu())),
    ("pid", Int, |c, r| c.int(r.id().map(|i| i.pid))),
    ("start", Long, |c, r| c.long(r.id().map(|i| i.start))),
    ("start_precision", Text, |c, r| {
        c.text(name(r.id().map(|i| i.precision.name())));
    }),
    ("tid", Int, |c, r| c.int(r.tid())),
    ("comm", Text, |c, r| c.text(r.comm())),
    ("comm_bytes", Blob, |c, r| c.blob(r.comm())),
    ("ppid", Int, |c, r| c.int(r.parent().map(|i| i.pid))),
    ("parent_start", Long, |c, r| {
        c.long(r.parent().map(|i| i.start));
    }),
    ("orig_ppid", Int, |c, r| {
        c.int(r.exit().and_then(|e| e.orig_parent).map(|i| i.pid));
    }),
    ("orig_parent_start", Long, |c, r| {
        c.long(r.exit().and_then(|e| e.orig_parent).map(|i| i.start));
    }),
    ("child_pid", Int, |c, r| {
        c.int(r.fork().map(|e| e.child.pid))
    }),
    ("child_start", Long, |c, r| {
        c.long(r.fork().map(|e| e.child.start));
    }),
    ("child_tid", Int, |c, r| {
        c.int(r.fork().map(|e| e.child_tid))
    }),
    ("child_ns_pid", Int, |c, r| {
        c.int(r.fork().and_then(|e| e.child_ns_pid));
    }),
    ("thread", Bool, |c, r| c.bool(r.thread())),
    ("thread_start", Long, |c, r| {
        c.long(r.exit().filter(|e| e.thread).and_then(|e| e.thread_start));
    }),
    ("kthread", Bool, |c, r| c.bool(r.kthread())),
    ("ns_pid", Int, |c, r| c.int(r.ns_pid())),
];

const PROGRAM: &[Def] = &[
    ("exe", Text, |c, r| c.text(r.exe())),
    ("exe_bytes", Blob, |c, r| c.blob(r.exe())),
    ("filename", Text, |c, r| c.text(r.filename())),
    ("filename_bytes", Blob, |c, r| c.blob(r.filename())),
    ("argv", Texts, |c, r| c.texts(r.argv())),
    ("argv_bytes", Blobs, |c, r| c.blobs(r.argv())),
    ("argv_state", Text, |c, r| c.state(r.argv_field())),
    ("cwd", Text, |c, r| c.text(r.cwd())),
    ("cwd_bytes", Blob, |c, r| c.blob(r.cwd())),
    ("cgroup", Text, |c, r| c.text(r.cgroup())),
    ("cgroup_bytes", Blob, |c, r| c.blob(r.cgroup())),
    ("uid", Long, |c, r| c.long(r.uid())),
    ("euid", Long, |c, r| c.long(r.exec().and_then(|e| e.euid))),
    ("gid", Long, |c, r| c.long(r.gid())),
    ("egid", Long, |c, r| c.long(r.exec().and_then(|e| e.egid))),
    ("loginuid", Long, |c, r| {
        c.long(r.exec().and_then(|e| e.loginuid));
    }),
    ("sid", Int, |c, r| c.int(r.exec().and_then(|e| e.sid))),
    ("pgid", Int, |c, r| c.int(r.exec().and_then(|e| e.pgid))),
    ("tty", Text, |c, r| {
        let tty = r.exec().and_then(|e| e.tty.as_ref());
        c.text(tty.map(Bytes::as_slice));
    }),
    ("by_kernel", Bool, |c, r| {
        c.bool(r.exec().map(|e| e.by_kernel))
    }),
    ("old_tid", Int, |c, r| {
        c.int(r.exec().and_then(|e| e.old_tid))
    }),
    ("errno", Int, |c, r| c.int(r.errno())),
    ("errno_name", Text, |c, r| {
        c.text(name(r.errno().and_then(errno_name)));
    }),
];

const OUTCOME: &[Def] = &[
    ("exit_code", Int, |c, r| {
        c.int(r.exit().and_then(|e| e.status?.exit_code));
    }),
    ("signal", Int, |c, r| c.int(r.signal_number())),
    ("signal_name", Text, |c, r| {
        c.text(name(r.signal_number().and_then(signal_name)));
    }),
    ("core_dumped", Bool, |c, r| {
        c.bool(r.exit().and_then(|e| Some(e.status?.core_dumped)));
    }),
    ("by", Text, |c, r| {
        c.text(name(r.signal().map(|s| s.by.name())))
    }),
    ("sender_pid", Int, |c, r| {
        c.int(r.sender().and_then(|s| s.sender).map(|i| i.pid));
    }),
    ("sender_start", Long, |c, r| {
        c.long(r.sender().and_then(|s| s.sender).map(|i| i.start));
    }),
    ("sender_comm", Text, |c, r| c.text(r.sender_comm())),
    ("sender_comm_bytes", Blob, |c, r| c.blob(r.sender_comm())),
    ("wall_ns", Long, |c, r| c.long(r.wall_ns())),
    ("threads", Long, |c, r| {
        c.long(r.exit().and_then(|e| e.threads))
    }),
    ("cpu_ns", Long, |c, r| {
        c.long(r.exit().and_then(|e| e.usage.cpu_ns));
    }),
    ("max_rss_bytes", Long, |c, r| {
        c.long(r.exit().and_then(|e| e.usage.max_rss_bytes));
    }),
    ("lost_where", Text, |c, r| {
        c.text(name(r.lost().map(|e| e.place.name())));
    }),
    ("lost_kind", Text, |c, r| {
        c.text(name(r.lost().map(|e| e.kind.name())));
    }),
    ("lost_count", Long, |c, r| c.long(r.lost().map(|e| e.count))),
];
