//! One CPU's stream, as pages or as text.
//!
//! Text can hold a forged record that no reader can tell from a real one (see
//! [`crate::decode::ftrace::text`]), but it can be counted: the kernel says how
//! many records of this CPU were read (`read events` in `stats`). Where a piece
//! of text seems to have more, its records are left out and counted as lost.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::look::Looks;
use super::Reader;
use crate::decode::ftrace::format::Formats;
use crate::decode::ftrace::page::{Missed, Page};
use crate::decode::ftrace::{Body, Item, Record, Text};
use crate::model::Bytes;
use crate::sys::tracefs::Instance;

/// Reads by one drain; each is a page at most.
const READS: usize = 64;

/// What waits for its turn.
pub(super) enum Queued {
    Record(Record<Bytes>),
    Lost { ts: u64, count: u64 },
}

impl Queued {
    const fn ts(&self) -> u64 {
        match self {
            Self::Record(record) => record.ts,
            Self::Lost { ts, .. } => *ts,
        }
    }
}

pub(super) struct Cpu {
    number: u32,
    file: AsyncFd<File>,
    buffer: Vec<u8>,
    decoder: Decoder,
    queue: VecDeque<Queued>,
    last_ts: u64,
    /// Lost records that have been told of.
    told: u64,
}

enum Decoder {
    Raw(Box<Formats>),
    Text(Box<Counted>),
}

/// Text whose records are counted against the kernel's own figure.
#[derive(Default)]
struct Counted {
    text: Text,
    /// Found since the last comparison, with the last loss among them.
    waiting: Vec<Record<Bytes>>,
    /// Records of other tracers' reading do not come into it: the instance is ours.
    compared: u64,
    /// The kernel's figure at the last comparison.
    read: u64,
}

impl Cpu {
    pub fn open(
        instance: &Instance,
        number: u32,
        reader: Reader,
        formats: &Formats,
        page: usize,
    ) -> io::Result<Self> {
        let (name, decoder) = match reader {
            Reader::Raw => ("trace_pipe_raw", Decoder::Raw(Box::new(formats.clone()))),
            Reader::Text => ("trace_pipe", Decoder::Text(Box::default())),
        };
        let path = format!("per_cpu/cpu{number}/{name}");
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(instance.path().join(path))?;
        // SAFETY: the descriptor is the file's own, open and the same as long as it lives.
        let file = unsafe { AsyncFd::register_with_interest(file, Interest::READABLE) };
        Ok(Self {
            number,
            file: file.map_err(io::Error::from)?,
            buffer: vec![0; page],
            decoder,
            queue: VecDeque::new(),
            last_ts: 0,
            told: 0,
        })
    }

    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Time of the last record that was read; later ones are not earlier.
    pub const fn last_ts(&self) -> u64 {
        self.last_ts
    }

    pub fn first_ts(&self) -> Option<u64> {
        self.queue.front().map(Queued::ts)
    }

    pub fn pop(&mut self) -> Option<Queued> {
        self.queue.pop_front()
    }

    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.file.poll_read_ready(context))?.clear_ready();
        Poll::Ready(Ok(()))
    }

    /// Reads what is there, in a bounded amount. Says whether that was all.
    pub fn read(&mut self, instance: &Instance, looks: &mut Looks) -> bool {
        for _ in 0..READS {
            match self.file.get_ref().read(&mut self.buffer) {
                Ok(n) if n > 0 => self.decode(n, instance, looks),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // EAGAIN, or the end. Any other error comes again and again;
                // what cannot be read is counted by the kernel in the end.
                _ => {
                    self.settle(instance, looks);
                    return true;
                }
            }
        }
        false
    }

    fn decode(&mut self, length: usize, instance: &Instance, looks: &mut Looks) {
        let Self {
            number,
            buffer,
            decoder,
            queue,
            last_ts,
            ..
        } = self;
        let bytes = buffer.get(..length).unwrap_or_default();
        let formats = match decoder {
            Decoder::Raw(formats) => formats,
            Decoder::Text(counted) => {
                counted.text.push(bytes);
                return self.text(false, instance);
            }
        };
        let Some(mut page) = Page::new(bytes) else {
            return;
        };
        let missed = page.missed();
        let (begin, at) = (page.ts(), queue.len());
        for (ts, data) in &mut page {
            *last_ts = ts;
            if let Some((tid, body)) = formats.decode(data) {
                let cpu = *number;
                let record = Record { ts, cpu, tid, body }.map_name(Bytes::from);
                looks.arrived(&record);
                queue.push_back(Queued::Record(record));
            }
        }
        let count = match missed {
            Missed::None => return,
            Missed::Some(count) => Some(count),
            Missed::Unknown => None,
        };
        if let Some(count) = self.newly_lost(count, instance) {
            self.queue.insert(at, Queued::Lost { ts: begin, count });
        }
    }

    /// Items of the text so far.
    fn text(&mut self, complete: bool, instance: &Instance) {
        loop {
            let Decoder::Text(counted) = &mut self.decoder else {
                return;
            };
            match counted.text.next(complete) {
                None => return,
                Some(Item::Record(record)) => {
                    counted.waiting.push(record.map_name(Bytes::from));
                }
                Some(Item::Forged { tid, lines, .. }) => warn(tid, lines),
                Some(Item::Lost { count, .. }) => {
                    let ts = counted.waiting.last().map_or(self.last_ts, |r| r.ts);
                    if let Some(count) = self.newly_lost(count, instance) {
                        self.queue.push_back(Queued::Lost { ts, count });
                    }
                }
                Some(Item::Unreadable { .. } | Item::Entries { .. } | Item::Other) => {}
            }
        }
    }

    /// At a point where the text is whole: its records count if they are as many
    /// as the kernel gave out.
    fn settle(&mut self, instance: &Instance, looks: &mut Looks) {
        self.text(true, instance);
        let Decoder::Text(counted) = &mut self.decoder else {
            return;
        };
        if counted.text.records() == counted.compared {
            return;
        }
        let found = counted.text.records() - counted.compared;
        let read = statistic(instance, self.number, "read events: ").unwrap_or(counted.read);
        let given = read.saturating_sub(counted.read);
        counted.compared = counted.text.records();
        counted.read = read;
        let records = std::mem::take(&mut counted.waiting);
        // Its time may be forged as well.
        let now = crate::model::time::boot_ns();
        if found > given {
            for record in &records {
                if matches!(record.body, Body::Exec { .. }) {
                    warn(record.tid, found - given);
                }
            }
            let (ts, count) = (self.last_ts, given);
            self.queue.push_back(Queued::Lost { ts, count });
            return;
        }
        for record in records {
            if record.ts < self.last_ts || record.ts > now {
                continue;
            }
            self.last_ts = record.ts;
            looks.arrived(&record);
            self.queue.push_back(Queued::Record(record));
        }
    }

    /// How many records are lost that were not told of: as many as a place in
    /// the stream says, and never more than the kernel counted.
    fn newly_lost(&mut self, said: Option<u64>, instance: &Instance) -> Option<u64> {
        let total: Option<u64> = ["overrun: ", "dropped events: "]
            .iter()
            .map(|key| statistic(instance, self.number, key))
            .sum();
        let untold = total.map(|total| total.saturating_sub(self.told));
        let count = match (said, untold) {
            (Some(said), Some(untold)) => said.min(untold),
            (Some(count), None) | (None, Some(count)) => count,
            // Some, and nobody knows how many.
            (None, None) => 1,
        };
        self.told += count;
        (count > 0).then_some(count)
    }

    /// Losses that no place in the stream told of.
    pub fn lost_at_end(&mut self, instance: &Instance) -> Option<u64> {
        self.newly_lost(None, instance)
    }
}

/// A figure of the CPU's `stats`.
fn statistic(instance: &Instance, cpu: u32, key: &str) -> Option<u64> {
    let text = instance.read(&format!("per_cpu/cpu{cpu}/stats")).ok()?;
    // `commit overrun:` ends like `overrun:`.
    text.lines()
        .find_map(|l| l.strip_prefix(key)?.trim().parse().ok())
}

fn warn(tid: u32, lines: u64) {
    eprintln!(
        "tracer: the name of the program of process {tid} holds {lines} line(s) that imitate \
         trace records; they are not taken for events"
    );
}
