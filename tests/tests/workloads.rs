//! The workloads count themselves right: compared with ptrace, which cannot
//! lose a stop. Needs no tracer.

use std::ffi::OsString;
use std::process::Command;

use tracer_tests::host::in_vm;
use tracer_tests::{Truth, fixture, require};

/// What the workload says, and what ptrace counted of it.
fn both(name: &str, args: &[OsString]) -> (Truth, Truth) {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("out");
    let counted = Command::new(fixture("ptruth"))
        .arg("-o")
        .arg(&out)
        .arg("--")
        .arg(fixture(name))
        .args(args)
        .output();
    let counted = counted.expect("ptruth runs");
    assert!(counted.status.success(), "{name}: {counted:?}");
    let own = std::fs::read_to_string(&out).expect("the output of the workload");
    (
        Truth::of(&own),
        Truth::of(&String::from_utf8_lossy(&counted.stdout)),
    )
}

#[test]
fn each_tells_the_truth() {
    let tiny = fixture("tiny").into_os_string();
    let dir = tempfile::tempdir().expect("a directory");
    let workloads: [(&str, Vec<OsString>); 9] = [
        ("forkstorm", vec!["64".into()]),
        ("execstorm", vec![tiny.clone(), "40".into()]),
        (
            "execstorm",
            vec!["-j3".into(), "-v".into(), tiny.clone(), "40".into()],
        ),
        ("threadstorm", vec!["40".into()]),
        ("mixed", vec![tiny, "50".into()]),
        ("chain", vec!["100".into()]),
        ("subreaper", vec![]),
        ("badelf", vec![dir.path().join("corrupt").into()]),
        ("killer", vec![]),
    ];
    for (name, args) in workloads {
        let (own, counted) = both(name, &args);
        assert_eq!(
            own, counted,
            "{name}: its own count (left) and ptrace's (right)"
        );
    }
}

#[test]
fn those_that_need_privileges_too() {
    require!(root);
    for (name, args) in [("pidns", vec![]), ("family", vec![])] {
        let (own, counted) = both(name, &args);
        assert_eq!(own, counted, "{name}");
    }
    // Threads are not in its own count: the row of each child has them.
    let mib = if in_vm() { "8" } else { "20" };
    let (own, counted) = both("rusage", &["24".into(), mib.into()]);
    assert_eq!(
        Truth {
            threads: counted.threads,
            ..own
        },
        counted
    );
}
