//! What is recorded, and what is left out and still followed.

use std::collections::BTreeSet;

use tracer_tests::cgroup::Cgroup;
use tracer_tests::host::scaled;
use tracer_tests::truth::number_after;
use tracer_tests::{Capture, Record, Trace, fixture, require};

fn comms(capture: &Capture) -> BTreeSet<String> {
    capture
        .of("process")
        .map(|p| p.text("comm").to_owned())
        .collect()
}

/// A shell that starts execstorm, which starts tiny: three names, one below the other.
fn three_names(n: u64) -> Trace {
    let [storm, tiny] = ["execstorm", "tiny"].map(|f| fixture(f).display().to_string());
    Trace::shell(&format!("'{storm}' '{tiny}' {n}; true"))
}

#[test]
fn comm_keeps_what_matches_below_what_does_not() {
    require!(source);
    let capture = three_names(20)
        .options(["--comm", "ti*y"])
        .run()
        .expect_code(0)
        .capture();
    assert_eq!(comms(&capture), ["tiny".to_owned()].into());
    assert_eq!(capture.of("process").count(), 20);
    assert_eq!(capture.of("exec").count(), 20);
    assert_eq!(capture.ends().count(), 20);
    assert_eq!(capture.lost_at_all(), 0);
}

#[test]
fn comm_repeated_is_either() {
    require!(source);
    let capture = three_names(10)
        .options(["--comm", "tiny", "--comm", "execstorm"])
        .run()
        .expect_code(0)
        .capture();
    assert_eq!(
        comms(&capture),
        ["execstorm".to_owned(), "tiny".to_owned()].into()
    );
}

#[test]
fn exclude_comm_leaves_out_and_still_follows() {
    require!(source);
    let capture = three_names(20)
        .options(["--exclude-comm", "execstorm"])
        .run()
        .expect_code(0)
        .capture();
    let comms = comms(&capture);
    assert!(
        comms.contains("tiny") && !comms.contains("execstorm"),
        "{comms:?}"
    );
    assert_eq!(
        capture
            .of("exec")
            .filter(|e| e.text("comm") == "tiny")
            .count(),
        20
    );
    assert!(!capture.of("exec").any(|e| e.text("comm") == "execstorm"));
}

#[test]
fn different_options_are_combined() {
    require!(source);
    let capture = three_names(10)
        .options(["--comm", "*", "--exclude-comm", "t?ny"])
        .run()
        .expect_code(0)
        .capture();
    let comms = comms(&capture);
    assert!(
        comms.contains("execstorm") && !comms.contains("tiny"),
        "{comms:?}"
    );
}

#[test]
fn the_decision_is_remade_at_exec() {
    require!(source);
    // The same process: a shell first, tiny afterwards.
    let script = format!("exec '{}'", fixture("tiny").display());
    let capture = Trace::shell(&script)
        .options(["--comm", "tiny"])
        .run()
        .expect_code(0)
        .capture();
    assert_eq!(capture.of("exec").count(), 1, "only that into tiny");
    assert_eq!(capture.root().text("comm"), "tiny");
}

#[test]
fn uid_filter_keeps_a_users_processes() {
    require!(knows_ends, root);
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("our own");
    let [jail, tiny] = ["jail", "tiny"].map(|name| {
        let copy = dir.path().join(name);
        std::fs::copy(fixture(name), &copy).expect("a copy");
        copy.display().to_string()
    });
    let script = format!("{tiny}; {jail} -u 65534 -- {tiny} a; {tiny} b c; true");
    let capture = Trace::shell(&script)
        .options(["--uid-filter", "65534"])
        .run()
        .expect_code(0)
        .capture();
    let codes: Vec<String> = capture.of("process").map(Record::code).collect();
    assert_eq!(codes, ["1"], "the one that ran as 65534");
    assert_eq!(capture.of("process").next().expect("one").num("uid"), 65534);
}

#[test]
fn failed_keeps_failures_and_those_who_started_them() {
    require!(knows_ends);
    let n = scaled(320);
    let script = format!("'{}' {n}; true", fixture("forkstorm").display());
    let outcome = Trace::shell(&script)
        .option("--failed")
        .run()
        .expect_code(0);
    let (capture, truth) = (outcome.capture(), outcome.truth());
    let failures: u64 = truth
        .codes
        .iter()
        .filter(|(c, _)| *c != "0")
        .map(|(_, n)| n)
        .sum();
    let (good, bad): (Vec<_>, Vec<_>) = capture.of("process").partition(|p| p.code() == "0");
    assert_eq!(bad.len() as u64, failures);
    let names: BTreeSet<&str> = good.iter().map(|p| p.text("comm")).collect();
    assert!(
        good.len() <= 2,
        "only ancestors of failures stay: {names:?}"
    );
    assert!(names.contains("forkstorm"), "{names:?}");
    assert_eq!(
        capture.ends().filter(|e| e.code() != "0").count() as u64,
        failures
    );
}

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
    let outcome = Trace::fixture("forkstorm", ["32"])
        .through([unshare.into_os_string(), "--pid".into(), "--fork".into()])
        .run()
        .expect_code(0);
    outcome.capture().assert_exact(&outcome.truth());
}

#[test]
fn kernel_threads_are_absent() {
    require!(source);
    let capture = three_names(50).run().expect_code(0).capture();
    for record in capture.lines.iter().filter(|l| l.get("kthread").is_some()) {
        assert!(!record.flag("kthread"), "{record}");
    }
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

#[test]
fn cgroup_keeps_what_runs_in_it_and_below() {
    require!(knows_ends);
    let group = match Cgroup::new() {
        Ok(group) => group,
        Err(reason) => return tracer_tests::host::skipped(&reason),
    };
    let tiny = fixture("tiny").display().to_string();
    let script = format!(
        "{tiny}; sh -c \"{}; exec {tiny} a\"; {tiny} b c; true",
        group.enter().replace('$', "\\$")
    );
    let options: [std::ffi::OsString; 2] = ["--cgroup".into(), group.path().into()];
    let capture = Trace::shell(&script)
        .options(options)
        .run()
        .expect_code(0)
        .capture();
    let codes: Vec<String> = capture.of("process").map(Record::code).collect();
    assert_eq!(codes, ["1"], "the one that was moved into it");
    assert_eq!(capture.only("exec", |_| true).text("cgroup"), group.name());
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
