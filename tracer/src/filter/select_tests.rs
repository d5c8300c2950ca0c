use super::*;
use crate::filter::glob::compile;
use crate::model::{Exit, Fork, LossKind, LossPlace, Lost, Reason, Status, Usage};
use std::sync::Arc;

fn id(pid: u32) -> ProcId {
    ProcId::exact(pid, u64::from(pid))
}

fn fork(parent: u32, child: u32) -> Event {
    Event::Fork(Fork {
        ts: 1,
        cpu: None,
        parent: id(parent),
        tid: parent,
        comm: Comm::new(b"any"),
        child: id(child),
        child_tid: child,
        child_ns_pid: None,
        thread: false,
        kthread: false,
    })
}

fn exec_as(pid: u32, comm: &str, uid: u32, cgroup: &str) -> Event {
    Event::Exec(Arc::new(crate::model::Exec {
        ts: 2,
        cpu: None,
        id: id(pid),
        tid: pid,
        old_tid: None,
        parent: None,
        comm: Comm::new(comm.as_bytes()),
        filename: Field::Missing(Reason::Source),
        argv: Field::Missing(Reason::Source),
        env: None,
        cwd: Field::Missing(Reason::Source),
        uid: Some(uid),
        euid: None,
        gid: None,
        egid: None,
        loginuid: None,
        sid: None,
        pgid: None,
        tty: None,
        cgroup: Field::Full(Bytes::from(cgroup.as_bytes())),
        ns_pid: None,
        by_kernel: false,
        root: false,
    }))
}

fn exec(pid: u32, comm: &str) -> Event {
    exec_as(pid, comm, 0, "/")
}

fn exit(pid: u32, code: u32) -> Event {
    Event::Exit(Box::new(Exit {
        ts: 3,
        cpu: None,
        id: id(pid),
        tid: pid,
        thread: false,
        thread_start: None,
        parent: None,
        orig_parent: None,
        comm: Comm::new(b"any"),
        status: Some(Status::from_wait(code << 8)),
        uid: None,
        gid: None,
        ns_pid: None,
        cgroup: Field::Missing(Reason::Source),
        threads: None,
        usage: Usage::default(),
        kthread: false,
        root: false,
    }))
}

/// What comes through: f(ork), x (exec), e(xit), g(ood end), l(eft).
fn sifted(select: Select, events: Vec<Event>) -> (String, usize) {
    let mut selected = Selected::new((), select);
    let kind = |event: &Event| match event {
        Event::Fork(e) => format!("f{}", e.child.pid),
        Event::Exec(e) => format!("x{}", e.id.pid),
        Event::Exit(e) => format!("e{}", e.id.pid),
        Event::Gone { id, left, .. } => format!("{}{}", if *left { "l" } else { "g" }, id.pid),
        _ => "other".into(),
    };
    let passed: Vec<String> = events
        .into_iter()
        .filter_map(|event| selected.pass(event))
        .map(|event| kind(&event))
        .collect();
    (passed.join(" "), selected.shown.len())
}

fn comm(pattern: &str) -> Option<Box<Glob>> {
    Some(Box::new(compile(&[pattern]).unwrap()))
}

fn life() -> Vec<Event> {
    vec![
        exec(1, "sh"),
        fork(1, 2),
        exec(2, "cc"),
        fork(2, 3),
        exec(3, "as"),
        exit(3, 0),
        exit(2, 1),
        exit(1, 0),
    ]
}

#[test]
fn without_filters_all_comes_through_and_nothing_is_remembered() {
    let all = "x1 f2 x2 f3 x3 e3 e2 e1";
    assert_eq!(sifted(Select::default(), life()), (all.into(), 0));
}

#[test]
fn a_child_is_filtered_in_below_one_that_is_not_and_out_again() {
    let select = Select {
        comm: comm("cc"),
        ..Select::default()
    };
    // The fork of 3 is that of a cc; what it becomes is not wanted.
    assert_eq!(sifted(select, life()), ("x2 f3 l3 e2".into(), 0));
    let select = Select {
        exclude_comm: comm("cc"),
        ..Select::default()
    };
    assert_eq!(sifted(select, life()), ("x1 f2 l2 x3 e3 e1".into(), 0));
}

#[test]
fn users_and_groups() {
    let life = || {
        vec![
            exec_as(1, "sh", 0, "/a"),
            exec_as(2, "sh", 7, "/a/b"),
            exec_as(3, "sh", 7, "/ab"),
        ]
    };
    let uids = Select {
        uids: vec![7, 8],
        ..Select::default()
    };
    assert_eq!(sifted(uids, life()).0, "x2 x3");
    for (group, want) in [
        ("/a", "x1 x2"),
        ("/a/", "x1 x2"),
        ("/a/b", "x2"),
        ("/", "x1 x2 x3"),
    ] {
        let groups = Select {
            cgroups: vec![Bytes::from(group.as_bytes())],
            ..Select::default()
        };
        assert_eq!(sifted(groups, life()).0, want, "{group}");
    }
    let both = Select {
        uids: vec![7],
        cgroups: vec![Bytes::from(&b"/a"[..])],
        ..Select::default()
    };
    assert_eq!(sifted(both, life()).0, "x2");
}

#[test]
fn of_good_ends_it_is_told_that_they_were() {
    let select = Select {
        failed_only: true,
        ..Select::default()
    };
    assert_eq!(
        sifted(select, life()),
        ("x1 f2 x2 f3 x3 g3 e2 g1".into(), 0)
    );
}

#[test]
fn losses_are_always_shown() {
    let select = Select {
        comm: comm("nobody"),
        ..Select::default()
    };
    let lost = Event::Lost(Lost {
        ts: 1,
        cpu: None,
        place: LossPlace::Table,
        kind: LossKind::Any,
        count: 1,
    });
    assert_eq!(sifted(select, vec![lost]).0, "other");
}
