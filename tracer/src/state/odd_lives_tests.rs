//! Lives that do not go by the book: reused pids, orphans, threads, lost and doubled records.

use std::sync::Arc;

use super::table::Oddities;
use super::table_tests::*;
use crate::model::{Comm, Event, Precision, ProcId, SignalBy, Usage};

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

/// Within what the precision of their starts tells apart, and without the end of the first.
#[test]
fn a_pid_that_is_reused_at_once_is_another_process() {
    let at = |start| ProcId {
        precision: Precision::Inferred,
        ..ProcId::exact(2, start)
    };
    let mut run = Run::of([
        fork(10, id(1), at(10)),
        exec(11, at(10), "old"),
        fork(500, id(1), at(500)),
        exec(501, at(500), "new"),
        exit(520, at(500), 9),
    ]);
    assert_eq!(run.table.oddities().unseen_exits, 1);
    run.drain();
    let lives: Vec<_> = run
        .rows
        .iter()
        .map(|p| (p.id.start, name(&p.exe).to_vec(), p.execs, p.end))
        .filter(|life| life.0 != id(1).start)
        .collect();
    assert_eq!(
        lives,
        [
            (10, b"/bin/old".to_vec(), 1, Some(500)),
            (500, b"/bin/new".to_vec(), 1, Some(520))
        ]
    );
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
        Event::Gone {
            ts: 7,
            id: id(2),
            left: false,
        },
        Event::Gone {
            ts: 8,
            id: id(9),
            left: false,
        },
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
