//! Files on disks that are full, or that cannot be written any more.

use std::fs;

use serde_json::Value;
use tracer_tests::ext4::Ext4;
use tracer_tests::host::{alone, scaled, skipped};
use tracer_tests::parts::{joined, parts, read, whole_lines};
use tracer_tests::tmpfs::Tmpfs;
use tracer_tests::{Capture, Record, Trace, fixture, require};

/// A run on a full disk, with a complete record of it elsewhere. Returns both.
fn on_a_full_disk(hold: &str, name: &str) -> (Capture, Capture, String) {
    // Room for both storms without the ballast, not for the half of one with it.
    let disk = Tmpfs::mount(64 << 20);
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0; 127 << 19]).expect("it fits");
    let storm = format!(
        "{} {} {}",
        fixture("execstorm").display(),
        fixture("tiny").display(),
        scaled(3_000).max(1_500)
    );
    let script = format!("{storm} && echo half && read go < $0/go && {storm}");
    let trace = Trace::command(
        "/bin/sh",
        [
            "-c".into(),
            script.into(),
            disk.path().as_os_str().to_owned(),
        ],
    )
    .options(["-o".into(), disk.path().join(name).into_os_string()])
    .options(["--hold", hold]);
    let go = disk.path().join("go");
    let c = std::ffi::CString::new(go.as_os_str().as_encoded_bytes()).expect("no NUL");
    // SAFETY: `c` is a string that ends with NUL and lives through the call.
    assert_eq!(unsafe { libc::mkfifo(c.as_ptr(), 0o600) }, 0);
    let mut running = trace.start();
    running.await_stdout("half");
    let stderr = running.path("stderr");
    let says = |text: &str| {
        fs::read_to_string(&stderr)
            .unwrap_or_default()
            .contains(text)
    };
    running.await_condition("a message that the disk is full", |_| says("cannot write"));
    running.await_condition("nothing half written in the file meanwhile", |_| {
        fs::read(disk.path().join(name))
            .expect("there")
            .ends_with(b"\n")
    });
    fs::remove_file(&ballast).expect("it can be removed");
    running.await_condition("a message that it goes on", |_| says("goes on"));
    fs::write(&go, "go\n").expect("the command waits for it");
    let outcome = running.finish().expect_code(0);
    let stderr = outcome.stderr();
    assert_eq!(stderr.matches("cannot write").count(), 1, "once: {stderr}");
    (
        Capture::parse(&read(&disk.path().join(name))),
        outcome.capture(),
        stderr,
    )
}

#[test]
fn a_full_disk_is_waited_for() {
    require!(source, root);
    let _alone = alone();
    let (full, whole, stderr) = on_a_full_disk("64MiB", "x.jsonl");
    assert_eq!(full.lines[1..], whole.lines[1..], "nothing is missing");
    assert!(stderr.contains("nothing is lost"), "{stderr}");
}

#[test]
fn what_does_not_fit_into_memory_is_counted() {
    require!(source, root);
    let _alone = alone();
    let (full, whole, stderr) = on_a_full_disk("100K", "x.jsonl");
    let losses: Vec<&Value> = full.of("lost").collect();
    assert!(
        losses.iter().all(|l| l.text("where") == "sink"),
        "{losses:?}"
    );
    let lost = full.lost_at_all();
    assert!(lost > 0, "{stderr}");
    assert_eq!(full.end().num("lost"), lost);
    assert_eq!(
        full.lines.len() - losses.len() + usize::try_from(lost).expect("a count"),
        whole.lines.len(),
        "what is there and what was counted make the whole"
    );
    // In its place: what is before and after the gap is the same as in the whole.
    let gap = full
        .lines
        .iter()
        .position(|l| l.kind() == "lost")
        .expect("a loss");
    assert_eq!(full.lines[1..gap], whole.lines[1..gap]);
    let mut rest = full.lines[gap..full.lines.len() - 1].to_vec();
    rest.retain(|l| l.kind() != "lost");
    let from = whole.lines.len() - 1 - rest.len();
    if losses.len() == 1 {
        assert_eq!(rest, whole.lines[from..whole.lines.len() - 1]);
    }
}

#[test]
fn a_disk_that_stays_full_ends_the_output_and_nothing_else() {
    require!(source, root);
    let _alone = alone();
    let disk = Tmpfs::mount(256 << 10);
    for (name, rotate) in [("x.jsonl", "1G"), ("y.jsonl", "64K"), ("x.parquet", "1G")] {
        let trace = Trace::storm(scaled(3_000).max(1_500))
            .options(["-o".into(), disk.path().join(name).into_os_string()])
            .options(["--rotate-size", rotate, "--hold", "100K"]);
        let outcome = trace.run();
        // An incomplete output must not look like success.
        if name != "x.parquet" {
            let outcome = outcome.expect_code(125);
            let stderr = outcome.stderr();
            assert!(stderr.contains("records are missing"), "{stderr}");
            let elsewhere = parts(&outcome.path(""), "capture", ".jsonl");
            joined(&elsewhere).assert_exact(&outcome.truth());
        }
        for part in parts(disk.path(), &name[..1], ".jsonl") {
            let text = read(&part);
            assert!(text.ends_with('\n') || text.is_empty(), "{part:?}");
            for line in text.lines() {
                serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            }
            let _ = fs::remove_file(part);
        }
    }
}

/// A file system that becomes read-only under the output: said once, and the command and
/// the other outputs go on.
#[test]
fn a_file_system_that_becomes_read_only_ends_the_output_and_nothing_else() {
    require!(source, root);
    let _alone = alone();
    let disk = match Ext4::mount(32 << 20) {
        Ok(disk) => disk,
        Err(reason) => return skipped(&reason),
    };
    let storm = format!(
        "{} {} {}",
        fixture("execstorm").display(),
        fixture("tiny").display(),
        scaled(800)
    );
    let trace = Trace::bare();
    let go = trace.path("go");
    let script = format!("{storm} && echo half && until [ -e $0 ]; do :; done && {storm}");
    let file = disk.path().join("x.jsonl");
    let options = ["-o".into(), file.clone().into_os_string()];
    let command = ["-c".into(), script.into(), go.clone().into_os_string()];
    let mut running = Trace::command("/bin/sh", command).options(options).start();
    running.await_stdout("half");
    let written = |_: &_| whole_lines(&file).contains("\"exec\"");
    running.await_condition("records in the file", written);
    disk.make_read_only();
    fs::write(&go, "").expect("a file in our own directory");
    let outcome = running.finish().expect_code(125);
    let stderr = outcome.stderr();
    assert_eq!(stderr.matches("cannot write").count(), 1, "once: {stderr}");
    for words in ["Read-only file system", "records are missing"] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    let whole = outcome.capture();
    assert_eq!(whole.lost_at_all(), 0);
    assert_eq!(whole.of("exec").count() as u64, 2 * scaled(800) + 3);
    for line in whole_lines(&file).lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    }

    // One that is read-only from the beginning: nothing is started.
    let outcome = Trace::shell("echo started")
        .options(["-o".into(), disk.path().join("y.jsonl").into_os_string()])
        .run()
        .expect_code(125);
    assert_eq!(outcome.stdout(), "");
    assert!(
        outcome.stderr().contains("the file system is read-only"),
        "{outcome}"
    );
}
