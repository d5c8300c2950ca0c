//! Whole comparisons, of recordings written by hand.

use super::report::{Counts, Difference, Report, Verdict, What};
use super::side::Side;
use super::{Kind, check, compare, load};

pub(super) const TOLERANCE: u64 = 100_000_000;
pub(super) const META: &str = r#"{"type":"meta","schema":1,"backend":"ebpf","boot_id":"x","wall_start":"w","boot_start":1000,"root_pid":10,"root_start":900}"#;

/// A command, 10, that runs children 11, 12, … one after the other.
pub(super) fn run(children: u64) -> Vec<String> {
    let mut lines = vec![
        META.to_owned(),
        r#"{"type":"exec","ts":2000,"cpu":0,"pid":10,"start":900,"tid":10,"comm":"sh","ppid":9,"parent_start":5,"filename":"/bin/sh","argv":["sh"],"argv_state":"full"}"#.to_owned(),
    ];
    for child in 0..children {
        let pid = 11 + child;
        let ts = 1_000_000 * (child + 1);
        lines.push(format!(r#"{{"type":"fork","ts":{ts},"cpu":0,"pid":10,"start":900,"tid":10,"comm":"sh","child_pid":{pid},"child_start":{start},"child_tid":{pid},"thread":false,"kthread":false}}"#, start = ts - 500));
        lines.push(format!(r#"{{"type":"exec","ts":{at},"cpu":1,"pid":{pid},"start":{start},"tid":{pid},"comm":"ls","ppid":10,"parent_start":900,"filename":"/bin/ls","argv":["ls","{pid}"],"argv_state":"full"}}"#, at = ts + 100_000, start = ts - 500));
        lines.push(format!(r#"{{"type":"exit","ts":{at},"cpu":1,"pid":{pid},"start":{start},"tid":{pid},"comm":"ls","ppid":10,"parent_start":900,"orig_ppid":10,"orig_parent_start":900,"process":true,"exit_code":0,"signal":null}}"#, at = ts + 200_000, start = ts - 500));
    }
    let end = 1_000_000 * (children + 2);
    lines.push(format!(r#"{{"type":"exit","ts":{end},"cpu":0,"pid":10,"start":900,"tid":10,"comm":"sh","ppid":9,"parent_start":5,"process":true,"exit_code":0,"signal":null}}"#));
    lines.push(format!(r#"{{"type":"end","ts":{end},"lost":0}}"#));
    lines
}

/// The same, as another source would have recorded it a little later.
pub(super) fn other(children: u64) -> Vec<String> {
    let lines = run(children).into_iter().map(|line| {
        line.replace(r#""ebpf""#, r#""ptrace""#)
            .replace(r#""boot_start":1000"#, r#""boot_start":1100"#)
            .replace(r#""wall_start":"w""#, r#""wall_start":"v""#)
            .replace(r#""cpu":1"#, r#""cpu":null"#)
    });
    lines.collect()
}

pub(super) fn side(lines: &[String]) -> Side {
    let text = lines.join("\n") + "\n";
    Side::from_jsonl("capture".to_owned(), text.into_bytes(), false).unwrap()
}

pub(super) fn report(a: &[String], b: &[String]) -> Report {
    compare(side(a), side(b), TOLERANCE).report
}

pub(super) fn line_with(lines: &[String], parts: [&str; 2]) -> usize {
    let found = lines
        .iter()
        .position(|l| parts.iter().all(|p| l.contains(p)));
    found.unwrap()
}

pub(super) fn named(report: &Report) -> Vec<(What, Kind, Option<u32>)> {
    let name = |d: &Difference| (d.what, d.kind, d.pid);
    report.differences.iter().map(name).collect()
}

#[test]
fn a_recording_equals_itself_and_another_of_the_same_run() {
    for b in [run(20), other(20)] {
        let report = report(&run(20), &b);
        assert_eq!(report.verdict, Verdict::Equal, "{report:#?}");
        assert!(report.tree.equal);
        assert_eq!(report.tree.processes, 21);
        assert_eq!(report.kinds[&Kind::Fork].matched, 20);
    }
}

#[test]
fn every_single_line_that_is_removed_is_named() {
    for of in [run, other] {
        let a = run(4);
        for gone in 1..a.len() - 1 {
            let mut b = of(4);
            b.remove(gone);
            let report = report(&a, &b);
            assert_eq!(report.verdict, Verdict::Different, "{gone}");
            let [d] = &*report.differences else {
                panic!("{gone}: {report:#?}");
            };
            assert_eq!((d.what, d.line_a), (What::OnlyA, Some(gone as u32 + 1)));
        }
    }
}

#[test]
fn every_single_line_that_is_doubled_is_named() {
    for of in [run, other] {
        let a = run(4);
        for twice in 1..a.len() - 1 {
            let mut b = of(4);
            b.insert(twice, b[twice].clone());
            let report = report(&a, &b);
            let [d] = &*report.differences else {
                panic!("{twice}: {report:#?}");
            };
            assert_eq!(d.what, What::TwiceInB);
        }
    }
}

#[test]
fn what_is_altered_is_named_with_its_member() {
    let alterations = [
        (
            ["\"fork\"", "\"child_pid\":12,"],
            "\"child_pid\":12",
            "\"child_pid\":77",
            "child_pid",
        ),
        (
            ["\"fork\"", "\"child_pid\":12,"],
            "\"pid\":10",
            "\"pid\":11",
            "pid",
        ),
        (
            ["\"exec\"", "\"pid\":12,"],
            "/bin/ls",
            "/bin/cat",
            "filename",
        ),
        (["\"exec\"", "\"pid\":12,"], "[\"ls\"", "[\"no\"", "argv"),
        (
            ["\"exec\"", "\"pid\":12,"],
            "\"pid\":12",
            "\"pid\":99",
            "pid",
        ),
        (
            ["\"exit\"", "\"pid\":12,"],
            "\"exit_code\":0",
            "\"exit_code\":3",
            "exit_code",
        ),
        (
            ["\"exit\"", "\"pid\":12,"],
            "\"comm\":\"ls\"",
            "\"comm\":\"cat\"",
            "comm",
        ),
        (
            ["\"exit\"", "\"pid\":12,"],
            "\"ppid\":10",
            "\"ppid\":1",
            "ppid",
        ),
        (
            ["\"exit\"", "\"pid\":12,"],
            "\"ts\":2200000",
            "\"ts\":902200000",
            "ts",
        ),
    ];
    for of in [run, other] {
        for (which, from, to, member) in alterations {
            let mut b = of(4);
            let at = line_with(&b, which);
            b[at] = b[at].replace(from, to);
            assert_ne!(b[at], of(4)[at]);
            let report = report(&run(4), &b);
            let [d] = &*report.differences else {
                panic!("{member}: {report:#?}");
            };
            assert_eq!(
                (d.what, d.line_b),
                (What::Differs, Some(at as u32 + 1)),
                "{member}"
            );
            assert!(d.members.iter().any(|m| m.member == member), "{d:?}");
        }
    }
}

#[test]
fn removed_doubled_and_altered_at_once() {
    let mut b = run(50);
    let altered = line_with(&b, ["\"exit\"", "\"pid\":50,"]);
    b[altered] = b[altered].replace("\"exit_code\":0", "\"exit_code\":1");
    let twice = line_with(&b, ["\"exec\"", "\"pid\":30,"]);
    b.insert(twice, b[twice].clone());
    let gone = line_with(&b, ["\"fork\"", "\"child_pid\":20,"]);
    b.remove(gone);
    let found = named(&report(&run(50), &b));
    assert_eq!(
        found,
        [
            (What::OnlyA, Kind::Fork, Some(20)),
            (What::TwiceInB, Kind::Exec, Some(30)),
            (What::Differs, Kind::Exit, Some(50)),
        ]
    );
}

#[test]
fn a_pid_that_is_used_again_is_another_process() {
    let again = |lines: Vec<String>| -> Vec<String> {
        // Each child has the same number, one after the other.
        let lines = lines.into_iter().map(|l| {
            (11..31).fold(l, |l, pid| {
                let l = l.replace(&format!("pid\":{pid},"), "pid\":11,");
                l.replace(&format!("tid\":{pid},"), "tid\":11,")
            })
        });
        lines.collect()
    };
    let (a, b) = (again(run(20)), again(other(20)));
    assert_eq!(report(&a, &b).verdict, Verdict::Equal);
    let mut b = b;
    b.remove(line_with(&b, ["\"exit\"", "\"ts\":7200000,"]));
    assert_eq!(
        named(&report(&a, &b)),
        [(What::OnlyA, Kind::Exit, Some(11))]
    );
}

#[test]
fn what_was_lost_explains_as_much_as_was_lost() {
    let mut b = other(6);
    b.remove(line_with(&b, ["\"fork\"", "\"child_pid\":12,"]));
    b.remove(line_with(&b, ["\"fork\"", "\"child_pid\":14,"]));
    let end = b.len() - 1;
    for (count, verdict) in [(2, Verdict::EqualButForLosses), (1, Verdict::Different)] {
        let mut b = b.clone();
        b.insert(end, format!(r#"{{"type":"lost","ts":7000000,"cpu":0,"where":"ring","kind":"fork","count":{count}}}"#));
        let report = report(&run(6), &b);
        assert_eq!(report.verdict, verdict, "{report:#?}");
        assert_eq!(report.verdict.exit_code(), 1);
        let counts = &report.kinds[&Kind::Fork];
        assert_eq!((counts.lost, counts.only_a), (count, 2 - count));
    }
}

#[test]
fn what_one_side_does_not_know_is_no_difference() {
    let b: Vec<String> = other(3)
        .into_iter()
        .map(|l| l.replace("\"exit_code\":0", "\"exit_code\":null"))
        .collect();
    assert_eq!(report(&run(3), &b).verdict, Verdict::Equal);
}

#[test]
fn what_is_no_line_of_a_capture_is_an_error_with_its_number() {
    let mut lines = run(2);
    lines[2] = "{\"type\":\"exec\",\"ts\":1}".to_owned();
    let text = (lines.join("\n") + "\n").into_bytes();
    let error = Side::from_jsonl(String::new(), text, false).unwrap_err();
    assert_eq!(error.line, 3);
    assert!(error.to_string().contains("pid"), "{error}");
}

/// The same small run as ftrace prints it.
fn text(begin: &str) -> String {
    let line = |name: &str, tid: u32, ts: u64, event: &str| {
        format!(
            "{name:>16}-{tid:<7} [000] .....  {begin}{:09}: {event}\n",
            ts
        )
    };
    let mut text = String::from("# tracer: nop\n");
    text += &line(
        "sh",
        10,
        2_000,
        "sched_process_exec: filename=/bin/sh pid=10 old_pid=10",
    );
    for child in 0..3 {
        let (pid, ts) = (11 + child, 1_000_000 * u64::from(child + 1));
        text += &line(
            "sh",
            10,
            ts,
            &format!("task_newtask: pid={pid} comm=sh clone_flags=1200000 oom_score_adj=0"),
        );
        text += &line(
            "sh",
            10,
            ts,
            &format!("sched_process_fork: comm=sh pid=10 child_comm=sh child_pid={pid}"),
        );
        text += &line(
            "ls",
            pid,
            ts + 100_000,
            &format!("sched_process_exec: filename=/bin/ls pid={pid} old_pid={pid}"),
        );
        text += &line(
            "ls",
            pid,
            ts + 200_000,
            &format!("sched_process_exit: comm=ls pid={pid} prio=120 group_dead=true"),
        );
    }
    text + &line(
        "sh",
        10,
        5_000_000,
        "sched_process_exit: comm=sh pid=10 prio=120 group_dead=true",
    )
}

fn loaded(text: &str) -> Side {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    std::fs::write(&path, text).unwrap();
    load::load(&path).unwrap()
}

#[test]
fn a_capture_and_the_text_of_ftrace() {
    // The second one by a clock that is far from ours.
    for begin in ["0.", "77."] {
        let b = loaded(&text(begin));
        let comparison = compare(side(&run(3)), b, TOLERANCE);
        let report = comparison.report;
        assert_eq!(report.verdict, Verdict::Equal, "{report:#?}");
        assert_eq!(report.notes.len(), usize::from(begin != "0."));
    }
    let without: String = text("0.")
        .lines()
        .filter(|l| !l.contains("sched_process_exec: filename=/bin/ls pid=12"))
        .map(|l| format!("{l}\n"))
        .collect();
    let report = compare(side(&run(3)), loaded(&without), TOLERANCE).report;
    assert_eq!(named(&report), [(What::OnlyA, Kind::Exec, Some(12))]);
}

#[test]
fn integers_are_nanoseconds_of_boot_time_or_nothing() {
    // As trace-cmd prints the clock boot.
    let ns = text("0.").replace("  0.0", "  0");
    let b = loaded(&ns);
    assert!(b.integers, "{ns}");
    let a = side(&run(3));
    check(&a, &b).unwrap();
    assert_eq!(compare(a, b, TOLERANCE).report.verdict, Verdict::Equal);
    let counter = loaded(&text("77"));
    let error = check(&side(&run(3)), &counter).unwrap_err().to_string();
    assert!(error.contains("-C mono"), "{error}");
}

#[test]
fn text_of_the_whole_machine_against_one_command() {
    let mut more = text("0.");
    more += "            cron-500     [001] .....  0.001500000: sched_process_fork: comm=cron pid=500 child_comm=cron child_pid=501\n";
    more += "            cron-501     [001] .....  0.001600000: sched_process_exit: comm=cron pid=501 prio=120 group_dead=true\n";
    let report = compare(side(&run(3)), loaded(&more), TOLERANCE).report;
    assert_eq!(report.verdict, Verdict::Equal, "{report:#?}");
    assert_eq!(
        report.kinds[&Kind::Fork],
        Counts {
            matched: 3,
            explained: 1,
            ..Counts::default()
        }
    );
}

#[test]
fn a_file_of_neither_kind_is_an_error_that_says_what_was_expected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    for (content, expected) in [
        ("hello\n", "task_newtask"),
        ("", "task_newtask"),
        ("{\"type\":\"meta\",\"schema\":9}\n", "schema 9"),
        ("{\n", "line 1"),
    ] {
        std::fs::write(&path, content).unwrap();
        let error = load::load(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = load::load(&dir.path().join("none"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("none: cannot be read"), "{error}");
}
