//! Parquet: a table of processes and, in a file beside it, one of events.
//!
//! A Parquet file can be read only when its footer is there, which comes last. So a
//! file has a temporary name until it is complete; a tracer that is killed loses what
//! is in the present ones. Rows wait in memory until they make a row group.

mod column;
mod encode;
mod events;
mod processes;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use column::{Group, Schema};
use encode::Encoder;

use super::Sink;
use super::jsonl;
use super::output::queue::Status;
use super::output::{Feed, OpenError, Place, open_replacement, open_series};
use super::series::Series;
use crate::model::{End, Event, Meta, Process};

/// What both tables say of where their rows come from.
#[derive(Default)]
struct Capture {
    host: Vec<u8>,
    boot_id: Vec<u8>,
    /// Wall clock less boot clock, ns.
    to_wall: i128,
    /// The first line of the same capture in JSONL, for the file's own metadata.
    meta: Arc<str>,
}

impl Capture {
    fn new(meta: &Meta) -> Self {
        let mut line = Vec::new();
        jsonl::meta(&mut line, meta);
        Self {
            host: meta.host.clone().into(),
            boot_id: meta.boot_id.clone().into(),
            to_wall: i128::from(meta.wall_start_ns) - i128::from(meta.boot_start_ns),
            meta: String::from_utf8_lossy(&line).trim_end().into(),
        }
    }

    /// Wall time of a time since boot, ns since 1970.
    fn wall(&self, boot_ns: u64) -> Option<i64> {
        i64::try_from(i128::from(boot_ns) + self.to_wall).ok()
    }
}

/// Rows that wait, and the way to their file.
struct Table {
    schema: Schema,
    group: Group,
    feed: Feed<Group>,
}

impl Table {
    fn start(
        schema: Schema,
        place: Place,
        series: Option<Series>,
        path: &Path,
        hold: usize,
    ) -> Result<Self, OpenError> {
        let status = Arc::new(Status::new(hold));
        let encoder = Encoder::new(schema);
        let feed = Feed::start(status, encoder, place, series, format!("{path:?}"))?;
        Ok(Self {
            schema,
            group: Group::new(schema),
            feed,
        })
    }

    fn end_row(&mut self, capture: &Capture) -> io::Result<()> {
        self.group.end_row();
        match self.group.is_full() {
            true => self.hand_over(capture),
            false => self.feed.check(),
        }
    }

    fn hand_over(&mut self, capture: &Capture) -> io::Result<()> {
        let mut group = std::mem::replace(&mut self.group, Group::new(self.schema));
        if group.is_empty() {
            return self.feed.check();
        }
        group.meta = Arc::clone(&capture.meta);
        self.feed.push(group).map(drop)
    }
}

/// Writes both tables.
pub struct Parquet {
    processes: Table,
    events: Table,
    capture: Capture,
}

impl Parquet {
    /// Opens `path` and the file of events beside it, or the first of each series of files.
    /// `hold` bytes may wait for each while the file system is full.
    ///
    /// # Errors
    /// A file cannot be made; what to do about it.
    pub fn open(path: &Path, series: Option<Series>, hold: usize) -> Result<Self, OpenError> {
        let beside = events_path(path);
        let (places, series) = match series {
            Some(mut processes) => {
                let mut events = processes.beside(EVENTS);
                let first = open_series(&mut processes, path)?;
                // A pair has one number.
                events.set_next(processes.next_number().saturating_sub(1));
                let part = events.create().map_err(|e| OpenError::open(&beside, e))?;
                let places = [first, Place::File(part)];
                (places, [Some(processes), Some(events)])
            }
            None => ([open_alone(path)?, open_alone(&beside)?], [None, None]),
        };
        let [at, at_events] = places;
        let [series, series_events] = series;
        Ok(Self {
            processes: Table::start(processes::SCHEMA, at, series, path, hold)?,
            events: Table::start(events::SCHEMA, at_events, series_events, &beside, hold)?,
            capture: Capture::default(),
        })
    }

    /// How the files are doing.
    pub fn outputs(&self) -> Vec<Arc<Status>> {
        [&self.processes, &self.events]
            .map(|table| Arc::clone(table.feed.status()))
            .into()
    }

    fn hand_over(&mut self) -> io::Result<()> {
        self.processes.hand_over(&self.capture)?;
        self.events.hand_over(&self.capture)
    }
}

/// What is between the name and the ending of the file of events.
const EVENTS: &str = ".events";

/// `x.parquet` → `x.events.parquet`.
fn events_path(path: &Path) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(EVENTS);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// A file that will replace `path` when it is complete.
fn open_alone(path: &Path) -> Result<Place, OpenError> {
    let failed = |cause| OpenError::open(path, cause);
    if path.is_dir() {
        return Err(failed(ErrorKind::IsADirectory.into()));
    }
    let part = open_replacement(path)?;
    // What an earlier capture left must not pass for this one's.
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    Ok(Place::File(part))
}

impl Sink for Parquet {
    fn begin(&mut self, meta: &Meta) -> io::Result<()> {
        self.capture = Capture::new(meta);
        Ok(())
    }

    fn event(&mut self, event: &Event, process: Option<&Process>) -> io::Result<()> {
        if events::put(&mut self.events.group, event, process, &self.capture) {
            self.events.end_row(&self.capture)?;
        }
        Ok(())
    }

    fn process(&mut self, process: &Process) -> io::Result<()> {
        processes::put(&mut self.processes.group, process, &self.capture);
        self.processes.end_row(&self.capture)
    }

    fn next_part(&mut self, _: &End, meta: &Meta) -> io::Result<()> {
        self.hand_over()?;
        self.processes.feed.next_part()?;
        self.events.feed.next_part()?;
        self.begin(meta)
    }

    fn end(&mut self, _: &End) -> io::Result<()> {
        let handed = self.hand_over();
        let processes = self.processes.feed.finish();
        let events = self.events.feed.finish();
        handed.and(processes).and(events)
    }

    fn backlog(&self) -> usize {
        self.processes.feed.status().backlog() + self.events.feed.status().backlog()
    }
}

#[cfg(test)]
mod tests;
