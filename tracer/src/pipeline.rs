//! From a source's events to the sinks: order, process table, rows, counts.

mod outside;

use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::metrics::Figures;
use crate::model::time::boot_ns;
use crate::model::{End, Event, Exit, Meta, ProcId, Process, Usage};
use crate::sink::{Sink, Stats};
use crate::source::Drained;
use crate::state::{Reorder, Table};
use crate::sys::procfs::{Proc, in_initial_pid_namespace};

/// The source is not read while a sink is this far behind, bytes: what is lost
/// then is lost in the kernel's buffer, where it is counted.
const BACKLOG: usize = 32 << 20;

/// An output and the name that its errors are reported under.
struct Slot {
    name: String,
    /// `None` after an error: that output has ended.
    sink: Option<Box<dyn Sink>>,
    /// How it was doing when it was last looked at.
    stats: Stats,
}

/// Everything behind a source.
#[derive(Default)]
pub struct Pipeline {
    reorder: Reorder,
    table: Table,
    sinks: Vec<Slot>,
    end: End,
    /// Ends of threads are shown.
    threads: bool,
    /// Time up to which events were applied.
    applied: u64,
    failed: bool,
    /// For whoever watches from outside.
    figures: Option<Arc<Figures>>,
    /// Events that may still be passed on.
    left: Option<u64>,
    sweep: Sweep,
}

/// The end of a process may be among what was lost. It must not stay in the
/// table of a capture that goes on for long.
#[derive(Default)]
struct Sweep {
    /// Losses when the last one began.
    lost: u64,
    /// When the next one may begin, boot ns.
    next: u64,
    /// Who was gone, and when that was seen: nothing older is still to come
    /// before anybody is given up.
    gone: Option<(u64, Vec<ProcId>)>,
}

/// From one sweep to the next, ns: each reads a file for every process.
const SWEEP_PAUSE: u64 = 30_000_000_000;

impl Pipeline {
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the ends of threads are wanted.
    pub fn show_threads(&mut self, wanted: bool) {
        self.threads = wanted;
    }

    pub fn add(&mut self, name: impl Into<String>, sink: Box<dyn Sink>) {
        self.sinks.push(Slot {
            name: name.into(),
            sink: Some(sink),
            stats: Stats::default(),
        });
    }

    pub fn begin(&mut self, meta: &Meta) {
        if let Some(root) = meta.root {
            self.table.set_root(root);
        }
        each(&mut self.sinks, &mut self.failed, |s| s.begin(meta));
    }

    /// Passes on this many events at most, losses not counted.
    pub const fn limit(&mut self, events: Option<u64>) {
        self.left = events;
    }

    /// Whether as many events as were wanted have been passed on.
    pub const fn is_full(&self) -> bool {
        matches!(self.left, Some(0))
    }

    /// Takes one drain's events and passes on those that are complete.
    pub fn take(&mut self, events: &mut Vec<(u64, Event)>, drained: Drained) {
        for (order, event) in events.drain(..) {
            self.reorder.push(order, event);
        }
        self.applied = self.applied.max(drained.complete_to);
        while let Some(event) = self.reorder.pop(drained.complete_to) {
            self.apply(&event);
        }
        let Self {
            table,
            sinks,
            failed,
            ..
        } = self;
        table.expire(self.applied, &mut |p| row(sinks, failed, &p));
        if self.end.lost > self.sweep.lost || self.sweep.gone.is_some() {
            self.sweep_on();
        }
    }

    fn apply(&mut self, event: &Event) {
        if self.is_full() && !matches!(event, Event::Lost(_) | Event::Seed(_)) {
            return;
        }
        let Self {
            table,
            sinks,
            end,
            failed,
            threads,
            ..
        } = self;
        let shown = table.apply(event, &mut |p| row(sinks, failed, &p));
        let again;
        let event = match event {
            _ if shown => event,
            Event::Exit(exit) if *threads => {
                again = of_thread(exit);
                &again
            }
            _ => return,
        };
        end.count(event);
        if let Some(left) = &mut self.left
            && is_counted(event)
        {
            *left = left.saturating_sub(1);
        }
        let process = subject(event).and_then(|id| table.get(&id));
        each(sinks, failed, |s| s.event(event, process));
    }

    /// Writes out what waits in the sinks.
    pub fn flush(&mut self) {
        each(&mut self.sinks, &mut self.failed, |s| s.flush());
        self.take_lost(self.applied);
    }

    /// Begins the next file of every output that goes to one after the other. Says
    /// whether there is one.
    pub fn rotate(&mut self) -> bool {
        let mut any = false;
        each(&mut self.sinks, &mut self.failed, |s| {
            any |= s.rotate()?;
            Ok(())
        });
        any
    }

    /// How the outputs that still run are doing, by name.
    pub fn stats(&self) -> impl Iterator<Item = (&str, Stats)> {
        let stats = |slot: &Slot| Some(slot.sink.as_ref()?.stats());
        self.sinks
            .iter()
            .filter_map(move |slot| Some((slot.name.as_str(), stats(slot)?)))
    }

    /// Whether a sink is so far behind that nothing more should be read.
    pub fn is_congested(&self) -> bool {
        let backlog = |slot: &Slot| slot.sink.as_ref().map_or(0, |s| s.backlog());
        self.sinks.iter().any(|slot| backlog(slot) > BACKLOG)
    }

    /// Whether ended processes still wait for their final totals.
    pub fn awaits_finals(&self) -> bool {
        self.table.awaits_finals()
    }

    /// One step of a sweep while the capture goes on.
    fn sweep_on(&mut self) {
        match self.sweep.gone.take() {
            None if self.applied >= self.sweep.next && in_initial_pid_namespace() => {
                let proc = Proc::at(Path::new("/proc"));
                let running = self.table.alive().map(|p| p.id);
                let gone: Vec<ProcId> = running.filter(|id| !is_there(&proc, id)).collect();
                self.sweep = Sweep {
                    lost: self.end.lost,
                    next: self.applied.saturating_add(SWEEP_PAUSE),
                    gone: Some((boot_ns(), gone)),
                };
            }
            Some((seen, gone)) if self.applied > seen => {
                let gone: FxHashSet<ProcId> = gone.into_iter().collect();
                let Self {
                    table,
                    sinks,
                    failed,
                    ..
                } = self;
                table.sweep(seen, |id| !gone.contains(id), &mut |p| {
                    row(sinks, failed, &p);
                });
            }
            gone => self.sweep.gone = gone,
        }
    }

    /// The end of a process may be among what was lost: then it is not there any more.
    fn sweep(&mut self, ts: u64) {
        if !in_initial_pid_namespace() {
            // The pids of our /proc are not those of the events.
            return;
        }
        let proc = Proc::at(Path::new("/proc"));
        let is_alive = |id: &ProcId| is_there(&proc, id);
        let Self {
            table,
            sinks,
            failed,
            ..
        } = self;
        table.sweep(ts, is_alive, &mut |p| row(sinks, failed, &p));
    }

    /// Passes on the source's last events and everything that waits. Returns
    /// whether every output is complete.
    pub fn finish(&mut self, events: &mut Vec<(u64, Event)>, ts: u64, exit_code: i32) -> bool {
        let all = Drained {
            complete_to: u64::MAX,
            empty: true,
        };
        self.take(events, all);
        if self.reorder.late() > 0 {
            eprintln!(
                "tracer: {} events came late and stand out of order; this is a fault of tracer, please report it",
                self.reorder.late()
            );
        }
        if self.end.lost > 0 {
            self.sweep(ts);
        }
        let Self {
            table,
            sinks,
            failed,
            ..
        } = self;
        table.drain_remaining(&mut |p| row(sinks, failed, &p));
        each(&mut self.sinks, &mut self.failed, |s| {
            s.settle();
            Ok(())
        });
        self.take_lost(ts);
        let Self {
            sinks, failed, end, ..
        } = self;
        end.ts = ts;
        end.exit_code = exit_code;
        each(sinks, failed, |s| s.end(end));
        !*failed
    }
}

fn is_there(proc: &Proc, id: &ProcId) -> bool {
    proc.stat(id.pid).is_ok_and(|stat| stat.id.matches(id))
}

fn row(sinks: &mut [Slot], failed: &mut bool, process: &Process) {
    each(sinks, failed, |s| s.process(process));
}

/// An error ends that sink alone, and is reported once.
fn each(
    sinks: &mut [Slot],
    failed: &mut bool,
    mut f: impl FnMut(&mut dyn Sink) -> std::io::Result<()>,
) {
    for slot in sinks {
        let Some(sink) = &mut slot.sink else {
            continue;
        };
        if let Err(error) = f(sink.as_mut()) {
            eprintln!(
                "tracer: {}: {error}; this output ends here, the command goes on",
                slot.name
            );
            slot.sink = None;
            *failed = true;
        }
    }
}

/// The second end of a process, which was that of another of its threads. Its
/// totals are the process's.
fn of_thread(exit: &Exit) -> Event {
    Event::Exit(Box::new(Exit {
        thread: true,
        threads: None,
        status: None,
        usage: Usage::default(),
        ..exit.clone()
    }))
}

/// The process that an event is about.
fn subject(event: &Event) -> Option<ProcId> {
    match event {
        Event::Fork(e) => Some(e.child),
        Event::Exec(e) => Some(e.id),
        Event::ExecFailed(e) => Some(e.id),
        Event::Exit(e) => Some(e.id),
        Event::Final(e) => Some(e.id),
        Event::Gone { id, .. } => Some(*id),
        Event::Signal(e) => Some(e.target),
        Event::Seed(e) => Some(e.id),
        Event::Lost(_) => None,
    }
}

/// Whether an event is one of those that `--max-events` means.
const fn is_counted(event: &Event) -> bool {
    match event {
        Event::Fork(_)
        | Event::Exec(_)
        | Event::ExecFailed(_)
        | Event::Exit(_)
        | Event::Signal(_) => true,
        Event::Final(_) | Event::Gone { .. } | Event::Seed(_) | Event::Lost(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::sink::samples::{exit, pid};

    /// (tid, of a thread) of the ends that are shown.
    #[derive(Clone, Default)]
    struct Ends(Arc<Mutex<Vec<(u32, bool)>>>);

    impl Sink for Ends {
        fn event(&mut self, event: &Event, _: Option<&Process>) -> io::Result<()> {
            if let Event::Exit(e) = event {
                self.0.lock().unwrap().push((e.tid, e.thread));
            }
            Ok(())
        }
    }

    #[test]
    fn the_second_end_of_a_process_is_that_of_a_thread() {
        for threads in [false, true] {
            let ends = Ends::default();
            let mut pipeline = Pipeline::new();
            pipeline.show_threads(threads);
            pipeline.add("ends", Box::new(ends.clone()));
            for tid in [7, 8] {
                let mut exit = exit(pid(7, 0));
                exit.tid = tid;
                exit.usage.is_final = false;
                pipeline.apply(&Event::Exit(Box::new(exit)));
            }
            let mut expected = vec![(7, false)];
            expected.extend(threads.then_some((8, true)));
            assert_eq!(*ends.0.lock().unwrap(), expected);
            assert_eq!(pipeline.end.exits, 1);
        }
    }
}
