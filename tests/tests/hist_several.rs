//! `tracer hist` among others: several that run, several events at once, other users, and the command.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use tracer_tests::hist::{ENDS, await_counting, count_of, counting, hist, run, socket, tables};
use tracer_tests::host::{alone, tracer};
use tracer_tests::{Trace, copy_program, fixture, require};

#[test]
fn of_several_that_run_one_is_named() {
    require!(bpf);
    let _alone = alone();
    let named = |name: &str| {
        let trigger = format!("hist:name={name}:keys=comm");
        counting([ENDS[0], &trigger, "--duration", "600s"])
    };
    let (first, second, other) = (named("same"), named("same"), named("other"));
    let ask = |option: &str, whom: &str| run([option, whom]);
    let pids = [&first, &second, &other].map(|r| r.pid().to_string());
    let outcome = run(["--show"]).expect_code(125);
    for pid in &pids {
        assert!(outcome.stderr().contains(pid), "{}", outcome.stderr());
    }
    let outcome = ask("--clear", "same").expect_code(125);
    let said = outcome.stderr();
    assert!(
        said.contains(&pids[0]) && said.contains(&pids[1]) && !said.contains(&pids[2]),
        "{said}"
    );
    ask("--pause", "other").expect_code(0);
    let shown = ask("--show", &pids[2]).expect_code(0).stdout();
    assert!(shown.contains("name=other") && shown.contains("[paused]"));
    // One that was killed is not there any more, nor is its socket.
    let pid = second.pid();
    second.signal(libc::SIGKILL);
    assert_eq!(second.finish().code(), 1000 + libc::SIGKILL);
    assert!(socket(pid).exists());
    let shown = ask("--show", "same").expect_code(0).stdout();
    assert!(shown.contains("name=same") && shown.contains("[active]"));
    assert!(!socket(pid).exists());
    for odd in ["nobody's", "-1", "\x1b[31m", ""] {
        let outcome = ask("--show", odd).expect_code(125);
        assert!(!outcome.stderr().contains('\x1b'));
    }
    // Somebody else may not.
    let trace = Trace::bare().without_capture();
    let copy = tempfile::tempdir().expect("a directory");
    let path = copy.path().join("tracer");
    copy_program(&tracer(), &path);
    open_to_all(copy.path());
    let trace = trace.through(nobody()).binary(path.into_os_string());
    let outcome = trace.options(["hist", "--show", "other"]).run();
    assert_eq!(outcome.code(), 125);
    assert!(outcome.stderr().contains("sudo"), "{}", outcome.stderr());
    for running in [first, other] {
        running.signal(libc::SIGINT);
        running.finish().expect_code(0);
    }
    for option in ["--json", "--watch=1", "--duration=1s", "-p1"] {
        run(["--show", option]).expect_code(125);
    }
}

/// Runs what follows as an ordinary user.
fn nobody() -> [OsString; 4] {
    let jail = fixture("jail").into_os_string();
    [jail, "-u".into(), "65534".into(), "--".into()]
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).expect("our own directory");
}

#[test]
fn without_root_it_says_what_to_do() {
    require!(bpf);
    let copy = tempfile::tempdir().expect("a directory");
    let path = copy.path().join("tracer");
    copy_program(&tracer(), &path);
    open_to_all(copy.path());
    for command in [&["--duration", "30s"][..], &["--", "true"]] {
        let trace = Trace::bare().without_capture().through(nobody());
        let trace = trace.binary(path.clone().into_os_string()).option("hist");
        let outcome = trace.options(ENDS).options(command.iter().copied()).run();
        assert_eq!(outcome.code(), 125);
        let said = outcome.stderr();
        assert!(said.contains("sudo tracer hist"), "{said}");
        // That is no engine of this one.
        assert!(!said.contains("ptrace"), "{said}");
    }
}

#[test]
fn tracefs_need_not_be_mounted() {
    require!(bpf);
    let script = format!(
        "umount -l /sys/kernel/tracing; umount -l /sys/kernel/debug/tracing; umount -l /sys/kernel/debug; \
         {} hist {} {} -- {} unmounted; code=$?; grep -c tracefs /proc/mounts; exit $code",
        tracer().display(),
        ENDS[0],
        ENDS[1],
        fixture("renamed").display()
    );
    let launcher = ["unshare", "-m", "sh", "-c", &script];
    let trace = Trace::bare().without_capture().through(launcher);
    let outcome = trace.run().expect_code(0);
    assert_eq!(count_of(&outcome.stderr(), "unmounted"), 2);
    assert!(outcome.stdout().ends_with("0\n"), "{}", outcome.stdout());
}

#[test]
fn twenty_events_count_at_once_and_one_twice() {
    require!(bpf);
    // Two that are alike are one to the kernel.
    let filter = |n: i32| format!("{} if pid > {n}", ENDS[1]);
    let mut args: Vec<String> = (1..=20)
        .flat_map(|n| [ENDS[0].to_owned(), filter(n)])
        .collect();
    args.push("--json".to_owned());
    let outcome = hist(args.iter().map(String::as_str), &["renamed", "again"]).expect_code(0);
    let tables = tables(&outcome);
    assert_eq!(tables.len(), 20);
    for table in &tables {
        assert_eq!(
            (&table["hits"], &table["rows"]),
            (&2.into(), &tables[0]["rows"])
        );
    }
    // In one table, each for itself.
    let outcome = hist(
        [
            "process_exit",
            "hist:name=both:keys=comm",
            "process_exit",
            "hist:name=both:keys=comm if exit_code == 6",
        ],
        &["renamed", "again"],
    );
    assert_eq!(count_of(&outcome.stderr(), "again"), 3);
    for (event, trigger) in [
        ("process_exit", "hist:name=both:keys=comm"),
        (ENDS[0], "hist:name=both:keys=comm"),
    ] {
        let outcome = hist(
            [ENDS[0], "hist:name=both:keys=comm", event, trigger],
            &["renamed", "again"],
        );
        assert_eq!((outcome.code(), outcome.stdout()), (125, String::new()));
    }
    for other in ["hist:keys=comm", "hist:keys=comm:size=128:pause"] {
        let twice = [ENDS[0], "hist:keys=comm", "sched/sched_process_exit", other];
        let outcome = hist(twice, &["renamed", "again"]);
        assert_eq!((outcome.code(), outcome.stdout()), (125, String::new()));
        let said = outcome.stderr();
        assert!(said.contains("Hist trigger already exists"), "{said}");
    }
}

#[test]
fn the_commands_input_and_output_are_its_own() {
    require!(bpf);
    let input = tempfile::NamedTempFile::new().expect("a file");
    fs::write(input.path(), b"some\0thing\n").expect("a file");
    let stdin = fs::File::open(input.path()).expect("a file");
    let trace = Trace::bare().without_capture().option("hist").options(ENDS);
    let trace = trace.setup(move |c| {
        c.stdin(stdin);
    });
    let outcome = trace.options(["--", "cat"]).run().expect_code(0);
    assert_eq!(outcome.stdout_bytes(), b"some\0thing\n");
    assert_eq!(count_of(&outcome.stderr(), "cat"), 1);
}

#[test]
fn a_signal_goes_on_to_the_command_and_its_end_is_told() {
    require!(bpf);
    let trace = Trace::bare().without_capture().option("hist").options(ENDS);
    let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done";
    let mut running = await_counting(trace.options(["--", "sh", "-c", script]).start());
    running.await_stdout("ready");
    running.signal(libc::SIGTERM);
    let outcome = running.finish().expect_code(9);
    assert_eq!(count_of(&outcome.stderr(), "sh"), 1);
}
