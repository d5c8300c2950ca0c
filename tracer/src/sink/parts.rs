//! What all outputs to files have in common: one file after the other, and a mark
//! in the stream where records had no room.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::output::queue::Status;
use super::{Sink, Stats};
use crate::model::time::{boot_ns, wall_ns};
use crate::model::{End, Event, LossKind, LossPlace, Lost, Meta, Process};

/// When a file is ended and the next begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a file.
    pub size: Option<u64>,
    pub every: Option<Duration>,
    /// Bytes of it that are kept free for its last record and its end.
    pub reserve: u64,
    /// What is handed over has the size that it will have in the file.
    pub plain: bool,
}

/// Wraps the sink of a file.
pub struct Parts {
    inner: Box<dyn Sink>,
    /// Where `inner` writes.
    outputs: Vec<Arc<Status>>,
    /// `None` where there is one file only.
    limits: Option<Limits>,
    meta: Option<Meta>,
    /// Number of the present file, from 0.
    part: u64,
    began: Instant,
    /// What the present file has.
    records: u64,
    tally: End,
    /// Records that had no room in it.
    lost: u64,
    /// Of the last event, or of the beginning.
    ts: u64,
}

impl Parts {
    pub fn new(inner: Box<dyn Sink>, outputs: Vec<Arc<Status>>, limits: Option<Limits>) -> Self {
        Self {
            inner,
            outputs,
            limits,
            meta: None,
            part: 0,
            began: Instant::now(),
            records: 0,
            tally: End::default(),
            lost: 0,
            ts: 0,
        }
    }

    /// Where records were dropped and there is room again, says so in the stream.
    fn close_gap(&mut self, ts: u64) -> io::Result<()> {
        if !self.outputs.iter().any(|o| o.can_close_gap()) {
            return Ok(());
        }
        // What was formatted in the gap belongs to it.
        self.inner.flush()?;
        let count = self.outputs.iter().map(|o| o.close_gap()).sum();
        self.lost = self.lost.saturating_add(count);
        let lost = Event::Lost(Lost {
            ts,
            cpu: None,
            place: LossPlace::Sink,
            kind: LossKind::Any,
            count,
        });
        self.inner.event(&lost, None)
    }

    fn is_full(&self) -> bool {
        let Some(Limits {
            size: Some(size),
            reserve,
            plain,
            ..
        }) = self.limits
        else {
            return false;
        };
        let bytes = |output: &Status| match (plain, output.part()) {
            // What has not come to the file yet counts too; what was dropped does not.
            (true, _) => output.filled(),
            (false, (part, bytes)) if part == self.part => bytes,
            // It is still at an older one.
            (false, _) => 0,
        };
        let bytes: u64 = self.outputs.iter().map(|o| bytes(o)).sum();
        bytes.saturating_add(reserve) >= size
    }

    fn recorded(&mut self) -> io::Result<()> {
        self.records += 1;
        match self.is_full() {
            true => self.next(),
            false => Ok(()),
        }
    }

    /// Begins the next file, or leaves it for later.
    fn next(&mut self) -> io::Result<()> {
        let Some(meta) = &mut self.meta else {
            return Ok(());
        };
        if !self.outputs.iter().all(|o| o.can_begin_part()) {
            return Ok(());
        }
        let mut end = std::mem::take(&mut self.tally);
        // Not the present: events that are still to come are older.
        end.ts = self.ts;
        end.lost = end.lost.saturating_add(self.lost);
        end.continued = true;
        self.part += 1;
        meta.part = Some(self.part + 1);
        meta.boot_start_ns = boot_ns();
        meta.wall_start_ns = wall_ns();
        self.inner.next_part(&end, meta)?;
        self.began = Instant::now();
        self.records = 0;
        self.lost = 0;
        Ok(())
    }
}

impl Sink for Parts {
    fn begin(&mut self, meta: &Meta) -> io::Result<()> {
        self.began = Instant::now();
        if self.limits.is_none() {
            return self.inner.begin(meta);
        }
        let mut meta = meta.clone();
        meta.part = Some(1);
        self.ts = meta.boot_start_ns;
        self.inner.begin(&meta)?;
        self.meta = Some(meta);
        Ok(())
    }

    fn event(&mut self, event: &Event, process: Option<&Process>) -> io::Result<()> {
        self.close_gap(event.ts())?;
        if self.limits.is_some() {
            self.tally.count(event);
            self.ts = event.ts();
        }
        self.inner.event(event, process)?;
        self.recorded()
    }

    fn process(&mut self, process: &Process) -> io::Result<()> {
        self.inner.process(process)?;
        self.recorded()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()?;
        let every = self.limits.and_then(|l| l.every);
        match every.is_some_and(|every| self.records > 0 && self.began.elapsed() >= every) {
            true => self.next(),
            false => Ok(()),
        }
    }

    fn rotate(&mut self) -> io::Result<bool> {
        let rotates = self.limits.is_some();
        if rotates {
            self.next()?;
        }
        Ok(rotates)
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        self.close_gap(end.ts)?;
        let mut last = end.clone();
        if self.limits.is_some() {
            last = End {
                ts: end.ts,
                exit_code: end.exit_code,
                ..std::mem::take(&mut self.tally)
            };
        }
        last.lost = last.lost.saturating_add(self.lost);
        self.inner.end(&last)
    }

    fn backlog(&self) -> usize {
        self.inner.backlog()
    }

    fn stats(&self) -> Stats {
        let sum = |f: fn(&Status) -> u64| self.outputs.iter().map(|o| f(o)).sum();
        Stats {
            waiting: sum(|o| o.waiting() as u64),
            written: sum(Status::written),
            lost: sum(Status::lost),
            rotations: self.part,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::output::queue::{Next, Queue};
    use crate::sink::samples;

    /// Each event is ten bytes.
    struct Inner(Arc<Queue<Vec<u8>>>);

    impl Sink for Inner {
        fn event(&mut self, _: &Event, _: Option<&Process>) -> io::Result<()> {
            self.0.push(b"an event.\n".to_vec()).map(drop)
        }

        fn next_part(&mut self, _: &End, _: &Meta) -> io::Result<()> {
            self.0.push_part()
        }
    }

    const HOLD: usize = 1000;

    fn parts() -> (Parts, Arc<Queue<Vec<u8>>>) {
        let queue = Arc::new(Queue::new(Arc::new(Status::new(HOLD))));
        let limits = Limits {
            size: Some(100),
            every: None,
            reserve: 0,
            plain: true,
        };
        let outputs = vec![Arc::clone(&queue.status)];
        let mut parts = Parts::new(Box::new(Inner(queue.clone())), outputs, Some(limits));
        parts.begin(&samples::meta()).expect("begin");
        (parts, queue)
    }

    fn events(parts: &mut Parts, n: u64) {
        for ts in 0..n {
            let lost = Event::Lost(Lost {
                ts,
                cpu: None,
                place: LossPlace::Ring,
                kind: LossKind::Any,
                count: 1,
            });
            parts.event(&lost, None).expect("event");
        }
    }

    #[test]
    fn a_slow_disk_makes_no_part_smaller() {
        let (mut parts, _nobody_reads) = parts();
        events(&mut parts, 2000);
        assert_eq!(parts.part, 200);
    }

    #[test]
    fn a_full_disk_makes_no_parts_without_end() {
        let (mut parts, queue) = parts();
        queue.stall(true);
        events(&mut parts, 2000);
        assert_eq!(parts.part, 4, "while less than half of what may wait does");
        assert_eq!(queue.status.lost(), 2000 - 100);
        queue.stall(false);
        while let Next::Chunk(_) | Next::Part = queue.next(Some(Duration::ZERO)) {
            queue.done(10, None);
        }
        events(&mut parts, 100);
        assert_eq!(queue.status.close_gap(), 0, "told already");
        assert!(parts.part > 10, "{}", parts.part);
    }
}
