//! `tracer hist`: counts are exact, and the output is the kernel's.

use std::process::Command;

use serde_json::Value;
use tracer_tests::hist::{counting, hist, json, rows, tables};
use tracer_tests::host::{alone, scaled};
use tracer_tests::truth::number_after;
use tracer_tests::{Trace, fixture, require};

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
        &["hammer", "4", &n.to_string(), "8", "pin"],
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
    let tables = tables(&outcome);
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
    let trigger = "hist:keys=common_pid if fd >= 1000000";
    let mut named = counting([
        "syscalls:sys_enter_close",
        trigger,
        "-p",
        &of_noise,
        "--json",
    ]);
    let pid = named.pid().to_string();
    named.await_condition("a count", |_| {
        let show = Trace::bare().without_capture();
        let shown = show.options(["hist", "--show", &pid]).run();
        !shown.expect_code(0).stdout().contains("Hits: 0\n")
    });
    named.signal(libc::SIGINT);
    let named = named.finish();
    let children = format!("/proc/{0}/task/{0}/children", noise.id());
    let children = std::fs::read_to_string(children).unwrap_or_default();
    for pid in children.split_whitespace() {
        tracer_tests::run::send(pid.parse().expect("a number"), libc::SIGKILL);
    }
    noise.wait().expect("the noise ends");
    assert_eq!(json(&outcome.expect_code(0))["hits"], 100);
    let table: Value = serde_json::from_str(&named.expect_code(0).stdout()).expect("JSON");
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
