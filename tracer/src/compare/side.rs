//! One of the two: its records, and who they are about.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::kind::Kind;
use crate::decode::jsonl::{self, Head, LineError};
use crate::model::ProcId;

/// A record, as a line of [`Side::text`].
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub kind: Kind,
    pub ts: u64,
    /// Index of the process in [`Side::lives`].
    pub life: u32,
    /// What tells records of one kind and process apart: a thread, a signal.
    pub sub: u32,
    /// The thread that it happened to; 0 where that is not known.
    pub tid: u32,
    /// Of a fork: the parent, in [`Side::lives`].
    pub parent: Option<u32>,
    /// Number of the line in the file, from 1.
    pub line: u32,
    at: usize,
    len: u32,
}

/// A process as this side knows it.
#[derive(Clone, Debug)]
pub struct Life {
    pub id: ProcId,
    /// Times of its first and last record.
    pub first: u64,
    pub last: u64,
    pub kthread: bool,
    /// A record is about it; else it is only named as somebody's parent.
    pub own: bool,
}

/// Number of records that are missing, by what `lost` calls them.
pub type Losses = BTreeMap<String, u64>;

/// Everything of one side. All text is JSONL, whatever the file held.
#[derive(Debug, Default)]
pub struct Side {
    pub name: String,
    pub backend: String,
    pub text: Vec<u8>,
    /// In order of time.
    pub entries: Vec<Entry>,
    pub lives: Vec<Life>,
    ids: FxHashMap<ProcId, u32>,
    pub meta: Option<Map<String, Value>>,
    pub root: Option<ProcId>,
    /// From the first to the last moment that was watched.
    pub span: (u64, u64),
    pub lost: Losses,
    /// Its end is missing.
    pub cut: bool,
    /// What must be known when reading the result.
    pub notes: Vec<String>,
    /// It was no capture of ours but saved text.
    pub saved_text: bool,
    /// Its times are integers: ns, or whatever its clock counts.
    pub integers: bool,
    /// Line numbers are of no use: it was never a file.
    pub in_memory: bool,
}

/// A file that cannot be taken for a capture.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct NotACapture {
    pub line: usize,
    pub what: LineError,
}

impl Side {
    /// Reads the lines of `text`.
    ///
    /// # Errors
    /// One of them is none of ours. A last line without an end is no error: the
    /// capture was cut.
    pub fn from_jsonl(name: String, text: Vec<u8>, cut: bool) -> Result<Self, NotACapture> {
        let mut side = Self {
            name,
            cut,
            ..Self::default()
        };
        let mut at = 0;
        let mut number = 0;
        let mut ended = false;
        for line in text.split_inclusive(|b| *b == b'\n') {
            number += 1;
            let complete = line.strip_suffix(b"\n");
            if !line.trim_ascii().is_empty() {
                match side.line(complete.unwrap_or(line), at, number) {
                    Ok(kind) => ended |= kind == Some(Kind::End),
                    Err(_) if number > 1 && complete.is_none() => side.cut = true,
                    Err(what) => return Err(NotACapture { line: number, what }),
                }
            }
            at += line.len();
        }
        side.cut |= !ended;
        side.text = text;
        side.close();
        Ok(side)
    }

    fn line(&mut self, line: &[u8], at: usize, number: usize) -> Result<Option<Kind>, LineError> {
        let head = Head::parse(line)?;
        let Some(kind) = kind(&head) else {
            return Ok(None);
        };
        let ts = match kind {
            Kind::Meta => {
                let meta = jsonl::object(line)?;
                let text = |key| meta.get(key).and_then(Value::as_str).unwrap_or_default();
                self.backend = text("backend").to_owned();
                self.root =
                    jsonl::member_id(&meta, ["root_pid", "root_start", "root_start_precision"]);
                let begin = meta.get("boot_start").and_then(Value::as_u64);
                self.span.0 = begin.unwrap_or_default();
                self.meta = Some(meta);
                self.span.0
            }
            // Its end may be null: it still ran.
            Kind::Process => head.end.unwrap_or(u64::MAX),
            _ => head.need(head.ts, "ts")?,
        };
        let (id, sub) = match kind {
            Kind::Meta | Kind::End => (None, 0),
            Kind::Lost => {
                let kind = head.lost_kind.as_deref().unwrap_or("any");
                let count = self.lost.entry(kind.to_owned()).or_default();
                *count = count.saturating_add(head.count.unwrap_or(1));
                (None, head.cpu.unwrap_or(u32::MAX))
            }
            Kind::Fork | Kind::Thread => {
                let child = head.need(head.child(), "child_pid and child_start")?;
                let thread = kind == Kind::Thread;
                (
                    Some(child),
                    if thread {
                        head.need(head.child_tid, "child_tid")?
                    } else {
                        0
                    },
                )
            }
            Kind::ThreadExit | Kind::ExecFailed => {
                let sub = head.need(head.tid, "tid")?;
                (Some(head.need(head.id(), "pid and start")?), sub)
            }
            Kind::Signal => {
                let sub = head.need(head.signal, "signal")?;
                (Some(head.need(head.id(), "pid and start")?), sub)
            }
            Kind::Seed | Kind::Exec | Kind::Exit | Kind::Process => {
                (Some(head.need(head.id(), "pid and start")?), 0)
            }
        };
        let life = id.map_or(u32::MAX, |id| {
            let known = (ts != u64::MAX).then_some(ts);
            self.live(id, known, head.kthread.unwrap_or(false), true)
        });
        let parent = head.id().filter(|_| kind == Kind::Fork);
        let parent = parent.map(|id| self.live(id, Some(ts), false, false));
        self.entries.push(Entry {
            kind,
            ts,
            life,
            sub,
            tid: head.tid.unwrap_or(0),
            parent,
            line: u32::try_from(number).unwrap_or(u32::MAX),
            at,
            len: u32::try_from(line.len()).unwrap_or(u32::MAX),
        });
        Ok(Some(kind))
    }

    fn live(&mut self, id: ProcId, ts: Option<u64>, kthread: bool, own: bool) -> u32 {
        let next = u32::try_from(self.lives.len()).unwrap_or(u32::MAX);
        let index = *self.ids.entry(id).or_insert(next);
        if index == next {
            self.lives.push(Life {
                id,
                first: ts.unwrap_or(id.start),
                last: ts.unwrap_or(id.start),
                kthread: false,
                own: false,
            });
        }
        if let Some(life) = self.lives.get_mut(index as usize) {
            if let Some(ts) = ts {
                life.first = life.first.min(ts);
                life.last = life.last.max(ts);
            }
            life.kthread |= kthread;
            life.own |= own;
        }
        index
    }

    /// Puts things in order once all is read.
    fn close(&mut self) {
        self.entries.sort_by_key(|e| (e.ts, e.kind, e.line));
        let known = |e: &&Entry| e.ts != u64::MAX;
        let first = self.entries.iter().find(known).map_or(0, |e| e.ts);
        let last = self.entries.iter().rev().find(known).map_or(0, |e| e.ts);
        if self.meta.is_none() {
            self.span.0 = first;
        }
        self.span.1 = last.max(self.span.0);
    }

    /// Moves all of its times, for a clock that runs beside ours.
    pub fn shift(&mut self, by: i64) {
        let moved = |t: u64| match t {
            u64::MAX => t,
            t => t.saturating_add_signed(by),
        };
        for entry in &mut self.entries {
            entry.ts = moved(entry.ts);
        }
        for life in &mut self.lives {
            life.first = moved(life.first);
            life.last = moved(life.last);
            life.id.start = moved(life.id.start);
        }
        self.span = (moved(self.span.0), moved(self.span.1));
    }

    /// The record's line.
    pub fn line_of(&self, entry: &Entry) -> &[u8] {
        let end = entry.at.saturating_add(entry.len as usize);
        self.text.get(entry.at..end).unwrap_or_default()
    }

    /// Every member of the record.
    pub fn object(&self, entry: &Entry) -> Map<String, Value> {
        // It was parsed before, so it is an object.
        jsonl::object(self.line_of(entry)).unwrap_or_default()
    }

    /// The process with this identity, as it stands in the lines.
    pub fn find(&self, id: &ProcId) -> Option<u32> {
        self.ids.get(id).copied()
    }
}

fn kind(head: &Head<'_>) -> Option<Kind> {
    Some(match &*head.kind {
        "meta" => Kind::Meta,
        "fork" if head.thread == Some(true) => Kind::Thread,
        "fork" => Kind::Fork,
        "exec" => Kind::Exec,
        "exec_failed" => Kind::ExecFailed,
        "signal" => Kind::Signal,
        "seed" => Kind::Seed,
        "exit" if head.process == Some(false) => Kind::ThreadExit,
        "exit" => Kind::Exit,
        "process" => Kind::Process,
        "lost" => Kind::Lost,
        "end" => Kind::End,
        // Of a later version.
        _ => return None,
    })
}
