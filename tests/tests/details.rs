//! What records say where more than the usual is asked for, and of namespaces and ids.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use tracer_tests::cgroup::Cgroup;
use tracer_tests::truth::number_after;
use tracer_tests::{Record, Trace, fixture, require};

#[test]
fn the_environment_where_it_is_asked_for() {
    require!(knows_ends);
    let with = |option: Option<&str>| {
        Trace::fixture("tiny", [""; 0])
            .options(option)
            .setup(|c| {
                c.env_clear()
                    .env("PATH", "/bin")
                    .env("GREETING", "two words")
                    .env("EMPTY", "");
            })
            .run()
            .expect_code(0)
            .capture()
    };
    let capture = with(Some("--env"));
    let env: BTreeSet<Vec<u8>> = capture
        .of("exec")
        .next()
        .expect("its own")
        .list("env")
        .into_iter()
        .collect();
    let expected: BTreeSet<Vec<u8>> = [&b"PATH=/bin"[..], b"GREETING=two words", b"EMPTY="]
        .map(<[u8]>::to_vec)
        .into();
    assert_eq!(env, expected);
    let capture = with(None);
    assert!(
        capture
            .of("exec")
            .next()
            .expect("its own")
            .get("env")
            .is_none_or(serde_json::Value::is_null)
    );
}

#[test]
fn a_long_argv_is_whole_up_to_the_cap_and_marked_beyond() {
    require!(knows_ends);
    // 100,000 bytes in 1,000 arguments, each different.
    let args: Vec<String> = (0..1000).map(|n| format!("{n:099}")).collect();
    let run = |option: &[&str]| {
        let trace = Trace::command(fixture("tiny"), &args).options(option.iter().copied());
        let outcome = trace.run().expect_code(1000 % 256);
        outcome.capture()
    };
    let whole: Vec<Vec<u8>> = args.iter().map(|a| a.clone().into_bytes()).collect();
    let capture = run(&["--max-argv", "1MiB"]);
    let exec = capture.of("exec").next().expect("its own");
    assert_eq!(exec.text("argv_state"), "full");
    assert_eq!(exec.list("argv")[1..], whole);

    for (option, cap) in [(&[][..], 64 << 10), (&["--max-argv", "8KiB"][..], 8 << 10)] {
        let capture = run(option);
        let exec = capture.of("exec").next().expect("its own");
        assert_eq!(exec.text("argv_state"), "truncated", "{option:?}");
        let argv = exec.list("argv");
        let bytes: usize = argv.iter().map(|a| a.len() + 1).sum();
        assert!(
            bytes.abs_diff(cap) <= 100,
            "{option:?}: {bytes} bytes of {cap}"
        );
        // A beginning of the truth: all but the last whole.
        for (ours, truth) in argv[1..argv.len() - 1].iter().zip(&whole) {
            assert_eq!(ours, truth, "{option:?}");
        }
        assert!(
            whole[argv.len() - 2].starts_with(argv.last().expect("not empty")),
            "{option:?}"
        );
    }
}

#[test]
fn an_argv_of_two_mebibytes() {
    require!(knows_ends);
    // A single argument may have 128 KiB; the whole needs a stack limit of 8 MiB.
    let args: Vec<String> = (0..15)
        .map(|n| char::from(b'a' + n).to_string().repeat(120_000))
        .collect();
    let capture = Trace::command(fixture("tiny"), &args)
        .options(["--max-argv", "2MiB"])
        .run()
        .expect_code(15)
        .capture();
    let exec = capture.of("exec").next().expect("its own");
    assert_eq!(exec.text("argv_state"), "full");
    assert_eq!(
        exec.list("argv")[1..],
        args.iter()
            .map(|a| a.clone().into_bytes())
            .collect::<Vec<_>>()
    );
}

#[test]
fn signals_name_their_sender() {
    require!(knows_ends);
    let outcome = Trace::fixture("killer", [""; 0])
        .option("--signals")
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    capture.assert_exact(&outcome.truth());
    let stdout = outcome.stdout();
    let [me, killed, terminated, by, faulted] =
        ["SELF", "KILLED", "TERMINATED", "BY", "FAULTED"].map(|k| number_after(&stdout, k));
    let to = |pid: u64| capture.only("signal", |s| s.num("pid") == pid);
    // A SIGKILL stops nobody for a ptracer to look at.
    if tracer_tests::host::backend() == "ebpf" {
        let kill = to(killed);
        assert_eq!(
            (
                kill.text("signal_name"),
                kill.text("by"),
                kill.num("sender_pid")
            ),
            ("SIGKILL", "process", me)
        );
        assert_eq!(kill.num("sender_start"), capture.root().num("start"));
        assert_eq!(kill.text("sender_comm"), "killer");
        let row = capture.process(killed);
        assert_eq!(row["killed_by"].num("sender_pid"), me, "{row}");
    } else {
        assert!(outcome.stderr().contains("SIGKILL"), "said\n{outcome}");
    }
    let term = to(terminated);
    assert_eq!(
        (term.text("signal_name"), term.num("sender_pid")),
        ("SIGTERM", by)
    );
    assert_eq!(to(faulted).text("by"), "kernel");
    assert_eq!(to(faulted).text("signal_name"), "SIGSEGV");
}

#[test]
fn no_signal_is_recorded_unless_asked_for() {
    require!(source);
    let capture = Trace::fixture("killer", [""; 0])
        .run()
        .expect_code(0)
        .capture();
    assert_eq!(capture.of("signal").count(), 0);
}

#[test]
fn pids_of_an_inner_namespace() {
    require!(knows_ends);
    let outcome = Trace::fixture("pidns", [""; 0]).run().expect_code(0);
    let capture = outcome.capture();
    capture.assert_exact(&outcome.truth());
    let first = capture.only("process", |p| p.code() == "11");
    let second = capture.only("process", |p| p.code() == "12");
    assert_eq!(first.num("pid"), number_after(&outcome.stdout(), "OUTSIDE"));
    assert_eq!((first.num("ns_pid"), second.num("ns_pid")), (1, 2));
    assert_eq!(second.num("ppid"), first.num("pid"));
    assert!(
        capture.root()["ns_pid"].is_null(),
        "the command is in the namespace of the whole machine"
    );
}

#[test]
fn a_command_in_its_own_namespace_from_the_start() {
    require!(knows_ends, full_system);
    let Some(unshare) = tracer_tests::host::find_program("unshare") else {
        tracer_tests::host::skipped("no unshare here");
        return;
    };
    // tracer itself inside: fork() tells it an inner pid, the kernel side sees outer ones.
    let mut launcher = vec![unshare.into_os_string(), "--pid".into(), "--fork".into()];
    if tracer_tests::host::backend() == "ptrace" {
        launcher.push("--mount-proc".into());
    }
    let outcome = Trace::fixture("forkstorm", ["32"])
        .through(launcher)
        .run()
        .expect_code(0);
    outcome.capture().assert_exact(&outcome.truth());
}

/// What is known by other numbers than those of here is not mixed up with it.
#[test]
fn sources_that_cannot_answer_in_a_namespace_say_so() {
    require!(source, root, unshare, full_system);
    let begin = |backend, more: &[&str]| {
        let launcher = ["unshare", "--pid", "--fork"].iter().chain(more);
        Trace::shell("true; exit 3")
            .through(launcher.copied())
            .backend(Some(backend))
            .run()
    };
    let outcome = begin("ftrace", &["--mount-proc"]).expect_code(125);
    assert!(outcome.stderr().contains("PID namespace"), "{outcome}");
    let outcome = begin("ptrace", &[]).expect_code(125);
    assert!(outcome.stderr().contains("mount -t proc"), "{outcome}");
    let outcome = Trace::bare()
        .options(["compare", "--with", "ebpf,ptrace", "--", "true"])
        .through(["unshare", "--pid", "--fork", "--mount-proc"])
        .run()
        .expect_code(125);
    assert!(outcome.stderr().contains("on the host"), "{outcome}");
    let capture = begin("ptrace", &["--mount-proc"]).expect_code(3).capture();
    assert_eq!(capture.root().text("comm"), "sh");
}

#[test]
fn identity_of_the_program() {
    require!(knows_ends);
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().canonicalize().expect("it exists");
    let capture = Trace::fixture("tiny", [""; 0])
        .in_dir(&place)
        .run()
        .expect_code(0)
        .capture();
    let exec = capture.of("exec").next().expect("its own");
    assert_eq!(exec.bytes("cwd"), place.as_os_str().as_encoded_bytes());
    // SAFETY: these take nothing and cannot fail.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    assert_eq!(
        (exec.num("uid"), exec.num("euid"), exec.num("gid")),
        (uid.into(), uid.into(), gid.into())
    );
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    if let Some(path) = own.lines().find_map(|l| l.strip_prefix("0::")) {
        assert_eq!(exec.text("cgroup"), path);
    }
}

/// A directory that was removed while somebody stands in it is shown as the kernel
/// shows it in /proc.
#[test]
fn a_working_directory_that_was_removed() {
    require!(knows_ends);
    let dir = tempfile::tempdir().expect("a directory");
    let look = format!("readlink /proc/self/cwd; {}", fixture("tiny").display());
    for deep in ["a", "a/b/c/d/e/f/g/h/i"] {
        let script =
            format!("mkdir -p {deep}; cd {deep}; {look}; rmdir \"$PWD\"; {look}; cd /; {look}");
        let outcome = Trace::shell(&script)
            .in_dir(dir.path())
            .run()
            .expect_code(0);
        let capture = outcome.capture();
        let places: Vec<_> = capture
            .of("exec")
            .filter(|e| e.text("comm") == "tiny")
            .map(|e| String::from_utf8_lossy(&e.bytes("cwd")).into_owned())
            .collect();
        let stdout = outcome.stdout();
        let truth: Vec<_> = stdout.lines().collect();
        assert!(truth[1].ends_with(" (deleted)"), "{truth:?}");
        assert_eq!(places, truth);
    }
}

/// What is too long for a link of /proc is cut, or missing for a source that reads it there;
/// nobody is gone.
#[test]
fn a_working_directory_that_is_very_deep() {
    require!(knows_ends);
    let dir = tempfile::tempdir().expect("a directory");
    let name = std::ffi::CString::new("n".repeat(250)).expect("no NUL");
    let deep = name.clone();
    let capture = Trace::fixture("tiny", [""; 0])
        .in_dir(dir.path())
        .setup(move |command| {
            // SAFETY: mkdir and chdir are async-signal-safe, the string is the closure's own.
            unsafe {
                command.pre_exec(move || {
                    for _ in 0..20 {
                        libc::mkdir(deep.as_ptr(), 0o700);
                        if libc::chdir(deep.as_ptr()) != 0 {
                            return Err(std::io::Error::last_os_error());
                        }
                    }
                    Ok(())
                });
            }
        })
        .run()
        .expect_code(0)
        .capture();
    let exec = capture.only("exec", |_| true);
    if tracer_tests::host::backend() == "ebpf" {
        assert_eq!(exec.text("cwd_state"), "truncated", "{exec}");
        assert!(exec.bytes("cwd").ends_with(name.as_bytes()), "{exec}");
    } else {
        assert_eq!(exec.text("cwd_state"), "missing", "{exec}");
        assert_eq!(exec.text("cwd_reason"), "source", "{exec}");
    }
}

#[test]
fn the_oom_killer_is_named() {
    require!(ebpf_is_tested);
    let group = match Cgroup::with_memory(24 << 20) {
        Ok(group) => group,
        Err(reason) => return tracer_tests::host::skipped(&reason),
    };
    let touch = fixture("touch").display().to_string();
    let script = format!(
        "sh -c \"{}; exec {touch} 64\"; true",
        group.enter().replace('$', "\\$")
    );
    let capture = Trace::shell(&script)
        .option("--signals")
        .run()
        .expect_code(0)
        .capture();
    let victim = capture.only("process", |p| p.opt_num("signal") == Some(9));
    assert_eq!(victim["killed_by"].text("by"), "oom", "{victim}");
    let signal = capture.only("signal", |s| {
        s.num("pid") == victim.num("pid") && s.text("by") == "oom"
    });
    assert!(
        signal["sender_pid"].is_null(),
        "whoever ran then is innocent: {signal}"
    );
}
