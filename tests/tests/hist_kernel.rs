//! `tracer hist --backend ftrace`: the kernel's own triggers, told what to do while they count.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;

use tracer_tests::hist::{ENDS, count_of, counting, has_triggers, hist, run};
use tracer_tests::host::skipped;
use tracer_tests::{copy_program, fixture, require};

/// Whoever opens a `trigger` file to write it anew loses the triggers that it has.
#[test]
fn a_pause_keeps_what_has_been_counted() {
    require!(root);
    if let Err(reason) = has_triggers() {
        return skipped(&reason);
    }
    // Where the test fails it ends by itself.
    let options = ["--backend", "ftrace", "--duration", "600s"];
    let running = counting(ENDS.into_iter().chain(options));
    let pid = running.pid().to_string();
    let ask = |option: &str| run([option, pid.as_str()]).expect_code(0).stdout();
    let tiny = |n: u32| {
        for _ in 0..n {
            let end = Command::new(fixture("tiny")).status();
            assert!(end.expect("it runs").code().is_some());
        }
    };
    let count = |text: &str| count_of(text, "tiny");
    tiny(3);
    assert_eq!(count(&ask("--show")), 3);
    ask("--pause");
    tiny(2);
    let text = ask("--show");
    assert!(text.contains("[paused]"), "{text}");
    assert_eq!(count(&text), 3);
    ask("--cont");
    tiny(1);
    assert_eq!(count(&ask("--show")), 4);
    ask("--clear");
    assert_eq!(count(&ask("--show")), 0);
    tiny(2);
    running.signal(libc::SIGINT);
    let outcome = running.finish().expect_code(0);
    assert_eq!(count(&outcome.stdout()), 2);
}

/// To the kernel `pause` goes before all that stands beside it.
#[test]
fn one_that_begins_paused_can_go_on() {
    require!(root);
    if let Err(reason) = has_triggers() {
        return skipped(&reason);
    }
    // Others run their tiny.
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("begun-paused");
    copy_program(&fixture("tiny"), &program);
    let trigger = "hist:keys=comm:pause if comm ~ \"begun-*\"";
    let options = ["--backend", "ftrace", "--duration", "600s"];
    let running = counting([ENDS[0], trigger].into_iter().chain(options));
    let pid = running.pid().to_string();
    let ask = |option: &str| run([option, pid.as_str()]).expect_code(0).stdout();
    let count = |text: &str| count_of(text, "begun-paused");
    let tiny = || Command::new(&program).status().expect("it runs");
    tiny();
    let text = ask("--show");
    assert!(text.contains("[paused]") && count(&text) == 0, "{text}");
    ask("--cont");
    tiny();
    let text = ask("--show");
    assert!(text.contains("[active]") && count(&text) == 1, "{text}");
    ask("--clear");
    assert_eq!(count(&ask("--show")), 0);
    running.signal(libc::SIGINT);
    running.finish().expect_code(0);
}

/// What was made at run time is no tracepoint; the kernel's own engine has it all the same.
#[test]
fn a_synthetic_event_is_for_the_kernels_engine() {
    require!(root, bpf);
    if let Err(reason) = has_triggers() {
        return skipped(&reason);
    }
    let events = "/sys/kernel/tracing/synthetic_events";
    let name = format!("of_test_{}", std::process::id());
    let define = |line: &str| {
        let mut file = OpenOptions::new().append(true).open(events)?;
        file.write_all(line.as_bytes())
    };
    if let Err(error) = define(&format!("{name} u64 lat\n")) {
        return skipped(&format!("{events}: {error}"));
    }
    let event = format!("synthetic:{name}");
    let by = |backend: &str| {
        let pair = [event.as_str(), "hist:keys=lat"];
        // Others count who is called tiny.
        hist(
            pair.into_iter().chain(["--backend", backend]),
            &["renamed", "other"],
        )
    };
    let (ours, kernels) = (by("ebpf"), by("ftrace"));
    define(&format!("!{name}\n")).expect("nobody uses it");
    assert_eq!(ours.code(), 125);
    let said = ours.stderr();
    assert!(said.contains("--backend ftrace"), "{said}");
    assert!(kernels.stderr().contains("Hits: 0"), "{kernels}");
}
