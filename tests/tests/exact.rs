//! Every fork, exec, end and status of the storms, none missing and none extra.

use std::fs;
use std::process::Command;

use tracer_tests::host::{find_program, scaled};
use tracer_tests::{Record, Trace, fixture, require};

fn storm(trace: Trace) {
    let outcome = trace.run().expect_code(0);
    outcome.capture().assert_exact(&outcome.truth());
}

#[test]
fn forkstorm() {
    require!(source);
    storm(Trace::fixture("forkstorm", [scaled(4000).to_string()]));
}

#[test]
fn execstorm() {
    require!(source);
    storm(Trace::fixture(
        "execstorm",
        [
            fixture("tiny").into_os_string(),
            scaled(4000).to_string().into(),
        ],
    ));
}

#[test]
fn execstorm_by_vfork_from_two_processes() {
    require!(source);
    let n = scaled(4000).to_string();
    storm(Trace::fixture(
        "execstorm",
        [
            "-v".into(),
            "-j2".into(),
            fixture("tiny").into_os_string(),
            n.into(),
        ],
    ));
}

#[test]
fn threadstorm_lists_threads_where_asked() {
    require!(source);
    let n = scaled(4000);
    let outcome = Trace::fixture("threadstorm", [n.to_string()])
        .option("--threads")
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    let truth = outcome.truth();
    assert_eq!(capture.tally(), capture.knowable(&truth));
    assert_eq!(capture.lost_at_all(), 0);
    // Their ends too, each with a thread's own id.
    let ended = capture.of("exit").filter(|e| !e.flag("process")).count() as u64;
    assert_eq!(ended, n);
    assert_eq!(capture.of("process").count(), 1);
    assert_eq!(capture.root().num("threads"), n + 1);
}

#[test]
fn threadstorm_counts_threads_otherwise() {
    require!(source);
    let n = scaled(4000);
    let outcome = Trace::fixture("threadstorm", [n.to_string()])
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    assert_eq!(capture.of("fork").count(), 0);
    assert_eq!(capture.of("exit").count(), 1);
    assert_eq!(
        capture.root().num("threads"),
        n + 1,
        "threads ever created, the first included"
    );
}

#[test]
fn mixed() {
    require!(source);
    storm(Trace::fixture(
        "mixed",
        [
            fixture("tiny").into_os_string(),
            scaled(2000).to_string().into(),
        ],
    ));
}

#[test]
fn family() {
    require!(source);
    let outcome = Trace::fixture("family", [""; 0]).run().expect_code(0);
    let capture = outcome.capture();
    capture.assert_exact(&outcome.truth());
    // CLONE_PARENT: the parent is whom getppid names, not who called clone.
    let sibling = capture.process(tracer_tests::truth::number_after(
        &outcome.stdout(),
        "SIBLING",
    ));
    capture.expect(sibling, "ppid", capture.root_pid());
    assert_eq!(sibling.num("orig_ppid"), capture.root_pid());
}

/// Runs `script` once under ptrace, whose count is the truth.
fn truth_by_ptrace(dir: &std::path::Path, command: &[&std::ffi::OsStr]) -> tracer_tests::Truth {
    let counted = Command::new(fixture("ptruth"))
        .args(["-o", "/dev/null", "--"])
        .args(command)
        .current_dir(dir)
        .output()
        .expect("ptruth runs");
    assert!(counted.status.success(), "{counted:?}");
    tracer_tests::Truth::of(&String::from_utf8_lossy(&counted.stdout))
}

#[test]
fn shellstorm() {
    require!(source);
    let dir = tempfile::tempdir().expect("a directory");
    let script = fixture("shellstorm.sh");
    let n = scaled(60).to_string();
    let truth = truth_by_ptrace(
        dir.path(),
        &["/bin/sh".as_ref(), script.as_ref(), n.as_ref()],
    );
    let outcome = Trace::command("/bin/sh", [script.into_os_string(), n.into()])
        .in_dir(dir.path())
        .run()
        .expect_code(0);
    outcome.capture().assert_exact(&truth);
}

#[test]
fn build() {
    built("-j2");
}

/// CASES 11
#[test]
fn build_with_more_jobs_than_processors() {
    built("-j8");
}

fn built(jobs: &str) {
    require!(source, make);
    let dir = tempfile::tempdir().expect("a directory");
    let project = dir.path().join("project");
    let made = Command::new(fixture("gen_build.sh"))
        .arg(&project)
        .arg(scaled(60).to_string())
        .status();
    assert!(made.expect("the generator runs").success());
    let make = find_program("make").expect("looked for above");
    let truth = truth_by_ptrace(&project, &[make.as_ref(), "-s".as_ref(), jobs.as_ref()]);
    let clean = || {
        fs::remove_dir_all(project.join("out")).expect("what make wrote");
        fs::create_dir(project.join("out")).expect("a directory");
    };
    clean();
    let outcome = Trace::command(&make, ["-s", jobs])
        .in_dir(&project)
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    capture.assert_exact(&truth);
    // Each compiler run knows its whole command line.
    let compilers = capture.of("exec").filter(|e| e.text("comm") == "cc1");
    for exec in compilers.filter(|e| !capture.leaves_out(e, "argv")) {
        assert_eq!(exec.text("argv_state"), "full", "{exec}");
        assert!(
            exec.list("argv").iter().any(|a| a.ends_with(b".c")),
            "{exec}"
        );
    }
}
