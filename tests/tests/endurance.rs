//! Long recordings: nothing is forgotten, memory is bounded, a kill costs a second.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tracer_tests::beside::Beside;
use tracer_tests::clock::{boot_ns, waited_for_cpu};
use tracer_tests::host::{alone, scaled};
use tracer_tests::{Capture, Record, Trace, fixture, require};

#[test]
fn forks_and_losses_are_what_the_kernel_counted() {
    require!(ebpf_is_tested, root);
    let _alone = alone();
    for (ring, n) in [("32M", scaled(4000)), ("4K", scaled(20_000))] {
        let options = ["-a", "--threads", "--kthreads", "--ring-size", ring];
        let mut running = Trace::record(options).start();
        running.await_recording();
        let (before, begin) = tracer_tests::clock::forks_at_rest();
        for storm in ["forkstorm", "threadstorm"] {
            let mut command = Command::new(fixture(storm));
            let mut storm = Beside::start(command.arg(n.to_string()));
            storm.0.wait().expect("it ends");
        }
        let (after, end) = tracer_tests::clock::forks_at_rest();
        let capture = running.ended_by(libc::SIGTERM);
        let within = |l: &&Value| (begin..end).contains(&l.num("ts"));
        let forks = capture.of("fork").filter(within).count() as u64;
        // A loss shows with the next record of that CPU only.
        let lost = capture.of("lost").filter(|l| l.num("ts") >= begin);
        let lost = lost
            .filter(|l| l.text("kind") == "fork")
            .map(|l| l.num("count"));
        let lost: u64 = lost.sum();
        assert_eq!(forks + lost, after - before, "{forks} forks, {lost} lost");
        assert!(after - before >= 2 * n);
        assert_eq!(lost > 0, ring == "4K", "{lost} lost");
    }
}

#[test]
fn kill_misses_the_last_second_at_most() {
    require!(ebpf_is_tested, root);
    let _alone = alone();
    let storm = Beside::storm();
    let mut running = Trace::record(["-a"]).start();
    running.await_recording();
    running.await_condition("some events", |r| r.so_far().len() > 300_000);
    drop(storm);
    let mut last = Beside::shell("exit 77");
    last.0.wait().expect("it ends");
    let (ended, before) = (boot_ns(), waited_for_cpu(running.pid()));
    while boot_ns() < ended + 1_000_000_000 + waited_for_cpu(running.pid()).saturating_sub(before) {
        std::thread::yield_now();
    }
    running.signal(libc::SIGKILL);
    let text = running.so_far();
    let lines = Capture::whole_lines(&text);
    let exit = |l: &&Value| l.kind() == "exit" && l.num("pid") == last.pid();
    assert_eq!(lines.iter().filter(exit).count(), 1);
    assert_eq!(running.finish().code(), 1009);
}

#[test]
fn memory_depends_on_the_living() {
    require!(ebpf_is_tested, root);
    let _alone = alone();
    let mut running = Trace::record(["-a"]).start();
    running.await_recording();
    let status = format!("/proc/{}/status", running.pid());
    let resident = || {
        let status = fs::read_to_string(&status).expect("it runs");
        // Its own: what it has mapped stays the same, and comes and goes as the kernel likes.
        let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"));
        let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("a size")
    };
    let storms = |n: u64| {
        let mut fork = Command::new(fixture("forkstorm"));
        let mut exec = Command::new(fixture("execstorm"));
        let commands = [
            fork.arg(n.to_string()),
            exec.arg(fixture("tiny")).arg(n.to_string()),
        ];
        for command in commands {
            Beside::start(command).0.wait().expect("it ends");
        }
    };
    storms(scaled(10_000));
    let before = resident();
    storms(scaled(30_000));
    let after = resident();
    running.signal(libc::SIGTERM);
    let outcome = running.finish().expect_code(0);
    // What its queues hold comes and goes; a row for each process would be some 30 MiB.
    const QUEUES_KIB: u64 = 8 << 10;
    assert!(
        after <= before + QUEUES_KIB,
        "{before} KiB, then {after} KiB\n{outcome}"
    );
}
