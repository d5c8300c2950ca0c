//! Processes that are killed while they create others: what ptrace is not told of them.

use super::report::Verdict;
use super::tests::{META, report};

/// Process 10 with a thread 12, which forks 20; then both are killed, before 20 ends.
fn killed(backend: &str, creator: u32, parent: u32, code: u32) -> Vec<String> {
    let boot = if backend == "ebpf" { 1000 } else { 1100 };
    vec![
        META.replace("ebpf", backend)
            .replace(":1000", &format!(":{boot}")),
        r#"{"type":"fork","ts":2000,"cpu":0,"pid":10,"start":900,"tid":10,"comm":"sh","child_pid":10,"child_start":900,"child_tid":12,"thread":true,"kthread":false}"#.to_owned(),
        format!(
            r#"{{"type":"fork","ts":3000,"cpu":0,"pid":10,"start":900,"tid":{creator},"comm":"sh","child_pid":20,"child_start":2900,"child_tid":20,"thread":false,"kthread":false}}"#
        ),
        format!(
            r#"{{"type":"exit","ts":4000,"cpu":1,"pid":10,"start":900,"tid":12,"comm":"sh","process":false,"exit_code":{code},"signal":null}}"#
        ),
        r#"{"type":"exit","ts":5000,"cpu":1,"pid":10,"start":900,"tid":10,"comm":"sh","process":true,"exit_code":5,"signal":null}"#.to_owned(),
        format!(
            r#"{{"type":"exit","ts":6000,"cpu":1,"pid":20,"start":2900,"tid":20,"comm":"sh","process":true,"ppid":{parent},"parent_start":900,"orig_ppid":10,"orig_parent_start":900,"exit_code":0,"signal":null}}"#
        ),
        r#"{"type":"end","ts":9000,"lost":0}"#.to_owned(),
    ]
}

#[test]
fn what_ptrace_is_not_told_is_no_difference() {
    let a = killed("ebpf", 12, 1, 0);
    for b in [
        killed("ptrace", 10, 1, 0),
        killed("ptrace", 12, 10, 0),
        killed("ptrace", 12, 1, 5),
    ] {
        let report = report(&a, &b);
        assert_eq!(report.verdict, Verdict::Equal, "{report:#?}");
        assert_eq!(report.explained.values().sum::<u64>(), 1, "{report:#?}");
    }
}

#[test]
fn what_it_is_told_is() {
    let a = killed("ebpf", 12, 1, 0);
    for b in [
        // Another creator than the process or the true one, another parent than the first, a code of nobody.
        killed("ptrace", 13, 1, 0),
        killed("ptrace", 12, 7, 0),
        killed("ptrace", 12, 1, 6),
        // ftrace has records of all that.
        killed("ftrace", 10, 1, 0),
        killed("ftrace", 12, 1, 5),
    ] {
        let report = report(&a, &b);
        assert_eq!(report.verdict, Verdict::Different, "{report:#?}");
    }
}

#[test]
fn what_the_command_leaves_behind_may_end_after_the_recording() {
    let without_end = |ts: &str| {
        let [a, b] = ["ebpf", "ptrace"].map(|source| -> Vec<String> {
            let lines = killed(source, 12, 1, 0).into_iter();
            lines.map(|l| l.replace(":6000,", ts)).collect()
        });
        let b: Vec<String> = b.into_iter().filter(|l| !l.contains(ts)).collect();
        report(&a, &b).verdict
    };
    assert_eq!(without_end(":6000,"), Verdict::Equal);
    // Before the command's own end.
    assert_eq!(without_end(":4500,"), Verdict::Different);
}
