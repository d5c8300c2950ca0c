//! Lives of processes, the odd ones above all.

use std::sync::Arc;

use super::table::{FINAL_WAIT_NS, Table};
use crate::model::{
    Args, Bytes, Comm, Event, Exec, Exit, Field, Final, Fork, ProcId, Process, Reason, Seed,
    Signal, SignalBy, Status, Usage,
};

pub(super) const fn id(pid: u32) -> ProcId {
    ProcId::exact(pid, pid as u64 * 1000)
}

pub(super) fn fork(ts: u64, parent: ProcId, child: ProcId) -> Event {
    Event::Fork(Fork {
        ts,
        cpu: None,
        parent,
        tid: parent.pid,
        comm: Comm::new(b"sh"),
        child,
        child_tid: child.pid,
        child_ns_pid: None,
        thread: false,
        kthread: false,
    })
}

pub(super) fn exec_of(ts: u64, id: ProcId, name: &str) -> Exec {
    Exec {
        ts,
        cpu: None,
        id,
        tid: id.pid,
        old_tid: None,
        parent: None,
        comm: Comm::new(name.as_bytes()),
        filename: Field::Full(format!("/bin/{name}").into_bytes().into()),
        argv: Field::Full(Args::default()),
        env: None,
        cwd: Field::Missing(Reason::Source),
        uid: Some(7),
        euid: None,
        gid: None,
        egid: None,
        loginuid: None,
        sid: None,
        pgid: None,
        tty: None,
        cgroup: Field::Missing(Reason::Source),
        ns_pid: None,
        by_kernel: false,
        root: false,
    }
}

pub(super) fn exec(ts: u64, id: ProcId, name: &str) -> Event {
    Event::Exec(Arc::new(exec_of(ts, id, name)))
}

pub(super) fn exit_of(ts: u64, id: ProcId, status: u32) -> Exit {
    Exit {
        ts,
        cpu: None,
        id,
        tid: id.pid,
        thread: false,
        thread_start: None,
        parent: None,
        orig_parent: None,
        comm: Comm::new(b"last"),
        status: Some(Status::from_wait(status)),
        uid: None,
        gid: None,
        ns_pid: None,
        cgroup: Field::Missing(Reason::Source),
        threads: Some(1),
        usage: usage(10, false),
        kthread: false,
        root: false,
    }
}

pub(super) fn exit(ts: u64, id: ProcId, status: u32) -> Event {
    Event::Exit(Box::new(exit_of(ts, id, status)))
}

pub(super) fn usage(cpu: u64, is_final: bool) -> Usage {
    Usage {
        is_final,
        utime_ns: Some(cpu),
        stime_ns: Some(0),
        cpu_ns: Some(cpu),
        ..Usage::default()
    }
}

pub(super) fn final_of(ts: u64, id: ProcId, usage: Usage) -> Event {
    Event::Final(Box::new(Final {
        ts,
        id,
        threads: None,
        usage,
        told_ns: None,
    }))
}

pub(super) fn signal(ts: u64, target: ProcId, signal: i32, by: SignalBy, sender: u32) -> Event {
    let sender = Some(id(sender));
    Event::Signal(Box::new(Signal {
        ts,
        cpu: None,
        signal,
        by,
        sender,
        sender_comm: None,
        target,
    }))
}

pub(super) fn seed(id: ProcId, exe: &[u8]) -> Event {
    Event::Seed(Box::new(Seed {
        ts: 1,
        id,
        parent: None,
        comm: Comm::new(b"seeded"),
        exe: Field::Full(exe.into()),
        argv: Field::Missing(Reason::Gone),
        uid: Some(3),
        cgroup: Field::Missing(Reason::Source),
        kthread: false,
    }))
}

/// A table and the rows that it gave.
#[derive(Default)]
pub(super) struct Run {
    pub table: Table,
    pub rows: Vec<Process>,
    pub hidden: usize,
}

impl Run {
    pub fn of(events: impl IntoIterator<Item = Event>) -> Self {
        let mut run = Self::default();
        events.into_iter().for_each(|e| run.apply(&e));
        run
    }

    pub fn apply(&mut self, event: &Event) {
        if !self.table.apply(event, &mut |p| self.rows.push(p)) {
            self.hidden += 1;
        }
    }

    pub fn expire(&mut self, now: u64) {
        self.table.expire(now, &mut |p| self.rows.push(p));
    }

    pub fn drain(&mut self) {
        self.table.drain_remaining(&mut |p| self.rows.push(p));
    }
}

pub(super) fn name(bytes: &Option<Bytes>) -> &[u8] {
    bytes.as_ref().map(Bytes::as_slice).unwrap_or_default()
}

#[test]
fn a_life_gives_one_row() {
    let mut run = Run::of([
        exec(1, id(1), "sh"),
        fork(2, id(1), id(2)),
        exec(3, id(2), "ls"),
        exec(4, id(2), "cat"),
        exit(5, id(2), 3 << 8),
    ]);
    assert_eq!(
        run.table.get(&id(2)).and_then(|p| p.end),
        Some(5),
        "an exit's sinks can look it up"
    );
    assert_eq!(
        (run.table.running(), run.table.len(), run.rows.len()),
        (1, 2, 0)
    );
    run.apply(&final_of(9, id(2), usage(12, true)));
    let [row] = &run.rows[..] else {
        panic!("{:?}", run.rows)
    };
    assert_eq!(
        (row.id, row.orig_parent, row.end, row.execs),
        (id(2), Some(id(1)), Some(5), 2)
    );
    assert_eq!(
        (name(&row.exe), row.comm, row.uid),
        (&b"/bin/cat"[..], Comm::new(b"last"), Some(7))
    );
    assert_eq!(row.status.and_then(|s| s.exit_code), Some(3));
    assert_eq!(
        (row.usage.cpu_ns, row.usage.is_final, row.fork_seen),
        (Some(12), true, true)
    );
    assert!(run.table.get(&id(2)).is_none());

    run.drain();
    assert_eq!(run.rows.len(), 2);
    assert_eq!(
        (run.rows[1].id, run.rows[1].end, run.rows[1].fork_seen),
        (id(1), None, false)
    );
    assert!(run.table.is_empty() && run.table.running() == 0);
}

#[test]
fn what_wait4_was_told_after_the_end_counts() {
    // Ends with 10 ns. The last ones: its CPU was taken away just then, for 10 ms; it had
    // much to do after the end, in the midst of which somebody has looked.
    for (told, all, cpu) in [
        (None, 1000, 1000),
        (Some((0, 0)), 1000, 1000),
        (Some((10, 0)), 1000, 1000),
        (Some((700, 90)), 1000, 790),
        (Some((1000, 0)), 1000, 1000),
        (Some((700, 90)), 10_000_000, 790),
        (Some((700, 90)), 30_000_000, 30_000_000),
    ] {
        let mut run = Run::of([fork(1, id(1), id(2)), exit(100, id(2), 0)]);
        let Event::Final(mut last) = final_of(200, id(2), usage(all, true)) else {
            unreachable!()
        };
        last.told_ns = told;
        run.apply(&Event::Final(last));
        assert_eq!(run.rows[0].usage.cpu_ns, Some(cpu), "{told:?}");
    }
}

#[test]
fn a_row_waits_for_its_totals_no_longer_than_it_should() {
    let mut run = Run::of([fork(1, id(1), id(2)), exit(100, id(2), 0)]);
    run.expire(99 + FINAL_WAIT_NS);
    assert!(run.rows.is_empty() && run.table.awaits_finals());
    run.expire(100 + FINAL_WAIT_NS);
    assert!(run.rows.len() == 1 && !run.rows[0].usage.is_final && !run.table.awaits_finals());
    // Too late: neither a row nor an event.
    run.apply(&final_of(101 + FINAL_WAIT_NS, id(2), usage(12, true)));
    assert_eq!(
        (run.rows.len(), run.hidden, run.table.oddities().late_finals),
        (1, 1, 1)
    );
}

#[test]
fn totals_that_are_final_at_the_exit_or_never_known_are_not_waited_for() {
    for usage in [usage(3, true), Usage::default()] {
        let mut e = exit_of(5, id(2), 0);
        e.usage = usage.clone();
        let mut run = Run::of([fork(1, id(1), id(2)), Event::Exit(Box::new(e))]);
        assert!(
            run.table.get(&id(2)).is_some(),
            "not before the exit event was shown"
        );
        run.expire(5);
        assert_eq!(run.rows.len(), 1);
        assert_eq!(run.rows[0].usage, usage, "final only where there are some");
    }
}

#[test]
fn a_child_runs_its_parents_program() {
    let mut run = Run::of([
        exec(1, id(1), "sh"),
        fork(2, id(1), id(2)),
        fork(3, id(2), id(3)),
    ]);
    run.drain();
    let child = &run.rows[2];
    assert_eq!(
        (name(&child.exe), child.uid, child.execs),
        (&b"/bin/sh"[..], Some(7), 0)
    );
    let (parents, childs) = (run.rows[0].exe.as_ref(), child.exe.as_ref());
    assert!(
        Arc::ptr_eq(&parents.unwrap().0, &childs.unwrap().0),
        "shared, not copied"
    );
    // Where the file name was lost, the old program's is wrong.
    let mut lost = exec_of(4, id(4), "x");
    lost.filename = Field::Missing(Reason::Lost);
    let mut run = Run::of([exec(1, id(4), "sh"), Event::Exec(Arc::new(lost))]);
    run.drain();
    assert_eq!(run.rows[0].exe, None);
}

#[test]
fn records_make_up_for_a_lost_fork() {
    let mut e = exit_of(9, id(2), 0);
    e.parent = Some(id(1));
    e.orig_parent = Some(id(4));
    let run = Run::of([
        Event::Exit(Box::new(e)),
        final_of(10, id(2), usage(1, true)),
    ]);
    let row = &run.rows[0];
    assert_eq!(
        (row.parent, row.orig_parent, row.fork_seen),
        (Some(id(1)), Some(id(4)), false)
    );
    // A parent that only a fork names; but a fork on behalf of another (CLONE_PARENT) names it not.
    let run = Run::of([fork(1, id(5), id(6))]);
    assert_eq!(
        run.table.get(&id(5)).map(|p| p.comm),
        Some(Comm::new(b"sh"))
    );
    let Event::Fork(mut sibling) = fork(1, id(5), id(6)) else {
        panic!()
    };
    sibling.tid = 77;
    let run = Run::of([Event::Fork(sibling)]);
    assert!(run.table.get(&id(5)).is_none() && run.table.get(&id(6)).is_some());
}

#[test]
fn a_fork_that_comes_after_its_child_amends_it() {
    let mut run = Run::of([exec(2, id(2), "ls"), fork(3, id(1), id(2))]);
    assert_eq!(run.table.running(), 2);
    run.drain();
    let row = &run.rows[1];
    assert_eq!(
        (row.comm, name(&row.exe)),
        (Comm::new(b"ls"), &b"/bin/ls"[..])
    );
    assert!(row.fork_seen && row.orig_parent == Some(id(1)));
}

#[test]
fn memory_follows_the_living_not_the_dead() {
    for (with_final, lives) in [(true, 1_000_000u32), (false, 100_000)] {
        let mut table = Table::new();
        let (mut rows, mut largest) = (0u32, 0);
        for n in 0..lives {
            let ts = u64::from(n) * 1_000_000; // 1,000 a second: 5,000 wait
            let child = ProcId::exact(2 + n % 30_000, ts);
            table.apply(&fork(ts, id(1), child), &mut |_| rows += 1);
            table.apply(&exit(ts + 10, child, 0), &mut |_| rows += 1);
            if with_final {
                table.apply(&final_of(ts + 20, child, usage(1, true)), &mut |_| {
                    rows += 1
                });
            } else {
                table.expire(ts + 20, &mut |_| rows += 1);
            }
            largest = largest.max(table.len());
        }
        table.drain_remaining(&mut |_| rows += 1);
        assert_eq!(rows, lives + 1);
        assert!(largest < 5_100, "{largest}");
    }
}

fn seed_of(ts: u64, id: ProcId) -> Seed {
    Seed {
        ts,
        id,
        parent: None,
        comm: Comm::new(b"d"),
        exe: Field::Full(Bytes::from(&b"/sbin/d"[..])),
        argv: Field::Full(Args::from_strings(["d", "-x"])),
        uid: Some(3),
        cgroup: Field::Missing(Reason::Source),
        kthread: false,
    }
}

#[test]
fn a_row_has_what_the_seed_said() {
    let mut table = Table::new();
    let mut rows = Vec::new();
    let daemon = id(5);
    for event in [
        Event::Seed(Box::new(seed_of(1, daemon))),
        Event::Exit(Box::new(exit_of(9, daemon, 0))),
        // One that ended before anybody could be asked about it: nobody saw its fork.
        Event::Exit(Box::new(exit_of(9, id(6), 0))),
        Event::Exit(Box::new(Exit {
            orig_parent: Some(daemon),
            ..exit_of(9, id(7), 0)
        })),
    ] {
        assert!(table.apply(&event, &mut |p: Process| rows.push(p)));
    }
    table.drain_remaining(&mut |p| rows.push(p));
    rows.sort_by_key(|p| p.id.pid);
    let exec = rows[0].exec.as_ref().unwrap();
    assert_eq!(exec.argv, Field::Full(Args::from_strings(["d", "-x"])));
    assert_eq!((rows[0].execs, rows[0].uid), (0, Some(3)));
    assert_eq!(rows[0].exe.as_ref().unwrap().as_slice(), b"/sbin/d");
    let seeded: Vec<bool> = rows.iter().map(|p| p.seeded).collect();
    assert_eq!(seeded, [true, true, false], "the last one's fork was lost");
}
