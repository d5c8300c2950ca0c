//! `tracer hist` as a command: outputs, exit status, messages, and acting on one that runs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tracer_tests::hist::{ENDS, count_of, counting, has_triggers, hist, run, socket};
use tracer_tests::host::alone;
use tracer_tests::{Trace, copy_program, fixture, require};

#[test]
fn outputs_have_the_form_of_their_ending() {
    require!(bpf);
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let files = ["t.txt", "t.json", "t.csv", "t.svg"].map(file);
    let mut args = vec![
        "syscalls:sys_enter_close",
        "hist:keys=fd.log2 if fd >= 1000000",
    ];
    args.extend(files.iter().flat_map(|f| ["-o", f.as_str()]));
    // One that is there, and that everybody may read.
    fs::write(&files[0], "longer than any table\n".repeat(99)).expect("a file");
    fs::set_permissions(&files[0], fs::Permissions::from_mode(0o644)).expect("our own file");
    let outcome = hist(args, &["hammer", "1", "10"]).expect_code(0);
    assert_eq!(outcome.stderr(), "");
    for file in &files {
        let mode = fs::metadata(file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{file}");
    }
    let read = |i: usize| fs::read_to_string(&files[i]).expect("a file");
    assert!(
        read(0).contains("{ fd: ~ 2^20 } hitcount:         10\n") && !read(0).contains("longer"),
        "{}",
        read(0)
    );
    let table: Value = serde_json::from_str(&read(1)).expect("JSON");
    assert_eq!(table["hits"], 10);
    assert_eq!(read(2).lines().count(), 2, "{}", read(2));
    assert!(
        read(3).starts_with("<svg") || read(3).starts_with("<?xml"),
        "{}",
        read(3)
    );
    let bad = hist(
        [
            "sched:sched_process_exit",
            "hist:keys=comm",
            "-o",
            "/x/y.txt",
        ],
        &["hammer", "1", "1"],
    );
    assert_eq!(bad.code(), 125);
    // It did not run.
    assert_eq!(bad.stdout(), "");
}

/// Whoever reads a table while the next one is written has a whole one.
#[test]
fn a_file_that_is_watched_is_replaced_as_a_whole() {
    require!(bpf);
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let (file, link, left) = (path("t.json"), path("l.csv"), path("t.json.tmp"));
    symlink("t.csv", &link).expect("our own directory");
    fs::write(&left, "of one that was killed").expect("our own directory");
    let [file_arg, link_arg] = [&file, &link].map(|f| f.display().to_string());
    let outputs = ["-o", file_arg.as_str(), "-o", link_arg.as_str()];
    let times = ["--watch", "0.05", "--duration", "600s"];
    let mut running = counting(ENDS.into_iter().chain(outputs).chain(times));
    let old = || fs::File::open(&file).expect("it is there");
    let filled = |file: &fs::File| file.metadata().expect("open").len() > 0;
    running.await_condition("a table", |_| filled(&old()));
    let mut old = old();
    let number = |m: fs::Metadata| m.ino();
    let of_old = number(old.metadata().expect("open"));
    running.await_condition("the next one", |_| {
        number(fs::metadata(&file).expect("it is there")) != of_old
    });
    let mut text = String::new();
    old.read_to_string(&mut text).expect("UTF-8");
    serde_json::from_str::<Value>(&text).expect("a whole table");
    running.signal(libc::SIGINT);
    running.finish().expect_code(0);
    assert!(link.is_symlink());
    for name in ["t.json", "t.csv"] {
        let mode = fs::metadata(path(name))
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o600, "{name}");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 3);
}

#[test]
fn the_commands_status_is_passed_on() {
    require!(bpf);
    let run = |command: &[&str]| {
        let options = ["hist", "sched:sched_process_exit", "hist:keys=comm", "--"];
        let trace = Trace::bare().without_capture().options(options);
        trace.options(command.iter().copied()).run().code()
    };
    assert_eq!(run(&["sh", "-c", "exit 7"]), 7);
    assert_eq!(run(&["sh", "-c", "kill -9 $$"]), 137);
    assert_eq!(run(&["/no/such/program"]), 127);
}

#[test]
fn one_that_runs_can_be_told_to_pause() {
    require!(bpf);
    let _alone = alone();
    told_to_pause("ebpf");
    // The kernel's own engine.
    match has_triggers() {
        Ok(()) => told_to_pause("ftrace"),
        Err(why) => eprintln!("skipped: one_that_runs_can_be_told_to_pause with ftrace: {why}"),
    }
    assert_eq!(run(["--pause", "ends"]).code(), 125);
}

fn told_to_pause(backend: &str) {
    let running = counting([
        "--backend",
        backend,
        ENDS[0],
        "hist:name=ends:keys=comm:size=1024",
        // Where the test fails it ends by itself.
        "--duration",
        "600s",
    ]);
    let pid = running.pid().to_string();
    let socket = socket(running.pid());
    let ask = |option: &str, whom: &str| run([option, whom]).expect_code(0).stdout();
    // The whole machine is counted, and others may run their tiny.
    let dir = tempfile::tempdir().expect("a directory");
    let name = format!("tiny-{}", std::process::id());
    let program = dir.path().join(&name);
    copy_program(&fixture("tiny"), &program);
    let tiny = |n: u32| {
        for _ in 0..n {
            let end = Command::new(&program).status();
            assert!(end.expect("it runs").code().is_some());
        }
    };
    let count = |text: &str| count_of(text, &name);
    tiny(3);
    assert_eq!(count(&ask("--show", "ends")), 3);
    ask("--pause", &pid);
    tiny(2);
    let text = ask("--show", &pid);
    assert!(text.contains("size=1024 [paused]"), "{text}");
    assert_eq!(count(&text), 3);
    ask("--cont", "ends");
    tiny(1);
    assert_eq!(count(&ask("--show", "ends")), 4);
    ask("--clear", "ends");
    assert_eq!(count(&ask("--show", "ends")), 0);
    tiny(2);
    running.signal(libc::SIGINT);
    let outcome = running.finish().expect_code(0);
    assert_eq!(count(&outcome.stdout()), 2);
    assert!(!socket.exists());
}

#[test]
fn a_socket_that_is_there_is_listened_at() {
    require!(bpf);
    for _ in 0..5 {
        let trace = Trace::bare().without_capture().option("hist").options(ENDS);
        let running = trace.options(["--duration", "600s"]).start();
        let socket = socket(running.pid());
        // Without a pause: what is between its beginning and its being heard is short.
        let begin = Instant::now();
        while !socket.exists() && begin.elapsed() < Duration::from_secs(300) {}
        UnixStream::connect(&socket).expect("somebody listens");
        running.signal(libc::SIGINT);
        running.finish().expect_code(0);
    }
}

/// As on a machine that has no time for it; nor is anybody held up by one that says nothing.
#[test]
fn who_is_slow_to_ask_is_answered() {
    require!(bpf);
    let running = counting(ENDS.into_iter().chain(["--duration", "600s"]));
    let connect = || UnixStream::connect(socket(running.pid())).expect("somebody listens");
    let _silent = connect();
    let pid = running.pid().to_string();
    run(["--show", pid.as_str()]).expect_code(0);
    let mut slow = connect();
    std::thread::sleep(Duration::from_secs(1));
    slow.write_all(b"show \n").expect("it listens still");
    slow.shutdown(std::net::Shutdown::Write).expect("connected");
    let mut answer = String::new();
    slow.read_to_string(&mut answer).expect("UTF-8");
    assert!(answer.starts_with("ok "), "{answer:?}");
    running.signal(libc::SIGINT);
    running.finish().expect_code(0);
}

#[test]
fn what_is_wrong_is_shown_with_what_would_be_right() {
    require!(bpf);
    let refuse = |event: &str, trigger: &str, expected: &[&str]| {
        let outcome = hist([event, trigger], &["hammer", "1", "1"]);
        assert_eq!((outcome.code(), outcome.stdout().as_str()), (125, ""));
        for text in expected {
            assert!(
                outcome.stderr().contains(text),
                "{text}: {}",
                outcome.stderr()
            );
        }
    };
    refuse(
        "kmalloc",
        "hist:keys=ptr",
        &["no event `kmalloc`", "`kmem:kmalloc`"],
    );
    refuse(
        "sched:sched_proces_exit",
        "hist:keys=comm",
        &["`sched:sched_process_exit`"],
    );
    refuse(
        "sched:sched_process_exit",
        "hist:keys=comn",
        &["hist:keys=comn\n", "          ^\n", "did you mean `comm`"],
    );
    refuse("process_exit", "hist:keys=cpu", &["process_exit"]);
    refuse(
        "process_exit",
        "hist:keys=common_timestamp:clock=mono",
        &["boot clock", "clock=boot"],
    );
    refuse(
        "sched:sched_process_exit",
        "hist:keys=common_flags",
        &["common_flags", "--backend ftrace"],
    );
    let odd = hist(["sched:sched_process_exit"], &["hammer", "1", "1"]);
    assert_eq!(odd.code(), 125);
}

#[test]
fn without_the_kernels_triggers_the_other_engine_says_so() {
    require!(bpf);
    if has_triggers().is_ok() {
        return;
    }
    let outcome = hist(
        [
            "sched:sched_process_exit",
            "hist:keys=comm",
            "--backend",
            "ftrace",
        ],
        &["hammer", "1", "1"],
    );
    assert_eq!(outcome.code(), 125);
    let said = outcome.stderr();
    assert!(
        said.contains("CONFIG_HIST_TRIGGERS") && said.contains("--backend ebpf"),
        "{said}"
    );
}
