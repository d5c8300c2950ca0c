//! Records out of text, and what is done about forged ones.
//!
//! # Forged lines
//! A file name may hold newlines and, between them, lines that look like
//! records. Each record is therefore read from its own beginning to its own end:
//! `comm`s are at most 15 bytes, too few for a line, and an exec's file name ends
//! at a line that closes with the caller's own number (` pid=N old_pid=M`, where
//! `N` is in the head of the record too). Of several such lines within the
//! longest possible name the last wins, if it is no record by itself: only a
//! record that began earlier can own it. Lines inside of a name are
//! never records; that they look like some is reported as [`Item::Forged`].
//!
//! What remains: a process can make its file name end in a line that is a whole
//! exec record of that very process, right in number, time and CPU. No reader of
//! text can tell that from two execs, except by counting: [`Text::surplus`]
//! says how many more records there are than the kernel said in the file's header,
//! and a live reader compares [`Text::records`] with the buffer's statistics.

use super::body;
use super::head::{Head, head};
use super::record::{Body, Record};

/// Something found in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    Record(Record<&'a [u8]>),
    /// Records were overwritten before they were read; the number where it is known.
    Lost {
        cpu: Option<u32>,
        count: Option<u64>,
    },
    /// The header's count: records that follow, and records ever written.
    Entries {
        kept: u64,
        written: u64,
    },
    /// A name given by thread `tid` holds this many lines that look like records.
    Forged {
        tid: u32,
        ts: u64,
        lines: u64,
    },
    /// A record that is cut, or whose own numbers disagree; it and the text that
    /// may belong to it are left out.
    Unreadable {
        tid: u32,
        ts: u64,
    },
    /// A record of another event, a comment, a line of anything.
    Other,
}

/// The longest path, with room for the numbers behind it.
const EXEC_MAX: usize = 4096 + 64;
/// The longest text of the other events: two names, numbers, words.
const SHORT_MAX: usize = 192;
/// As much must be there before a record's end is certain: its head, its text.
const LOOK_AHEAD: usize = EXEC_MAX + 512;

/// A line that is no record but ends as an exec does.
struct Tail {
    end: usize,
    pid: u32,
}

/// Reads a trace piece by piece. Time is linear in the length of the text:
/// each record looks a bounded way ahead.
#[derive(Default)]
pub struct Text {
    buffer: Vec<u8>,
    at: usize,
    /// Lines before this one have been looked at for [`Tail`]s.
    scanned: usize,
    tails: std::collections::VecDeque<Tail>,
    /// What is to be reported before the next record.
    forged: Option<Item<'static>>,
    records: u64,
    kept: Option<u64>,
    integer_clock: bool,
}

impl Text {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text.
    pub fn push(&mut self, text: &[u8]) {
        // What has been read is dropped, but not so often that moving the rest
        // would cost more than reading it.
        let at = self.at;
        if at > self.buffer.len() / 2 {
            self.buffer.drain(..at);
            self.scanned = self.scanned.saturating_sub(at);
            self.tails.retain(|t| t.end > at);
            for tail in &mut self.tails {
                tail.end -= at;
            }
            self.at = 0;
        }
        self.buffer.extend_from_slice(text);
    }

    /// Records read so far, those of other events included.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Records beyond what the header announced: lines that no record is behind.
    pub fn surplus(&self) -> u64 {
        self.kept
            .map_or(0, |kept| self.records.saturating_sub(kept))
    }

    /// Time stamps are not ns, but what a counter says.
    pub const fn integer_clock(&self) -> bool {
        self.integer_clock
    }

    /// The next item. `complete`: nothing follows what was pushed, for now, and
    /// it ends at a record's end, as everything does that the kernel gives out.
    pub fn next(&mut self, complete: bool) -> Option<Item<'_>> {
        if let Some(forged) = self.forged.take() {
            return Some(forged);
        }
        let left = self.buffer.len() - self.at;
        if left == 0 || (left < LOOK_AHEAD && !complete) {
            return None;
        }
        let at = self.at;
        let Some(head) = head(self.buffer.get(at..)?) else {
            let end = self.line_end(at);
            self.at = (end + 1).min(self.buffer.len());
            let item = plain(self.buffer.get(at..end)?);
            if let Item::Entries { kept, .. } = item {
                self.kept = Some(kept);
            }
            return Some(item);
        };
        let (tid, ts, cpu) = (head.tid, head.ts, head.cpu);
        let from = at + head.body;
        let integer_clock = head.integer_clock;
        let kind = Kind::of(&head);
        self.integer_clock |= integer_clock;
        self.records += 1;
        let Some(kind) = kind else {
            self.at = (self.line_end(from) + 1).min(self.buffer.len());
            return Some(Item::Other);
        };
        let Some(end) = self.end(kind, from, tid) else {
            // Whatever might belong to it goes with it.
            self.at = match kind {
                Kind::Exec => self.last_line_end(from, from + EXEC_MAX),
                _ => self.line_end(from),
            };
            self.at = (self.at + 1).min(self.buffer.len());
            return Some(Item::Unreadable { tid, ts });
        };
        self.at = (end + 1).min(self.buffer.len());
        let text = self.buffer.get(from..end)?;
        let lines = looks_like_records(text);
        if lines > 0 {
            self.forged = Some(Item::Forged { tid, ts, lines });
        }
        let body = kind.body(text, tid)?;
        Some(Item::Record(Record { ts, cpu, tid, body }))
    }

    /// Where the line ends that `from` is in: its newline, or the end of the text.
    fn line_end(&self, from: usize) -> usize {
        let rest = self.buffer.get(from..).unwrap_or_default();
        memchr::memchr(b'\n', rest).map_or(self.buffer.len(), |n| from + n)
    }

    /// The last end of a line in a range; the first one where that has none.
    fn last_line_end(&self, from: usize, to: usize) -> usize {
        let range = self.buffer.get(from..to.min(self.buffer.len()));
        memchr::memrchr(b'\n', range.unwrap_or_default())
            .map_or_else(|| self.line_end(from), |n| from + n)
    }

    /// Where the record ends whose text begins at `from`.
    fn end(&mut self, kind: Kind, from: usize, tid: u32) -> Option<usize> {
        let longest = match kind {
            Kind::Exec => EXEC_MAX,
            _ => SHORT_MAX,
        };
        let to = (from + longest).min(self.buffer.len());
        let mut line = from;
        let own = loop {
            let end = self.line_end(line);
            if end > to {
                return None;
            }
            if kind.body(self.buffer.get(from..end)?, tid).is_some() {
                break end;
            }
            line = end + 1;
            if line >= to {
                return None;
            }
        };
        if !matches!(kind, Kind::Exec) {
            return Some(own);
        }
        self.scan(own + 1, to);
        let tails = &self.tails;
        let last = tails
            .iter()
            .rev()
            .find(|t| t.pid == tid && t.end > own && t.end <= to);
        Some(last.map_or(own, |t| t.end))
    }

    /// Looks for [`Tail`]s in the lines from `from` on that begin before `to`.
    fn scan(&mut self, from: usize, to: usize) {
        while self.tails.pop_front_if(|t| t.end < from).is_some() {}
        let mut at = self.scanned.max(from);
        while at < to {
            let line = self.buffer.get(at..).unwrap_or_default();
            let found = head(line);
            // A name with a newline can be in the head itself.
            let end = self.line_end(at + found.as_ref().map_or(0, |h| h.body));
            if found.is_none()
                && let Some(text) = self.buffer.get(at..end)
                && let Some((_, pid, _)) = body::exec_numbers(text)
            {
                self.tails.push_back(Tail { end, pid });
            }
            at = end + 1;
        }
        self.scanned = at;
    }
}

#[derive(Clone, Copy)]
enum Kind {
    NewTask,
    Fork,
    Exec,
    Exit,
}

impl Kind {
    fn of(head: &Head<'_>) -> Option<Self> {
        Some(match head.event {
            b"task_newtask" => Self::NewTask,
            b"sched_process_fork" => Self::Fork,
            b"sched_process_exec" => Self::Exec,
            b"sched_process_exit" => Self::Exit,
            _ => return None,
        })
    }

    fn body(self, text: &[u8], tid: u32) -> Option<Body<&[u8]>> {
        match self {
            Self::NewTask => body::newtask(text),
            Self::Fork => body::fork(text, tid),
            Self::Exec => body::exec(text, tid),
            Self::Exit => body::exit(text, tid),
        }
    }
}

/// Lines after the first that would be taken for records.
pub(crate) fn looks_like_records(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text)
        .filter(|n| text.get(n + 1..).is_some_and(|line| head(line).is_some()))
        .fold(0, |count, _| count + 1)
}

/// A line without a head.
fn plain(line: &[u8]) -> Item<'_> {
    lost(line).or_else(|| entries(line)).unwrap_or(Item::Other)
}

/// `CPU:1 [LOST 108 EVENTS]`; of trace-cmd, `CPU:1 [108 EVENTS DROPPED]`.
fn lost(line: &[u8]) -> Option<Item<'static>> {
    let line = std::str::from_utf8(line).ok()?;
    let (cpu, what) = line.strip_prefix("CPU:")?.split_once(' ')?;
    let what = what.trim_end().strip_prefix('[')?.strip_suffix(']')?;
    let count = match what {
        "LOST EVENTS" | "EVENTS DROPPED" => None,
        _ => {
            let number = match what.strip_prefix("LOST ") {
                Some(rest) => rest.strip_suffix(" EVENTS")?,
                None => what.strip_suffix(" EVENTS DROPPED")?,
            };
            Some(number.parse().ok()?)
        }
    };
    Some(Item::Lost {
        cpu: Some(cpu.parse().ok()?),
        count,
    })
}

/// `# entries-in-buffer/entries-written: 259/367   #P:2`
fn entries(line: &[u8]) -> Option<Item<'static>> {
    let line = std::str::from_utf8(line).ok()?;
    let counts = line.strip_prefix("# entries-in-buffer/entries-written: ")?;
    let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
    Some(Item::Entries {
        kept: kept.parse().ok()?,
        written: written.parse().ok()?,
    })
}
