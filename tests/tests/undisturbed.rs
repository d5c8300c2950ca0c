//! The command runs as it would under time(1).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use tracer_tests::host::find_program;
use tracer_tests::pty::Pty;
use tracer_tests::run::Running;
use tracer_tests::truth::number_after;
use tracer_tests::{Record, Trace, fixture, require};

/// The lines of the workload `state`, without those that name this one run, or
/// that ptrace cannot hide.
fn state_lines(output: &str) -> Vec<&str> {
    let ptrace = tracer_tests::host::backend() == "ptrace";
    output
        .lines()
        .filter(|l| !l.starts_with("PGID ") && !l.starts_with("fd 1 ") && !l.starts_with("fd 2 "))
        .filter(|l| !(ptrace && l.starts_with("TracerPid:")))
        .collect()
}

#[test]
fn the_command_inherits_what_tracer_was_given() {
    require!(source);
    let dir = tempfile::tempdir().expect("a directory");
    let input = dir.path().join("input");
    fs::write(&input, "some input").expect("a file in our own directory");
    let prepare = |command: &mut Command| {
        command
            .current_dir(dir.path())
            .stdin(File::open(&input).expect("just written"));
        command
            .env_clear()
            .env("PATH", "/bin")
            .env("ODD", "a\u{1}b")
            .process_group(0);
        let extra = File::open("/dev/zero").expect("it exists");
        // SAFETY: between fork and exec only dup2, umask, signal, sigprocmask, nice and setrlimit are
        // called, all async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                let fd = std::os::fd::AsRawFd::as_raw_fd(&extra);
                libc::dup2(fd, 77);
                libc::umask(0o027);
                libc::signal(libc::SIGUSR1, libc::SIG_IGN);
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&mut set);
                libc::sigaddset(&mut set, libc::SIGUSR2);
                libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
                libc::setpriority(libc::PRIO_PROCESS, 0, 3);
                let limit = libc::rlimit {
                    rlim_cur: 200,
                    rlim_max: 300,
                };
                if libc::setrlimit(libc::RLIMIT_NOFILE, &limit) != 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
    };
    let mut plain = Command::new(fixture("state"));
    prepare(&mut plain);
    let plain = plain.output().expect("state runs");
    let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
    // The run is started here, not by `setup`, which would outlive what `prepare` borrows.
    let capture = dir.path().join("capture.jsonl");
    let mut traced = Command::new(tracer_tests::host::tracer());
    traced
        .args(["--backend", &tracer_tests::host::backend(), "-o"])
        .arg(&capture)
        .arg("--")
        .arg(fixture("state"));
    prepare(&mut traced);
    let traced = traced.output().expect("tracer runs");
    assert!(
        traced.status.success(),
        "{}",
        String::from_utf8_lossy(&traced.stderr)
    );
    let traced = String::from_utf8_lossy(&traced.stdout).into_owned();
    assert_eq!(
        state_lines(&traced),
        state_lines(&plain),
        "traced (left) and not (right)"
    );
}

#[test]
fn the_command_shares_the_process_group() {
    require!(source);
    let running = Trace::fixture("state", [""; 0])
        .setup(|c| {
            c.process_group(0);
        })
        .start();
    let group = u64::try_from(running.pid()).expect("a pid");
    let outcome = running.finish().expect_code(0);
    assert_eq!(number_after(&outcome.stdout(), "PGID"), group);
}

#[test]
fn the_command_has_the_terminal() {
    require!(source);
    let pty = Pty::open();
    let running = Trace::fixture("state", [""; 0])
        .setup(pty.controls())
        .start();
    let leader = u64::try_from(running.pid()).expect("a pid");
    let outcome = running.finish().expect_code(0);
    let stdout = outcome.stdout();
    assert!(stdout.contains("\ntty /dev/pts/"), "{stdout}");
    assert_eq!(number_after(&stdout, "SID"), leader);
    assert_eq!(
        number_after(&stdout, "FOREGROUND"),
        number_after(&stdout, "PGID"),
        "it may read and is not stopped"
    );
    let exec = outcome.capture();
    let exec = exec.of("exec").next().expect("its own");
    if tracer_tests::host::backend() != "ftrace" {
        let tty = stdout.lines().find_map(|l| l.strip_prefix("tty /dev/"));
        assert_eq!(Some(exec.text("tty")), tty, "{exec}");
        assert_eq!((exec.num("sid"), exec.num("pgid")), (leader, leader));
    }
}

#[test]
fn exit_statuses_are_those_of_the_command() {
    require!(source);
    for code in [0, 1, 3, 42, 125, 255] {
        Trace::shell(&format!("exit {code}"))
            .run()
            .expect_code(code);
    }
    for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGUSR1, libc::SIGINT] {
        let outcome = Trace::shell(&format!("kill -{signal} $$"))
            .run()
            .expect_code(128 + signal);
        let capture = outcome.capture();
        capture.expect_root(&format!("s{signal}"));
        assert_eq!(
            capture.end().num("exit_code"),
            128 + u64::try_from(signal).expect("positive")
        );
    }
}

/// Who ignores SIGCHLD has the kernel reap its children, and would not learn of
/// their ends; that is inherited over exec.
#[test]
fn who_ignores_children_is_told_of_the_commands_end() {
    require!(source);
    let ignoring = |trace: Trace| {
        trace.setup(|c| {
            // SAFETY: signal is async-signal-safe.
            unsafe {
                c.pre_exec(|| {
                    libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                    Ok(())
                });
            }
        })
    };
    ignoring(Trace::shell("exit 3")).run().expect_code(3);
    // Not by a shell, which may undo it.
    let outcome = ignoring(Trace::command("grep", ["SigIgn", "/proc/self/status"]))
        .run()
        .expect_code(0);
    let stdout = outcome.stdout();
    let set = stdout.trim().rsplit('\t').next().unwrap_or_default();
    let ignored = u64::from_str_radix(set, 16).expect("a set of signals");
    let bit = 1 << (libc::SIGCHLD - 1);
    assert_eq!(ignored & bit, bit, "the command ignores it, too");
    let trace = ignoring(Trace::command("sleep", ["600"]));
    trace.options(["--timeout", "100ms"]).run().expect_code(124);
}

#[test]
fn what_cannot_be_run_is_126_or_127() {
    require!(source);
    let trace = Trace::bare();
    let plain = trace.path("no-permission");
    fs::write(&plain, "#!/bin/sh\n").expect("a file in our own directory");
    let outcome = Trace::command(&plain, [""; 0]).run().expect_code(126);
    assert!(outcome.stderr().contains("no-permission"), "{outcome}");
    let outcome = Trace::command("/no/such/program", [""; 0])
        .run()
        .expect_code(127);
    assert!(outcome.stderr().contains("/no/such/program"), "{outcome}");
    let outcome = Trace::command("no-such-program-on-the-path", [""; 0])
        .run()
        .expect_code(127);
    assert!(
        outcome.stderr().contains("no-such-program-on-the-path"),
        "{outcome}"
    );
}

#[test]
fn input_and_outputs_pass_through_untouched() {
    require!(source);
    let input: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let trace = Trace::shell("cat; echo words >&2");
    let file = trace.path("input");
    fs::write(&file, &input).expect("a file in our own directory");
    let source = File::open(&file).expect("just written");
    let outcome = trace
        .option("--quiet")
        .setup(move |c| {
            c.stdin(source);
        })
        .run()
        .expect_code(0);
    assert_eq!(outcome.stdout_bytes(), input);
    assert_eq!(outcome.stderr(), "words\n", "--quiet adds nothing");
}

/// Tracer reads nothing of what is meant for the command.
#[test]
fn the_rest_of_the_input_is_left_for_others() {
    require!(source);
    let trace = Trace::shell("read -r line; echo \"$line\"");
    let file = trace.path("input");
    let mut f = File::create(&file).expect("a file in our own directory");
    writeln!(f, "first\nsecond").expect("a file in our own directory");
    let source = OpenOptions::new()
        .read(true)
        .open(&file)
        .expect("just written");
    let mut rest = source.try_clone().expect("a descriptor can be copied");
    let outcome = trace
        .setup(move |c| {
            c.stdin(source);
        })
        .run()
        .expect_code(0);
    assert_eq!(outcome.stdout(), "first\n");
    let mut text = String::new();
    io::Read::read_to_string(&mut rest, &mut text).expect("a file");
    assert_eq!(
        text, "second\n",
        "read(1) of a shell takes byte by byte from a file that it can seek"
    );
}

#[test]
fn nothing_is_printed_to_stdout() {
    require!(source);
    for options in [&["--tree=full"][..], &["--log"], &[]] {
        let outcome = Trace::shell("true")
            .options(options.iter().copied())
            .run()
            .expect_code(0);
        assert_eq!(outcome.stdout(), "", "{options:?}");
        assert!(!outcome.stderr().is_empty(), "{options:?}");
    }
}

/// The one process that is there from the first instant on: nothing before its
/// exec, and nothing between its fork and its exec missed.
#[test]
fn the_command_begins_with_its_exec() {
    require!(source);
    let capture = Trace::fixture("tiny", ["x"]).run().expect_code(1).capture();
    let events: Vec<(&str, u64)> = capture
        .lines
        .iter()
        .filter(|l| l.get("cpu").is_some())
        .map(|l| (l.kind(), l.num("pid")))
        .collect();
    assert_eq!(
        events,
        [("exec", capture.root_pid()), ("exit", capture.root_pid())]
    );
    let root = capture.root();
    assert!(root.flag("root"));
    capture.expect_list(root, "argv", 0, &capture.meta().list("command"));
}

#[test]
fn the_command_runs_as_another_user() {
    require!(source, root);
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let Some(fields) = passwd
        .lines()
        .map(|l| l.split(':').collect::<Vec<_>>())
        .find(|f| f[0] == "nobody")
    else {
        tracer_tests::host::skipped("no user nobody");
        return;
    };
    let outcome = Trace::shell("id -u; id -g; echo \"$HOME $USER $LOGNAME $SHELL\"")
        .options(["--uid", "nobody"])
        .run()
        .expect_code(0);
    let stdout = outcome.stdout();
    let [uid, gid, environment] = stdout.lines().collect::<Vec<_>>()[..] else {
        panic!("three lines: {stdout:?}")
    };
    assert_eq!((uid, gid), (fields[2], fields[3]));
    assert_eq!(
        environment,
        format!("{} nobody nobody {}", fields[5], fields[6])
    );
    let capture = outcome.capture();
    let uid: u64 = uid.parse().expect("a number");
    capture.expect(capture.root(), "uid", uid);
    // tracer stayed root: the capture is ours.
    assert!(outcome.has_capture());
}

/// An interactive shell under tracer has job control.
#[test]
fn an_interactive_shell_works() {
    require!(source, full_system);
    let Some(bash) = find_program("bash") else {
        tracer_tests::host::skipped("no bash here");
        return;
    };
    let mut pty = Pty::open();
    let dir = tempfile::tempdir().expect("a directory");
    let capture = dir.path().join("capture.jsonl");
    let mut command = Command::new(tracer_tests::host::tracer());
    command
        .args(["--backend", &tracer_tests::host::backend(), "-q", "-o"])
        .arg(&capture)
        .arg("--")
        .arg(bash);
    command
        .args(["--norc", "--noprofile", "-i"])
        .env("PS1", "> ")
        .env("TERM", "dumb");
    pty.controls()(&mut command);
    command
        .stdout(Stdio::from(pty.slave_copy()))
        .stderr(Stdio::from(pty.slave_copy()));
    let mut child = command.spawn().expect("tracer starts");
    drop(command);
    // A job in the background, brought to the front, and an end with a status.
    pty.typed(b"sleep 0.1 & fg; echo done-$((40 + 2)); exit 17\n");
    let status = child.wait().expect("a child can be waited for");
    let screen = String::from_utf8_lossy(&pty.written()).into_owned();
    assert_eq!(status.code(), Some(17), "{screen}");
    assert!(screen.contains("done-42"), "{screen}");
    assert!(!screen.contains("no job control"), "{screen}");
}

/// Two tracers at once do not see each other's commands.
#[test]
fn two_tracers_at_once() {
    require!(source);
    let n = tracer_tests::host::scaled(500).to_string();
    let running: Vec<Running> = (0..2)
        .map(|_| Trace::fixture("forkstorm", [&n]).start())
        .collect();
    for one in running {
        let outcome = one.finish().expect_code(0);
        outcome.capture().assert_exact(&outcome.truth());
    }
}

/// A tracer inside a tracer: the outer one sees the inner one and all of its children.
#[test]
fn a_tracer_under_a_tracer() {
    require!(knows_ends);
    let inner: Vec<std::ffi::OsString> = vec![
        "--backend".into(),
        "ebpf".into(),
        "-q".into(),
        "--".into(),
        fixture("forkstorm").into(),
        "100".into(),
    ];
    let outcome = Trace::command(tracer_tests::host::tracer(), inner)
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    let by_parent =
        capture
            .of("fork")
            .filter(|f| !f.flag("thread"))
            .fold(BTreeMap::new(), |mut m, f| {
                *m.entry(f.text("comm").to_owned()).or_insert(0) += 1;
                m
            });
    assert_eq!(by_parent.get("forkstorm"), Some(&100), "{by_parent:?}");
}
