//! Files of a tracer that was killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tracer_tests::clock::{boot_ns, waited_for_cpu};
use tracer_tests::host::{alone, scaled};
use tracer_tests::parts::{parts, read, whole_lines};
use tracer_tests::run::Running;
use tracer_tests::tmpfs::Tmpfs;
use tracer_tests::{Capture, Record, Trace, require};

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
    require!(source, root, zstd, full_system);
    let _alone = alone();
    // In memory: on a disk it would wait for what others have to have synced.
    let dir = Tmpfs::mount(256 << 20);
    let trace = Trace::shell("while :; do /bin/true; /bin/sleep 0.01; done")
        .setup(own_group)
        .without_capture();
    let file = dir.path().join("run.jsonl.zst");
    let options = ["-o".into(), file.clone().into_os_string()];
    let mut running = trace.options(options).start();
    let group = Group(running.pid());
    // What zstd's own program makes of an open file; it complains of the missing end, and
    // may keep to itself the end of the last block that is there.
    let lines = |file: &Path| {
        let out = Command::new("zstd").arg("-dc").arg(file).output();
        let mut text = String::from_utf8(out.expect("zstd runs").stdout).expect("UTF-8");
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        text
    };
    let ends = |text: &str| text.lines().filter(|l| l.contains("\"exit\"")).count();
    let at = file.clone();
    running.await_condition("records in the compressed file", |_| ends(&lines(&at)) > 20);
    let mut growing = String::new();
    let late = late_during(&running, || growing = lines(&file));
    let before = boot_ns();
    running.signal(libc::SIGKILL);
    let killed = running.finish();
    drop(group);
    let text = whole_lines(&file);
    assert!(text.starts_with(&growing), "{killed}");
    for line in text.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    }
    let last = last_ts(&text);
    assert!(
        last + 1_000_000_000 + late > before,
        "{} ms, {late} ns late",
        before.saturating_sub(last) / 1_000_000
    );
}

/// By how much what tracer does meanwhile is late at the end, ns: for so long it has waited
/// for a CPU, on a machine that is overloaded.
fn late_during(running: &Running, pass: impl FnOnce()) -> u64 {
    let before = waited_for_cpu(running.pid());
    pass();
    waited_for_cpu(running.pid()).saturating_sub(before)
}

fn last_ts(text: &str) -> u64 {
    let ts = |line: &str| serde_json::from_str::<Value>(line).ok()?.opt_num("ts");
    text.lines().rev().find_map(ts).unwrap_or(0)
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
        let mut trace = Trace::storm(10_000_000).setup(own_group).without_capture();
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
        let late = late_during(&running, || {
            std::thread::sleep(Duration::from_millis(random % 700));
        });
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
