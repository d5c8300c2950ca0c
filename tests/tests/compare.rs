//! `tracer compare`: sources against each other over one run, captures against each
//! other and against what ftrace prints.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tracer_tests::host::scaled;
use tracer_tests::{Trace, fixture, require};

/// Runs a command under two sources, which must agree; the JSON report.
fn agree(with: &str, command: &[OsString]) -> Value {
    let trace = Trace::bare().options(["compare", "--json", "--with", with, "-o"]);
    let path = trace.path("report");
    let line = [OsString::from(&path), "--".into()];
    let outcome = trace.options(line).options(command.to_vec()).run();
    let text = fs::read_to_string(&path).unwrap_or_default();
    let report: Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{with}: {e}\n{outcome}"));
    assert_eq!(report["verdict"], "equal", "{with}: {report:#}");
    assert_eq!(outcome.code(), 0, "{with}: {outcome}");
    assert_eq!(report["tree"]["equal"], true);
    report
}

/// Those that are killed in the middle of creating others: what a ptracer is not told
/// of them is explained; what it missed altogether it has counted.
#[test]
fn processes_that_are_killed_while_they_create_others() {
    require!(bpf);
    for with in ["ebpf,ptrace", "ebpf,ftrace"] {
        let trace = Trace::bare().options(["compare", "--json", "--with", with, "-o"]);
        let path = trace.path("report");
        let n = scaled(200).to_string();
        let line = [OsString::from(&path), "--".into()];
        let outcome = trace
            .options(line)
            .options([fixture("mayhem").into_os_string(), n.into()])
            .run();
        let text = fs::read_to_string(&path).unwrap_or_default();
        let report: Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}\n{outcome}"));
        assert_eq!(report["tree"]["equal"], true, "{with}: {report:#}");
        let differences = report["differences"].as_array().expect("a list");
        let lost = differences.iter().filter(|d| d["lost"] == true).count();
        assert_eq!(lost, differences.len(), "{with}: {report:#}");
        if with == "ebpf,ftrace" {
            assert_eq!(report["verdict"], "equal", "{report:#}");
        }
        let matched = report["kinds"]["fork"]["matched"].as_u64();
        assert!(matched > Some(10 * lost as u64), "{with}: {report:#}");
    }
}

fn storm(with: &str) {
    let n = scaled(2000);
    let storm: [OsString; 3] = [
        fixture("execstorm").into(),
        fixture("tiny").into(),
        n.to_string().into(),
    ];
    let report = agree(with, &storm);
    for (kind, count) in [("fork", n), ("exec", n + 1), ("exit", n + 1)] {
        assert_eq!(report["kinds"][kind]["matched"], count, "{report:#}");
    }
    agree(with, &["sh".into(), fixture("shellstorm.sh").into()]);
    agree(with, &[fixture("threads").into(), "20".into()]);
    agree(with, &[fixture("leader").into()]);
}

#[test]
fn ebpf_and_ftrace_over_storms() {
    require!(bpf);
    storm("ebpf,ftrace");
}

#[test]
fn ebpf_and_ptrace_over_storms() {
    require!(bpf);
    storm("ebpf,ptrace");
}

#[test]
fn ftrace_and_ptrace_over_storms() {
    require!(root);
    storm("ftrace,ptrace");
}

#[test]
fn a_build() {
    require!(bpf, make);
    let dir = tempfile::tempdir().expect("a directory");
    let made = Command::new(fixture("gen_build.sh"))
        .arg(dir.path())
        .arg("8")
        .output()
        .expect("gen_build.sh runs");
    assert!(made.status.success(), "{made:?}");
    let make = ["make", "-j3", "-s", "-C"].map(OsString::from);
    let mut make = make.to_vec();
    make.push(dir.path().into());
    let report = agree("ebpf,ftrace", &make);
    assert!(report["tree"]["processes"].as_u64() > Some(8), "{report:#}");
}

/// A capture of a small run.
fn capture(path: &Path) -> Vec<String> {
    Trace::shell("for i in 1 2 3 4 5 6; do /bin/true; ls / | cat; done")
        .option("-o")
        .option(path)
        .run()
        .expect_code(0);
    let text = fs::read_to_string(path).expect("the capture");
    text.lines().map(str::to_owned).collect()
}

fn compare(a: &Path, b: &Path) -> (i32, Value) {
    let trace = Trace::bare().options(["compare", "--json"]);
    let outcome = trace.options([a, b]).run();
    let report = serde_json::from_str(&outcome.stdout());
    (outcome.code(), report.unwrap_or(Value::Null))
}

#[test]
fn exactly_what_was_changed_by_hand_is_named() {
    require!(source);
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = (dir.path().join("a.jsonl"), dir.path().join("b.jsonl"));
    let lines = capture(&a);
    fs::copy(&a, &b).expect("a copy");
    assert_eq!(compare(&a, &b).0, 0);
    let nth = |kind: &str, n: usize| {
        let kind = format!("{{\"type\":\"{kind}\"");
        let all = lines
            .iter()
            .enumerate()
            .filter(|(_, l)| l.starts_with(&kind));
        all.map(|(at, _)| at).nth(n).expect("so many")
    };
    use Change::{Alter, Double, Remove};
    let records = [nth("fork", 3), nth("exec", 5), nth("exit", 7)];
    for ways in [
        [Remove, Double, Alter],
        [Remove; 3],
        [Double; 3],
        [Alter; 3],
    ] {
        let changes: BTreeMap<usize, Change> = records.into_iter().zip(ways).collect();
        let changed: Vec<String> = lines
            .iter()
            .enumerate()
            .flat_map(|(at, line)| match changes.get(&at) {
                Some(Remove) => vec![],
                Some(Double) => vec![line.clone(), line.clone()],
                Some(Alter) => vec![line.replacen("\"comm\":\"", "\"comm\":\"X", 1)],
                None => vec![line.clone()],
            })
            .collect();
        fs::write(&b, changed.join("\n") + "\n").expect("the changed copy");
        let (code, report) = compare(&a, &b);
        assert_eq!(code, 1, "{report:#}");
        let differences = report["differences"].as_array().expect("a list");
        let found: Vec<(&str, u64)> = differences
            .iter()
            .map(|d| {
                let line = ["line_a", "line_b"].iter().find_map(|l| d[l].as_u64());
                let what = d["what"].as_str().unwrap_or_default();
                (what, line.unwrap_or(0))
            })
            .collect();
        // Doubles are named by their line in the copy.
        let mut shift = 0;
        let expected: Vec<(&str, u64)> = changes
            .iter()
            .map(|(at, change)| match change {
                Remove => {
                    shift -= 1;
                    ("only_a", *at as u64 + 1)
                }
                Double => {
                    shift += 1;
                    let line = (*at as u64 + 1).wrapping_add_signed(shift);
                    ("twice_in_b", line)
                }
                Alter => ("differs", *at as u64 + 1),
            })
            .collect();
        assert_eq!(found, expected, "{report:#}");
    }
}

/// What is done to a record.
#[derive(Clone, Copy)]
enum Change {
    Remove,
    Double,
    Alter,
}

/// A trace buffer of the test's own, which goes with it.
struct Buffer(PathBuf);

impl Buffer {
    fn new() -> Option<Self> {
        let path = Path::new("/sys/kernel/tracing/instances")
            .join(format!("saved-{}", std::process::id()));
        fs::create_dir(&path).ok().map(|()| Self(path))
    }

    fn set(&self, file: &str, value: &str) {
        let file = self.0.join(file);
        fs::write(&file, value).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let _gone = fs::remove_dir(&self.0);
    }
}

/// What the kernel prints of the whole machine, against a capture of the command.
#[test]
fn a_capture_equals_what_the_kernel_prints() {
    require!(bpf);
    let Some(buffer) = Buffer::new() else {
        tracer_tests::host::skipped("no instance of tracefs can be made");
        return;
    };
    buffer.set("buffer_size_kb", "8192");
    for event in ["task/task_newtask", "sched/sched_process_fork"] {
        buffer.set(&format!("events/{event}/enable"), "1");
    }
    for event in ["exec", "exit"] {
        buffer.set(&format!("events/sched/sched_process_{event}/enable"), "1");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = (dir.path().join("a.jsonl"), dir.path().join("b.txt"));
    let n = scaled(400).to_string();
    for (clock, irq_info) in [("boot", "1"), ("boot", "0"), ("local", "1")] {
        buffer.set("tracing_on", "0");
        buffer.set("trace_clock", clock);
        buffer.set("options/irq-info", irq_info);
        buffer.set("trace", "");
        buffer.set("tracing_on", "1");
        Trace::fixture("execstorm", [fixture("tiny").into_os_string(), (&n).into()])
            .backend(Some("ebpf"))
            .options([OsString::from("--threads"), "-o".into(), (&a).into()])
            .run()
            .expect_code(0);
        buffer.set("tracing_on", "0");
        fs::copy(buffer.0.join("trace"), &b).expect("a copy of the trace");
        let (code, report) = compare(&a, &b);
        assert_eq!(code, 0, "{clock} {irq_info}: {report:#}");
        assert!(report["kinds"]["exec"]["matched"].as_u64() > Some(scaled(400)));
    }
}

#[test]
fn compressed_captures_are_read_too() {
    require!(source);
    let trace = Trace::shell("ls; true");
    let (a, b) = (trace.path("a.jsonl"), trace.path("b.jsonl.zst"));
    let options = [OsString::from("-o"), (&a).into(), "-o".into(), (&b).into()];
    let outcome = trace.options(options).run().expect_code(0);
    let (code, report) = compare(&a, &b);
    assert_eq!(code, 0, "{report:#}\n{outcome}");
}

#[test]
fn what_cannot_be_compared_is_an_error_with_its_remedy() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x");
    fs::write(&file, "nothing\n").expect("a file");
    let file: OsString = file.into();
    for (options, expected) in [
        (vec!["none".into(), "none".into()], "cannot be read"),
        (
            vec![file.clone(), file.clone()],
            "line 1: expected a capture",
        ),
        (vec![file], "two files"),
        (vec![], "nothing to compare"),
        (
            vec![
                "--with".into(),
                "ebpf,ebpf".into(),
                "--".into(),
                "true".into(),
            ],
            "two different sources",
        ),
        (vec!["--".into(), "no-such-program".into()], "not found"),
    ] {
        let outcome = Trace::bare().option("compare").options(options).run();
        assert_eq!(outcome.code(), 125, "{outcome}");
        assert!(outcome.stderr().contains(expected), "{expected}: {outcome}");
    }
}
