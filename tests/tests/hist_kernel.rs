//! `tracer hist --backend ftrace`: the kernel's own triggers, told what to do while they count.

use std::path::Path;
use std::process::Command;

use tracer_tests::hist::has_triggers;
use tracer_tests::host::skipped;
use tracer_tests::truth::number_after;
use tracer_tests::{Trace, fixture, require};

/// Whoever opens a `trigger` file to write it anew loses the triggers that it has.
#[test]
fn a_pause_keeps_what_has_been_counted() {
    require!(root);
    if let Err(reason) = has_triggers() {
        return skipped(&reason);
    }
    let mut running = Trace::bare()
        .without_capture()
        .options(["hist", "sched:sched_process_exit", "hist:keys=comm"])
        // Where the test fails it ends by itself.
        .options(["--backend", "ftrace", "--duration", "60s"])
        .start();
    let pid = running.pid().to_string();
    let socket = format!("/run/tracer/hist-{pid}.sock");
    running.await_condition("it listens", |_| Path::new(&socket).exists());
    let ask = |option: &str| {
        let options = ["hist", option, pid.as_str()];
        let outcome = Trace::bare().without_capture().options(options).run();
        outcome.expect_code(0).stdout()
    };
    let tiny = |n: u32| {
        for _ in 0..n {
            let end = Command::new(fixture("tiny")).status();
            assert!(end.expect("it runs").code().is_some());
        }
    };
    let count = |text: &str| {
        let row = text.lines().find(|l| l.starts_with("{ comm: tiny "));
        row.map_or(0, |r| number_after(r, "hitcount:"))
    };
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
