//! From a file to a [`Side`]: a capture of ours, or text that ftrace printed.

use std::path::{Path, PathBuf};

use super::side::{NotACapture, Side};
use crate::decode::ftrace::{Body, Family, Item, NoLookup, Record, Text};
use crate::decode::jsonl;
use crate::model::{Bytes, Event, LossKind, LossPlace, Lost};
use crate::sink::jsonl as write;

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{}: cannot be read: {error}", path.display())]
    Read {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("{}: {error}; give a capture as `tracer -o FILE.jsonl` writes it, or the text of ftrace", path.display())]
    Line { path: PathBuf, error: NotACapture },
    #[error(
        "{}: line 1: expected a capture, which begins with {{\"type\":\"meta\",…, or the text of ftrace \
         (trace, trace_pipe, trace-cmd report, perf script) with the events sched_process_fork, \
         sched_process_exec, sched_process_exit and task_newtask; there is none of them",
        path.display()
    )]
    Neither { path: PathBuf },
}

/// Reads a file of either kind; its content says which.
///
/// # Errors
/// It cannot be read, or holds neither; the message says what to do.
pub fn load(path: &Path) -> Result<Side, LoadError> {
    let contents = jsonl::read(path).map_err(|error| LoadError::Read {
        path: path.to_owned(),
        error,
    })?;
    let name = path.display().to_string();
    if contents.bytes.trim_ascii_start().starts_with(b"{") {
        return Side::from_jsonl(name, contents.bytes, contents.cut).map_err(|error| {
            LoadError::Line {
                path: path.to_owned(),
                error,
            }
        });
    }
    from_text(path, name, &contents.bytes)
}

/// What is to be told of a saved trace.
#[derive(Default)]
struct Oddities {
    forged: u64,
    forger: Option<u32>,
    unreadable: u64,
    newtasks: u64,
    of_unknown_number: bool,
}

fn from_text(path: &Path, name: String, bytes: &[u8]) -> Result<Side, LoadError> {
    let mut text = Text::new();
    let mut records: Vec<Record<Bytes>> = Vec::new();
    let mut odd = Oddities::default();
    let mut losses: Vec<(u64, Option<u32>, u64)> = Vec::new();
    let mut ts = 0;
    for (index, piece) in bytes.chunks(1 << 16).enumerate() {
        text.push(piece);
        let complete = (index + 1) << 16 >= bytes.len();
        while let Some(item) = text.next(complete) {
            match item {
                Item::Record(record) => {
                    ts = record.ts;
                    odd.newtasks += u64::from(matches!(record.body, Body::NewTask { .. }));
                    records.push(record.map_name(Bytes::from));
                }
                Item::Lost { cpu, count } => {
                    odd.of_unknown_number |= count.is_none();
                    losses.push((ts, cpu, count.unwrap_or(1)));
                }
                Item::Entries { kept, written } if written > kept => {
                    losses.push((ts, None, written - kept));
                }
                Item::Forged { tid, lines, .. } => {
                    odd.forged += lines;
                    odd.forger = odd.forger.or(Some(tid));
                }
                Item::Unreadable { .. } => odd.unreadable += 1,
                Item::Entries { .. } | Item::Other => {}
            }
        }
    }
    let path = || path.to_owned();
    if records.is_empty() {
        return Err(LoadError::Neither { path: path() });
    }
    let lines = events(records, &losses);
    let mut side = Side::from_jsonl(name, lines, false).map_err(|error| LoadError::Line {
        path: path(),
        error,
    })?;
    "ftrace".clone_into(&mut side.backend);
    side.saved_text = true;
    side.integers = text.integer_clock();
    side.cut = false;
    odd.tell(&mut side, text.surplus());
    Ok(side)
}

/// The events behind the records, as lines of a capture.
fn events(mut records: Vec<Record<Bytes>>, losses: &[(u64, Option<u32>, u64)]) -> Vec<u8> {
    // Each CPU's records are in order; of equal times the order in the file counts.
    records.sort_by_key(|r| r.ts);
    let mut lines = Vec::new();
    let mut family = Family::new(true);
    for record in &records {
        family.apply(record, &mut NoLookup, &mut |event| {
            write::event(&mut lines, &event, None);
        });
    }
    for (ts, cpu, count) in losses {
        let lost = Lost {
            ts: *ts,
            cpu: *cpu,
            place: LossPlace::Ftrace,
            kind: LossKind::Any,
            count: *count,
        };
        write::event(&mut lines, &Event::Lost(lost), None);
    }
    lines
}

impl Oddities {
    fn tell(&self, side: &mut Side, surplus: u64) {
        let name = side.name.clone();
        if let Some(tid) = self.forger {
            side.notes.push(format!(
                "{name}: {} lines within file names look like records and were not taken for any; \
                 thread {tid} did this first",
                self.forged
            ));
        }
        if surplus > 0 {
            side.notes.push(format!(
                "{name}: {surplus} more records than its header announces: some are forged"
            ));
        }
        if self.unreadable > 0 {
            side.notes.push(format!(
                "{name}: {} records contradict themselves or are cut, and were left out",
                self.unreadable
            ));
        }
        if self.of_unknown_number {
            side.notes.push(format!(
                "{name}: it does not say how many records were lost in some places; each counts as one"
            ));
        }
        if self.newtasks == 0 {
            side.notes.push(format!(
                "{name}: without the event task_newtask threads cannot be told from processes; \
                 record it, too"
            ));
        }
    }
}
