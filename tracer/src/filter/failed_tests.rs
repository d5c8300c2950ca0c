//! Trees through the table and the stage, as a pipeline would send them.

use std::sync::{Arc, Mutex};

use super::*;
use crate::model::{Comm, Exec, ExecFailed, Exit, Field, Final, Fork, Reason, Status, Usage};
use crate::state::Table;

/// Writes down what comes: `f`ork, e`x`ec, `t`ry (failed exec), `e`xit, `r`ow, `l`ost; and whose.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn add(&self, note: String) -> io::Result<()> {
        self.0.lock().unwrap().push(note);
        Ok(())
    }
}

impl Sink for Notes {
    fn event(&mut self, event: &Event, _: Option<&Process>) -> io::Result<()> {
        let note = match event {
            Event::Fork(e) => format!("f{}", e.child.pid),
            Event::Exec(e) => format!("x{}", e.id.pid),
            Event::ExecFailed(e) => format!("t{}", e.id.pid),
            Event::Exit(e) => format!("e{}", e.id.pid),
            Event::Lost(e) => format!("l{}", e.count),
            other => format!("{other:?}"),
        };
        self.add(note)
    }

    fn process(&mut self, process: &Process) -> io::Result<()> {
        self.add(format!("r{}", process.id.pid))
    }
}

struct Run {
    table: Table,
    sink: FailedOnly,
    notes: Notes,
    ts: u64,
}

const fn id(pid: u32) -> ProcId {
    ProcId::exact(pid, pid as u64)
}

impl Run {
    /// Process 1 exec'd.
    fn new() -> Self {
        let notes = Notes::default();
        let mut run = Self {
            table: Table::new(),
            sink: FailedOnly::new(Box::new(notes.clone())),
            notes,
            ts: 10,
        };
        run.exec(1);
        run
    }

    fn send(&mut self, event: &Event, subject: u32) {
        let mut rows = Vec::new();
        self.table.apply(event, &mut |row| rows.push(row));
        self.sink
            .event(event, self.table.get(&id(subject)))
            .unwrap();
        for row in rows {
            self.sink.process(&row).unwrap();
        }
    }

    fn tick(&mut self) -> u64 {
        self.ts += 1;
        self.ts
    }

    fn fork(&mut self, parent: u32, child: u32) {
        let fork = Fork {
            ts: self.tick(),
            cpu: None,
            parent: id(parent),
            tid: parent,
            comm: Comm::default(),
            child: id(child),
            child_tid: child,
            child_ns_pid: None,
            thread: false,
            kthread: false,
        };
        self.send(&Event::Fork(fork), child);
    }

    fn exec(&mut self, pid: u32) {
        let missing = || Field::Missing(Reason::Source);
        let exec = Exec {
            ts: self.tick(),
            cpu: None,
            id: id(pid),
            tid: pid,
            old_tid: None,
            parent: None,
            comm: Comm::default(),
            filename: missing(),
            argv: Field::Missing(Reason::Source),
            env: None,
            cwd: missing(),
            uid: None,
            euid: None,
            gid: None,
            egid: None,
            loginuid: None,
            sid: None,
            pgid: None,
            tty: None,
            cgroup: missing(),
            ns_pid: None,
            by_kernel: false,
            root: pid == 1,
        };
        self.send(&Event::Exec(Arc::new(exec)), pid);
    }

    fn try_exec(&mut self, pid: u32) {
        let event = ExecFailed {
            ts: self.tick(),
            cpu: None,
            id: id(pid),
            tid: pid,
            comm: Comm::default(),
            filename: Field::Missing(Reason::Source),
            argv: Field::Missing(Reason::Source),
            errno: 2,
        };
        self.send(&Event::ExecFailed(Box::new(event)), pid);
    }

    /// An end with a record, then its final totals.
    fn exit(&mut self, pid: u32, code: u32) {
        let exit = Exit {
            ts: self.tick(),
            cpu: None,
            id: id(pid),
            tid: pid,
            thread: false,
            thread_start: None,
            parent: None,
            orig_parent: None,
            comm: Comm::default(),
            status: Some(Status::from_wait(code << 8)),
            uid: None,
            gid: None,
            ns_pid: None,
            cgroup: Field::Missing(Reason::Source),
            threads: None,
            usage: Usage::default(),
            kthread: false,
            root: pid == 1,
        };
        self.send(&Event::Exit(Box::new(exit)), pid);
        let totals = Final {
            ts: self.tick(),
            id: id(pid),
            threads: None,
            usage: Usage::default(),
            told_ns: None,
        };
        self.send(&Event::Final(Box::new(totals)), pid);
    }

    /// A good end, as the kernel side reports it under `--failed`.
    fn gone(&mut self, pid: u32) {
        let ts = self.tick();
        self.send(
            &Event::Gone {
                ts,
                id: id(pid),
                left: false,
            },
            pid,
        );
    }

    fn notes(&mut self) -> String {
        self.notes.take().join(" ")
    }
}

#[test]
fn only_failures_and_their_ancestors_are_shown() {
    let mut run = Run::new();
    for pid in [2, 3] {
        run.fork(1, pid);
        run.exec(pid);
    }
    run.gone(2);
    run.fork(3, 4);
    run.fork(3, 5);
    assert_eq!(run.notes(), "");
    run.exit(4, 1);
    assert_eq!(run.notes(), "x1 f3 x3 f4 e4 r4");
    run.exit(5, 0); // a source that reports good ends, too
    run.gone(3);
    run.fork(1, 6);
    run.gone(6);
    assert_eq!(run.notes(), "r3");
    run.exit(1, 0);
    assert_eq!(run.notes(), "e1 r1");
    assert_eq!(run.sink.held(), 0);
}

#[test]
fn an_ancestor_that_ended_well_waits_for_its_descendants() {
    let mut run = Run::new();
    for (parent, child) in [(1, 2), (2, 3), (3, 4), (2, 5)] {
        run.fork(parent, child);
    }
    run.gone(3);
    run.gone(2);
    assert_eq!(run.notes(), "");
    run.gone(5);
    assert_eq!(run.sink.held(), 4);
    run.exit(4, 1);
    assert_eq!(run.notes(), "x1 f2 f3 f4 r3 r2 e4 r4");
    run.gone(1);
    assert_eq!((run.notes(), run.sink.held()), ("r1".into(), 0));
}

#[test]
fn nothing_is_left_of_good_ends() {
    let mut run = Run::new();
    for pid in 2..2000 {
        run.fork(1, pid);
        if pid % 2 == 0 {
            run.fork(pid, pid + 10_000);
            run.gone(pid); // before its child
            run.gone(pid + 10_000);
        } else {
            run.gone(pid);
        }
        assert_eq!(run.sink.held(), 1);
    }
    run.gone(1);
    assert_eq!((run.notes(), run.sink.held()), (String::new(), 0));
}

#[test]
fn a_chain_of_5000_does_not_overflow_the_stack() {
    let mut run = Run::new();
    for pid in 2..5002 {
        run.fork(pid - 1, pid);
    }
    for pid in 1..5001 {
        run.gone(pid);
    }
    assert_eq!(run.sink.held(), 5001);
    run.gone(5001);
    assert_eq!((run.notes(), run.sink.held()), (String::new(), 0));
}

#[test]
fn what_still_runs_is_shown_and_losses_are_shown_at_once() {
    let mut run = Run::new();
    run.fork(1, 2);
    run.gone(1);
    let lost = Lost {
        ts: 99,
        cpu: None,
        place: LossPlace::Ring,
        kind: LossKind::Any,
        count: 7,
    };
    run.send(&Event::Lost(lost), 0);
    assert_eq!(run.notes(), "l7");
    let mut rows = Vec::new();
    run.table.drain_remaining(&mut |row| rows.push(row));
    rows.iter().for_each(|row| run.sink.process(row).unwrap());
    assert_eq!((run.notes(), run.sink.held()), ("x1 f2 r1 r2".into(), 0));
}

#[test]
fn what_is_held_of_one_process_is_bounded_and_the_rest_is_a_loss() {
    let mut run = Run::new();
    for _ in 0..HELD_MAX + 9 {
        run.try_exec(1);
    }
    run.exit(1, 1);
    let notes = run.notes();
    // The exec is one of those held; an end has its place always.
    assert!(
        notes.starts_with("x1 t1 t1") && notes.ends_with("t1 l10 e1 r1"),
        "{notes}"
    );
    assert_eq!(notes.split(' ').count(), HELD_MAX + 3);
}
