//! The thread of an output: encodes, writes, begins the next file, and waits where
//! a file system is full until somebody makes room.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::encode::Encode;
use super::part::{Part, is_passing};
use super::queue::{Chunk, Next, Queue};
use super::target::{Target, is_quiet};
use crate::sink::series::Series;

/// How often a full file system is tried again.
const RETRY: Duration = Duration::from_millis(250);
/// How long it is tried at the end, when somebody waits for tracer.
const LAST_CHANCE: Duration = Duration::from_secs(1);
/// Messages that the disk is full are not repeated sooner.
const SILENCE: Duration = Duration::from_secs(60);

/// Where the bytes go.
pub enum Place {
    /// No file, or one that is not ours alone: what is written there stays.
    Stream(Target),
    File(Part),
}

pub struct Worker<E: Encode> {
    queue: Arc<Queue<E::Chunk>>,
    encoder: E,
    place: Place,
    /// Where the next file comes from, if there is to be one.
    series: Option<Series>,
    /// For messages.
    name: String,
    /// Not written yet.
    bytes: Vec<u8>,
    /// Records in `bytes` and in the encoder.
    records: u64,
    complained: Option<Instant>,
}

impl<E: Encode> Worker<E> {
    pub fn new(
        queue: Arc<Queue<E::Chunk>>,
        encoder: E,
        place: Place,
        series: Option<Series>,
        name: String,
    ) -> Self {
        Self {
            queue,
            encoder,
            place,
            series,
            name,
            bytes: Vec::new(),
            records: 0,
            complained: None,
        }
    }

    /// Until the queue is closed, or nothing more can be written.
    pub fn run(mut self) {
        self.prune();
        let Err(error) = self.work() else {
            return;
        };
        if is_quiet(&error) {
            self.queue.stop(None);
            return;
        }
        let waited = self.queue.stop(Some(&error));
        let lost = waited.saturating_add(self.records);
        self.queue.status.drop_records(lost);
        let missing = self.queue.status.lost();
        if is_passing(&error) && missing > 0 {
            eprintln!("tracer: {}: {missing} records are missing", self.name);
        }
    }

    fn work(&mut self) -> io::Result<()> {
        loop {
            match self.queue.next(self.encoder.patience()) {
                Next::Chunk(chunk) => {
                    let bytes = chunk.bytes();
                    self.chunk(&chunk)?;
                    self.queue.done(bytes, chunk.emptied());
                }
                Next::Idle => {
                    self.encoder.flush(&mut self.bytes)?;
                    self.write()?;
                }
                Next::Part => {
                    self.complete()?;
                    self.begin_next()?;
                    self.prune();
                }
                Next::Closed => return self.complete(),
            }
        }
    }

    fn chunk(&mut self, chunk: &E::Chunk) -> io::Result<()> {
        if let Some(bytes) = self.encoder.as_is(chunk) {
            // Counted where it matters: that is as much work as a copy.
            return self
                .put(bytes)
                .inspect_err(|_| self.records = chunk.records());
        }
        self.records = self.records.saturating_add(chunk.records());
        match self.encoder.encode(chunk, &mut self.bytes)? {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Writes what waits.
    fn write(&mut self) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.bytes);
        self.put(&bytes)?;
        bytes.clear();
        // A burst should not hold its memory for months.
        bytes.shrink_to(1 << 20);
        self.bytes = bytes;
        self.records = 0;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.persist(|worker| match &mut worker.place {
            Place::Stream(target) => target.write_all(bytes),
            Place::File(part) => part.append(bytes),
        })?;
        self.queue.status.wrote(bytes.len() as u64);
        Ok(())
    }

    fn complete(&mut self) -> io::Result<()> {
        self.encoder.end(&mut self.bytes)?;
        self.write()?;
        self.persist(|worker| match &mut worker.place {
            Place::Stream(_) => Ok(()),
            Place::File(part) => part.publish(),
        })
    }

    fn begin_next(&mut self) -> io::Result<()> {
        self.persist(|worker| {
            if let Some(series) = &mut worker.series {
                worker.place = Place::File(series.create()?);
            }
            Ok(())
        })?;
        self.queue.status.next_part();
        Ok(())
    }

    /// An old file that stays in spite of all is no reason to end.
    fn prune(&mut self) {
        if let (Some(series), Place::File(part)) = (&self.series, &self.place)
            && let Err(error) = series.prune(part.path())
        {
            eprintln!(
                "tracer: {}: old files cannot be removed: {error}",
                self.name
            );
        }
    }

    /// Repeats `attempt` until it succeeds or fails for good.
    fn persist(&mut self, attempt: impl Fn(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let mut since = None;
        let mut closed = None;
        loop {
            let error = match attempt(self) {
                Err(error) if is_passing(&error) && matches!(self.place, Place::File(_)) => error,
                other => {
                    if let (Ok(()), Some(since)) = (&other, since) {
                        self.resumed(since);
                    }
                    return other;
                }
            };
            if since.is_none() {
                since = Some(Instant::now());
                self.stalled(&error);
            }
            if self.queue.pause(RETRY) {
                let closed = *closed.get_or_insert_with(Instant::now);
                if closed.elapsed() >= LAST_CHANCE {
                    return Err(error);
                }
                std::thread::sleep(RETRY);
            }
        }
    }

    fn stalled(&mut self, error: &io::Error) {
        self.queue.stall(true);
        if self.complained.is_none_or(|at| at.elapsed() >= SILENCE) {
            eprintln!(
                "tracer: {}: cannot write: {error}; records wait in memory (--hold SIZE), then they are \
                 counted as lost; make room, and writing goes on",
                self.name
            );
        }
    }

    fn resumed(&mut self, since: Instant) {
        self.queue.stall(false);
        if self.complained.is_none_or(|at| at.elapsed() >= SILENCE) {
            let lost = match self.queue.status.lost() {
                0 => "nothing is lost".to_owned(),
                n => format!("{n} records are lost so far"),
            };
            eprintln!(
                "tracer: {}: writing goes on after {:.1} s; {lost}",
                self.name,
                since.elapsed().as_secs_f64()
            );
            self.complained = Some(Instant::now());
        }
    }
}
