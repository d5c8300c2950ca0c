//! `-ff`: with `-o FILE`, one file a process, `FILE.PID`, that holds what
//! concerns it; FILE itself holds the frame of the capture and its losses.
//!
//! A pid that is used again within the capture gets `FILE.PID.2`, `FILE.PID.3`,
//! so that two processes never mix. No file stays open: lines are collected for
//! each process and appended when it ends, when the source pauses, or when they
//! become too many, so that a short process costs one open and one write.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::Sink;
use super::jsonl;
use super::log::Lines;
use super::output::{Output, open_private};
use super::style::Style;
use crate::model::{End, Event, Meta, ProcId, Process, SignalBy};

/// Bytes that may wait for all processes together.
const WAITING: usize = 4 << 20;

/// Files are written with this sink's own calls, not by a thread: they are
/// regular ones that no reader can hold up.
pub struct PerProcess {
    base: PathBuf,
    /// FILE itself.
    out: Output,
    /// Log lines where it is not JSONL.
    log: Option<Lines>,
    /// First line of each JSONL file, so that each can be read alone.
    header: Vec<u8>,
    /// The last owner of each pid, and how many owners it had.
    owners: FxHashMap<u32, (ProcId, u32)>,
    waiting: FxHashMap<ProcId, Waiting>,
    waiting_bytes: usize,
}

/// Lines of a process that are not in its file yet.
struct Waiting {
    /// How many processes had this pid, itself included.
    nth: u32,
    /// Its file was begun by this capture.
    begun: bool,
    lines: Vec<u8>,
}

impl Waiting {
    fn write(&mut self, base: &Path, header: &[u8], pid: u32) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let mut file = open_private(&path(base, pid, self.nth), !self.begun, false)
            .map_err(io::Error::other)?;
        if !self.begun {
            file.write_all(header)?;
        }
        self.begun = true;
        file.write_all(&self.lines)?;
        self.lines.clear();
        Ok(())
    }
}

fn path(base: &Path, pid: u32, nth: u32) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(format!(".{pid}"));
    if nth > 1 {
        name.push(format!(".{nth}"));
    }
    name.into()
}

impl PerProcess {
    /// `out` writes to `base`.
    pub fn new(base: &Path, jsonl: bool, out: Output) -> Self {
        Self {
            base: base.into(),
            out,
            log: (!jsonl).then(|| Lines::new(Style::default(), None)),
            header: Vec::new(),
            owners: FxHashMap::default(),
            waiting: FxHashMap::default(),
            waiting_bytes: 0,
        }
    }

    fn append(&mut self, id: ProcId, lines: &[u8]) -> io::Result<()> {
        let owners = &mut self.owners;
        let waiting = self.waiting.entry(id).or_insert_with(|| {
            let (owner, nth) = owners.entry(id.pid).or_insert((id, 0));
            // Complete already, and heard of again: the same file goes on.
            let begun = *owner == id && *nth > 0;
            if !begun {
                (*owner, *nth) = (id, nth.saturating_add(1));
            }
            Waiting {
                nth: *nth,
                begun,
                lines: Vec::new(),
            }
        });
        waiting.lines.extend_from_slice(lines);
        self.waiting_bytes += lines.len();
        if self.waiting_bytes > WAITING {
            self.write_all()
        } else {
            Ok(())
        }
    }

    fn write_all(&mut self) -> io::Result<()> {
        self.waiting_bytes = 0;
        for (id, waiting) in &mut self.waiting {
            waiting.write(&self.base, &self.header, id.pid)?;
        }
        Ok(())
    }
}

impl Sink for PerProcess {
    fn begin(&mut self, meta: &Meta) -> io::Result<()> {
        match &mut self.log {
            Some(lines) => lines.begin(meta),
            None => jsonl::meta(&mut self.header, meta),
        }
        self.out.write_all(&self.header)
    }

    fn event(&mut self, event: &Event, process: Option<&Process>) -> io::Result<()> {
        let mut line = Vec::new();
        match &mut self.log {
            Some(lines) => lines.event(&mut line, event),
            None => jsonl::event(&mut line, event, process),
        }
        let id = match event {
            Event::Fork(e) => {
                if !e.thread {
                    self.append(e.child, &line)?;
                }
                e.parent
            }
            Event::Exec(e) => e.id,
            Event::ExecFailed(e) => e.id,
            Event::Exit(e) => e.id,
            Event::Signal(e) => {
                // A sender that is not traced gets no file; whoever ran when memory ended is none.
                let known = |s: &ProcId| *s != e.target && self.waiting.contains_key(s);
                if e.by != SignalBy::Oom
                    && let Some(sender) = e.sender.filter(known)
                {
                    self.append(sender, &line)?;
                }
                e.target
            }
            Event::Seed(e) => e.id,
            Event::Lost(_) => return self.out.write_all(&line),
            Event::Final(_) | Event::Gone { .. } => return Ok(()),
        };
        self.append(id, &line)
    }

    fn process(&mut self, p: &Process) -> io::Result<()> {
        if self.log.is_none() {
            let mut line = Vec::new();
            jsonl::process(&mut line, p);
            self.append(p.id, &line)?;
        }
        match self.waiting.remove(&p.id) {
            Some(mut waiting) => {
                self.waiting_bytes = self.waiting_bytes.saturating_sub(waiting.lines.len());
                waiting.write(&self.base, &self.header, p.id.pid)
            }
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_all()?;
        self.out.flush()
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        self.write_all()?;
        if self.log.is_none() {
            self.out.append(|buf| jsonl::end(buf, end))?;
        }
        self.out.finish()
    }

    fn backlog(&self) -> usize {
        self.out.backlog()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::Value;

    use super::*;
    use crate::model::{Exit, LossKind, LossPlace};
    use crate::sink::output::Destination;
    use crate::sink::samples::{end, exec, exit, fork, lost, meta, pid, process};

    fn types(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let kind = |l: &str| {
            serde_json::from_str::<Value>(l).expect("JSON")["type"]
                .as_str()
                .expect("type")
                .to_owned()
        };
        text.lines().map(kind).collect()
    }

    fn sink(base: &Path, jsonl: bool) -> PerProcess {
        let out = Output::open(&Destination::File(base.into()), false).expect("open");
        let mut sink = PerProcess::new(base, jsonl, out);
        sink.begin(&meta()).expect("begin");
        sink
    }

    /// One process forks another, which lives, ends and leaves its pid to a third.
    fn run(sink: &mut PerProcess, flush: bool) {
        let (root, first, second) = (pid(100, 0), pid(101, 1), pid(101, 50));
        for child in [first, second] {
            let events = [
                Event::Fork(fork(root, child)),
                Event::Exec(exec(child, &["ls"]).into()),
                Event::Exit(exit(child).into()),
                Event::Exit(
                    Exit {
                        thread: true,
                        tid: 7,
                        ..exit(child)
                    }
                    .into(),
                ),
            ];
            for e in &events {
                sink.event(e, None).expect("event");
                if flush {
                    sink.flush().expect("flush");
                }
            }
        }
        sink.event(&Event::Lost(lost(LossPlace::Ring, LossKind::Any, 1)), None)
            .expect("lost");
        for id in [first, second] {
            sink.process(&process(id, Some(root), &["ls"], 10))
                .expect("process");
        }
        sink.event(&Event::Exit(exit(second).into()), None)
            .expect("late");
        sink.process(&Process {
            end: None,
            ..process(root, None, &["sh"], 0)
        })
        .expect("process");
        sink.end(&end()).expect("end");
    }

    #[test]
    fn each_process_has_its_file_and_pids_do_not_mix() {
        for flush in [false, true] {
            let dir = tempfile::tempdir().expect("tempdir");
            let base = dir.path().join("t.jsonl");
            std::fs::write(dir.path().join("t.jsonl.101"), "of an earlier run\n").expect("write");
            run(&mut sink(&base, true), flush);
            assert_eq!(types(&base), ["meta", "lost", "end"]);
            let own = ["meta", "fork", "exec", "exit", "exit", "process"];
            assert_eq!(types(&dir.path().join("t.jsonl.101")), own);
            assert_eq!(
                types(&dir.path().join("t.jsonl.101.2")),
                [&own[..], &["exit"]].concat()
            );
            assert_eq!(
                types(&dir.path().join("t.jsonl.100")),
                ["meta", "fork", "fork", "process"]
            );
            for entry in dir.path().read_dir().expect("list") {
                let mode = entry
                    .expect("entry")
                    .metadata()
                    .expect("metadata")
                    .permissions()
                    .mode();
                assert_eq!(mode & 0o7777, 0o600);
            }
            assert_eq!(dir.path().read_dir().expect("list").count(), 4);
        }
    }

    #[test]
    fn log_lines_too() {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = dir.path().join("t.log");
        run(&mut sink(&base, false), false);
        let text = std::fs::read_to_string(dir.path().join("t.log.101")).expect("read");
        assert_eq!(text.lines().count(), 4);
        assert!(
            text.lines()
                .nth(1)
                .expect("exec")
                .ends_with("101 exec   ls"),
            "{text}"
        );
        assert!(
            std::fs::read_to_string(base)
                .expect("read")
                .contains("LOST")
        );
    }

    #[test]
    fn links_of_others_are_not_followed() {
        let dir = tempfile::tempdir().expect("tempdir");
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "precious").expect("write");
        std::os::unix::fs::symlink(&victim, dir.path().join("t.log.101")).expect("link");
        let mut sink = sink(&dir.path().join("t.log"), false);
        let id = pid(101, 1);
        sink.event(&Event::Exec(exec(id, &["ls"]).into()), None)
            .expect("waits");
        let error = sink.flush().expect_err("a link").to_string();
        assert!(
            error.contains("t.log.101") && error.contains("symbolic link"),
            "{error}"
        );
        assert_eq!(std::fs::read(victim).expect("read"), b"precious");
    }

    #[test]
    fn what_waits_is_bounded() {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = dir.path().join("t.jsonl");
        let mut sink = sink(&base, true);
        let long = "x".repeat(WAITING / 4);
        for i in 0..8 {
            sink.event(&Event::Exec(exec(pid(i, 0), &["ls", &long]).into()), None)
                .expect("event");
            assert!(sink.waiting.values().map(|w| w.lines.len()).sum::<usize>() <= WAITING);
        }
        sink.end(&end()).expect("end");
        assert_eq!(types(&dir.path().join("t.jsonl.0")), ["meta", "exec"]);
        assert_eq!(types(&dir.path().join("t.jsonl.7")), ["meta", "exec"]);
    }
}
