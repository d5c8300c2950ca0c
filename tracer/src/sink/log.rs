//! `-l`: a line for each event as it happens.

use std::fmt::Write;
use std::io;

use super::Sink;
use super::describe::{self, exec_command, outcome, remedy, sender};
use super::escape::{columns, command, escape, shorten};
use super::names::errno_name;
use super::output::Output;
use super::style::{Paint, Style};
use super::units::{Size, Time};
use crate::model::{
    Args, Bytes, End, Event, Exec, ExecFailed, Exit, Field, Fork, Meta, Process, Seed, Signal,
};

/// Longest command of a line, in bytes.
const COMMAND: usize = 4096;

/// How lines look, and from when they count.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    style: Style,
    /// Columns of the terminal; absent where it is none.
    width: Option<usize>,
    begin: u64,
    text: String,
}

impl Lines {
    pub fn new(style: Style, width: Option<usize>) -> Self {
        Self {
            style,
            width,
            begin: 0,
            text: String::new(),
        }
    }

    pub fn begin(&mut self, meta: &Meta) {
        self.begin = meta.boot_start_ns;
    }

    /// Appends the line of an event; nothing for those that only carry totals.
    pub fn event(&mut self, buf: &mut Vec<u8>, event: &Event) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let line = match event {
            Event::Fork(e) => Some(fork(&mut text, e)),
            Event::Exec(e) => Some(exec(&mut text, e)),
            Event::ExecFailed(e) => Some(exec_failed(&mut text, e)),
            Event::Exit(e) => Some(exit(&mut text, e)),
            Event::Signal(e) => Some(signal(&mut text, e)),
            Event::Seed(e) => Some(seed(&mut text, e)),
            Event::Lost(e) => {
                // Writing to a String does not fail, here and below.
                let _ = write!(
                    text,
                    "{} {} ({}): {}",
                    e.count,
                    e.kind.name(),
                    e.place.name(),
                    remedy(e.place)
                );
                Some((None, "LOST", Paint::Bad))
            }
            Event::Final(_) | Event::Gone { .. } => None,
        };
        if let Some((pid, what, paint)) = line {
            self.line(buf, event.ts(), pid, what, paint, &text);
        }
        self.text = text;
    }

    fn line(
        &self,
        buf: &mut Vec<u8>,
        ts: u64,
        pid: Option<u32>,
        what: &str,
        paint: Paint,
        text: &str,
    ) {
        let mut line = String::new();
        // A seed may be older than the capture.
        let us = ts.saturating_sub(self.begin) / 1_000;
        let _ = write!(line, "{:>5}.{:06} ", us / 1_000_000, us % 1_000_000);
        match pid {
            Some(pid) => drop(write!(line, "{pid:>7} ")),
            None => line.push_str("      - "),
        }
        let mut out = String::with_capacity(line.len() + text.len() + 32);
        self.style.paint(&mut out, Paint::Dim, &line);
        let what = format!("{what:<6} ");
        self.style.paint(&mut out, paint, &what);
        match self.width {
            Some(width) => shorten(
                &mut out,
                text,
                width
                    .saturating_sub(columns(&line) + columns(&what))
                    .max(16),
            ),
            None => out.push_str(text),
        }
        out.push('\n');
        buf.extend_from_slice(out.as_bytes());
    }
}

/// Whose line it is, what happened, and how that looks.
type Head = (Option<u32>, &'static str, Paint);

fn fork(text: &mut String, e: &Fork) -> Head {
    describe::comm(text, e.comm);
    let _ = match e.thread {
        true => write!(text, " → thread {}", e.child_tid),
        false => write!(text, " → {}", e.child.pid),
    };
    (
        Some(e.parent.pid),
        if e.thread { "thread" } else { "fork" },
        Paint::Dim,
    )
}

fn exec(text: &mut String, e: &Exec) -> Head {
    exec_command(text, e, COMMAND);
    let file = e.filename.value().map(Bytes::as_slice);
    let first = e.argv.value().and_then(|a| a.iter().next());
    if let (Some(file), Some(first)) = (file, first)
        && file != first
    {
        text.push_str("  (");
        escape(text, file);
        text.push(')');
    }
    if e.by_kernel {
        text.push_str("  (started by the kernel)");
    }
    (Some(e.id.pid), "exec", Paint::Strong)
}

/// A command where there is one, else the file's name.
fn argv_or_file(text: &mut String, argv: &Field<Args>, file: &Field<Bytes>) {
    match argv.value().filter(|a| a.iter().next().is_some()) {
        Some(args) => command(
            text,
            args.iter(),
            COMMAND,
            matches!(argv, Field::Truncated(_)),
        ),
        None => escape(text, file.value().map(Bytes::as_slice).unwrap_or(b"-")),
    }
}

fn exec_failed(text: &mut String, e: &ExecFailed) -> Head {
    match errno_name(e.errno) {
        Some(name) => text.push_str(name),
        None => drop(write!(text, "errno {}", e.errno)),
    }
    text.push_str("  ");
    escape(
        text,
        e.filename.value().map(Bytes::as_slice).unwrap_or(b"-"),
    );
    if e.argv.value().is_some() {
        text.push_str("  (");
        argv_or_file(text, &e.argv, &e.filename);
        text.push(')');
    }
    (Some(e.id.pid), "failed", Paint::Note)
}

fn exit(text: &mut String, e: &Exit) -> Head {
    describe::comm(text, e.comm);
    if e.thread {
        let _ = write!(text, " thread {}", e.tid);
    } else if let Some(status) = e.status {
        let how = outcome(status);
        text.push_str("  ");
        text.push_str(if how.is_empty() { "exit 0" } else { &how });
    }
    let started = if e.thread {
        e.thread_start
    } else {
        Some(e.id.start)
    };
    if let Some(start) = started {
        let _ = write!(text, "  {}", Time(e.ts.saturating_sub(start)));
    }
    if let Some(cpu) = e.usage.cpu_ns {
        let _ = write!(text, "  cpu {}", Time(cpu));
    }
    if let Some(rss) = e.usage.max_rss_bytes {
        let _ = write!(text, "  max-rss {}", Size(rss));
    }
    if let Some(threads) = e.threads.filter(|t| *t > 1 && !e.thread) {
        let _ = write!(text, "  {threads} threads");
    }
    let bad = !e.thread && e.status.is_some_and(|s| !s.is_success());
    (
        Some(e.id.pid),
        "exit",
        if bad { Paint::Bad } else { Paint::Plain },
    )
}

fn signal(text: &mut String, e: &Signal) -> Head {
    text.push_str(&describe::signal(e.signal));
    let by = sender(e);
    text.push(' ');
    text.push_str(if by.is_empty() { "by the kernel" } else { &by });
    (Some(e.target.pid), "signal", Paint::Note)
}

fn seed(text: &mut String, e: &Seed) -> Head {
    if e.argv.value().is_none() && e.exe.value().is_none() {
        describe::comm(text, e.comm);
    } else {
        argv_or_file(text, &e.argv, &e.exe);
    }
    (Some(e.id.pid), "runs", Paint::Dim)
}

/// Writes the lines.
pub struct Log {
    lines: Lines,
    out: Output,
}

impl Log {
    pub fn new(out: Output, style: Style, width: Option<usize>) -> Self {
        Self {
            lines: Lines::new(style, width),
            out,
        }
    }
}

impl Sink for Log {
    fn begin(&mut self, meta: &Meta) -> io::Result<()> {
        self.lines.begin(meta);
        Ok(())
    }

    fn event(&mut self, event: &Event, _: Option<&Process>) -> io::Result<()> {
        self.out.append(|buf| self.lines.event(buf, event))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::Write::flush(&mut self.out)
    }

    fn next_part(&mut self, _: &End, _: &Meta) -> io::Result<()> {
        self.out.next_part()
    }

    fn end(&mut self, _: &End) -> io::Result<()> {
        self.out.finish()
    }

    fn backlog(&self) -> usize {
        self.out.backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{every_event, meta};
    use super::*;

    fn log(style: Style, width: Option<usize>) -> String {
        let mut lines = Lines::new(style, width);
        lines.begin(&meta());
        let mut buf = Vec::new();
        for e in every_event() {
            lines.event(&mut buf, &e);
        }
        String::from_utf8(buf).expect("UTF-8")
    }

    #[test]
    fn every_event_has_its_line() {
        let expected = [
            "    0.001000     100 fork   sh → 101",
            "    0.001000     100 thread sh → thread 101",
            "    0.002000     101 exec   /bin/ls -l",
            "    0.002000     101 exec   a)\\x1b[2J\\xff\\n\"\\\\xe2\\x80\\xae  (started by the kernel)",
            "    0.002000     101 exec   $'a)\\x1b[2J\\xff\\n\"\\\\\\xe2\\x80\\xae' '' plain…",
            "    0.001000     101 failed ENOENT  /x  (x ''…)",
            "    0.005000     101 signal SIGKILL by 98 sh",
            "    0.005000     101 signal SIGKILL by the OOM killer",
            "    0.005000     101 signal SIGRTMIN+2 by the kernel",
            "    0.000000      50 runs   sshd",
            "    0.011000     101 exit   ls  exit 0  10.0ms  cpu 5.1ms  max-rss 61M",
            "    0.011000     101 exit   ls  SIGSEGV (core dumped)  10.0ms  cpu 5.1ms  max-rss 61M",
            "    0.011000     101 exit   ls thread 102  9.0ms  cpu 5.1ms  max-rss 61M",
            "    0.011000     101 exit   ls  10.0ms",
            "    0.001000       - LOST   12 fork (ring): a larger --ring-size helps",
            "    0.001000       - LOST   1 any (table): too many processes at once: narrow the trace with a filter",
        ];
        let text = log(Style::default(), None);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn colours_and_width_only_where_wanted() {
        assert!(log(Style { color: true }, None).contains("\x1b[1;31mLOST   \x1b[0m"));
        assert!(
            log(Style::default(), Some(60))
                .lines()
                .all(|l| columns(l) <= 60)
        );
    }
}
