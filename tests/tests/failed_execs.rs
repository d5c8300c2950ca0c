//! `--failed-execs`: programs that could not be executed.

use tracer_tests::{Record, Trace, require};

#[test]
fn failed_execs_have_their_errno() {
    require!(ebpf_is_tested);
    let trace = Trace::bare();
    let dir = trace.dir().to_owned();
    let outcome = Trace::fixture("failexec", [dir.as_os_str()])
        .option("--failed-execs")
        .run()
        .expect_code(0);
    let stdout = outcome.stdout();
    let truth: Vec<(u64, &str)> = stdout
        .lines()
        .filter_map(|l| l.strip_prefix("FAILED ")?.split_once(' '))
        .map(|(errno, path)| (errno.parse().expect("a number"), path))
        .collect();
    let capture = outcome.capture();
    let seen: Vec<(u64, &str)> = capture
        .of("exec_failed")
        .map(|e| (e.num("errno"), e.text("filename")))
        .collect();
    assert_eq!(seen, truth);
    for failed in capture.of("exec_failed") {
        assert_eq!(failed.list("argv")[1..], [&b"one"[..], b"two words"]);
        assert_eq!(failed.num("pid"), capture.root_pid());
    }
}

#[test]
fn what_cannot_be_read_is_not_called_whole() {
    require!(ebpf_is_tested);
    let outcome = Trace::fixture("faultexec", [""; 0])
        .option("--failed-execs")
        .run()
        .expect_code(0);
    let stdout = outcome.stdout();
    let truth: Vec<u64> = stdout
        .lines()
        .filter_map(|l| l.strip_prefix("FAILED ")?.parse().ok())
        .collect();
    let capture = outcome.capture();
    let failed: Vec<_> = capture.of("exec_failed").collect();
    let errnos: Vec<u64> = failed.iter().map(|e| e.num("errno")).collect();
    assert_eq!(errnos, truth);
    let [long, no_argv, torn, no_path] = failed[..] else {
        panic!("{failed:#?}")
    };
    assert_eq!(long.text("filename_state"), "truncated");
    assert_eq!(long.text("filename"), "x".repeat(255));
    assert_eq!(long.text("argv_state"), "full");
    assert_eq!(no_argv.text("filename"), "/proc/self/exe");
    let argv = (no_argv.text("argv_state"), no_argv.text("argv_reason"));
    assert_eq!(argv, ("missing", "fault"));
    assert_eq!(torn.text("argv_state"), "truncated");
    assert_eq!(torn.list("argv"), [b"one"]);
    let path = (
        no_path.text("filename_state"),
        no_path.text("filename_reason"),
    );
    assert_eq!(path, ("missing", "fault"));
    assert_eq!(no_path.text("argv_state"), "full");
    assert_eq!(no_path.list("argv"), [b"one"]);
}

#[test]
fn those_of_32_bit_system_calls_are_seen() {
    require!(ebpf_is_tested);
    let outcome = Trace::fixture("failexec32", [""; 0])
        .option("--failed-execs")
        .run()
        .expect_code(0);
    if outcome.stdout().contains("NONE") {
        eprintln!("skipped: those_of_32_bit_system_calls_are_seen: this kernel has none");
        return;
    }
    assert_eq!(outcome.stdout(), "FAILED 2\nFAILED 2\n");
    let capture = outcome.capture();
    let failed: Vec<_> = capture.of("exec_failed").collect();
    assert_eq!(failed.len(), 2, "{failed:#?}");
    for failed in failed {
        assert_eq!(failed.num("errno"), 2);
        assert_eq!(failed.text("filename"), "/no/such/file");
        let argv = [&b"/no/such/file"[..], b"two words"];
        assert_eq!(failed.list("argv"), argv);
        assert_eq!(failed.text("argv_state"), "full");
    }
}
