//! What is recorded, and what is left out and still followed.

use std::collections::BTreeSet;
use tracer_tests::cgroup::Cgroup;
use tracer_tests::host::scaled;
use tracer_tests::{Capture, Record, Trace, copy_program, fixture, require};

fn comms(capture: &Capture) -> BTreeSet<String> {
    capture
        .of("process")
        .map(|p| p.text("comm").to_owned())
        .collect()
}

/// A shell that starts execstorm, which starts tiny: three names, one below the other.
fn three_names(n: u64) -> Trace {
    let [storm, tiny] = ["execstorm", "tiny"].map(|f| fixture(f).display().to_string());
    Trace::shell(&format!("'{storm}' '{tiny}' {n}; true"))
}

#[test]
fn comm_keeps_what_matches_below_what_does_not() {
    require!(source);
    let capture = three_names(20)
        .options(["--comm", "ti*y"])
        .run()
        .expect_code(0)
        .capture();
    assert_eq!(comms(&capture), ["tiny".to_owned()].into());
    assert_eq!(capture.of("process").count(), 20);
    assert_eq!(capture.of("exec").count(), 20);
    assert_eq!(capture.ends().count(), 20);
    assert_eq!(capture.lost_at_all(), 0);
}

#[test]
fn comm_repeated_is_either() {
    require!(source);
    let capture = three_names(10)
        .options(["--comm", "tiny", "--comm", "execstorm"])
        .run()
        .expect_code(0)
        .capture();
    assert_eq!(
        comms(&capture),
        ["execstorm".to_owned(), "tiny".to_owned()].into()
    );
}

#[test]
fn exclude_comm_leaves_out_and_still_follows() {
    require!(source);
    let capture = three_names(20)
        .options(["--exclude-comm", "execstorm"])
        .run()
        .expect_code(0)
        .capture();
    let comms = comms(&capture);
    assert!(
        comms.contains("tiny") && !comms.contains("execstorm"),
        "{comms:?}"
    );
    assert_eq!(
        capture
            .of("exec")
            .filter(|e| e.text("comm") == "tiny")
            .count(),
        20
    );
    assert!(!capture.of("exec").any(|e| e.text("comm") == "execstorm"));
}

#[test]
fn different_options_are_combined() {
    require!(source);
    let capture = three_names(10)
        .options(["--comm", "*", "--exclude-comm", "t?ny"])
        .run()
        .expect_code(0)
        .capture();
    let comms = comms(&capture);
    assert!(
        comms.contains("execstorm") && !comms.contains("tiny"),
        "{comms:?}"
    );
}

#[test]
fn the_decision_is_remade_at_exec() {
    require!(source);
    // The same process: a shell first, tiny afterwards.
    let script = format!("exec '{}'", fixture("tiny").display());
    let capture = Trace::shell(&script)
        .options(["--comm", "tiny"])
        .run()
        .expect_code(0)
        .capture();
    assert_eq!(capture.of("exec").count(), 1, "only that into tiny");
    assert_eq!(capture.root().text("comm"), "tiny");
}

#[test]
fn uid_filter_keeps_a_users_processes() {
    require!(knows_ends, root);
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("our own");
    let [jail, tiny] = ["jail", "tiny"].map(|name| {
        let copy = dir.path().join(name);
        copy_program(&fixture(name), &copy);
        copy.display().to_string()
    });
    let script = format!("{tiny}; {jail} -u 65534 -- {tiny} a; {tiny} b c; true");
    let capture = Trace::shell(&script)
        .options(["--uid-filter", "65534"])
        .run()
        .expect_code(0)
        .capture();
    let codes: Vec<String> = capture.of("process").map(Record::code).collect();
    assert_eq!(codes, ["1"], "the one that ran as 65534");
    assert_eq!(capture.of("process").next().expect("one").num("uid"), 65534);
}

#[test]
fn failed_keeps_failures_and_those_who_started_them() {
    require!(knows_ends);
    let n = scaled(320);
    let script = format!("'{}' {n}; true", fixture("forkstorm").display());
    let outcome = Trace::shell(&script)
        .option("--failed")
        .run()
        .expect_code(0);
    let (capture, truth) = (outcome.capture(), outcome.truth());
    let failures: u64 = truth
        .codes
        .iter()
        .filter(|(c, _)| *c != "0")
        .map(|(_, n)| n)
        .sum();
    let (good, bad): (Vec<_>, Vec<_>) = capture.of("process").partition(|p| p.code() == "0");
    assert_eq!(bad.len() as u64, failures);
    let names: BTreeSet<&str> = good.iter().map(|p| p.text("comm")).collect();
    assert!(
        good.len() <= 2,
        "only ancestors of failures stay: {names:?}"
    );
    assert!(names.contains("forkstorm"), "{names:?}");
    assert_eq!(
        capture.ends().filter(|e| e.code() != "0").count() as u64,
        failures
    );
}

#[test]
fn kernel_threads_are_absent() {
    require!(source);
    let capture = three_names(50).run().expect_code(0).capture();
    for record in capture.lines.iter().filter(|l| l.get("kthread").is_some()) {
        assert!(!record.flag("kthread"), "{record}");
    }
}

#[test]
fn cgroup_keeps_what_runs_in_it_and_below() {
    require!(knows_ends);
    let group = match Cgroup::new() {
        Ok(group) => group,
        Err(reason) => return tracer_tests::host::skipped(&reason),
    };
    let tiny = fixture("tiny").display().to_string();
    let script = format!(
        "{tiny}; sh -c \"{}; exec {tiny} a\"; {tiny} b c; true",
        group.enter().replace('$', "\\$")
    );
    let options: [std::ffi::OsString; 2] = ["--cgroup".into(), group.path().into()];
    let capture = Trace::shell(&script)
        .options(options)
        .run()
        .expect_code(0)
        .capture();
    let codes: Vec<String> = capture.of("process").map(Record::code).collect();
    assert_eq!(codes, ["1"], "the one that was moved into it");
    assert_eq!(capture.only("exec", |_| true).text("cgroup"), group.name());
}
