//! Threads: counted, their totals summed, their processes ended once.

use super::{Options, fixture};
use crate::model::Event;

/// The fixture proper: the child of the harness's main process.
fn subject(run: &super::Run) -> crate::model::ProcId {
    run.forks()
        .iter()
        .find(|f| f.parent == run.root && !f.thread)
        .unwrap()
        .child
}

#[test]
fn fifty_threads_and_one_end() {
    let run = fixture::trace(Options::default(), "threads");
    let exit = run.exit_of(subject(&run));
    assert_eq!(exit.threads, Some(51));
    assert!(
        exit.usage.cpu_ns.unwrap() > 50 * 1_000_000,
        "the threads' CPU is in it"
    );
    assert!(
        run.events
            .iter()
            .all(|e| !matches!(e, Event::Fork(f) if f.thread))
    );
    assert_eq!(run.all_exits().len(), run.exits().len());
}

#[test]
fn threads_are_told_where_asked() {
    let run = fixture::trace(
        Options {
            threads: true,
            ..Options::default()
        },
        "threads",
    );
    let id = subject(&run);
    let started: Vec<u32> = run
        .forks()
        .iter()
        .filter(|f| f.thread && f.child == id)
        .map(|f| f.child_tid)
        .collect();
    let mut ended: Vec<u32> = run
        .all_exits()
        .iter()
        .filter(|x| x.thread && x.id == id)
        .map(|x| x.tid)
        .collect();
    assert_eq!(started.len(), 50);
    let mut sorted = started.clone();
    sorted.sort_unstable();
    ended.sort_unstable();
    assert_eq!(sorted, ended);
    let threads = run
        .all_exits()
        .into_iter()
        .filter(|x| x.thread && x.id == id);
    let sum: u64 = threads.map(|x| x.usage.cpu_ns.unwrap()).sum();
    assert!(sum <= run.exit_of(id).usage.cpu_ns.unwrap());
}

#[test]
fn the_leader_leaves_first() {
    let run = fixture::trace(Options::default(), "leader_first");
    let exit = run.exit_of(subject(&run));
    assert_eq!(exit.status.unwrap().exit_code, Some(7));
    assert_eq!(exit.threads, Some(2));
}

#[test]
fn a_thread_runs_a_program() {
    let run = fixture::trace(Options::default(), "thread_execs");
    let id = subject(&run);
    let exec = run.execs().into_iter().find(|e| e.id == id).unwrap();
    assert_eq!(exec.comm.as_slice(), b"sh");
    assert!(exec.old_tid.is_some_and(|t| t != id.pid));
    let exit = run.exit_of(id);
    assert_eq!(exit.status.unwrap().exit_code, Some(5));
    assert_eq!(exit.threads, Some(3));
}
