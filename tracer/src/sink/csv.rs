//! CSV (RFC 4180): a header and one row for each process.
//!
//! An empty cell is not known. A text cell that a spreadsheet would run as a
//! formula gets a `'` in front, and so does one that begins with `'`: whoever
//! takes away one leading `'` has the text back.
//!
//! Where events were lost, a last row says how many: it has no pid, only `lost`.

use std::fmt::{Display, Write};
use std::io;

use super::Sink;
use super::escape::{command, escape};
use super::names::signal_name;
use super::output::Output;
use crate::model::{Args, Bytes, Comm, End, Exec, Field, Meta, ProcId, Process, Signal, SignalBy};

/// One cell, reused for all.
#[derive(Default)]
struct Cell(String);

impl Cell {
    fn value(&mut self, value: Option<impl Display>) {
        if let Some(value) = value {
            // Writing to a String does not fail.
            let _ = write!(self.0, "{value}");
        }
    }

    fn text(&mut self, bytes: Option<&[u8]>) {
        escape(&mut self.0, bytes.unwrap_or_default());
        self.neutralise();
    }

    fn field(&mut self, field: Option<&Field<Bytes>>) {
        self.text(field.and_then(Field::value).map(Bytes::as_slice));
    }

    fn args(&mut self, field: Option<&Field<Args>>) {
        if let Some(args) = field.and_then(Field::value) {
            command(&mut self.0, args.iter(), usize::MAX, false);
            self.neutralise();
        }
    }

    /// Spreadsheets run what begins like this; TAB and CR are escaped already.
    fn neutralise(&mut self) {
        if self
            .0
            .starts_with(['=', '+', '-', '@', '\'', '＝', '＋', '－', '＠'])
        {
            self.0.insert(0, '\'');
        }
    }
}

/// A column: its name, and what it shows of a process.
type Column = (&'static str, fn(&mut Cell, &Process));

fn exec(p: &Process) -> Option<&Exec> {
    p.exec.as_deref()
}

/// The killer, unless it was the kernel for want of memory: who ran then is innocent.
fn killer(p: &Process) -> Option<&Signal> {
    p.killed_by.as_deref().filter(|s| s.by != SignalBy::Oom)
}

fn precision(id: Option<ProcId>) -> Option<&'static str> {
    id.map(|id| id.precision.name())
}

macro_rules! usage_columns {
    ($($name:ident)*) => {
        [$((stringify!($name), |c, p| c.value(p.usage.$name)),)*]
    };
}

const IDENTITY: &[Column] = &[
    ("pid", |c, p| c.value(Some(p.id.pid))),
    ("start", |c, p| c.value(Some(p.id.start))),
    ("start_precision", |c, p| c.value(precision(Some(p.id)))),
    ("end", |c, p| c.value(p.end)),
    ("running", |c, p| c.value(Some(p.end.is_none()))),
    ("ppid", |c, p| c.value(p.parent.map(|i| i.pid))),
    ("parent_start", |c, p| c.value(p.parent.map(|i| i.start))),
    ("parent_start_precision", |c, p| {
        c.value(precision(p.parent))
    }),
    ("orig_ppid", |c, p| c.value(p.orig_parent.map(|i| i.pid))),
    ("orig_parent_start", |c, p| {
        c.value(p.orig_parent.map(|i| i.start))
    }),
    ("orig_parent_start_precision", |c, p| {
        c.value(precision(p.orig_parent))
    }),
    ("ns_pid", |c, p| {
        c.value(p.ns_pid.or_else(|| exec(p)?.ns_pid))
    }),
    ("kthread", |c, p| c.value(Some(p.kthread))),
    ("seeded", |c, p| c.value(Some(p.seeded))),
    ("fork_seen", |c, p| c.value(Some(p.fork_seen))),
    ("root", |c, p| c.value(Some(p.root))),
];

const PROGRAM: &[Column] = &[
    ("comm", |c, p| c.text(Some(p.comm.as_slice()))),
    ("exe", |c, p| c.text(p.exe.as_ref().map(Bytes::as_slice))),
    ("execs", |c, p| c.value(Some(p.execs))),
    ("exec_ts", |c, p| {
        c.value(exec(p).filter(|_| p.execs > 0).map(|e| e.ts))
    }),
    ("filename", |c, p| c.field(exec(p).map(|e| &e.filename))),
    ("argv", |c, p| c.args(exec(p).map(|e| &e.argv))),
    ("argv_state", |c, p| {
        c.value(Some(exec(p).map_or("missing", |e| e.argv.state())))
    }),
    ("env", |c, p| c.args(exec(p).and_then(|e| e.env.as_ref()))),
    ("env_state", |c, p| {
        c.value(exec(p).and_then(|e| e.env.as_ref()).map(Field::state))
    }),
    ("cwd", |c, p| c.field(exec(p).map(|e| &e.cwd))),
    ("uid", |c, p| c.value(p.uid.or_else(|| exec(p)?.uid))),
    ("euid", |c, p| c.value(exec(p).and_then(|e| e.euid))),
    ("gid", |c, p| c.value(p.gid.or_else(|| exec(p)?.gid))),
    ("egid", |c, p| c.value(exec(p).and_then(|e| e.egid))),
    ("loginuid", |c, p| c.value(exec(p).and_then(|e| e.loginuid))),
    ("sid", |c, p| c.value(exec(p).and_then(|e| e.sid))),
    ("pgid", |c, p| c.value(exec(p).and_then(|e| e.pgid))),
    ("tty", |c, p| {
        c.text(exec(p).and_then(|e| e.tty.as_ref()).map(Bytes::as_slice))
    }),
    ("cgroup", |c, p| c.field(p.cgroup.as_ref())),
    ("unit", |c, p| c.text(p.owner().unit)),
    ("user_unit", |c, p| c.text(p.owner().user_unit)),
    ("slice", |c, p| c.text(p.owner().slice)),
    ("container", |c, p| {
        c.text(p.owner().container.map(|c| c.id))
    }),
    ("container_runtime", |c, p| {
        c.value(p.owner().container.and_then(|c| c.runtime));
    }),
    ("pod", |c, p| c.text(p.owner().pod.as_deref())),
    ("by_kernel", |c, p| c.value(exec(p).map(|e| e.by_kernel))),
];

const OUTCOME: &[Column] = &[
    ("exit_code", |c, p| {
        c.value(p.status.and_then(|s| s.exit_code))
    }),
    ("signal", |c, p| c.value(p.status.and_then(|s| s.signal))),
    ("signal_name", |c, p| {
        c.value(p.status.and_then(|s| signal_name(s.signal?)))
    }),
    ("core_dumped", |c, p| {
        c.value(p.status.map(|s| s.core_dumped))
    }),
    ("killed_by", |c, p| {
        c.value(p.killed_by.as_deref().map(|s| s.by.name()))
    }),
    ("killed_by_pid", |c, p| {
        c.value(killer(p).and_then(|s| s.sender).map(|i| i.pid))
    }),
    ("killed_by_start", |c, p| {
        c.value(killer(p).and_then(|s| s.sender).map(|i| i.start))
    }),
    ("killed_by_comm", |c, p| {
        c.text(
            killer(p)
                .and_then(|s| s.sender_comm.as_ref())
                .map(Comm::as_slice),
        )
    }),
    ("wall_ns", |c, p| c.value(p.wall_ns())),
    ("threads", |c, p| c.value(p.threads)),
    ("usage_final", |c, p| c.value(Some(p.usage.is_final))),
];

const USAGE: [Column; 18] = usage_columns! {
    utime_ns stime_ns cpu_ns max_rss_bytes max_rss_upper_bytes minflt majflt nvcsw nivcsw inblock oublock
    read_bytes write_bytes cancelled_write_bytes rchar wchar run_delay_ns blkio_delay_ns
};

/// Bytes of the writer's own buffer: it has a new one for each row.
const CELLS: usize = 1024;

/// Column of the last row, which says how many events were lost.
const LOST: &str = "lost";

fn columns() -> impl Iterator<Item = &'static Column> {
    [IDENTITY, PROGRAM, OUTCOME, &USAGE].into_iter().flatten()
}

/// Writes a row when a process is complete.
pub struct Csv {
    out: Output,
    cell: Cell,
}

impl Csv {
    pub fn new(out: Output) -> Self {
        Self {
            out,
            cell: Cell::default(),
        }
    }

    /// Appends what `fill` writes. Nothing stays in a buffer of the writer's own: the
    /// output has to know how long it is.
    fn append(
        &mut self,
        fill: impl FnOnce(&mut csv::Writer<&mut Vec<u8>>, &mut Cell) -> csv::Result<()>,
    ) -> io::Result<()> {
        let mut filled = Ok(());
        self.out.append(|buf| {
            let mut csv = csv::WriterBuilder::new()
                .buffer_capacity(CELLS)
                .from_writer(buf);
            filled = fill(&mut csv, &mut self.cell).and_then(|()| Ok(csv.flush()?));
        })?;
        Ok(filled?)
    }

    fn lost_row(&mut self, end: &End) -> io::Result<()> {
        if end.lost == 0 {
            return Ok(());
        }
        let empty = columns().map(|_| String::new());
        self.append(|csv, _| csv.write_record(empty.chain([end.lost.to_string()])))
    }
}

impl Sink for Csv {
    fn begin(&mut self, _: &Meta) -> io::Result<()> {
        let names = columns().map(|(name, _)| *name);
        self.append(|csv, _| csv.write_record(names.chain([LOST])))
    }

    fn process(&mut self, p: &Process) -> io::Result<()> {
        self.append(|csv, cell| {
            for (_, fill) in columns() {
                cell.0.clear();
                fill(cell, p);
                csv.write_field(&cell.0)?;
            }
            csv.write_field("")?;
            csv.write_record(None::<&[u8]>)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        io::Write::flush(&mut self.out)
    }

    fn next_part(&mut self, end: &End, meta: &Meta) -> io::Result<()> {
        self.lost_row(end)?;
        self.out.next_part()?;
        self.begin(meta)
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        self.lost_row(end)?;
        self.out.finish()
    }

    fn backlog(&self) -> usize {
        self.out.backlog()
    }
}

#[cfg(test)]
mod tests;
