//! What is a difference between two recordings, and what is not.

use super::Kind;
use super::report::{Verdict, What};
use super::tests::{line_with, other, report, run};

/// With the row of child number `n`, from 0.
fn with_row(mut lines: Vec<String>, n: u64) -> Vec<String> {
    let begin = 1_000_000 * (n + 1);
    let row = format!(
        r#"{{"type":"process","pid":{},"start":{},"end":{},"running":false,"comm":"ls"}}"#,
        11 + n,
        begin - 500,
        begin + 200_000
    );
    lines.insert(lines.len() - 1, row);
    lines
}

/// With a report that one record of this kind was lost.
fn with_loss(mut lines: Vec<String>, kind: &str) -> Vec<String> {
    let lost = format!(
        r#"{{"type":"lost","ts":7000000,"cpu":0,"where":"ring","kind":"{kind}","count":1}}"#
    );
    lines.insert(lines.len() - 1, lost);
    lines
}

/// Of whom all events were lost there can be no row.
#[test]
fn a_row_is_lost_with_all_events_of_its_process() {
    let a = with_row(with_row(run(3), 0), 1);
    let mut b = with_row(other(3), 0);
    b.retain(|l| !l.contains(r#"pid":12,"#));
    let b = ["fork", "exec", "exit"].into_iter().fold(b, with_loss);
    for (a, b) in [(&a, &b), (&b, &a)] {
        let report = report(a, b);
        assert_eq!(report.verdict, Verdict::EqualButForLosses, "{report:#?}");
        assert_eq!(report.kinds[&Kind::Process].lost, 1);
    }
    // One whose other events are there should have its row.
    let mut b = with_loss(with_row(other(3), 0), "fork");
    b.remove(line_with(&b, ["\"fork\"", "\"child_pid\":12,"]));
    let report = report(&a, &b);
    assert_eq!(report.verdict, Verdict::Different);
    let faults: Vec<_> = report.differences.iter().filter(|d| !d.lost).collect();
    assert_eq!(faults.len(), 1, "{report:#?}");
    assert_eq!(
        (faults[0].what, faults[0].kind),
        (What::OnlyA, Kind::Process)
    );
}

/// One side's end came before that of the process, and of its parent.
#[test]
fn who_runs_on_has_another_parent_later() {
    let with = |lines: Vec<String>, running: bool, parent: &str| -> Vec<String> {
        let more = format!(r#""running":{running},{parent}"#);
        let lines = with_row(lines, 0).into_iter();
        lines
            .map(|l| l.replace(r#""running":false"#, &more))
            .collect()
    };
    let mut later = with(other(3), false, r#""ppid":1,"parent_start":1"#);
    // After that of its parent.
    let row = line_with(&later, [r#""process","pid""#, r#""end":1200000"#]);
    later[row] = later[row].replace("1200000", "9000000");
    for running in [true, false] {
        let a = with(run(3), running, r#""ppid":10,"parent_start":900"#);
        let report = report(&a, &later);
        let faults = report.members.get("ppid").copied().unwrap_or(0);
        assert_eq!(faults, u64::from(!running), "{report:#?}");
    }
}

/// Where the command's program had a working directory, as each side says.
fn with_cwd(lines: Vec<String>, cwd: &str) -> Vec<String> {
    let member = format!(r#""filename":"/bin/sh","cwd":{cwd},"#);
    let lines = lines.into_iter();
    lines
        .map(|l| l.replace(r#""filename":"/bin/sh","#, &member))
        .collect()
}

#[test]
fn working_directories_as_two_sources_show_them() {
    let verdict = |a: &str, b: &str| {
        let report = report(&with_cwd(run(1), a), &with_cwd(other(1), b));
        (report.verdict, report.explained.values().sum::<u64>())
    };
    let equal = |explained| (Verdict::Equal, explained);
    // In a root directory of its own, seen from there and from outside.
    assert_eq!(verdict(r#""/""#, r#""/srv/root""#), equal(1));
    assert_eq!(verdict(r#""/bin""#, r#""/srv/root/bin""#), equal(1));
    for (a, b) in [
        (r#""/srv/root/bin""#, r#""/bin""#),
        (r#""/bin""#, r#""/srv/root/sbin""#),
    ] {
        assert_eq!(verdict(a, b).0, Verdict::Different, "{a} {b}");
    }
    // Too deep to be walked up to its root.
    let cut = r#""c/d","cwd_state":"truncated""#;
    assert_eq!(verdict(cut, r#""/a/b/c/d""#), equal(0));
    for other in [r#""/c/d/e""#, r#""/a/bc/d""#] {
        assert_eq!(verdict(cut, other).0, Verdict::Different);
    }
}

/// Whatever explains each record that is on one side only.
#[test]
fn two_runs_that_share_nothing_are_not_equal() {
    let far: Vec<String> = other(3)
        .iter()
        .map(|l| {
            l.replace(r#"pid":1"#, r#"pid":61"#)
                .replace(r#"tid":1"#, r#"tid":61"#)
                .replace(r#""ts":"#, r#""ts":99"#)
        })
        .collect();
    let nothing = report(&run(3), &far);
    assert!(nothing.differences.is_empty(), "{nothing:#?}");
    assert_eq!(nothing.verdict, Verdict::Different);
    assert_eq!(nothing.notes.len(), 1, "{:?}", nothing.notes);
    let other_boot: Vec<String> = other(3)
        .iter()
        .map(|l| l.replace(r#""boot_id":"x""#, r#""boot_id":"y""#))
        .collect();
    let report = report(&run(3), &other_boot);
    assert_eq!(report.verdict, Verdict::Different);
    assert!(report.notes[0].contains("different boots"));
}
