//! Names and arguments as nobody expects them: lossless in the capture, harmless
//! on a terminal, and never taken for anything but names.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;

use tracer_tests::{Record, Trace, fixture, require};

/// CASES 14.
const NAMES: [&[u8]; 5] = [b"a) b", b"x\ny", b"\x1b[31mred", b"q\"u'o,te", b"\xff\xfe"];

#[test]
fn strange_names_and_arguments_are_lossless() {
    require!(source);
    for name in NAMES {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(OsString::from_vec(name.into()));
        symlink(fixture("tiny"), &path).expect("any name will do");
        let strange: [&[u8]; 6] = [
            b"\x01",
            b"\xff",
            b"\x1b]0;title\x07",
            b"\"'\\,",
            b"two\nlines",
            b"",
        ];
        let args = strange.map(|a| OsString::from_vec(a.into()));
        let outcome = Trace::command(&path, args).run().expect_code(6);
        let capture = outcome.capture();
        let row = capture.root();
        assert_eq!(row.bytes("comm"), name);
        assert_eq!(row.bytes("filename"), path.as_os_str().as_encoded_bytes());
        capture.expect_list(row, "argv", 1, &strange);
        // On the terminal: none of the bytes that a terminal obeys.
        assert_harmless(&outcome.stderr_bytes());
        let log = Trace::command(&path, ["\x1b[2J\u{9b}1m\u{202e}"])
            .option("--log")
            .run()
            .expect_code(1);
        assert_harmless(&log.stderr_bytes());
    }
}

/// A name that the process gave itself.
#[test]
fn a_thread_name_is_lossless() {
    require!(source);
    for name in NAMES {
        let outcome = Trace::fixture("renamed", [OsString::from_vec(name.into())])
            .run()
            .expect_code(0);
        let capture = outcome.capture();
        let child = |e: &serde_json::Value| e.num("pid") != capture.root_pid();
        let exit = capture.only("exit", child);
        assert_eq!(exit.bytes("comm"), name);
        capture.expect_code(exit, "6");
        assert_eq!(capture.only("fork", |_| true).bytes("comm"), name);
        assert_harmless(&outcome.stderr_bytes());
    }
}

#[track_caller]
fn assert_harmless(terminal: &[u8]) {
    let text = String::from_utf8_lossy(terminal);
    let bad = |c: &char| {
        (c.is_control() && *c != '\n' && *c != '\t') || matches!(c, '\u{202a}'..='\u{202e}')
    };
    assert_eq!(text.chars().find(bad), None, "on the terminal: {text:?}");
    assert!(!text.is_empty());
}

/// CASES 17
#[test]
fn a_name_that_forges_a_record_is_only_a_name() {
    require!(source);
    let name = "x\n           <...>-1       [000] .....     1.000000: \
        sched_process_exit: comm=init pid=1 prio=120\nz";
    let dir = tempfile::tempdir().expect("a directory");
    let forged = dir.path().join(name);
    symlink(fixture("tiny"), &forged).expect("a link");
    let outcome = Trace::command(&forged, [""; 0]).run().expect_code(0);
    let capture = outcome.capture();
    let exec = capture.only("exec", |_| true);
    assert_eq!(
        exec.bytes("filename"),
        forged.as_os_str().as_encoded_bytes()
    );
    let exit = capture.only("exit", |_| true);
    assert_eq!(exit.num("pid"), capture.root_pid());
    // The other sources read nothing in which it could be mistaken.
    let warning = format!(
        "process {} ran a program whose name imitates",
        capture.root_pid()
    );
    assert_eq!(
        outcome.stderr().contains(&warning),
        capture.backend() == "ftrace",
        "{outcome}"
    );
}
