//! A ring that is far too small loses records, and says exactly how many.

use std::collections::HashMap;

use tracer_tests::host::scaled;
use tracer_tests::{Capture, Record, Trace, Truth, fixture, require};

/// Per kind, what was recorded and what was lost make the truth.
#[track_caller]
fn assert_honest(capture: &Capture, truth: &Truth) {
    let forks = capture.of("fork").count() as u64 + capture.lost("fork");
    let execs = capture.of("exec").count() as u64 + capture.lost("exec");
    let exits = capture.ends().count() as u64 + capture.lost("exit");
    assert_eq!(
        (forks, execs, exits),
        (truth.forks, truth.execs + 1, truth.exits + 1),
        "events + lost (left) and truth, with the command's own exec and exit (right)\n{}",
        capture
            .of("lost")
            .take(20)
            .map(|l| format!("{l}\n"))
            .collect::<String>()
    );
    assert_eq!(capture.lost("any"), 0, "a loss without a kind");
    assert_eq!(capture.end().num("lost"), capture.lost_at_all());
}

#[test]
fn events_and_losses_make_the_truth_in_ten_runs() {
    require!(ebpf_is_tested);
    let mut lost = 0;
    for _ in 0..10 {
        let args = [
            "-j2".into(),
            "-v".into(),
            fixture("tiny").into_os_string(),
            scaled(2000).to_string().into(),
        ];
        let outcome = Trace::fixture("execstorm", args)
            .options(["--ring-size", "4096"])
            .run()
            .expect_code(0);
        let capture = outcome.capture();
        assert_honest(&capture, &outcome.truth());
        if capture.lost_at_all() > 0 {
            assert!(
                outcome.stderr().contains(" LOST"),
                "the summary says it too\n{outcome}"
            );
        }
        lost += capture.lost_at_all();
    }
    println!("{lost} records lost in ten runs");
}

#[test]
fn forks_alone() {
    require!(ebpf_is_tested);
    let outcome = Trace::fixture("forkstorm", [scaled(4000).to_string()])
        .options(["--ring-size", "4096"])
        .run()
        .expect_code(0);
    assert_honest(&outcome.capture(), &outcome.truth());
}

/// Nobody reads while tracer is stopped: the ring must overflow, and the loss
/// lies in the stream between what was recorded before and after.
#[test]
fn a_reader_that_sleeps_loses_and_counts() {
    require!(ebpf_is_tested);
    let trace = Trace::bare();
    let gate = trace.path("gate");
    let n = scaled(2000);
    let script = format!(
        "echo ready; while [ ! -e '{}' ]; do sleep 0.02; done; exec '{}' {n}",
        gate.display(),
        fixture("forkstorm").display()
    );
    let mut running = Trace::shell(&script)
        .options(["--ring-size", "8192"])
        .start();
    running.await_stdout("ready");
    running.signal(libc::SIGSTOP);
    std::fs::write(&gate, "").expect("a file in our own directory");
    running.await_stdout("TRUTH");
    running.signal(libc::SIGCONT);
    let outcome = running.finish().expect_code(0);
    let capture = outcome.capture();
    assert!(capture.lost_at_all() > 0, "{n} forks fit into 8 KiB?");
    // How often the shell looked for the gate is not known: forks and ends, less those of its sleeps.
    let sleeps = capture.of("exec").count() as u64 + capture.lost("exec") - 2;
    let truth = outcome.truth();
    let all = |kind: &str, seen: usize| seen as u64 + capture.lost(kind);
    // A busybox may run its sleep without an exec, as a plain fork.
    let forks = all("fork", capture.of("fork").count());
    let exits = all("exit", capture.ends().count());
    assert_eq!(forks + 1, exits, "each process ended");
    assert!(
        forks >= truth.forks + sleeps,
        "{forks} forks + lost, {} + {sleeps} sleeps",
        truth.forks
    );
    assert!(outcome.stderr().contains(" LOST"), "{outcome}");
}

/// Every exit says by itself who it was: the tree needs no fork.
#[test]
fn rows_survive_lost_forks() {
    require!(ebpf_is_tested);
    let args = [
        fixture("tiny").into_os_string(),
        scaled(2000).to_string().into(),
    ];
    let outcome = Trace::fixture("execstorm", args)
        .options(["--ring-size", "4096"])
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    let root = capture.root_pid();
    let rows: HashMap<_, _> = capture.of("process").map(|p| (p.id(), p)).collect();
    for end in capture.ends().filter(|e| e.num("pid") != root) {
        assert_eq!(end.num("orig_ppid"), root, "{end}");
        let row = rows[&end.id()];
        assert_eq!(row.num("orig_ppid"), root, "{row}");
        assert_eq!(row.code(), end.code());
    }
}
