//! Files that are written for a long time: rotated, and removed in the end.

use std::fs;
use std::process::Command;

use tracer_tests::host::{alone, scaled};
use tracer_tests::parts::{joined, parts, read, whole_lines};
use tracer_tests::{Capture, Trace, require};

#[test]
fn parts_have_every_record_once() {
    require!(source);
    let _alone = alone();
    let trace = Trace::storm(scaled(2_000));
    let dir = trace.dir().to_owned();
    let names = ["run.jsonl", "run.jsonl.zst", "run.csv", "run.log"];
    let options = names
        .iter()
        .flat_map(|n| ["-o".into(), trace.path(n).into_os_string()])
        .chain(["--rotate-size".into(), "64K".into()]);
    let options: Vec<_> = options.collect();
    let outcome = trace
        .options(options)
        .without_capture()
        .run()
        .expect_code(0);
    let truth = outcome.truth();
    let plain = parts(&dir, "run", ".jsonl");
    for part in &plain {
        let meta = fs::metadata(part).expect("metadata");
        assert!(meta.len() <= 64 << 10, "{}: {}", part.display(), meta.len());
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777,
            0o600
        );
    }
    assert!(plain.len() > 2, "{plain:?}");
    joined(&plain).assert_exact(&truth);
    joined(&parts(&dir, "run", ".jsonl.zst")).assert_exact(&truth);
    let mut rows = 0;
    for part in parts(&dir, "run", ".csv") {
        let text = read(&part);
        assert!(text.starts_with("pid,start,"), "each has a head");
        rows += text.lines().count() as u64 - 1;
    }
    assert_eq!(rows, truth.exits + 1);
    let log: String = parts(&dir, "run", ".log").iter().map(|p| read(p)).collect();
    assert_eq!(
        log.lines().filter(|l| l.contains(" exit ")).count() as u64,
        truth.exits + 1
    );
    assert!(!dir.join("run.jsonl").exists());
}

#[test]
fn time_rotates_too_and_numbers_survive_a_restart() {
    require!(source);
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let foreign = dir.path().join("run-000007-20260101T000000Z.jsonl");
    fs::write(&foreign, "not ours to write\n").expect("write");
    let mut all = Vec::new();
    for run in 0..2 {
        let trace = Trace::shell("for i in 1 2 3 4 5 6; do sleep 0.4; done")
            .options(["-o".into(), dir.path().join("run.jsonl").into_os_string()])
            .options(["--rotate-every", "1s"])
            .without_capture();
        let outcome = trace.run().expect_code(0);
        let mut now = parts(dir.path(), "run", ".jsonl");
        now.retain(|p| *p != foreign && !all.contains(p));
        assert!(now.len() >= 2, "run {run}: {now:?}\n{outcome}");
        let capture = joined(&now);
        assert_eq!(capture.of("process").count(), 7);
        all.extend(now);
    }
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(all, sorted, "names sort in order of time");
    let first = all[0].to_string_lossy().into_owned();
    assert!(first.contains("run-000008-"), "{first}");
    assert_eq!(read(&foreign), "not ours to write\n");
}

#[test]
fn old_files_go() {
    require!(source);
    let _alone = alone();
    for (option, value) in [("--keep", "2"), ("--keep-size", "120K")] {
        let trace = Trace::storm(scaled(2_000));
        let dir = trace.dir().to_owned();
        let file = trace.path("run.jsonl").into_os_string();
        let foreign = trace.path("run-mine.jsonl");
        fs::write(&foreign, "mine").expect("write");
        let outcome = trace
            .options(["-o".into(), file])
            .options(["--rotate-size", "32K", option, value])
            .without_capture()
            .run()
            .expect_code(0);
        let left = parts(&dir, "run", ".jsonl");
        let bytes: u64 = left
            .iter()
            .map(|p| fs::metadata(p).expect("there").len())
            .sum();
        match option {
            "--keep" => assert_eq!(
                left.len(),
                3,
                "two finished, one the last: {left:?}\n{outcome}"
            ),
            _ => assert!(
                bytes <= (120 + 32) << 10 && left.len() >= 3,
                "{bytes} {left:?}"
            ),
        }
        assert!(
            !left[0].to_string_lossy().contains("run-000001-"),
            "{left:?}"
        );
        assert!(foreign.exists());
        let last = Capture::parse(&read(left.last().expect("a part")));
        assert!(last.end().get("continued").is_none());
    }
}

#[test]
fn wrong_options_say_what_is_right() {
    for (options, message) in [
        (vec!["--keep", "3"], "add --rotate-size or --rotate-every"),
        (vec!["--rotate-size", "10"], "the least is 4KiB"),
        (vec!["--rotate-every", "10ms"], "the least is 1s"),
        (
            vec!["--rotate-size", "1M", "--keep", "1", "--keep-size", "1M"],
            "cannot be used with",
        ),
        (vec!["-o", "x.parquet.zst"], "compressed by itself"),
        (vec!["-o", "-", "--format", "parquet"], "-o FILE.parquet"),
        (
            vec!["-o", "/none/x.jsonl", "--rotate-size", "1M"],
            "mkdir -p",
        ),
        (vec!["-o", "/none/x.parquet"], "mkdir -p"),
    ] {
        let outcome = Trace::bare()
            .options(options.clone())
            .options(["--", "/bin/echo", "ran"])
            .run()
            .expect_code(125);
        assert!(
            outcome.stderr().contains(message),
            "{options:?}: {}",
            outcome.stderr()
        );
        assert!(
            !outcome.stdout().contains("ran"),
            "before the command starts"
        );
    }
}

#[test]
fn a_recording_begins_new_files_at_sighup() {
    require!(ebpf_is_tested);
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name).into_os_string();
    let mut recording = Trace::bare()
        .options(["record", "-a", "--keep", "100"])
        .options([
            "-o".into(),
            file("run.jsonl"),
            "-o".into(),
            file("run.parquet"),
        ])
        .start();
    let count = |ending| parts(dir.path(), "run", ending).len();
    let ends = || {
        let text: String = parts(dir.path(), "run", ".jsonl")
            .iter()
            .map(|p| whole_lines(p))
            .collect();
        text.lines()
            .filter(|l| l.contains("\"type\":\"exit\""))
            .count()
    };
    for round in 1..=3 {
        let before = ends();
        recording.await_condition("a process that ended", |_| {
            let status = Command::new("/bin/true").status();
            status.is_ok() && ends() > before
        });
        recording.signal(libc::SIGHUP);
        recording.await_condition("the next files", |_| {
            count(".jsonl") == round + 1 && count(".parquet") == round && count(".parquet.tmp") == 1
        });
    }
    recording.signal(libc::SIGINT);
    recording.finish().expect_code(0);
    assert_eq!((count(".parquet"), count(".parquet.tmp")), (4, 0));
    let events = parts(dir.path(), "run.events", ".parquet").len();
    assert_eq!(events, 4, "in pairs");
    let capture = joined(&parts(dir.path(), "run", ".jsonl"));
    assert!(capture.of("seed").count() > 0 && capture.of("process").count() > 3);
}

#[test]
fn sighup_ends_a_recording_that_has_no_files_to_rotate() {
    require!(ebpf_is_tested);
    let _alone = alone();
    let trace = Trace::bare();
    let file = trace.path("run.jsonl");
    let mut recording = trace
        .options([
            "record".into(),
            "-a".into(),
            "-o".into(),
            file.clone().into_os_string(),
        ])
        .start();
    recording.await_condition("the beginning", |_| {
        fs::metadata(&file).is_ok_and(|meta| meta.len() > 0)
    });
    recording.signal(libc::SIGHUP);
    let outcome = recording.finish().expect_code(0);
    Capture::parse(&read(&outcome.path("run.jsonl")));
}
