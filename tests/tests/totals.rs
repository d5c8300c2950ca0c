//! What a process cost, compared with what wait4 told its parent.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;
use tracer_tests::host::{in_vm, scaled};
use tracer_tests::truth::number_after;
use tracer_tests::{Capture, Outcome, Record, Trace, require};

/// A `CHILD` line of the workload `rusage`.
struct Child<'a> {
    line: &'a str,
    words: HashMap<&'a str, &'a str>,
}

impl<'a> Child<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let rest = line.strip_prefix("CHILD ")?;
        Some(Self {
            line,
            words: rest.split(' ').filter_map(|w| w.split_once('=')).collect(),
        })
    }

    fn num(&self, key: &str) -> u64 {
        self.words[key]
            .parse()
            .unwrap_or_else(|e| panic!("{key}: {e}: {}", self.line))
    }
}

fn rusage(n: u64) -> (Outcome, Capture) {
    let mib = if in_vm() { "60" } else { "300" };
    let outcome = Trace::fixture("rusage", [n.to_string(), mib.to_string()])
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    capture.assert_exact(&outcome.truth());
    (outcome, capture)
}

#[test]
fn leaf_processes_cost_what_wait4_says() {
    require!(knows_ends);
    let (outcome, capture) = rusage(scaled(1000));
    // A pid may come round again: the n-th child with it is the n-th row with it.
    let mut rows: HashMap<u64, VecDeque<&Value>> = HashMap::new();
    for row in capture.of("process") {
        rows.entry(row.num("pid")).or_default().push_back(row);
    }
    for of_pid in rows.values_mut() {
        of_pid.make_contiguous().sort_by_key(|row| row.num("start"));
    }
    let (mut wrong, mut late, mut all) = (Vec::new(), 0, 0);
    let stdout = outcome.stdout();
    for child in stdout.lines().filter_map(Child::parse) {
        let row = rows
            .get_mut(&child.num("pid"))
            .and_then(VecDeque::pop_front);
        let row = row.unwrap_or_else(|| panic!("no row for {}", child.line));
        all += 1;
        // Totals become final when the kernel frees the process, which a loaded machine
        // may put off beyond what the row waits. Then the row must say so; few may.
        if !row["usage"].flag("final") {
            late += 1;
            continue;
        }
        let faults = compare(&child, row);
        if !faults.is_empty() {
            let faults = faults.join("; ");
            wrong.push(format!(
                "{faults}\n  wait4: {}\n  row:   {}",
                child.line, row["usage"]
            ));
        }
    }
    let shown = wrong
        .iter()
        .take(12)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        wrong.is_empty(),
        "{} processes are wrong:\n{shown}",
        wrong.len()
    );
    assert!(late * 20 <= all, "{late} of {all} rows are not final");
}

/// What in `row` contradicts wait4.
fn compare(child: &Child<'_>, row: &Value) -> Vec<String> {
    let usage = &row["usage"];
    let mut faults = Vec::new();
    let mut check = |holds: bool, what: String| {
        if !holds {
            faults.push(what);
        }
    };
    let cpu = (usage.num("utime_ns") + usage.num("stime_ns")) / 1000;
    let wait4 = child.num("utime_us") + child.num("stime_us");
    check(
        cpu.abs_diff(wait4) <= 2,
        format!("CPU {cpu} µs, wait4 {wait4} µs"),
    );
    let split = usage
        .num("cpu_ns")
        .abs_diff(usage.num("utime_ns") + usage.num("stime_ns"));
    check(
        split <= 2000,
        format!("cpu_ns is {split} ns away from utime + stime"),
    );
    for key in ["minflt", "majflt", "inblock", "oublock"] {
        check(
            usage.num(key) == child.num(key),
            format!("{key} {}, wait4 {}", usage.num(key), child.num(key)),
        );
    }
    // The last switch, away from the dead, falls before or after wait4 looks.
    for key in ["nvcsw", "nivcsw"] {
        let (ours, theirs) = (usage.num(key), child.num(key));
        check(
            ours.abs_diff(theirs) <= 1,
            format!("{key} {ours}, wait4 {theirs}"),
        );
    }
    let peak = child.num("maxrss_kb") * 1024;
    let touched = child.num("touched_kb") * 1024;
    match usage.opt_num("max_rss_bytes") {
        // Nothing went before: wait4's peak is the program's own.
        Some(own) if child.num("execs") == 0 => {
            check(own == peak, format!("max RSS {own}, wait4 {peak}"))
        }
        // wait4's also covers what exec replaced, and the kernel's counter lags behind by a batch on each CPU.
        Some(own) => check(
            own <= peak && own + counter_lag() >= touched,
            format!("max RSS {own}, not in {touched}…{peak}"),
        ),
        None => check(
            child.num("execs") > 0 && usage.opt_num("max_rss_upper_bytes") == Some(peak),
            format!(
                "max RSS is not known, upper bound {:?}, wait4 {peak}",
                usage.get("max_rss_upper_bytes")
            ),
        ),
    }
    let threads = if child.words["shape"] == "threads" {
        9
    } else {
        1
    };
    check(
        row.num("threads") == threads,
        format!("threads {}, truth {threads}", row.num("threads")),
    );
    faults
}

/// By how much the kernel's counter of resident pages may lag behind (percpu_counter_batch).
fn counter_lag() -> u64 {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    cpus * 32.max(2 * cpus) * 4096
}

#[test]
fn an_exec_leaves_the_peak_of_the_old_program_behind() {
    require!(knows_ends);
    if tracer_tests::host::kernel() < (6, 16) {
        tracer_tests::host::skipped("before 6.16 the memory is gone at the exit tracepoint");
        return;
    }
    let (outcome, capture) = rusage(24);
    // Forked from a process that touched 16 MiB; its own program touches 4.
    let stdout = outcome.stdout();
    let children = stdout.lines().filter_map(Child::parse);
    let small = children.filter(|c| c.num("execs") == 1 && c.num("touched_kb") == 4096);
    let small: Vec<_> = small.collect();
    assert!(!small.is_empty(), "the workload has such a shape");
    for child in small {
        assert!(child.num("maxrss_kb") > 16 * 1024, "{}", child.line);
        let row = capture.process(child.num("pid"));
        assert!(row["usage"].num("max_rss_bytes") < 8 << 20, "{row}");
    }
}

/// CASES 9
#[test]
fn a_peak_that_was_given_back_is_reported() {
    require!(source);
    let mib: u64 = if in_vm() { 60 } else { 300 };
    let outcome = Trace::fixture("touch", [mib.to_string()])
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    let usage = &capture.root()["usage"];
    if capture.leaves_out(usage, "max_rss_bytes") {
        return;
    }
    let own = usage.num("max_rss_bytes");
    let seen = number_after(&outcome.stdout(), "MAXRSS") * 1024;
    assert!(own >= mib << 20, "{own} for {mib} MiB");
    // The kernel's figure is from before the end; what was touched since is a few pages.
    assert!(
        own.abs_diff(seen) <= 1 << 20,
        "{own}, the process itself saw {seen}"
    );
}

/// CASES 8
#[test]
fn threads_are_one_process_with_their_cpu_summed() {
    require!(source);
    let outcome = Trace::fixture("threads", ["50"]).run().expect_code(0);
    let capture = outcome.capture();
    assert_eq!(capture.of("exit").count(), 1, "one end for one process");
    assert_eq!(
        capture.of("fork").count(),
        0,
        "threads are not listed unless asked for"
    );
    assert_eq!(capture.root().num("threads"), 51);
    let usage = &capture.root()["usage"];
    if capture.leaves_out(usage, "cpu_ns") {
        return;
    }
    let cpu = usage.num("cpu_ns") / 1000;
    let seen = number_after(&outcome.stdout(), "CPU");
    assert!(seen >= 100_000, "50 threads of 2 ms each");
    assert!(
        cpu >= seen,
        "{cpu} µs, the process itself had seen {seen} µs"
    );
}

#[test]
fn bytes_read_and_written_are_the_process_own() {
    require!(knows_ends);
    let block = "65536";
    let script = format!("head -c {block} /dev/zero | cat >/dev/null");
    let capture = Trace::shell(&script).run().expect_code(0).capture();
    let cat = capture
        .of("process")
        .find(|p| !p["argv"].is_null() && p.list("argv") == [b"cat"]);
    if let Some(cat) = cat {
        let usage = &cat["usage"];
        assert!(
            usage.num("rchar") >= 65536 && usage.num("wchar") >= 65536,
            "{usage}"
        );
    }
    let shell = &capture.root()["usage"];
    assert!(
        shell.num("rchar") < 65536 && shell.num("wchar") < 65536,
        "children's I/O counts as their own: {shell}"
    );
    // Absent, not zero, where the kernel does not account it.
    let accounted =
        std::fs::read_to_string("/proc/sys/kernel/task_delayacct").is_ok_and(|s| s.trim() == "1");
    assert_eq!(shell["blkio_delay_ns"].is_null(), !accounted, "{shell}");
}

/// The shortest command ends within the time by which events are given out
/// late; its totals must be waited for all the same. A grace period may take
/// longer than tracer waits, but not every time.
#[test]
fn totals_of_the_shortest_command_are_final() {
    require!(ebpf_is_tested);
    let is_final = |_| {
        let capture = Trace::shell("/bin/true; exit 3")
            .run()
            .expect_code(3)
            .capture();
        capture.of("process").all(|row| row["usage"].flag("final"))
    };
    assert!((0..20).any(is_final), "not once in 20 runs");
}
