//! Files that are written for a long time: rotated, compressed, killed, on a full disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tracer_tests::host::{alone, scaled};
use tracer_tests::tmpfs::Tmpfs;
use tracer_tests::{Capture, Record, Trace, fixture, require};

fn storm(n: u64) -> Trace {
    Trace::fixture(
        "execstorm",
        [fixture("tiny").into_os_string(), n.to_string().into()],
    )
}

/// The files of a series in their order.
fn parts(dir: &Path, stem: &str, ending: &str) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = fs::read_dir(dir)
        .expect("a directory")
        .map(|e| e.expect("an entry").path())
        .filter(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(stem)
                .is_some_and(|rest| rest.starts_with("-0") && rest.ends_with(ending))
        })
        .collect();
    parts.sort();
    parts
}

fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let bytes = match path.extension().is_some_and(|e| e == "zst") {
        true => zstd::decode_all(bytes.as_slice()).expect("a whole stream"),
        false => bytes,
    };
    String::from_utf8(bytes).expect("UTF-8")
}

/// Checks each part by itself and puts them together as one capture.
fn joined(parts: &[PathBuf]) -> Capture {
    let captures: Vec<Capture> = parts.iter().map(|p| Capture::parse(&read(p))).collect();
    for (part, capture) in (1..).zip(&captures) {
        assert_eq!(capture.meta().num("part"), part);
        let is_last = part == captures.len() as u64;
        assert_eq!(capture.end().get("continued").is_none(), is_last);
        assert_eq!(capture.end()["exit_code"].is_null(), !is_last);
        let count = |kind| capture.of(kind).count() as u64;
        assert_eq!(capture.end()["events"].num("exec"), count("exec"));
        assert_eq!(capture.end()["events"].num("fork"), count("fork"));
    }
    let sum =
        |count: &dyn Fn(&Value) -> u64| -> u64 { captures.iter().map(|c| count(c.end())).sum() };
    let mut end = captures.last().expect("a part").end().clone();
    for kind in ["fork", "exec", "exit"] {
        end["events"][kind] = sum(&|e| e["events"].num(kind)).into();
    }
    end["lost"] = sum(&|e| e.num("lost")).into();
    let mut lines = vec![captures[0].meta().clone()];
    for capture in &captures {
        lines.extend(capture.lines[1..capture.lines.len() - 1].iter().cloned());
    }
    lines.push(end);
    let text: String = lines.iter().map(|l| l.to_string() + "\n").collect();
    Capture::parse(&text)
}

#[test]
fn parts_have_every_record_once() {
    require!(source);
    let _alone = alone();
    let trace = storm(scaled(2_000));
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
        let trace = storm(scaled(2_000));
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

/// Ends a command that outlives its tracer.
struct Group(i32);

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: kill takes plain numbers; it is the group that the test made.
        unsafe { libc::kill(-self.0, libc::SIGKILL) };
    }
}

fn own_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[test]
fn a_compressed_file_can_be_read_while_it_grows_and_after_a_kill() {
    require!(source, zstd, full_system);
    let _alone = alone();
    let trace = Trace::shell("while :; do /bin/true; /bin/sleep 0.01; done")
        .setup(own_group)
        .without_capture();
    let file = trace.path("run.jsonl.zst");
    let options = ["-o".into(), file.clone().into_os_string()];
    let mut running = trace.options(options).start();
    let group = Group(running.pid());
    // What zstd's own program makes of an open file; it complains of the missing end.
    let lines = |file: &Path| {
        let out = Command::new("zstd").arg("-dc").arg(file).output();
        String::from_utf8(out.expect("zstd runs").stdout).expect("UTF-8")
    };
    let ends = |text: &str| text.lines().filter(|l| l.contains("\"exit\"")).count();
    let at = file.clone();
    running.await_condition("records in the compressed file", |_| ends(&lines(&at)) > 20);
    let growing = lines(&file);
    assert!(growing.ends_with('\n'), "whole lines only");
    let before = boot_ns();
    running.signal(libc::SIGKILL);
    let killed = running.finish();
    drop(group);
    let text = lines(&file);
    assert!(
        text.ends_with('\n') && text.starts_with(&growing),
        "{killed}"
    );
    for line in text.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    }
    let last = last_ts(&text);
    assert!(
        last + 1_000_000_000 > before,
        "{} ms",
        before.saturating_sub(last) / 1_000_000
    );
}

fn boot_ns() -> u64 {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `ts` is a valid, writable timespec for the duration of the call.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut ts) };
    (ts.tv_sec * 1_000_000_000 + ts.tv_nsec).unsigned_abs()
}

fn last_ts(text: &str) -> u64 {
    let ts = |line: &str| serde_json::from_str::<Value>(line).ok()?.opt_num("ts");
    text.lines().rev().find_map(ts).unwrap_or(0)
}

/// A file that was being written when tracer was killed: its whole lines.
fn whole_lines(path: &Path) -> String {
    let bytes = fs::read(path).expect("it is there");
    let mut text = Vec::new();
    match path.extension().is_some_and(|e| e == "zst") {
        true => {
            use std::io::Read as _;
            // The missing end is an error; what comes before it counts.
            let _ = zstd::Decoder::new(bytes.as_slice()).map(|mut d| d.read_to_end(&mut text));
        }
        false => text = bytes,
    }
    let end = text
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    text.truncate(end);
    String::from_utf8(text).expect("UTF-8")
}

#[test]
fn a_kill_at_any_moment_costs_a_second_at_most() {
    // An emulated guest is late by more than that second.
    require!(source, root, full_system);
    let _alone = alone();
    // In memory: on a disk each of the many Parquet files is synced, for which all
    // others that are begun wait.
    let dir = Tmpfs::mount(1 << 30);
    let mut seen = Vec::new();
    let mut random = u64::from(std::process::id());
    for round in 0..scaled(50) {
        let mut trace = storm(10_000_000).setup(own_group).without_capture();
        for name in ["run.jsonl", "run.jsonl.zst", "run.parquet"] {
            trace = trace.options(["-o".into(), dir.path().join(name).into_os_string()]);
        }
        let mut running = trace.options(["-q", "--rotate-size", "128K"]).start();
        let group = Group(running.pid());
        let at = dir.path().to_owned();
        let begun = |ending| {
            let mut now = parts(&at, "run", ending);
            now.retain(|part| !seen.contains(part));
            now
        };
        running.await_condition("something recorded", |_| {
            let recorded = |part: &PathBuf| last_ts(&whole_lines(part)) > 0;
            begun(".jsonl").iter().any(recorded) && !begun(".jsonl.zst").is_empty()
        });
        // xorshift: any moment will do, the same one would not.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let moment = Duration::from_millis(random % 700);
        let asleep = Instant::now();
        std::thread::sleep(moment);
        // On a machine that is overloaded everybody is late.
        let late = u64::try_from((asleep.elapsed() - moment).as_nanos()).expect("ns");
        let before = boot_ns();
        running.signal(libc::SIGKILL);
        running.finish();
        drop(group);
        // Nothing was to be recorded before.
        let mut begin = None;
        for ending in [".jsonl", ".jsonl.zst"] {
            let mut now = parts(dir.path(), "run", ending);
            now.retain(|p| !seen.contains(p));
            let open = now.last().expect("a part").clone();
            let mut last = 0;
            for part in &now {
                let text = if *part == open {
                    whole_lines(part)
                } else {
                    Capture::parse(&read(part));
                    read(part)
                };
                for line in text.lines() {
                    let line: Value = serde_json::from_str(line)
                        .unwrap_or_else(|e| panic!("round {round}: {}: {e}", part.display()));
                    let ts = line.opt_num("ts").unwrap_or(last);
                    assert!(ts >= last, "round {round}: parts are in order");
                    last = ts;
                    begin = begin.or(line.opt_num("ts"));
                }
            }
            last = last.max(begin.unwrap_or(0));
            assert!(
                last + 1_000_000_000 + late > before,
                "round {round} {ending}: {} ms are missing",
                before.saturating_sub(last) / 1_000_000
            );
            // The next start goes on after the last one. More would only make this slower.
            for part in now.iter().filter(|p| **p != open) {
                fs::remove_file(part).expect("a part of ours");
            }
            seen.push(open);
        }
        for part in parts(dir.path(), "run", ".parquet") {
            let bytes = fs::read(&part).expect("it is there");
            assert!(
                bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
                "{part:?}"
            );
            let _ = fs::remove_file(part);
        }
    }
    // The unreadable ones of the killed were removed by those after them.
    let unfinished =
        parts(dir.path(), "run", ".tmp").len() + parts(dir.path(), "run.events", ".tmp").len();
    assert_eq!(unfinished, 2, "those of the last");
}

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
    // Nothing half written is in the file meanwhile.
    let begin = Instant::now();
    while !fs::read(disk.path().join(name))
        .expect("there")
        .ends_with(b"\n")
    {
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "half a line stays"
        );
    }
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
        let trace = storm(scaled(3_000).max(1_500))
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
