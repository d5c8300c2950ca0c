//! Situations that broke other tracers, each with its right answer.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tracer_tests::host::{find_program, scaled};
use tracer_tests::knows::{Answer, answer};
use tracer_tests::run::send;
use tracer_tests::truth::number_after;
use tracer_tests::{Record, Trace, copy_program, fixture, require};

fn tiny() -> OsString {
    fixture("tiny").into_os_string()
}

/// 1
#[test]
fn xargs_by_eight() {
    require!(source, xargs);
    let n = scaled(20_000);
    // By path: a busybox shell runs its own applets without an exec.
    let [seq, xargs] = ["seq", "xargs"].map(|p| {
        find_program(p)
            .expect("looked for above")
            .display()
            .to_string()
    });
    let script = format!("{seq} {n} | {xargs} -P8 -n1 /bin/true");
    let capture = Trace::shell(&script).run().expect_code(0).capture();
    let count = |name: &[u8]| {
        let named = |e: &&serde_json::Value| e.bytes("filename").ends_with(name);
        capture.of("exec").filter(named).count() as u64
    };
    assert_eq!(capture.lost_at_all(), 0);
    assert_eq!(count(b"/xargs"), 1);
    assert_eq!(count(b"/true"), n);
    let mut arguments: Vec<u64> = capture
        .of("exec")
        .filter(|e| e.bytes("filename").ends_with(b"/true"))
        .filter(|e| !capture.leaves_out(e, "argv"))
        .map(|e| {
            String::from_utf8_lossy(&e.list("argv")[1])
                .parse()
                .expect("a number of seq")
        })
        .collect();
    arguments.sort_unstable();
    if answer(capture.backend(), "argv") == Answer::Always {
        assert!(arguments.iter().copied().eq(1..=n), "each number once");
    }
    assert!(arguments.is_sorted_by(|a, b| a < b), "none twice");
    assert!(arguments.iter().all(|a| (1..=n).contains(a)), "no other");
}

/// 2
#[test]
fn argv_in_untouched_pages_is_whole() {
    require!(source);
    let trace = Trace::bare();
    let page = trace.path("page");
    let outcome = Trace::fixture("argvpage", [tiny(), page.into_os_string()])
        .run()
        .expect_code(3);
    let capture = outcome.capture();
    let exec = capture.only("exec", |e| e.text("comm") == "tiny");
    assert_eq!(exec.bytes("filename"), tiny().into_vec());
    let argv = [
        tiny().into_vec(),
        b"untouched".into(),
        vec![],
        vec![b'l'; 3000],
    ];
    capture.expect_list(exec, "argv", 0, &argv);
}

/// 3
#[test]
fn execs_without_a_path_are_execs() {
    require!(source);
    for (i, way) in ["fd", "memfd", "at"].into_iter().enumerate() {
        let mut args: Vec<OsString> = vec![way.into(), tiny()];
        args.extend((0..=i).map(|n| n.to_string().into()));
        let code = i32::try_from(i).expect("small") + 1;
        let outcome = Trace::fixture("fexec", args).run().expect_code(code);
        let capture = outcome.capture();
        assert_eq!(
            capture.of("exec").count(),
            2,
            "{way}: its own and the one under test"
        );
        let exec = capture.of("exec").last().expect("two");
        let argv: Vec<String> = ["tiny".to_owned()]
            .into_iter()
            .chain((0..=i).map(|n| n.to_string()))
            .collect();
        capture.expect_list(exec, "argv", 0, &argv);
        let name = exec.bytes("filename");
        let useful: &[u8] = if way == "at" { b"tiny" } else { b"/dev/fd/" };
        assert!(
            name.windows(useful.len()).any(|w| w == useful),
            "{way}: {exec}"
        );
        assert_eq!(capture.root().num("execs"), 2, "{way}");
    }
}

/// 3, as it was reported
#[test]
fn python_execs_a_descriptor() {
    require!(source, python);
    // The interpreter itself rather than a wrapper that a version manager puts on PATH.
    let python = ["/usr/bin/python3"]
        .map(Path::new)
        .into_iter()
        .find(|p| p.exists())
        .map(Path::to_owned);
    let python = python
        .or_else(|| find_program("python3"))
        .expect("looked for above");
    let script = "import os; os.execve(os.open('/bin/true', 0), ['true'], {})";
    let capture = Trace::command(python, ["-c", script])
        .run()
        .expect_code(0)
        .capture();
    let exec = capture.of("exec").last().expect("python's at least");
    capture.expect_list(exec, "argv", 0, &["true"]);
    capture.expect_code(capture.root(), "0");
}

/// 6
#[test]
fn a_segmentation_fault_says_whether_it_left_a_core() {
    require!(knows_ends);
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("it exists");
    for (limit, core) in [("unlimited", true), ("0", false)] {
        // A pattern that pipes to a helper, or names nothing, decides by itself.
        if core && (pattern.starts_with('|') || pattern.trim().is_empty()) {
            tracer_tests::host::skipped(&format!("core_pattern is {pattern:?}"));
            continue;
        }
        let script = format!("ulimit -c {limit}; sh -c 'kill -SEGV $$'; true");
        let trace = Trace::shell(&script);
        let dir = trace.dir().to_owned();
        let capture = trace.in_dir(&dir).run().expect_code(0).capture();
        let row = capture.only("process", |p| p.opt_num("signal").is_some());
        assert_eq!(
            (row.num("signal"), row.text("signal_name")),
            (11, "SIGSEGV")
        );
        assert!(row["exit_code"].is_null());
        assert_eq!(
            row.flag("core_dumped"),
            core,
            "ulimit -c {limit}, core_pattern {pattern:?}"
        );
    }
}

/// 7
#[test]
fn the_process_ends_with_its_last_thread() {
    require!(source);
    let outcome = Trace::fixture("leader", [""; 0]).run().expect_code(7);
    let capture = outcome.capture();
    let ends: Vec<_> = capture.ends().collect();
    assert_eq!(ends.len(), 1, "one end: {ends:?}");
    capture.expect_code(ends[0], "7");
    let alone = number_after(&outcome.stdout(), "ALONE");
    assert!(
        ends[0].num("ts") >= alone,
        "ended at {}, the leader had left before {alone}",
        ends[0].num("ts")
    );
    assert_eq!(capture.root().num("end"), ends[0].num("ts"));
}

/// 10
#[test]
fn an_exec_by_another_thread_goes_on_as_the_same_process() {
    require!(source);
    let outcome = Trace::fixture("threadexec", [tiny(), "a".into(), "b".into()])
        .run()
        .expect_code(2);
    let capture = outcome.capture();
    let pid = number_after(&outcome.stdout(), "PID");
    assert_eq!(pid, capture.root_pid());
    let exec = capture.only("exec", |e| e.text("comm") == "tiny");
    assert_eq!(exec.num("pid"), pid);
    capture.expect(exec, "old_tid", number_after(&outcome.stdout(), "TID"));
    let first = capture.of("exec").next().expect("its own");
    assert_eq!(exec.id(), first.id(), "pid and start stay");
    assert_eq!(capture.ends().count(), 1);
    assert_eq!(capture.of("process").count(), 1);
    assert_eq!(capture.root().text("comm"), "tiny");
    assert_eq!(capture.root().num("threads"), 10);
}

/// 10, with threads listed: those that the exec ended are ended, the process is not.
#[test]
fn an_exec_by_another_thread_leaves_no_thread_behind() {
    require!(source);
    let outcome = Trace::fixture("threadexec", [tiny()])
        .option("--threads")
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    assert_eq!(capture.of("fork").filter(|f| f.flag("thread")).count(), 9);
    // Nine threads and the leader were there; the one that took over the leader's id never ends as itself.
    let tid = number_after(&outcome.stdout(), "TID");
    assert!(
        !capture.of("exit").any(|e| e.num("tid") == tid),
        "the thread that exec'd has no end of its own"
    );
    assert_eq!(capture.ends().count(), 1);
}

/// 11
#[test]
fn signals_as_flow_control_are_delivered_once_each() {
    require!(source);
    let rounds = scaled(400);
    let outcome = Trace::fixture("flow", [rounds.to_string()])
        .run()
        .expect_code(0);
    let stdout = outcome.stdout();
    // One more than rounds to the producer: the first says that the consumer is there.
    let counts = ["FULL", "SIGCHLD", "EMPTY"].map(|k| number_after(&stdout, k));
    assert_eq!(counts, [rounds, rounds, rounds + 1]);
    outcome.capture().assert_exact(&outcome.truth());
}

/// 13
#[test]
fn an_orphan_keeps_its_first_parent_and_shows_its_new_one() {
    require!(source);
    let outcome = Trace::fixture("subreaper", [""; 0]).run().expect_code(0);
    let capture = outcome.capture();
    capture.assert_exact(&outcome.truth());
    let stdout = outcome.stdout();
    let [me, child, grandchild] = ["SELF", "CHILD", "GRANDCHILD"].map(|k| number_after(&stdout, k));
    let row = capture.process(grandchild);
    let exit = capture.only("exit", |e| e.num("pid") == grandchild);
    for record in [row, exit] {
        assert_eq!(record.num("orig_ppid"), child);
        capture.expect(record, "ppid", me);
    }
    assert_eq!(
        row.num("orig_parent_start"),
        capture.process(child).num("start")
    );
    capture.expect(row, "parent_start", capture.root().num("start"));
    capture.expect_code(row, "5");
}

/// 15
#[test]
fn spawning_what_is_missing_is_a_fork_and_127() {
    require!(source);
    let capture = Trace::fixture("nospawn", ["/no/such/program"])
        .run()
        .expect_code(0)
        .capture();
    assert_eq!(capture.of("fork").count(), 1);
    assert_eq!(capture.of("exec").count(), 1, "its own only");
    assert_eq!(capture.of("exec_failed").count(), 0, "not asked for");
    let child = capture.only("process", |p| !p.flag("root"));
    capture.expect_code(child, "127");
}

/// 15, with failed execs on
#[test]
fn a_failed_exec_is_shown_with_its_errno() {
    require!(ebpf_is_tested);
    let capture = Trace::fixture("nospawn", ["/no/such/program"])
        .option("--failed-execs")
        .run()
        .expect_code(0)
        .capture();
    let failed = capture.only("exec_failed", |_| true);
    assert_eq!(
        (failed.num("errno"), failed.text("errno_name")),
        (2, "ENOENT")
    );
    assert_eq!(failed.text("filename"), "/no/such/program");
    assert_eq!(
        failed.list("argv"),
        [&b"/no/such/program"[..], b"some argument"]
    );
    assert_eq!(
        failed.num("pid"),
        capture.only("process", |p| !p.flag("root")).num("pid")
    );
}

/// 16
#[test]
fn an_exec_that_fails_too_late_is_a_death_by_signal() {
    require!(source);
    let trace = Trace::bare();
    let file = trace.path("corrupt");
    let outcome = Trace::fixture("badelf", [file]).run().expect_code(0);
    let capture = outcome.capture();
    capture.assert_exact(&outcome.truth());
    let child = capture.process(number_after(&outcome.stdout(), "PID"));
    capture.expect(child, "signal_name", "SIGSEGV");
    assert_eq!(child.num("execs"), 0);
}

/// 18
#[test]
fn what_runs_on_is_reported_as_running() {
    require!(source);
    let script = "sleep 1000 </dev/null >/dev/null 2>&1 & echo SLEEPER $!";
    let outcome = Trace::shell(script).run();
    let sleeper = number_after(&outcome.stdout(), "SLEEPER");
    let stop = || send(i32::try_from(sleeper).expect("a pid"), libc::SIGKILL);
    // Stopped first, so that nothing is left when an assertion fails.
    stop();
    let outcome = outcome.expect_code(0);
    let capture = outcome.capture();
    let row = capture.process(sleeper);
    assert!(
        row["end"].is_null() && row["exit_code"].is_null() && row["signal"].is_null(),
        "{row}"
    );
    assert!(!row["usage"].flag("final"), "{row}");
    assert!(
        outcome.stderr().contains("running"),
        "the summary says it too\n{outcome}"
    );
}

/// 18, where tracer was told to wait
#[test]
fn wait_all_waits_for_what_runs_on() {
    require!(source);
    let trace = Trace::bare();
    let gate = trace.path("gate");
    let script = format!(
        "(while [ ! -e '{}' ]; do sleep 0.05; done; exit 9) >/dev/null 2>&1 & echo BEHIND $!",
        gate.display()
    );
    let mut running = Trace::shell(&script).option("--wait-all").start();
    running.await_stdout("BEHIND");
    fs::write(&gate, "").expect("a file in our own directory");
    let outcome = running.finish().expect_code(0);
    let capture = outcome.capture();
    let behind = capture.process(number_after(&outcome.stdout(), "BEHIND"));
    assert!(!behind["end"].is_null(), "{behind}");
    capture.expect_code(behind, "9");
}

/// 20
#[test]
fn a_setuid_program_keeps_its_privileges_and_is_traced() {
    require!(source, root);
    if tracer_tests::host::backend() == "ptrace" {
        tracer_tests::host::skipped("under ptrace a setuid program runs without privileges");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("our own directory");
    let [suid, jail] = ["suid", "jail"].map(|name| {
        let copy = dir.path().join(name);
        copy_program(&fixture(name), &copy);
        copy
    });
    fs::set_permissions(&suid, fs::Permissions::from_mode(0o4755)).expect("our own file");
    let args: [OsString; 4] = [
        "-u".into(),
        "65534".into(),
        "--".into(),
        suid.into_os_string(),
    ];
    let outcome = Trace::command(&jail, args).run().expect_code(0);
    assert_eq!(outcome.stdout(), "UID 65534 EUID 0\n");
    let capture = outcome.capture();
    let exec = capture.only("exec", |e| e.text("comm") == "suid");
    for (member, id) in [("uid", 65534), ("euid", 0), ("gid", 65534)] {
        capture.expect(exec, member, id);
    }
}
