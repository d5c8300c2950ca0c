//! `tracer record`: what runs already, and until when.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use tracer_tests::beside::{Beside, child_of};
use tracer_tests::cgroup::Cgroup;
use tracer_tests::host::{alone, in_vm, skipped};
use tracer_tests::{Capture, Record, Trace, copy_program, fixture, require};

#[test]
fn a_signal_ends_it_well() {
    require!(source, root);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT] {
        let capture = Trace::record(["-a"]).start().ended_by(signal);
        assert_eq!(capture.end().num("exit_code"), 0);
        assert!(capture.meta()["root_pid"].is_null());
        assert!(capture.of("seed").count() > 1);
    }
}

#[test]
fn a_time_ends_it() {
    require!(source, root);
    let begin = tracer_tests::clock::boot_ns();
    let capture = Trace::record(["-a", "--duration", "0.3"])
        .run()
        .expect_code(0)
        .capture();
    let took = capture.end().num("ts") - begin;
    assert!(took >= 300_000_000, "{took} ns");
}

#[test]
fn a_number_of_events_ends_it() {
    require!(source, root);
    let _alone = alone();
    let _storm = Beside::storm();
    let capture = Trace::record(["-a", "--max-events", "25"])
        .run()
        .expect_code(0)
        .capture();
    let events = ["fork", "exec", "exit"].map(|kind| capture.of(kind).count());
    assert_eq!(events.iter().sum::<usize>(), 25, "{events:?}");
}

#[test]
fn running_processes_are_described() {
    require!(ebpf_is_tested, root);
    let mut shell = Beside::shell("read line; exit 3 # \u{1b}\u{e9}");
    let before = tracer_tests::clock::boot_ns();
    let mut running = Trace::record(["-a"]).start();
    running.await_recording();
    shell.tell("go");
    shell.0.wait().expect("it ends");
    let pid = shell.pid();
    running.await_condition("end of the shell", |r| {
        Capture::whole_lines(&r.so_far())
            .iter()
            .any(|l| l.kind() == "process" && l.num("pid") == pid)
    });
    let capture = running.ended_by(libc::SIGTERM);
    let seed = capture.only("seed", |s| s.num("pid") == pid);
    assert_eq!(seed.text("start_precision"), "exact");
    assert!(seed.num("start") < before);
    assert_eq!(seed.num("ppid"), u64::from(std::process::id()));
    assert_eq!(seed.text("comm"), "sh");
    assert_eq!(
        seed.list("argv")[2],
        "read line; exit 3 # \u{1b}\u{e9}".as_bytes()
    );
    assert_eq!(
        seed.text("exe"),
        fs::canonicalize("/bin/sh")
            .expect("it is there")
            .display()
            .to_string()
    );
    let row = capture.process(pid);
    assert_eq!((row.code().as_str(), row.flag("seeded")), ("3", true));
    assert_eq!((row.num("execs"), row.num("threads")), (0, 1));
    assert_eq!(row.list("argv"), seed.list("argv"));
    let usage = &row["usage"];
    assert!(usage.flag("final") && usage.num("cpu_ns") > 0);
    // It has read the C library at least.
    assert!(in_vm() || usage.num("rchar") > 0, "{usage}");
    // No kernel threads, and nobody else twice.
    assert!(capture.of("seed").all(|s| !s.flag("kthread")));
    capture.seeds();
}

#[test]
fn what_is_not_known_of_the_time_before_is_absent() {
    require!(ebpf_is_tested, root);
    // A thread has ended before the capture, and one ends in it.
    let mut command = Command::new(fixture("oldthread"));
    let mut old = Beside::start(&mut command);
    let pid = old.pid();
    loop {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"))
            .expect("it runs")
            .count();
        let status = fs::read_to_string(format!("/proc/{pid}/comm")).expect("it runs");
        if tasks == 1 && status.trim() == "ready" {
            break;
        }
        std::thread::yield_now();
    }
    let mut running = Trace::record(["-p".to_owned(), pid.to_string()]).start();
    running.await_recording();
    old.tell("go");
    old.0.wait().expect("it ends");
    let capture = running.finish().expect_code(0).capture();
    let row = capture.process(pid);
    assert!(row["threads"].is_null(), "{row}");
    let usage = &row["usage"];
    for sum in [
        "rchar",
        "wchar",
        "read_bytes",
        "write_bytes",
        "run_delay_ns",
    ] {
        assert!(usage[sum].is_null(), "{sum} in {usage}");
    }
    assert!(usage.num("cpu_ns") > 0 && usage.num("minflt") > 0);
}

#[test]
fn a_tree_ends_with_its_last_process() {
    require!(ebpf_is_tested, root);
    let tiny = fixture("tiny").display().to_string();
    // The first shell ends before the second, which goes on alone.
    let script =
        format!("exec 3<&0; (read line <&3; '{tiny}'; '{tiny}' a b; exit 5) & read line; exit 4");
    let mut shell = Beside::shell(&script);
    let (outer, inner) = (shell.pid(), child_of(shell.pid()));
    let mut other = Beside::shell("read line; exit 6");
    let mut running = Trace::record(["-p".to_owned(), outer.to_string()]).start();
    running.await_recording();
    other.tell("go");
    other.0.wait().expect("it ends");
    shell.tell("one");
    shell.tell("two");
    shell.0.wait().expect("it ends");
    let capture = running.finish().expect_code(0).capture();
    assert_eq!(
        capture
            .seeds()
            .keys()
            .map(|id| id.0)
            .collect::<BTreeSet<_>>(),
        [outer, inner].into()
    );
    assert_eq!(capture.process(outer).code(), "4");
    assert_eq!(capture.process(inner).code(), "5");
    assert_eq!(capture.of("exec").count(), 2);
    assert_eq!(capture.of("process").count(), 4);
    assert_eq!(capture.lost_at_all(), 0);
}

#[test]
fn a_process_that_is_not_there_is_named() {
    require!(root);
    let outcome = Trace::record(["-p", "2147483646"]).run().expect_code(125);
    assert!(outcome.stderr().contains("2147483646"), "{outcome}");
    assert!(outcome.stderr().contains("pgrep"), "{outcome}");
}

#[test]
fn a_cgroup_with_those_below_it() {
    require!(ebpf_is_tested, root);
    let group = match Cgroup::new() {
        Ok(group) => group,
        Err(reason) => return skipped(&reason),
    };
    let below = group.path().join("below");
    fs::create_dir(&below).expect("a group in our own");
    let inside = |dir: &Path, code: u32| {
        let procs = dir.join("cgroup.procs");
        let tiny = fixture("tiny").display().to_string();
        let script = format!(
            "echo $$ >'{}'; read line; '{tiny}'; exit {code}",
            procs.display()
        );
        let shell = Beside::shell(&script);
        let is_in = || {
            let members = fs::read_to_string(&procs).expect("it is there");
            members.lines().any(|l| l == shell.pid().to_string())
        };
        while !is_in() {
            std::thread::yield_now();
        }
        shell
    };
    let mut shells = [inside(group.path(), 7), inside(&below, 8)];
    let mut other = Beside::shell("read line; exit 9");
    let mut running =
        Trace::record(["--cgroup".into(), group.path().as_os_str().to_owned()]).start();
    running.await_recording();
    for shell in shells.iter_mut().chain([&mut other]) {
        shell.tell("go");
        shell.0.wait().expect("it ends");
    }
    running.await_condition("both ends", |r| {
        r.so_far().matches("\"type\":\"exit\"").count() >= 4
    });
    let capture = running.ended_by(libc::SIGTERM);
    let codes: BTreeSet<String> = capture.of("process").map(Record::code).collect();
    assert_eq!(codes, ["0", "7", "8"].map(String::from).into());
    assert_eq!(capture.of("process").count(), 4);
    assert_eq!(capture.seeds().len(), 2);
    for seed in capture.of("seed") {
        assert!(seed.text("cgroup").starts_with(&group.name()), "{seed}");
    }
    fs::remove_dir(&below).expect("it is empty");
}

/// Case 4
#[test]
fn a_helper_of_the_kernel_is_marked() {
    require!(ebpf_is_tested, root);
    if !in_vm() {
        return skipped("core_pattern is the whole machine's");
    }
    let pattern = Path::new("/proc/sys/kernel/core_pattern");
    let before = fs::read(pattern).expect("it is there");
    let helper = Path::new("/tmp/core-helper");
    copy_program(&fixture("tiny"), helper);
    fs::write(pattern, format!("|{} %p", helper.display())).expect("root may");
    let mut running = Trace::record(["-a"]).start();
    running.await_recording();
    let mut victim = Beside::shell("kill -SEGV $$");
    let pid = victim.pid();
    victim.0.wait().expect("it ends");
    running.await_condition("end of the helper", |r| {
        Capture::whole_lines(&r.so_far())
            .iter()
            .any(|l| l.kind() == "process" && l["filename"] == "/tmp/core-helper")
    });
    let capture = running.ended_by(libc::SIGTERM);
    fs::write(pattern, before).expect("root may");
    let exec = capture.only("exec", |e| e.text("filename") == "/tmp/core-helper");
    assert_eq!(exec.list("argv")[1], pid.to_string().into_bytes());
    assert!(exec.flag("by_kernel"));
    assert_eq!(exec.num("ppid"), 2, "kthreadd");
    let row = capture.process(exec.num("pid"));
    assert!(!row.flag("kthread") && !row.flag("seeded"));
    assert_eq!(capture.process(pid).code(), "s11");
}

#[test]
fn ftrace_records_the_machine_too() {
    require!(root);
    let mut shell = Beside::shell("read line; exit 3");
    let mut running = Trace::record(["-a"]).backend(Some("ftrace")).start();
    running.await_recording();
    let tiny = fixture("tiny").display().to_string();
    let mut other = Beside::shell(&format!("'{tiny}'; true"));
    other.0.wait().expect("it ends");
    shell.tell("go");
    shell.0.wait().expect("it ends");
    running.await_condition("end of the shell", |r| {
        let pid = shell.pid();
        Capture::whole_lines(&r.so_far())
            .iter()
            .any(|l| l.kind() == "process" && l.num("pid") == pid)
    });
    let capture = running.ended_by(libc::SIGTERM);
    let seed = capture.only("seed", |s| s.num("pid") == shell.pid());
    assert_eq!(seed.text("start_precision"), "tick");
    assert_eq!(seed.list("argv")[2], b"read line; exit 3");
    assert!(capture.process(shell.pid()).flag("seeded"));
    assert!(!capture.process(other.pid()).flag("seeded"));
    // Others may run theirs meanwhile, and their parents may be gone by then.
    capture.only("exec", |e| {
        e.text("filename") == tiny && e.opt_num("ppid") == Some(other.pid())
    });
}

#[test]
fn ptrace_says_that_it_cannot() {
    let outcome = Trace::record(["-a"])
        .backend(Some("ptrace"))
        .run()
        .expect_code(125);
    assert!(outcome.stderr().contains("--backend ebpf"), "{outcome}");
}

#[test]
fn an_output_is_needed_and_a_tree_needs_an_end() {
    for (options, remedy) in [
        (&["-a"][..], "-o FILE.jsonl"),
        (&["-a", "--tree"], "--duration"),
        (&["-a", "-o", "x.txt"], "--duration"),
        (&["-l"], "--all"),
        (&["-a", "-p", "1", "-l"], "cannot be used with"),
        (&["-p", "x", "-l"], "pgrep"),
        (&["-p", "", "-l"], "pgrep"),
    ] {
        let outcome = Trace::bare()
            .option("record")
            .options(options)
            .run()
            .expect_code(125);
        assert!(outcome.stderr().contains(remedy), "{remedy}: {outcome}");
    }
}
