//! Numbers of processes that are used again at once: no two lives are mixed, and
//! nobody else's is taken for one of ours.

use std::path::Path;
use std::process::Command;
use std::sync::MutexGuard;

use tracer_tests::beside::Beside;
use tracer_tests::host::{alone, root, skipped};
use tracer_tests::{Capture, Record, Trace, fixture, require};

/// Writing a number here makes the next process have the one after it.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";

/// For one test at a time, each of which chooses the pid of whatever process is next.
fn choosing_pids() -> Option<MutexGuard<'static, ()>> {
    if Path::new(LAST_PID).exists() && root().is_ok() {
        return Some(alone());
    }
    skipped("the next pid cannot be chosen here");
    None
}

/// Processes that were forked, and those of which the end is there or counted as lost.
fn forks_and_ends(capture: &Capture) -> (usize, usize) {
    let forks = capture.of("fork").filter(|f| !f.flag("thread")).count();
    let root = capture.root_pid();
    let ends = capture
        .of("exit")
        .filter(|e| e.flag("process") && e.num("pid") != root)
        .count();
    let lost = usize::try_from(capture.lost("exit")).expect("a small number");
    (forks, ends + lost)
}

#[test]
fn one_number_for_many() {
    require!(source);
    let Some(_alone) = choosing_pids() else {
        return;
    };
    let script = format!(
        "i=0; while [ $i -lt 50 ]; do (:) & p=$!; wait $p; echo $((p - 1)) >{LAST_PID}; i=$((i + 1)); done"
    );
    // Waits for all: a process whose end was not recorded must not be waited for.
    let capture = Trace::shell(&script)
        .option("--wait-all")
        .run()
        .expect_code(0)
        .capture();
    assert_eq!(forks_and_ends(&capture), (50, 50), "{}", capture.outline());
    assert_eq!(capture.of("process").count(), 51, "{}", capture.outline());
    if tracer_tests::host::backend() != "ftrace" {
        assert_eq!(capture.lost_at_all(), 0);
    }
}

/// A stranger is given the number of a process of ours that has just ended.
#[test]
fn a_number_that_goes_to_a_stranger() {
    require!(source);
    let Some(_alone) = choosing_pids() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let fifo = |name: &str| {
        let path = dir.path().join(name);
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo runs").success());
        path.display().to_string()
    };
    let (asked, done) = (fifo("asked"), fifo("done"));
    let tiny = fixture("tiny").display().to_string();
    let strange = format!(
        "exec 3<>{asked} 4<>{done}; while read -r p <&3; do echo $((p - 1)) >{LAST_PID}; {tiny}; ({tiny}; :); echo >&4; done"
    );
    let stranger = Beside::shell(&strange);
    let script = format!(
        "exec 3<>{asked} 4<>{done}; i=0; while [ $i -lt 20 ]; do (:) & p=$!; wait $p; echo $p >&3; read -r x <&4; i=$((i + 1)); done"
    );
    let trace = Trace::shell(&script).option("--wait-all");
    let capture = trace.run().expect_code(0).capture();
    drop(stranger);
    assert_eq!(capture.of("exec").count(), 1, "{}", capture.outline());
    assert_eq!(forks_and_ends(&capture), (20, 20), "{}", capture.outline());
    assert_eq!(capture.of("process").count(), 21, "{}", capture.outline());
}
