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
use std::task::{self, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::forgers::Forgers;
use super::look::Looks;
use super::losses::Losses;
use crate::decode::ftrace::format::Formats;
use crate::decode::ftrace::page::{Missed, Page};
use crate::decode::ftrace::text::looks_like_records;
use crate::decode::ftrace::{Body, Item, Record, Text};
use crate::model::Bytes;
use crate::sys::tracefs::Instance;

/// Reads by one drain; each is a page at most.
const READS: usize = 64;

/// What reading needs besides the CPU's own file.
pub(super) struct Context<'a> {
    /// When reading began, boot ns.
    pub now: u64,
    pub instance: &'a Instance,
    pub looks: &'a mut Looks,
    pub forgers: &'a mut Forgers,
}

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
    losses: Losses,
    /// Records that were read.
    records: u64,
    /// Pages and records that are not as the kernel says they are.
    malformed: u64,
}

enum Decoder {
    Raw(Box<Formats>),
    Text(Box<Counted>),
}

/// Text whose records are counted against the kernel's own figure.
#[derive(Default)]
struct Counted {
    text: Text,
    /// Found since the last comparison.
    waiting: Vec<Record<Bytes>>,
    /// Losses since then, with the number of records that wait before them.
    losses: Vec<(usize, u64)>,
    /// Records in the text at the last comparison, and the kernel's figure then.
    compared: u64,
    read: u64,
}

impl Cpu {
    /// Its records as pages, or as text where their formats are not known.
    pub fn open(
        instance: &Instance,
        number: u32,
        formats: Option<&Formats>,
        page: usize,
    ) -> io::Result<Self> {
        let (name, decoder) = match formats {
            Some(formats) => ("trace_pipe_raw", Decoder::Raw(Box::new(formats.clone()))),
            None => ("trace_pipe", Decoder::Text(Box::default())),
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
            losses: Losses::default(),
            records: 0,
            malformed: 0,
        })
    }

    pub const fn number(&self) -> u32 {
        self.number
    }

    pub const fn malformed(&self) -> u64 {
        self.malformed
    }

    #[cfg(test)]
    pub const fn records(&self) -> u64 {
        self.records
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

    pub fn poll_ready(&self, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.file.poll_read_ready(context))?.clear_ready();
        Poll::Ready(Ok(()))
    }

    /// Reads what is there, in a bounded amount. Says whether that was all.
    pub fn read(&mut self, to: &mut Context<'_>) -> bool {
        for _ in 0..READS {
            let length = match self.file.get_ref().read(&mut self.buffer) {
                Ok(length) if length > 0 => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Nothing more for now. Any other error comes again and again;
                // what cannot be read is counted by the kernel in the end.
                _ => {
                    self.settle(to);
                    return true;
                }
            };
            match &mut self.decoder {
                Decoder::Raw(_) => self.page(length, to),
                Decoder::Text(counted) => {
                    counted
                        .text
                        .push(self.buffer.get(..length).unwrap_or_default());
                    self.text(false, to);
                }
            }
        }
        false
    }

    fn page(&mut self, length: usize, to: &mut Context<'_>) {
        let (Decoder::Raw(formats), Some(mut page)) = (
            &self.decoder,
            Page::new(self.buffer.get(..length).unwrap_or_default()),
        ) else {
            self.malformed += 1;
            return;
        };
        let missed = page.missed();
        let (begin, at) = (page.ts(), self.queue.len());
        for (ts, data) in &mut page {
            self.last_ts = ts;
            self.records += 1;
            // No other events are on.
            let Some((tid, body)) = formats.decode(data) else {
                self.malformed += 1;
                continue;
            };
            let cpu = self.number;
            let record = Record { ts, cpu, tid, body };
            if let Body::Exec { filename, .. } = record.body {
                let lines = looks_like_records(filename);
                if lines > 0 {
                    to.forgers.note(tid, lines);
                }
            }
            let record = record.map_name(Bytes::from);
            to.looks.arrived(&record);
            self.queue.push_back(Queued::Record(record));
        }
        self.malformed += u64::from(page.is_damaged());
        let count = match missed {
            Missed::None => return,
            Missed::Some(count) => Some(count),
            Missed::Unknown => None,
        };
        if let Some(count) = self.newly_lost(count, to.instance) {
            self.queue.insert(at, Queued::Lost { ts: begin, count });
        }
    }

    /// Items of the text so far.
    fn text(&mut self, complete: bool, to: &mut Context<'_>) {
        loop {
            let Decoder::Text(counted) = &mut self.decoder else {
                return;
            };
            match counted.text.next(complete) {
                None => return,
                Some(Item::Record(record)) => {
                    counted.waiting.push(record.map_name(Bytes::from));
                }
                Some(Item::Forged { tid, lines, .. }) => to.forgers.note(tid, lines),
                Some(Item::Lost { count, .. }) => {
                    let at = counted.waiting.len();
                    if let Some(count) = self.newly_lost(count, to.instance)
                        && let Decoder::Text(counted) = &mut self.decoder
                    {
                        counted.losses.push((at, count));
                    }
                }
                Some(Item::Unreadable { .. }) => self.malformed += 1,
                Some(Item::Entries { .. } | Item::Other) => {}
            }
        }
    }

    /// At a point where the text is whole: its records count if they are as many
    /// as the kernel gave out.
    fn settle(&mut self, to: &mut Context<'_>) {
        self.text(true, to);
        let Decoder::Text(counted) = &mut self.decoder else {
            return;
        };
        let found = counted.text.records() - counted.compared;
        let losses = std::mem::take(&mut counted.losses);
        if found == 0 && losses.is_empty() {
            return;
        }
        let figures = to.instance.cpu_stats(self.number);
        let read = figures.map_or(counted.read, |f| f.read);
        let given = read.saturating_sub(counted.read);
        counted.compared = counted.text.records();
        counted.read = read;
        self.records += given;
        let records = std::mem::take(&mut counted.waiting);
        if found > given {
            for record in &records {
                if matches!(record.body, Body::Exec { .. }) {
                    to.forgers.note(record.tid, found - given);
                }
            }
            let count = given + losses.iter().map(|(_, count)| count).sum::<u64>();
            self.queue.push_back(Queued::Lost { ts: to.now, count });
            return;
        }
        let mut losses = losses.into_iter().peekable();
        for (at, record) in records.into_iter().enumerate() {
            let ts = record.ts;
            while let Some((_, count)) = losses.next_if(|(before, _)| *before <= at) {
                self.queue.push_back(Queued::Lost { ts, count });
            }
            self.last_ts = self.last_ts.max(ts);
            to.looks.arrived(&record);
            self.queue.push_back(Queued::Record(record));
        }
        for (_, count) in losses {
            self.queue.push_back(Queued::Lost { ts: to.now, count });
        }
    }

    /// How many records are lost at a place in the stream.
    fn newly_lost(&mut self, said: Option<u64>, instance: &Instance) -> Option<u64> {
        let total = self.total_lost(instance);
        self.losses.at_place(said, total)
    }

    /// Losses that no place in the stream told of.
    pub fn lost_at_end(&mut self, instance: &Instance) -> Option<u64> {
        let total = self.total_lost(instance);
        self.losses.at_end(total)
    }

    /// As the kernel counts them.
    fn total_lost(&self, instance: &Instance) -> Option<u64> {
        let figures = instance.cpu_stats(self.number)?;
        Some(figures.overrun + figures.dropped)
    }
}
