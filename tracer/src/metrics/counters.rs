//! Counts what the outputs are given.

use std::io;
use std::sync::Arc;

use super::figures::{Figures, Kind, Outcome};
use crate::model::{Event, Meta, Process};
use crate::sink::Sink;

/// An output that only counts.
pub struct Counters(pub Arc<Figures>);

impl Sink for Counters {
    fn begin(&mut self, meta: &Meta) -> io::Result<()> {
        self.0.begin(meta);
        Ok(())
    }

    fn event(&mut self, event: &Event, _process: Option<&Process>) -> io::Result<()> {
        self.0.event(match event {
            Event::Fork(e) if e.thread => Kind::Thread,
            Event::Fork(_) => Kind::Fork,
            Event::Exec(_) => Kind::Exec,
            Event::ExecFailed(_) => Kind::ExecFailed,
            Event::Exit(e) if e.thread => Kind::ThreadExit,
            Event::Exit(_) | Event::Gone { left: false, .. } => Kind::Exit,
            Event::Signal(_) => Kind::Signal,
            Event::Seed(_) => Kind::Seed,
            Event::Lost(e) => {
                self.0.loss(e.place, e.kind, e.count);
                return Ok(());
            }
            Event::Final(_) | Event::Gone { .. } => return Ok(()),
        });
        Ok(())
    }

    fn process(&mut self, process: &Process) -> io::Result<()> {
        if process.end.is_some() {
            self.0.end(match process.status {
                None => Outcome::Unknown,
                Some(s) if s.signal.is_some() => Outcome::Signal,
                Some(s) if s.is_success() => Outcome::Success,
                Some(_) => Outcome::Failure,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::samples::{every_event, every_process, meta};

    #[test]
    fn everything_is_counted_under_its_kind() {
        let figures = Arc::new(Figures::default());
        let mut sink = Counters(Arc::clone(&figures));
        sink.begin(&meta()).expect("begin");
        for event in every_event() {
            sink.event(&event, None).expect("event");
        }
        for process in every_process() {
            sink.process(&process).expect("process");
        }
        let text = figures.render();
        let value = |name: &str| {
            let line = text.lines().find(|l| l.starts_with(name)).expect(name);
            line.rsplit(' ')
                .next()
                .expect("a value")
                .parse::<u64>()
                .expect("a number")
        };
        let sum = |prefix: &str| -> u64 {
            let lines = text.lines().filter(|l| l.starts_with(prefix));
            lines
                .map(|l| {
                    l.rsplit(' ')
                        .next()
                        .expect("a value")
                        .parse::<u64>()
                        .expect("a number")
                })
                .sum()
        };
        for kind in [
            "fork",
            "exec",
            "exit",
            "exec_failed",
            "signal",
            "seed",
            "thread",
        ] {
            assert!(
                value(&format!("tracer_events_total{{kind=\"{kind}\"}}")) > 0,
                "{kind}"
            );
        }
        let lost = every_event()
            .iter()
            .map(|e| match e {
                Event::Lost(l) => l.count,
                _ => 0,
            })
            .sum::<u64>();
        assert_eq!(sum("tracer_lost_total{"), lost);
        let ended = every_process().iter().filter(|p| p.end.is_some()).count();
        assert_eq!(sum("tracer_processes_ended_total{"), ended as u64);
        assert!(text.contains("backend=\"ebpf\""));
    }
}
