//! Two sources that name different threads as the last one of a process.

use serde_json::Map;

use super::last_thread::is_since_6_16;
use super::report::{Verdict, What};
use super::tests::{META, named, report, side};
use super::{Kind, compare};

#[test]
fn since_when_the_kernel_says_which_is_the_last() {
    for (kernel, says) in [
        ("6.1.0-49-amd64", false),
        ("6.15.9", false),
        ("5.17", false),
        ("6.16.0-rc1", true),
        ("6.18.5+deb14", true),
        ("7.0", true),
        ("", false),
    ] {
        let meta = serde_json::json!({ "kernel": kernel });
        assert_eq!(is_since_6_16(meta.as_object().unwrap()), says, "{kernel}");
    }
    assert!(!is_since_6_16(&Map::new()));
}

/// A process with a thread 12 beside its leader; both end at once, `last` a little later.
fn threaded(kernel: &str, backend: &str, last: u32) -> Vec<String> {
    let first = if last == 10 { 12 } else { 10 };
    let end = |tid, process: bool, ts| {
        format!(
            r#"{{"type":"exit","ts":{ts},"cpu":1,"pid":10,"start":900,"tid":{tid},"comm":"t{tid}","process":{process},"exit_code":0,"signal":null}}"#
        )
    };
    vec![
        META.replace("ebpf", backend)
            .replace(":1000", if backend == "ebpf" { ":1000" } else { ":1100" })
            .replace("\"schema\"", &format!("\"kernel\":\"{kernel}\",\"schema\"")),
        r#"{"type":"fork","ts":2000,"cpu":0,"pid":10,"start":900,"tid":10,"comm":"sh","child_pid":10,"child_start":900,"child_tid":12,"thread":true,"kthread":false}"#.to_owned(),
        // Others end before.
        end(13, false, 7_000_000),
        end(first, false, 8_000_000),
        end(last, true, 8_100_000),
        r#"{"type":"end","ts":9000000,"lost":0}"#.to_owned(),
    ]
}

#[test]
fn which_thread_was_the_last_is_not_known_before_6_16() {
    for (kernel, known) in [("6.1.0-49-amd64", false), ("6.18.5", true)] {
        let (a, b) = (threaded(kernel, "ebpf", 12), threaded(kernel, "ftrace", 10));
        let report = report(&a, &b);
        let verdict = if known {
            Verdict::Different
        } else {
            Verdict::Equal
        };
        assert_eq!(report.verdict, verdict, "{report:#?}");
    }
    // The end of a thread is missing: that explains nothing.
    let (a, mut b) = (
        threaded("6.1.0", "ebpf", 12),
        threaded("6.1.0", "ftrace", 10),
    );
    b.remove(3);
    let found = named(&report(&a, &b));
    assert_eq!(
        found,
        [
            (What::OnlyA, Kind::ThreadExit, Some(10)),
            (What::Differs, Kind::Exit, Some(10)),
        ]
    );
    // Nor do ends that are far apart, or another name.
    let mut b = threaded("6.1.0", "ftrace", 10);
    b[4] = b[4].replace("\"t10\"", "\"x\"");
    assert_eq!(
        named(&report(&a, &b)),
        [(What::Differs, Kind::Exit, Some(10))]
    );
    let report = compare(side(&a), side(&threaded("6.1.0", "ftrace", 10)), 50_000).report;
    assert_eq!(report.verdict, Verdict::Different, "{report:#?}");
}

/// Both are killed at once, and the leader goes first: what stands alone on either side is
/// not one record that was altered, however near the times are.
#[test]
fn a_ptracer_names_the_leader_on_any_kernel() {
    for kernel in ["6.1.0-49-amd64", "6.18.5"] {
        let near = |lines: Vec<String>| -> Vec<String> {
            let near = |line: String| line.replace(":8100000,", ":8010000,");
            lines.into_iter().map(near).collect()
        };
        let (a, b) = (threaded(kernel, "ebpf", 12), threaded(kernel, "ptrace", 10));
        let (a, b) = (near(a), near(b));
        let report = report(&a, &b);
        assert_eq!(report.verdict, Verdict::Equal, "{report:#?}");
    }
}
