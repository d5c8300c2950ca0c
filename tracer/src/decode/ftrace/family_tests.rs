//! The tree that records make: of three kernels, of threads, of lost records.

use std::collections::BTreeMap;

use super::text_tests::{data, part};
use super::{Body, Item, Record, Text};
use super::{Family, NoLookup};
use crate::model::{Bytes, Comm, Event, Exit, Reason};

fn events(records: impl IntoIterator<Item = Record<Bytes>>, threads: bool) -> Vec<Event> {
    let mut family = Family::new(threads);
    let mut out = Vec::new();
    for record in records {
        family.apply(&record, &mut NoLookup, &mut |e| out.push(e));
    }
    out
}

fn of_text(bytes: &[u8]) -> Vec<Event> {
    let mut text = Text::new();
    text.push(bytes);
    let mut records = Vec::new();
    while let Some(item) = text.next(true) {
        if let Item::Record(r) = item {
            records.push(r.map_name(Bytes::from));
        }
    }
    events(records, false)
}

/// `name*threads(children)` of the process that `pid` names.
fn tree(events: &[Event], pid: u32) -> String {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut ends: BTreeMap<u32, &Exit> = BTreeMap::new();
    for event in events {
        match event {
            Event::Fork(e) => children.entry(e.parent.pid).or_default().push(e.child.pid),
            Event::Exit(e) => assert!(ends.insert(e.id.pid, e).is_none(), "two ends"),
            _ => {}
        }
    }
    fn show(pid: u32, children: &BTreeMap<u32, Vec<u32>>, ends: &BTreeMap<u32, &Exit>) -> String {
        let end = ends[&pid];
        assert_eq!((end.status, end.usage.cpu_ns), (None, None));
        let name = String::from_utf8_lossy(end.comm.as_slice()).into_owned();
        let below = children.get(&pid).into_iter().flatten();
        let below: Vec<_> = below.map(|c| show(*c, children, ends)).collect();
        format!("{name}*{}({})", end.threads.unwrap(), below.join(","))
    }
    show(pid, &children, &ends)
}

#[test]
fn three_kernels_show_the_same_tree() {
    for (name, root) in [
        ("ftrace-6.1.txt", 114),
        ("ftrace-6.12.txt", 170),
        ("ftrace-6.18.txt", 14791),
    ] {
        let events = of_text(&part(&data(name), "default options"));
        assert_eq!(tree(&events, root), "sh*1(true*1(),t1*3())", "{name}");
        let parents: Vec<_> = events
            .iter()
            .filter_map(|e| match e {
                Event::Exec(e) => Some((e.parent.is_some(), e.argv.reason())),
                _ => None,
            })
            .collect();
        assert!(
            parents
                .iter()
                .all(|p| *p == (true, Some(Reason::Source.name())))
        );
    }
}

#[test]
fn a_subtree_ends_whole() {
    let file = data("ftrace-event-fork-6.18.txt");
    let text = part(&[b"\n", &file[..]].concat(), "event-fork");
    let events = of_text(&text);
    assert_eq!(
        tree(&events, 20860),
        "sh*1(sh*1(t1*3(),t1*1(t1*1(true*1()),sleep*1())),cat*1(),tr*1())"
    );
    let begun = events
        .iter()
        .filter(|e| matches!(e, Event::Fork(_)))
        .count();
    let ended = events
        .iter()
        .filter(|e| matches!(e, Event::Exit(_)))
        .count();
    assert_eq!((begun, ended), (9, 9), "threads are none");
}

fn record(ts: u64, tid: u32, body: Body<Bytes>) -> Record<Bytes> {
    Record {
        ts,
        cpu: 0,
        tid,
        body,
    }
}

fn newtask(child: u32, clone_flags: u64) -> Body<Bytes> {
    let comm = Comm::new(b"x");
    Body::NewTask {
        child,
        comm,
        clone_flags,
    }
}

fn fork(child: u32) -> Body<Bytes> {
    let comm = Comm::new(b"x");
    Body::Fork { comm, child }
}

fn exit(group_dead: Option<bool>) -> Body<Bytes> {
    let comm = Comm::new(b"x");
    Body::Exit { comm, group_dead }
}

fn exec(old_tid: u32) -> Body<Bytes> {
    let filename = Bytes::from(&b"/bin/new"[..]);
    Body::Exec { filename, old_tid }
}

const THREAD: u64 = 0x1_0000;
const PARENT: u64 = 0x8000;

/// 10 forks 20, which makes a thread 21.
fn with_thread() -> Vec<Record<Bytes>> {
    vec![
        record(1, 10, newtask(20, 0)),
        record(2, 10, fork(20)),
        record(3, 20, newtask(21, THREAD)),
        record(4, 20, fork(21)),
    ]
}

#[test]
fn a_process_ends_with_its_last_thread() {
    for dead in [None, Some(false)] {
        let mut records = with_thread();
        records.push(record(5, 20, exit(dead)));
        records.push(record(6, 21, exit(dead.map(|_| true))));
        let events = events(records, false);
        let [Event::Fork(fork), Event::Exit(end)] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!((end.ts, end.tid, end.threads), (6, 21, Some(2)));
        assert_eq!((end.id, end.parent), (fork.child, Some(fork.parent)));
        assert_eq!(fork.child.start, 1, "when newtask was");
    }
}

#[test]
fn an_exec_by_another_thread_goes_on_as_the_same_process() {
    let mut records = with_thread();
    records.push(record(5, 20, exit(None)));
    records.push(record(6, 20, exec(21)));
    records.push(record(7, 20, exit(None)));
    let events = events(records, false);
    let [Event::Fork(fork), Event::Exec(exec), Event::Exit(end)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((exec.id, exec.old_tid), (fork.child, Some(21)));
    assert_eq!(
        (end.id, end.ts, exec.comm),
        (fork.child, 7, Comm::new(b"new"))
    );
}

#[test]
fn threads_are_told_where_they_are_asked_for() {
    let mut records = with_thread();
    records.push(record(5, 21, exit(Some(false))));
    records.push(record(6, 20, exit(Some(true))));
    let events = events(records, true);
    let [_, Event::Fork(thread), Event::Exit(one), Event::Exit(all)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(
        (thread.thread, thread.child, thread.child_tid),
        (true, all.id, 21)
    );
    assert_eq!(
        (one.thread, one.id, one.tid, all.thread),
        (true, all.id, 21, false)
    );
}

#[test]
fn a_worker_without_a_fork_record_counts_but_is_no_process() {
    let mut records = with_thread();
    records.truncate(3);
    records.push(record(5, 20, exit(None)));
    records.push(record(6, 21, exit(None)));
    let events = events(records, false);
    let [Event::Fork(_), Event::Exit(end)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((end.ts, end.threads), (6, Some(2)));
}

#[test]
fn a_number_that_is_used_again_is_another_process() {
    let again = [
        record(1, 10, newtask(20, 0)),
        record(2, 10, fork(20)),
        // Its end was lost.
        record(9, 10, newtask(20, 0)),
        record(10, 10, fork(20)),
        record(11, 20, exit(Some(true))),
    ];
    let events = events(again, false);
    let [Event::Fork(a), Event::Fork(b), Event::Exit(end)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_ne!(a.child, b.child);
    assert_eq!(end.id, b.child);
}

#[test]
fn clone_parent_makes_a_sibling() {
    let records = [
        record(1, 10, newtask(20, 0)),
        record(2, 10, fork(20)),
        record(3, 20, newtask(30, PARENT)),
        record(4, 20, fork(30)),
    ];
    let events = events(records, false);
    let [Event::Fork(first), Event::Fork(second)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((second.parent, second.tid), (first.parent, 20));
}

#[test]
fn a_lost_fork_leaves_a_process_without_parent() {
    let records = [record(5, 20, exec(20)), record(6, 20, exit(Some(true)))];
    let events = events(records, false);
    let [Event::Exec(exec), Event::Exit(end)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((exec.id, end.parent, end.threads), (end.id, None, None));
}

#[test]
fn an_orphan_s_new_parent_is_not_guessed() {
    let records = [
        record(1, 10, newtask(20, 0)),
        record(2, 10, fork(20)),
        record(3, 20, newtask(30, 0)),
        record(4, 20, fork(30)),
        record(5, 20, exit(Some(true))),
        record(6, 30, exec(30)),
        record(7, 30, exit(Some(true))),
    ];
    let events = events(records, false);
    let [
        Event::Fork(_),
        Event::Fork(fork),
        Event::Exit(first),
        Event::Exec(exec),
        Event::Exit(end),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(
        (end.orig_parent, end.parent, exec.parent),
        (Some(fork.parent), None, None)
    );
    assert!(first.parent.is_some(), "its own is still there");
}
