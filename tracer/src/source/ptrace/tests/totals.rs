//! What a process cost, against what the kernel tells its parent.

use super::{Options, fixture, sh};

#[test]
fn a_leaf_has_what_wait4_says() {
    let run = sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
    let usage = &run.root_exit().usage;
    let truth = &run.end.rusage;
    assert!(usage.is_final);
    assert_eq!(usage.cpu_ns, Some((truth.utime + truth.stime) * 1000));
    assert_eq!(
        (usage.minflt, usage.majflt),
        (Some(truth.minflt), Some(truth.majflt))
    );
    assert!(usage.cpu_ns.unwrap() > 0 && usage.minflt.unwrap() > 0);
}

#[test]
fn children_are_not_counted_twice() {
    let run = sh("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; :");
    let root = &run.root_exit().usage;
    let child = &run.exit_of(run.forks()[0].child).usage;
    assert!(root.is_final && child.is_final);
    assert!(root.cpu_ns.unwrap() < child.cpu_ns.unwrap());
    let truth = &run.end.rusage;
    assert_eq!(root.minflt.unwrap() + child.minflt.unwrap(), truth.minflt);
    assert_eq!(
        root.cpu_ns.unwrap() + child.cpu_ns.unwrap(),
        (truth.utime + truth.stime) * 1000
    );
}

#[test]
fn a_child_that_nobody_waited_for() {
    // With SIGCHLD ignored its resources go to nobody.
    let run = fixture::trace(Options::default(), "no_wait");
    let parent = run
        .exits()
        .into_iter()
        .find(|x| x.parent == Some(run.root))
        .unwrap();
    let child = run
        .exits()
        .into_iter()
        .find(|x| x.parent == Some(parent.id))
        .unwrap();
    assert!(child.usage.is_final && !parent.usage.is_final);
    assert!(parent.usage.cpu_ns.unwrap() > 0 && parent.usage.minflt.unwrap() > 0);
    assert!(run.notes.is_empty());
}

#[test]
fn peak_memory_is_the_programs_own() {
    let run = fixture::trace(Options::default(), "memory");
    let id = run
        .forks()
        .iter()
        .find(|f| f.parent == run.root && !f.thread)
        .unwrap()
        .child;
    let peak = run.exit_of(id).usage.max_rss_bytes.unwrap();
    assert!((64 << 20..100 << 20).contains(&peak), "{peak}");
    // Its exec replaced the shell that had just touched as much.
    let run = sh("exec true");
    assert!(run.root_exit().usage.max_rss_bytes.unwrap() < 16 << 20);
}

#[test]
fn bytes_of_its_own() {
    let run = sh(
        "printf 0123456789 > /dev/null; sh -c 'printf 01234567890123456789 > /dev/null; exit 0'; :",
    );
    let child = run.exit_of(run.forks()[0].child);
    assert_eq!(child.usage.wchar, Some(20));
    assert_eq!(run.root_exit().usage.wchar, Some(10));
}
