//! Lives of processes, the odd ones above all.

use std::sync::Arc;

use super::table::{FINAL_WAIT_NS, Oddities, Table};
use crate::model::{
    Args, Bytes, Comm, Event, Exec, Exit, Field, Final, Fork, Precision, ProcId, Process, Reason,
    Seed, Signal, SignalBy, Status, Usage,
};

const fn id(pid: u32) -> ProcId {
    ProcId::exact(pid, pid as u64 * 1000)
}

fn fork(ts: u64, parent: ProcId, child: ProcId) -> Event {
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

fn exec_of(ts: u64, id: ProcId, name: &str) -> Exec {
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

fn exec(ts: u64, id: ProcId, name: &str) -> Event {
    Event::Exec(Arc::new(exec_of(ts, id, name)))
}

fn exit_of(ts: u64, id: ProcId, status: u32) -> Exit {
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

fn exit(ts: u64, id: ProcId, status: u32) -> Event {
    Event::Exit(Box::new(exit_of(ts, id, status)))
}

fn usage(cpu: u64, is_final: bool) -> Usage {
    Usage {
        is_final,
        utime_ns: Some(cpu),
        stime_ns: Some(0),
        cpu_ns: Some(cpu),
        ..Usage::default()
    }
}

fn final_of(ts: u64, id: ProcId, usage: Usage) -> Event {
    Event::Final(Box::new(Final {
        ts,
        id,
        threads: None,
        usage,
    }))
}

fn signal(ts: u64, target: ProcId, signal: i32, by: SignalBy, sender: u32) -> Event {
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

fn seed(id: ProcId, exe: &[u8]) -> Event {
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
struct Run {
    table: Table,
    rows: Vec<Process>,
    hidden: usize,
}

impl Run {
    fn of(events: impl IntoIterator<Item = Event>) -> Self {
        let mut run = Self::default();
        events.into_iter().for_each(|e| run.apply(&e));
        run
    }

    fn apply(&mut self, event: &Event) {
        if !self.table.apply(event, &mut |p| self.rows.push(p)) {
            self.hidden += 1;
        }
    }

    fn expire(&mut self, now: u64) {
        self.table.expire(now, &mut |p| self.rows.push(p));
    }

    fn drain(&mut self) {
        self.table.drain_remaining(&mut |p| self.rows.push(p));
    }
}

fn name(bytes: &Option<Bytes>) -> &[u8] {
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
fn totals_that_are_final_at_the_exit_are_not_waited_for() {
    let mut e = exit_of(5, id(2), 0);
    e.usage.is_final = true;
    let mut run = Run::of([fork(1, id(1), id(2)), Event::Exit(Box::new(e))]);
    assert!(
        run.table.get(&id(2)).is_some(),
        "not before the exit event was shown"
    );
    run.expire(5);
    assert_eq!(run.rows.len(), 1);
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
fn a_reused_pid_is_another_process() {
    let (old, new) = (ProcId::exact(2, 10), ProcId::exact(2, 500));
    let mut run = Run::of([
        fork(10, id(1), old),
        exec(11, old, "old"),
        exit(20, old, 0),
        fork(500, id(1), new),
        exec(501, new, "new"),
        final_of(510, old, usage(3, true)),
        exit(520, new, 9),
        final_of(530, new, usage(4, true)),
    ]);
    let rows: Vec<_> = run
        .rows
        .iter()
        .map(|p| (p.id, name(&p.exe).to_vec(), p.usage.cpu_ns, p.end))
        .collect();
    assert_eq!(rows[0], (old, b"/bin/old".to_vec(), Some(3), Some(20)));
    assert_eq!(rows[1].0, new);
    assert_eq!(rows[1].1, b"/bin/new");
    assert_eq!(run.table.oddities(), Oddities::default());
    run.drain();
    assert_eq!(run.rows.len(), 3);
}

#[test]
fn a_reused_pid_ends_one_whose_exit_was_lost() {
    let (old, new) = (ProcId::exact(2, 10), ProcId::exact(2, 500));
    let run = Run::of([fork(10, id(1), old), fork(501, id(1), new)]);
    assert_eq!(
        (run.rows[0].id, run.rows[0].end, run.rows[0].status),
        (old, Some(501), None)
    );
    assert_eq!(
        (run.table.oddities().unseen_exits, run.table.running()),
        (1, 2)
    );
    // So do final totals.
    let run = Run::of([fork(10, id(1), old), final_of(30, old, usage(3, true))]);
    assert_eq!(
        (
            run.rows[0].end,
            run.rows[0].status,
            run.rows[0].usage.is_final
        ),
        (Some(30), None, true)
    );
    // And so does a look at which still exist.
    let mut run = Run::of([fork(10, id(1), old)]);
    run.table
        .sweep(40, |id| id.pid == 1, &mut |p| run.rows.push(p));
    assert_eq!(
        (run.rows.len(), run.rows[0].id, run.rows[0].end),
        (1, old, Some(40))
    );
    assert_eq!(run.table.running(), 1);
}

#[test]
fn an_orphan_keeps_its_first_parent() {
    // 1 is a subreaper; 2 forks 3 and ends.
    let mut e = exit_of(9, id(3), 0);
    e.parent = Some(id(1));
    e.orig_parent = Some(id(2));
    let mut run = Run::of([
        fork(1, id(1), id(2)),
        fork(2, id(2), id(3)),
        exit(3, id(2), 0),
        Event::Exit(Box::new(e)),
    ]);
    run.drain();
    let row = run.rows.iter().find(|p| p.id == id(3)).unwrap();
    assert_eq!((row.orig_parent, row.parent), (Some(id(2)), Some(id(1))));
    assert_eq!(run.table.oddities(), Oddities::default());
}

#[test]
fn threads_come_and_go_within_a_process() {
    let Event::Fork(mut thread) = fork(2, id(2), id(2)) else {
        panic!()
    };
    (thread.thread, thread.child_tid) = (true, 22);
    let mut leader = exit_of(4, id(2), 0);
    leader.thread = true;
    let mut by_thread = exec_of(6, id(2), "new");
    by_thread.old_tid = Some(22);
    let mut end = exit_of(9, id(2), 7 << 8);
    end.threads = Some(2);
    let mut run = Run::of([
        fork(1, id(1), id(2)),
        Event::Fork(thread),
        Event::Exit(Box::new(leader)), // the leader leaves first: not the end
    ]);
    assert_eq!(
        (run.table.running(), run.table.len(), run.rows.len()),
        (2, 2, 0)
    );
    run.apply(&Event::Exec(Arc::new(by_thread))); // another thread execs: the same process goes on
    assert_eq!(
        run.table.get(&id(2)).map(|p| (p.comm, p.execs)),
        Some((Comm::new(b"new"), 1))
    );
    run.apply(&Event::Exit(Box::new(end)));
    run.apply(&final_of(10, id(2), usage(5, true)));
    let row = &run.rows[0];
    assert_eq!(
        (row.end, row.threads, row.status.and_then(|s| s.exit_code)),
        (Some(9), Some(2), Some(7))
    );
    assert_eq!((run.table.len(), run.hidden), (1, 0));
}

#[test]
fn an_end_that_is_reported_twice_is_one() {
    let mut again = exit_of(6, id(2), 0);
    again.usage = usage(20, false);
    let mut run = Run::of([
        fork(1, id(1), id(2)),
        exit(5, id(2), 0),
        Event::Exit(Box::new(again)),
    ]);
    assert_eq!(
        (
            run.hidden,
            run.table.oddities().duplicate_exits,
            run.table.running()
        ),
        (1, 1, 1)
    );
    run.expire(u64::MAX);
    assert_eq!(
        (run.rows.len(), run.rows[0].end, run.rows[0].usage.cpu_ns),
        (1, Some(5), Some(20))
    );
}

#[test]
fn killed_by_whom() {
    let killed_by = |signals: Vec<Event>, status| {
        let mut run = Run::of([fork(1, id(1), id(2))].into_iter().chain(signals));
        run.apply(&exit(9, id(2), status));
        run.apply(&signal(10, id(2), 9, Process, 66)); // to a zombie
        run.expire(u64::MAX);
        run.rows[0]
            .killed_by
            .as_ref()
            .map(|s| (s.by, s.sender.map_or(0, |s| s.pid)))
    };
    use SignalBy::{Kernel, Oom, Process};
    let sent = |n, by, pid| signal(2, id(2), n, by, pid);
    assert_eq!(
        killed_by(vec![sent(15, Process, 5), sent(9, Process, 6)], 9),
        Some((Process, 6))
    );
    assert_eq!(
        killed_by(vec![sent(9, Process, 5), sent(9, Process, 6)], 9),
        Some((Process, 5))
    );
    assert_eq!(
        killed_by(vec![sent(9, Oom, 5), sent(9, Kernel, 5)], 9),
        Some((Oom, 5))
    );
    assert_eq!(
        killed_by(vec![sent(9, Kernel, 5), sent(9, Oom, 5)], 9),
        Some((Oom, 5))
    );
    assert_eq!(killed_by(vec![sent(15, Process, 5)], 0), None);
    assert_eq!(killed_by(vec![], 9), None);
    // One that is not in the table is not made by a signal.
    assert!(Run::of([sent(9, Process, 5)]).table.is_empty());
}

#[test]
fn final_totals_amend_those_of_the_exit() {
    let row = |at_exit: Usage, later: Usage| {
        let mut e = exit_of(5, id(2), 0);
        e.usage = at_exit;
        let run = Run::of([Event::Exit(Box::new(e)), final_of(9, id(2), later)]);
        run.rows[0].usage.clone()
    };
    let rss = |own, upper| Usage {
        max_rss_bytes: own,
        max_rss_upper_bytes: upper,
        ..Usage::default()
    };
    let after = |a, b| {
        (
            row(a, b).max_rss_bytes,
            row(rss(Some(5), None), rss(None, Some(9))).max_rss_upper_bytes,
        )
    };
    assert_eq!(
        after(rss(Some(5), None), rss(None, Some(9))),
        (Some(5), None),
        "the mm is gone: the exit knew"
    );
    assert_eq!(
        after(rss(Some(5), None), rss(Some(8), None)),
        (Some(8), None),
        "it grew"
    );
    assert_eq!(
        row(rss(None, Some(4)), rss(None, Some(9))).max_rss_upper_bytes,
        Some(9)
    );
    let io = |read_bytes| Usage {
        read_bytes,
        ..Usage::default()
    };
    assert_eq!(row(io(Some(5)), io(Some(7))).read_bytes, Some(7));
    assert_eq!(row(io(Some(5)), io(None)).read_bytes, Some(5));
}

#[test]
fn seeds_are_taken_over_by_exact_records() {
    let tick = ProcId {
        pid: 5,
        start: 1_000_000_000,
        precision: Precision::Tick,
    };
    let exact = ProcId::exact(5, 1_004_321_000);
    let mut run = Run::of([seed(tick, b"/sbin/x"), fork(2, exact, id(6))]);
    assert_eq!((run.table.len(), run.table.running()), (2, 2));
    run.apply(&exit(9, exact, 0));
    run.expire(u64::MAX);
    let row = &run.rows[0];
    assert_eq!(
        (row.id, row.comm, row.seeded, row.uid),
        (exact, Comm::new(b"last"), true, Some(3))
    );
    assert_eq!(name(&row.exe), b"/sbin/x");
    assert_eq!(
        run.table.get(&id(6)).map(|p| name(&p.exe).to_vec()),
        Some(b"/sbin/x".to_vec())
    );
    // The other way round: a seed that was read after the first record.
    let run = Run::of([exec(1, exact, "y"), seed(tick, b"/sbin/x")]);
    assert_eq!(run.table.len(), 1);
    assert_eq!(
        run.table
            .get(&exact)
            .map(|p| (name(&p.exe).to_vec(), p.seeded)),
        Some((b"/bin/y".to_vec(), true))
    );
}

#[test]
fn a_good_end_under_failed_gives_a_row_without_totals() {
    let run = Run::of([
        fork(1, id(1), id(2)),
        Event::Gone { ts: 7, id: id(2) },
        Event::Gone { ts: 8, id: id(9) },
    ]);
    let row = &run.rows[0];
    assert_eq!(
        (run.rows.len(), row.end, row.usage.cpu_ns),
        (1, Some(7), None)
    );
    assert!(row.status.is_some_and(|s| s.is_success()));
    assert_eq!(run.table.running(), 1);
}

#[test]
fn the_command_is_marked() {
    let mut e = exec_of(1, id(2), "make");
    e.root = true;
    let mut run = Run::of([Event::Exec(Arc::new(e)), fork(2, id(2), id(3))]);
    assert_eq!(run.table.root(), Some(id(2)));
    run.drain();
    assert_eq!(
        run.rows.iter().map(|p| p.root).collect::<Vec<_>>(),
        [true, false]
    );
    let mut run = Run::default();
    run.table.set_root(id(4));
    run.apply(&fork(1, id(1), id(4)));
    assert!(run.table.get(&id(4)).is_some_and(|p| p.root));
}

#[test]
fn memory_follows_the_living_not_the_dead() {
    for with_final in [true, false] {
        let mut table = Table::new();
        let (mut rows, mut largest) = (0u32, 0);
        for n in 0..1_000_000u32 {
            let ts = u64::from(n) * 1_000_000; // 1,000 a second: 250 wait
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
        assert_eq!(rows, 1_000_001);
        assert!(largest < 300, "{largest}");
    }
}
