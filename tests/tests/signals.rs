//! Signals, stops, timeouts and violent ends reach whom they are meant for, and leave nobody hanging.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tracer_tests::parts::parts;
use tracer_tests::pty::Pty;
use tracer_tests::run::{Running, send};
use tracer_tests::truth::number_after;
use tracer_tests::{Record, Trace, fixture, require};

/// Ctrl-C on the terminal reaches the command; tracer stays, reports and ends.
#[test]
fn control_c_reaches_the_command_once() {
    require!(source);
    let mut pty = Pty::open();
    let mut running = Trace::fixture("listener", [""; 0])
        .setup(pty.controls())
        .start();
    running.await_stdout("ready");
    pty.typed(b"\x03");
    let outcome = running.finish().expect_code(42);
    assert!(outcome.stdout().contains("GOT 2"), "{outcome}");
    outcome.capture().expect_root("42");
}

/// CASES 12
#[test]
fn an_interrupt_of_the_group_during_a_storm() {
    require!(source);
    let mut running = Trace::fixture("spawnstorm", [fixture("tiny")])
        .setup(|c| {
            c.process_group(0);
        })
        .start();
    running.await_stdout("ready");
    send(-running.pid(), libc::SIGINT);
    let outcome = running.finish().expect_code(0);
    assert_eq!(number_after(&outcome.stdout(), "SIGINT"), 1, "once");
    let (capture, truth) = (outcome.capture(), outcome.truth());
    let tally = capture.tally();
    assert_eq!(
        (tally.forks, tally.exits, &tally.codes),
        (truth.forks, truth.exits, &capture.knowable(&truth).codes)
    );
    // One that the signal ended may have reached its exec or not.
    let killed = truth.codes.get("s2").copied().unwrap_or(0);
    assert!(
        (truth.execs..=truth.execs + killed).contains(&tally.execs),
        "{} of {truth:?}",
        tally.execs
    );
}

fn listener() -> Running {
    let mut running = Trace::fixture("listener", [""; 0]).start();
    running.await_stdout("ready");
    running
}

#[test]
fn a_termination_is_passed_on() {
    require!(source);
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let running = listener();
        running.signal(signal);
        let outcome = running.finish().expect_code(42);
        assert!(
            outcome.stdout().contains(&format!("GOT {signal}")),
            "{outcome}"
        );
        outcome.capture().expect_root("42");
    }
}

#[test]
fn an_interrupt_of_tracer_alone_does_not_end_it() {
    require!(source);
    let running = listener();
    running.signal(libc::SIGINT);
    running.signal(libc::SIGQUIT);
    // The command never saw them: it is still there to take this one.
    running.signal(libc::SIGTERM);
    let outcome = running.finish().expect_code(42);
    assert!(outcome.stdout().contains("GOT 15"), "{outcome}");
}

/// Has SIGTERM blocked or ignored from the start, however late its program comes to do it.
fn deaf(fixture: &str, change: fn()) -> Trace {
    Trace::fixture(fixture, [""; 0])
        .options(["--timeout", "0.2s"])
        .setup(move |c| {
            let change = move || {
                change();
                Ok(())
            };
            // SAFETY: both changes are made by functions that are async-signal-safe.
            unsafe { c.pre_exec(change) };
        })
}

fn block_termination() {
    // SAFETY: the set is a plain value that is filled before it is used.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

fn ignore_termination() {
    // SAFETY: it takes two numbers.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}

#[test]
fn a_timeout_ends_the_command_with_124() {
    require!(source);
    let outcome = deaf("listener", block_termination).run().expect_code(124);
    assert!(
        outcome.stdout().contains("GOT 15"),
        "SIGTERM came first\n{outcome}"
    );
    assert_eq!(outcome.capture().end().num("exit_code"), 124);
}

#[test]
fn a_timeout_kills_what_does_not_listen() {
    require!(source);
    let outcome = deaf("stubborn", ignore_termination).run().expect_code(124);
    outcome.capture().expect_root("s9");
}

#[test]
fn a_timeout_that_does_not_come_changes_nothing() {
    require!(source);
    Trace::shell("exit 5")
        .options(["--timeout", "1h"])
        .run()
        .expect_code(5);
}

/// Those that die while they create others: nobody is left hanging, and whoever
/// was created has an end.
#[test]
fn processes_that_are_killed_while_they_create_others() {
    require!(source);
    let n = tracer_tests::host::scaled(200).to_string();
    let outcome = Trace::fixture("mayhem", [n])
        .option("--wait-all")
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    match capture.backend() {
        // A ptracer may not learn who created a process before its creator is killed.
        "ptrace" => {}
        // ftrace stops recording whose number was somebody else's who is freed late.
        "ftrace" => assert_eq!(capture.lost_at_all(), capture.lost("exit"), "{outcome}"),
        _ => assert_eq!(capture.lost_at_all(), 0, "{outcome}"),
    }
    let ended: BTreeSet<u64> = capture.ends().map(|e| e.num("pid")).collect();
    let mut endless: Vec<&Value> = capture.of("fork").collect();
    endless.retain(|fork| !ended.contains(&fork.num("child_pid")));
    let lost = usize::try_from(capture.lost("exit")).expect("a small number");
    assert!(endless.len() <= lost, "no end: {endless:#?}");
    assert!(capture.of("process").all(|p| !p.flag("running")));
}

/// Nobody is left stopped who was stopped and continued while one of its threads began
/// a program.
#[test]
fn processes_that_are_stopped_while_a_thread_execs_go_on() {
    require!(source);
    let n = tracer_tests::host::scaled(200).to_string();
    let outcome = Trace::fixture("stopexec", [n]).run().expect_code(0);
    outcome.capture().assert_exact(&outcome.truth());
}

/// The kernel breaks off what it verifies for whom a signal waits.
#[test]
fn signals_while_it_begins_do_not_cost_the_ebpf_source() {
    require!(ebpf_is_tested, root);
    let options = ["-a", "--rotate-size", "1G", "-o"];
    let trace = Trace::record(options).without_capture();
    let dir = trace.dir().to_owned();
    let trace = trace.backend(Some("ebpf")).option(dir.join("x.jsonl"));
    let mut running = trace.start();
    let status = format!("/proc/{}/status", running.pid());
    running.await_condition("handler of SIGHUP", |_| {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:\t"));
        let caught = caught.and_then(|c| u64::from_str_radix(c, 16).ok());
        caught.is_some_and(|c| c & 1 << (libc::SIGHUP - 1) != 0)
    });
    let pid = running.pid();
    let begun = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let has_ended = || fs::read_to_string(&status).is_ok_and(|s| s.contains("State:\tZ"));
            while !begun.load(Ordering::Relaxed) && !has_ended() {
                send(pid, libc::SIGHUP);
                std::thread::sleep(Duration::from_micros(200));
            }
            begun.store(true, Ordering::Relaxed);
        });
        let recorded = |part: &PathBuf| fs::metadata(part).is_ok_and(|meta| meta.len() > 0);
        running.await_condition("records", |_| {
            parts(&dir, "x", ".jsonl").iter().any(recorded) || begun.load(Ordering::Relaxed)
        });
        begun.store(true, Ordering::Relaxed);
    });
    running.signal(libc::SIGTERM);
    running.finish().expect_code(0);
}
