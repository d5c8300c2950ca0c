//! One workload through each source gives the same tree.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use tracer_tests::host::{self, find_program, scaled};
use tracer_tests::{Capture, Trace, fixture, require};

/// What every source knows of each process.
const MEMBERS: [&str; 5] = ["comm", "exe", "execs", "threads", "running"];
/// What the two that know ends know, too.
const ENDS: [&str; 3] = ["comm", "exit_code", "signal_name"];

/// The sources that run here.
fn sources() -> Vec<&'static str> {
    let mut sources = vec!["ptrace"];
    sources.extend(host::root().is_ok().then_some("ftrace"));
    sources.extend(host::bpf().is_ok().then_some("ebpf"));
    sources
}

fn capture(source: &str, trace: Trace) -> Capture {
    let outcome = trace.backend(Some(source)).run();
    let capture = outcome.capture();
    assert_eq!(capture.backend(), source);
    assert_eq!(capture.lost_at_all(), 0, "{source}: {outcome}");
    capture
}

/// Traces with each source and asserts that the trees are the same.
fn same(what: &str, trace: impl Fn() -> Trace) {
    let found = sources().into_iter().map(|s| (s, capture(s, trace())));
    let found: Vec<(&str, Capture)> = found.collect();
    let (first, reference) = &found[0];
    for (source, capture) in &found[1..] {
        assert_eq!(
            capture.tree(&MEMBERS),
            reference.tree(&MEMBERS),
            "{what}: {source} (left) and {first} (right)"
        );
        if *source == "ebpf" {
            assert_eq!(
                capture.tree(&ENDS),
                reference.tree(&ENDS),
                "{what}: {source} (left) and {first} (right)"
            );
        }
    }
}

#[test]
fn workloads() {
    require!(source);
    let tiny = || fixture("tiny").into_os_string();
    let n = || OsString::from(scaled(200).to_string());
    let workloads: [(&str, Vec<OsString>); 10] = [
        ("forkstorm", vec![n()]),
        ("execstorm", vec![tiny(), n()]),
        ("execstorm", vec!["-v".into(), "-j2".into(), tiny(), n()]),
        ("chain", vec!["50".into()]),
        ("threads", vec!["20".into()]),
        ("leader", vec![]),
        ("threadexec", vec![tiny(), "a".into()]),
        ("subreaper", vec![]),
        ("nospawn", vec!["/no/such/program".into()]),
        ("family", vec![]),
    ];
    for (name, args) in workloads {
        same(name, || Trace::fixture(name, args.clone()));
    }
}

#[test]
fn a_shell_script() {
    require!(source);
    let dir = tempfile::tempdir().expect("a directory");
    same("shellstorm", || {
        let script = fixture("shellstorm.sh").into_os_string();
        let n = OsString::from(scaled(20).to_string());
        Trace::command("/bin/sh", [script, n]).in_dir(dir.path())
    });
}

#[test]
fn a_build() {
    require!(source, make);
    let dir = tempfile::tempdir().expect("a directory");
    let project = dir.path().join("project");
    let made = Command::new(fixture("gen_build.sh"))
        .arg(&project)
        .arg(scaled(12).to_string())
        .status();
    assert!(made.expect("the generator runs").success());
    let make = find_program("make").expect("looked for above");
    same("build", || {
        let _none_yet = fs::remove_dir_all(project.join("out"));
        fs::create_dir(project.join("out")).expect("a directory");
        Trace::command(&make, ["-s", "-j3"]).in_dir(&project)
    });
}
