//! `tracer hist`, restricted: whose events count, and that those of nobody else do.

use std::fs;
use std::path::Path;
use std::process::Command;

use tracer_tests::beside::Beside;
use tracer_tests::cgroup::Cgroup;
use tracer_tests::hist::{ENDS, await_counting, count_of, counting, hist, tables};
use tracer_tests::{Outcome, Trace, fixture, require};

fn refused(args: &[&str], expected: &[&str]) {
    let trace = Trace::bare().without_capture().option("hist");
    // Where it is not refused it ends by itself.
    let trace = trace.options(ENDS).options(["--duration", "30s"]);
    let outcome = trace.options(args.iter().copied()).run().expect_code(125);
    let said = outcome.stderr();
    for text in expected {
        assert!(said.contains(text), "{text:?} is not in {said}");
    }
}

/// Runs a program that is called `name`, and is a process with a child, within
/// whatever a shell's `enter` moves it into.
fn renamed(enter: &str, name: &str) {
    let script = format!("{enter}; {} {name}", fixture("renamed").display());
    let status = Command::new("sh").args(["-c", &script]).output();
    assert!(status.expect("a shell").status.success());
}

fn ended(running: tracer_tests::run::Running) -> Outcome {
    running.signal(libc::SIGINT);
    running.finish().expect_code(0)
}

#[test]
fn a_cgroup_and_those_below_it_count() {
    require!(bpf);
    let group = match Cgroup::new() {
        Ok(group) => group,
        Err(reason) => return tracer_tests::host::skipped(&reason),
    };
    let below = group.path().join("below");
    let deep = below.join("deep");
    fs::create_dir_all(&deep).expect("cgroups");
    let enter = |path: &Path| format!("echo $$ >'{}'", path.join("cgroup.procs").display());
    let mount = group.path().parent().expect("a mount").to_owned();
    let name = group.name();
    let full = group.path().display().to_string();
    let relative = name.trim_start_matches('/').to_owned();
    // The full path, the one that /proc/PID/cgroup has, and one from the current directory.
    for path in [full, name, format!("./{relative}")] {
        let trace = Trace::bare().without_capture().in_dir(&mount);
        let trace = trace.option("hist").options(ENDS);
        let running = await_counting(trace.options(["--cgroup", path.as_str()]).start());
        renamed(&enter(group.path()), "itself");
        renamed(&enter(&below), "below");
        renamed(&enter(&deep), "deep");
        renamed(&enter(&mount), "outside");
        let text = ended(running).stdout();
        for (comm, count) in [("itself", 2), ("below", 2), ("deep", 2), ("outside", 0)] {
            assert_eq!(count_of(&text, comm), count, "{comm}: {path}: {text}");
        }
    }
    let nested = below.display().to_string();
    let running = counting(ENDS.into_iter().chain(["--cgroup", &nested]));
    renamed(&enter(group.path()), "itself");
    renamed(&enter(&deep), "deep");
    fs::remove_dir(&deep).expect("an empty cgroup");
    fs::remove_dir(&below).expect("an empty cgroup");
    // It is no more: so nobody is in it, and that is all.
    renamed(&enter(group.path()), "itself");
    let text = ended(running).stdout();
    assert_eq!((count_of(&text, "itself"), count_of(&text, "deep")), (0, 2));
    refused(
        &["--cgroup", &nested],
        &["--cgroup", &nested, "find ", "-type d"],
    );
}

#[test]
fn what_is_no_cgroup_is_refused() {
    require!(bpf);
    if let Err(reason) = Cgroup::new() {
        return tracer_tests::host::skipped(&reason);
    }
    refused(&["--cgroup", "/no/such"], &["/no/such", "No such file"]);
    // Something else that is there, as a hierarchy of v1 would be.
    refused(
        &["--cgroup", "/usr"],
        &["/usr: is not a directory of cgroup v2"],
    );
    refused(&["--cgroup", ""], &["--cgroup"]);
}

#[test]
fn a_running_tree_counts_until_it_has_ended() {
    require!(bpf);
    let renamed = fixture("renamed").display().to_string();
    // A grandchild that runs already, and lives longer than the root.
    let script = format!(
        "exec 3<&0; (read x <&3; {renamed} late; exec {renamed} last) & read x; {renamed} early; wait"
    );
    for own in [false, true] {
        let mut root = Beside::shell(&script);
        let pid = root.pid().to_string();
        let event = if own { "process_exit" } else { ENDS[0] };
        // Wherever the option stands, what follows is its value and no more.
        let running = counting(["-p", &pid, event, ENDS[1]]);
        Command::new(fixture("tiny")).status().expect("it runs");
        root.tell("one\nother");
        let text = running.finish().expect_code(0).stdout();
        for comm in ["early", "late", "last"] {
            assert_eq!(count_of(&text, comm), 2, "{comm}: {text}");
        }
        assert_eq!(count_of(&text, "tiny"), 0, "{text}");
        drop(root);
        refused(&["-p", &pid], &["-p", &pid, "pgrep"]);
    }
}

#[test]
fn process_numbers_of_a_container_are_refused() {
    require!(bpf);
    let inner = |options: &str| {
        let tracer = tracer_tests::host::tracer();
        let script = format!(
            "sleep 60 & {} hist {} {} {options}; code=$?; kill $!; exit $code",
            tracer.display(),
            ENDS[0],
            ENDS[1],
        );
        let trace = Trace::bare().without_capture();
        let launcher = ["unshare", "-pf", "--mount-proc", "sh", "-c", &script];
        trace.through(launcher).run()
    };
    let outcome = inner("-p $! --duration 30s");
    let said = outcome.stderr();
    assert_eq!(outcome.code(), 125, "{said}");
    assert!(
        said.contains("container") && said.contains("--cgroup"),
        "{said}"
    );
    // A command is found there, too.
    let outcome = inner(&format!("-- {} inside", fixture("renamed").display()));
    assert_eq!(outcome.code(), 0, "{}", outcome.stderr());
    assert_eq!(count_of(&outcome.stderr(), "inside"), 2);
}

#[test]
fn a_number_that_is_used_again_is_another_process() {
    require!(bpf);
    const LAST: &str = "/proc/sys/kernel/ns_last_pid";
    if !Path::new(LAST).exists() {
        return tracer_tests::host::skipped("this kernel cannot be told the next process number");
    }
    let renamed = fixture("renamed").display().to_string();
    let tiny = fixture("tiny").display().to_string();
    // Its child is one of those that run already, and ends when it is told to.
    let script = format!("exec 3<&0; (read x <&3) & read x; wait; read x; {renamed} end");
    let mut root = Beside::shell(&script);
    let child = tracer_tests::beside::child_of(root.pid());
    let pid = root.pid().to_string();
    let mut running = counting(ENDS.into_iter().chain(["-p", &pid]));
    root.tell("one\nother");
    let gone = format!("/proc/{child}");
    running.await_condition("end of the child", |_| !Path::new(&gone).exists());
    let again = (0..2000).any(|_| {
        fs::write(LAST, (child - 1).to_string()).expect("root may write it");
        let mut other = Command::new(&tiny).spawn().expect("it runs");
        let same = u64::from(other.id()) == child;
        other.wait().expect("it ends");
        same
    });
    root.tell("go on");
    let text = running.finish().expect_code(0).stdout();
    assert_eq!(count_of(&text, "end"), 2, "{text}");
    assert_eq!(count_of(&text, "tiny"), 0, "{text}");
    if !again {
        tracer_tests::host::skipped("others took the number each time");
    }
}

#[test]
fn a_storm_of_forks_is_counted_in_full() {
    require!(bpf);
    let n = tracer_tests::host::scaled(4000);
    let outcome = hist(
        [
            "sched:sched_process_fork",
            "hist:keys=common_type",
            ENDS[0],
            "hist:keys=common_type",
            "process_exit",
            "hist:keys=kthread",
            "--json",
        ],
        &[
            "execstorm",
            "-j4",
            &fixture("tiny").display().to_string(),
            &n.to_string(),
        ],
    )
    .expect_code(0);
    let truth = outcome.truth();
    let hits: Vec<u64> = tables(&outcome)
        .iter()
        .map(|table| table["hits"].as_u64().expect("a number"))
        .collect();
    // The command's own fork was before, its end is in it.
    assert_eq!(hits, [truth.forks, truth.forks + 1, truth.forks + 1]);
}

#[test]
fn descendants_are_waited_for_where_that_is_wanted() {
    require!(bpf);
    let renamed = fixture("renamed").display().to_string();
    let dir = tempfile::tempdir().expect("a directory");
    let fifo = dir.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("it runs").success());
    // The one goes on when it is told, the other when the command is no more.
    let told = format!("read x <{}", fifo.display());
    let alone = "while kill -0 $$; do sleep 0.01; done".to_owned();
    for event in [ENDS[0], "process_exit"] {
        for (option, until, count) in [(None, &told, 0), (Some("--wait-all"), &alone, 2)] {
            let script = format!("({until}; exec {renamed} late) >/dev/null 2>&1 & exit 3");
            let trace = Trace::bare().without_capture().options(["hist", event]);
            let trace = trace.option(ENDS[1]).options(option);
            let trace = trace.options(["--", "sh", "-c", &script]);
            let outcome = trace.run().expect_code(3);
            if option.is_none() {
                fs::write(&fifo, "\n").expect("somebody reads it");
            }
            let text = outcome.stderr();
            assert_eq!(count_of(&text, "late"), count, "{event}: {text}");
        }
    }
}

#[test]
fn a_command_has_its_time() {
    require!(bpf);
    let trace = Trace::bare().without_capture().option("hist").options(ENDS);
    let trace = trace.options(["--timeout", "2", "--", "sleep", "60"]);
    let outcome = trace.run().expect_code(124);
    assert_eq!(count_of(&outcome.stderr(), "sleep"), 1);
    for option in [
        &["--timeout", "1"][..],
        &["--wait-all"],
        &["--uid", "0"],
        &["--compare"],
    ] {
        refused(option, &["cannot be used with"]);
        let outcome = Trace::bare().without_capture().option("hist").options(ENDS);
        let outcome = outcome.options(option.iter().copied()).run();
        assert_eq!(outcome.code(), 125);
        assert!(outcome.stderr().contains("CMD"), "{}", outcome.stderr());
    }
}
