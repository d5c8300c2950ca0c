//! `tracer hist`: counts are exact, the output is the kernel's, and what the kernel itself counts
//! of the same run is the same.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tracer_tests::host::{alone, scaled};
use tracer_tests::truth::number_after;
use tracer_tests::{Outcome, Trace, fixture, require};

/// `tracer hist ARGS -- FIXTURE ARGS`
fn hist<'a>(args: impl IntoIterator<Item = &'a str>, command: &[&str]) -> Outcome {
    let mut command = command.iter();
    let name = command.next().expect("a command");
    let path = fixture(name).into_os_string();
    let command: Vec<OsString> = command.map(|a| (*a).into()).collect();
    let all = ["hist".into()]
        .into_iter()
        .chain(args.into_iter().map(OsString::from))
        .chain(["--".into(), path])
        .chain(command);
    Trace::bare().without_capture().options(all).run()
}

fn json(outcome: &Outcome) -> Value {
    let text = outcome.stderr();
    let line = text.lines().find(|l| l.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no table in {text:?}"));
    serde_json::from_str(line).expect("JSON")
}

fn rows(table: &Value) -> &[Value] {
    table["rows"].as_array().expect("rows")
}

fn has_triggers() -> Result<(), String> {
    let file = "/sys/kernel/tracing/events/sched/sched_process_exit/hist";
    match Path::new(file).exists() {
        true => Ok(()),
        false => Err("this kernel has no hist triggers".to_owned()),
    }
}

#[test]
fn four_workers_on_the_same_keys_are_counted_exactly() {
    require!(bpf);
    let _alone = alone();
    let n = scaled(200_000) / 8 * 8;
    let outcome = hist(
        [
            "syscalls:sys_enter_close",
            "hist:keys=fd:vals=fd:sort=fd if fd >= 1000000",
            "--json",
        ],
        &["hammer", "4", &n.to_string(), "8"],
    )
    .expect_code(0);
    let table = json(&outcome);
    let closes = number_after(&outcome.stdout(), "CLOSES");
    assert_eq!(table["hits"].as_u64(), Some(closes), "{table}");
    assert_eq!(rows(&table).len(), 8);
    for (i, row) in rows(&table).iter().enumerate() {
        assert_eq!(row["hitcount"].as_u64(), Some(closes / 8), "{row}");
        let fd = 1_000_000 + i as u64;
        assert_eq!(row["values"]["fd"].as_u64(), Some(fd * closes / 8), "{row}");
    }
    let sum: u64 = rows(&table)
        .iter()
        .filter_map(|r| r["values"]["fd"].as_u64())
        .sum();
    assert_eq!(sum, number_after(&outcome.stdout(), "SUM"));
}

#[test]
fn least_greatest_and_mean_are_those_of_the_values() {
    require!(bpf);
    let outcome = hist(
        [
            "syscalls:sys_enter_close",
            "hist:keys=__syscall_nr:vals=fd.min,fd.max if fd >= 1000000",
            "syscalls:sys_enter_close",
            "hist:keys=__syscall_nr:vals=fd.avg if fd >= 1000000",
            "--json",
        ],
        &["hammer", "2", "300", "3"],
    )
    .expect_code(0);
    let tables = outcome.stderr();
    let tables: Vec<Value> = tables
        .lines()
        .filter(|l| l.starts_with('{'))
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    assert_eq!(rows(&tables[0])[0]["values"]["fd.min"], 1_000_000);
    assert_eq!(rows(&tables[0])[0]["values"]["fd.max"], 1_000_002);
    assert_eq!(rows(&tables[1])[0]["values"]["fd.avg"], 1_000_001);
}

#[test]
fn ends_are_as_many_as_the_workload_counted() {
    require!(bpf);
    let n = scaled(2000).to_string();
    let outcome = hist(
        ["sched:sched_process_exit", "hist:keys=comm", "--json"],
        &["forkstorm", &n],
    )
    .expect_code(0);
    let table = json(&outcome);
    // And its own.
    assert_eq!(table["hits"].as_u64(), Some(outcome.truth().exits + 1));
    assert_eq!(rows(&table).len(), 1);
    assert_eq!(rows(&table)[0]["key"]["comm"], "forkstorm");
}

#[test]
fn a_full_table_drops_what_is_new() {
    require!(bpf);
    let outcome = hist(
        [
            "syscalls:sys_enter_close",
            "hist:keys=fd:size=128 if fd >= 1000000",
            "--json",
        ],
        &["hammer", "2", "3000", "1000"],
    )
    .expect_code(0);
    let table = json(&outcome);
    assert_eq!(table["entries"], 128);
    assert_eq!(table["hits"], 128 * 6);
    assert_eq!(table["dropped"], (1000 - 128) * 6);
}

#[test]
fn the_text_is_that_of_the_kernels_file() {
    require!(bpf);
    let outcome = hist(
        ["sched:sched_process_exit", "hist:keys=comm,prio:vals=prio"],
        &["forkstorm", "3"],
    )
    .expect_code(0);
    let expected = "\
# event histogram
#
# trigger info: hist:keys=comm,prio:vals=hitcount,prio:sort=hitcount:size=2048 [active]
#

{ comm: forkstorm                                         , prio:        120 } hitcount:          4  prio:        480

Totals:
    Hits: 4
    Entries: 1
    Dropped: 0
";
    // Whoever runs the tests may have changed its niceness.
    let nice = |text: &str| text.replace(char::is_numeric, "0");
    assert_eq!(nice(&outcome.stderr()), nice(expected));
}

#[test]
fn filters_are_evaluated_in_the_kernel() {
    require!(bpf);
    let count = |filter: &str| {
        let trigger = format!("hist:keys=fd if {filter}");
        let args = ["syscalls:sys_enter_close", &trigger, "--json"];
        let outcome = hist(args, &["hammer", "1", "100", "10"]).expect_code(0);
        json(&outcome)["hits"].as_u64()
    };
    for (filter, expected) in [
        ("fd == 1000003", 10),
        ("fd >= 1000003 && fd < 1000005", 20),
        ("fd == 1000001 || fd == 1000002 || fd == 1000003", 30),
        ("fd >= 1000000 && !(fd == 1000001 || fd == 1000002)", 80),
        ("fd >= 1000000 && comm == \"hammer\"", 100),
        ("fd >= 1000000 && comm ~ \"ham*\" && comm ~ \"*amm*\"", 100),
        ("fd >= 1000000 && comm ~ \"h[a-c]?mer\"", 100),
        ("fd >= 1000000 && comm != \"hammer\"", 0),
        ("fd >= 1000000 && comm ~ \"!ham*\"", 0),
        // The kernel looks at the end of the array.
        ("fd >= 1000000 && comm ~ \"*mer\"", 0),
        ("fd & 0x4 && fd >= 1000000", 40),
    ] {
        assert_eq!(count(filter), Some(expected), "{filter}");
    }
}

#[test]
fn tables_of_one_name_are_one() {
    require!(bpf);
    let outcome = hist(
        [
            "syscalls:sys_enter_close",
            "hist:name=both:keys=common_pid if fd >= 1000000",
            "syscalls:sys_exit_close",
            "hist:name=both:keys=common_pid if ret == -9",
            "--json",
        ],
        &["hammer", "2", "50"],
    )
    .expect_code(0);
    let table = json(&outcome);
    let counts: Vec<_> = rows(&table)
        .iter()
        .map(|r| r["hitcount"].as_u64())
        .collect();
    assert_eq!(counts, [Some(100), Some(100)], "{table}");
}

#[test]
fn others_are_not_counted() {
    require!(bpf);
    let mut noise = Command::new(fixture("hammer"))
        .args(["1", "200000000"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the noise runs");
    let outcome = hist(
        [
            "syscalls:sys_enter_close",
            "hist:keys=fd if fd >= 1000000",
            "--json",
        ],
        &["hammer", "1", "100"],
    );
    // Its child goes on otherwise.
    let of_noise = format!("{}", noise.id());
    let mut named = Trace::bare()
        .without_capture()
        .options([
            "hist",
            "syscalls:sys_enter_close",
            "hist:keys=common_pid if fd >= 1000000",
        ])
        .options(["-p", &of_noise, "--duration", "300ms", "--json"])
        .run();
    let children = format!("/proc/{0}/task/{0}/children", noise.id());
    let children = std::fs::read_to_string(children).unwrap_or_default();
    for pid in children.split_whitespace() {
        tracer_tests::run::send(pid.parse().expect("a number"), libc::SIGKILL);
    }
    noise.wait().expect("the noise ends");
    assert_eq!(json(&outcome.expect_code(0))["hits"], 100);
    named = named.expect_code(0);
    let table: Value = serde_json::from_str(&named.stdout()).expect("JSON");
    let pids: Vec<_> = rows(&table)
        .iter()
        .map(|r| r["key"]["common_pid"].as_u64())
        .collect();
    assert_eq!(pids, [children.trim().parse().ok()], "{table}");
}

#[test]
fn an_end_of_a_process_has_its_totals() {
    require!(bpf);
    let n = scaled(320);
    let outcome = hist(
        [
            "process_exit",
            "hist:keys=exit_code,signal:vals=cpu_ns,max_rss_upper_bytes.max if comm == \"forkstorm\"",
            "--json",
        ],
        &["forkstorm", &n.to_string()],
    )
    .expect_code(0);
    let table = json(&outcome);
    let truth = outcome.truth();
    assert_eq!(table["hits"].as_u64(), Some(truth.exits + 1));
    for row in rows(&table) {
        let (code, signal) = (&row["key"]["exit_code"], &row["key"]["signal"]);
        let name = match signal.as_u64() {
            Some(0) => code.to_string(),
            _ => format!("s{signal}"),
        };
        let own = u64::from(name == "0");
        assert_eq!(
            row["hitcount"].as_u64(),
            Some(truth.codes[&name] + own),
            "{row}"
        );
        assert!(row["values"]["cpu_ns"].as_u64() > Some(0), "{row}");
    }
}

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
    let outcome = hist(args, &["hammer", "1", "10"]).expect_code(0);
    assert_eq!(outcome.stderr(), "");
    let read = |i: usize| std::fs::read_to_string(&files[i]).expect("a file");
    assert!(
        read(0).contains("{ fd: ~ 2^20 } hitcount:         10\n"),
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
    let mut running = Trace::bare()
        .without_capture()
        .options(["hist", "sched:sched_process_exit"])
        .option("hist:name=ends:keys=comm:size=1024")
        .start();
    let pid = running.pid().to_string();
    let ask = |option: &str, whom: &str| {
        let options = ["hist", option, whom];
        let outcome = Trace::bare().without_capture().options(options).run();
        outcome.expect_code(0).stdout()
    };
    let socket = format!("/run/tracer/hist-{pid}.sock");
    running.await_condition("it listens", |_| Path::new(&socket).exists());
    let tiny = |n: u32| {
        for _ in 0..n {
            let end = Command::new(fixture("tiny")).status();
            assert!(end.expect("it runs").code().is_some());
        }
    };
    let count = |text: &str| {
        let row = text.lines().find(|l| l.starts_with("{ comm: tiny "));
        row.map_or(0, |r| number_after(r, "hitcount:"))
    };
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
    assert!(!Path::new(&socket).exists());
    let nobody = Trace::bare()
        .without_capture()
        .options(["hist", "--pause", "ends"])
        .run();
    assert_eq!(nobody.code(), 125);
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

/// Those of the recorded samples, but for time stamps, values that are texts, and faults.
const TRIGGERS: &str = r#"
sched/sched_process_exit hist:keys=comm
sched/sched_process_exit hist:keys=comm:vals=hitcount
sched/sched_process_exit hist:keys=comm,prio:vals=hitcount,pid:sort=pid.descending
sched/sched_process_exit hist:keys=pid.hex:sort=pid
sched/sched_process_exit hist:keys=common_pid.execname:sort=hitcount.descending
sched/sched_process_exit hist:keys=pid.log2
sched/sched_process_exit hist:keys=pid.buckets=10:sort=pid
sched/sched_process_exit hist:keys=common_cpu
sched/sched_process_exit hist:keys=prio:size=128 if comm == "hammer"
sched/sched_process_exit hist:name=foo:keys=comm:pause
sched/sched_process_exec hist:keys=filename
sched/sched_process_exec hist:keys=filename:vals=hitcount,pid.hex:sort=filename.descending,hitcount
kmem/kmalloc hist:keys=call_site.sym:vals=bytes_req,bytes_alloc:sort=bytes_req.descending:size=2048
kmem/kmalloc hist:keys=call_site.sym-offset:vals=bytes_req
kmem/kmalloc hist:keys=call_site.sym,bytes_req.log2:vals=bytes_alloc:sort=call_site
kmem/kmalloc hist:keys=bytes_req.log2
kmem/kmalloc hist:keys=bytes_req.buckets=64:vals=bytes_alloc.percent,bytes_req.graph
kmem/kmalloc hist:keys=common_pid.execname,bytes_req:size=128
raw_syscalls/sys_enter hist:keys=id.syscall:sort=hitcount.descending if common_pid > 1
raw_syscalls/sys_enter hist:keys=id.syscall,common_pid.execname
sched/sched_process_exit hist:keys=stacktrace
sched/sched_process_exit hist:keys=pid:size=100
sched/sched_process_exit hist:keys=comm:values=pid,prio
sched/sched_process_exit hist:key=comm:val=pid.hex
sched/sched_process_exit hist:keys=comm:sort=hitcount.descending:vals=prio
syscalls/sys_enter_close hist:keys=fd:vals=__syscall_nr if fd >= 1000000 && common_pid != 1
syscalls/sys_exit_close hist:keys=ret.hex,common_cpu
task/task_newtask hist:keys=comm:vals=clone_flags if comm ~ "ham*"
sched/sched_process_fork hist:keys=parent_comm,child_comm
"#;

/// Of Linux 6.12, not of 6.1.
const LATER_TRIGGERS: &str = r#"
kmem/kmalloc hist:keys=bytes_req.log2:vals=hitcount.percent,hitcount.graph:sort=bytes_req
kmem/kmalloc hist:keys=bytes_req.log2:vals=hitcount.percent,hitcount.graph:nohitcount
sched/sched_process_exit hist:keys=common_stacktrace
"#;

#[test]
fn both_engines_count_the_same() {
    require!(bpf);
    if let Err(reason) = has_triggers() {
        return tracer_tests::host::skipped(&reason);
    }
    let later = match tracer_tests::host::kernel() >= (6, 12) {
        true => LATER_TRIGGERS,
        false => "",
    };
    for line in TRIGGERS
        .lines()
        .chain(later.lines())
        .filter(|l| !l.is_empty())
    {
        let (event, trigger) = line.split_once(' ').expect("EVENT TRIGGER");
        let command = ["hammer", "4", "40", "5"];
        let outcome = hist([event, trigger, "--compare"], &command);
        let report = outcome.stdout();
        let equal = report.lines().any(|l| l.starts_with("equal: "));
        assert!(
            equal && outcome.code() == 0,
            "{line}\n{report}{}",
            outcome.stderr()
        );
    }
}
