//! `tracer hist`: its counts and sums next to a full capture of the same events, and what the
//! kernel itself skipped.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tracer_tests::hist::{counting, has_triggers, hist, json, rows, tables};
use tracer_tests::host::{alone, kernel, scaled};
use tracer_tests::printer::Printer;
use tracer_tests::truth::number_after;
use tracer_tests::{fixture, require};

/// A buffer of the kernel's own that records all events of one kind.
struct Recording {
    instance: PathBuf,
    event: &'static str,
}

impl Recording {
    fn start(event: &'static str, filter: &str) -> Self {
        let name = format!("tracer-test-{}", std::process::id());
        let instance = PathBuf::from("/sys/kernel/tracing/instances").join(name);
        fs::create_dir(&instance).expect("an instance");
        let recording = Self { instance, event };
        // For each CPU: some 40 bytes an event.
        recording.write("buffer_size_kb", "32768");
        recording.write("trace_clock", "global");
        if !filter.is_empty() {
            recording.write(&format!("events/{event}/filter"), filter);
        }
        recording.write(&format!("events/{event}/enable"), "1");
        recording
    }

    /// Only what this thread's descendants do.
    fn follow(&self) {
        // SAFETY: takes nothing and cannot fail.
        let thread = unsafe { libc::gettid() };
        self.write("options/event-fork", "1");
        self.write("set_event_pid", &thread.to_string());
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.instance.join(file);
        fs::write(&file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }

    /// Stops, and returns the lines of all events, none of which may be missing.
    fn lines(&self) -> Vec<String> {
        self.write(&format!("events/{}/enable", self.event), "0");
        let text = fs::read_to_string(self.instance.join("trace")).expect("a trace");
        for cpu in fs::read_dir(self.instance.join("per_cpu")).expect("CPUs") {
            let stats = read_once(&cpu.expect("a CPU").path().join("stats"));
            // "overrun: 0", and "dropped events: 0" before "read events: 0".
            assert_eq!(number_after(&stats, "overrun:"), 0, "{stats}");
            assert_eq!(number_after(&stats, "events:"), 0, "{stats}");
        }
        let lines = text.lines().filter(|l| !l.starts_with('#'));
        lines.map(str::to_owned).collect()
    }
}

/// The kernel writes this text anew for each read(2): pieces of several do not fit together.
fn read_once(path: &Path) -> String {
    let mut text = vec![0; 4096];
    let length = fs::File::open(path).and_then(|mut file| file.read(&mut text));
    text.truncate(length.expect("stats"));
    String::from_utf8(text).expect("UTF-8")
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _gone = fs::remove_dir(&self.instance);
    }
}

/// Hits and sum of each key.
type Sums = BTreeMap<u64, (u64, u64)>;

#[test]
fn sums_are_those_of_a_full_capture() {
    require!(bpf);
    let _alone = alone();
    // Each way, four workers are on the same keys on all CPUs; with one key always on the same row.
    for keys in ["1", "8"] {
        let n = scaled(100_000) / 8 * 8;
        let recording =
            Recording::start("syscalls/sys_enter_close", "fd >= 1000000 && fd < 1000008");
        recording.follow();
        let outcome = hist(
            [
                "syscalls:sys_enter_close",
                "hist:keys=fd:vals=fd,common_pid if fd >= 1000000",
                "syscalls:sys_enter_close",
                "hist:keys=common_cpu:vals=fd if fd >= 1000000",
                "--json",
            ],
            &["hammer", "4", &n.to_string(), keys, "pin"],
        )
        .expect_code(0);
        let lines = recording.lines();
        drop(recording);
        assert_eq!(lines.len() as u64, 4 * n);

        // "          hammer-1234    [001] .....  12.345678: sys_close(fd: f4240)"
        let (mut by_fd, mut by_cpu, mut pids) = (Sums::new(), Sums::new(), Sums::new());
        for line in &lines {
            let (head, rest) = line.split_once(" [").expect("a CPU");
            let cpu = rest.split(']').next().and_then(|cpu| cpu.parse().ok());
            let cpu: u64 = cpu.expect("a number");
            let pid: u64 = head
                .rsplit_once('-')
                .and_then(|(_, pid)| pid.trim().parse().ok())
                .expect("a pid");
            let (_, fd) = rest.split_once("fd: ").expect("a descriptor");
            let fd = fd.trim_end_matches(')').trim_start_matches("0x");
            let fd = u64::from_str_radix(fd, 16).expect("a number");
            for (sums, key, value) in [
                (&mut by_fd, fd, fd),
                (&mut by_cpu, cpu, fd),
                (&mut pids, fd, pid),
            ] {
                let sum = sums.entry(key).or_default();
                *sum = (sum.0 + 1, sum.1 + value);
            }
        }
        let tables = tables(&outcome);
        let sums = |table: usize, key: &str, value: &str| -> Sums {
            let row = |row: &Value| {
                let number = |v: &Value| v.as_u64().expect("a number");
                let sum = (number(&row["hitcount"]), number(&row["values"][value]));
                (number(&row["key"][key]), sum)
            };
            rows(&tables[table]).iter().map(row).collect()
        };
        assert_eq!(sums(0, "fd", "fd"), by_fd);
        assert_eq!(sums(0, "fd", "common_pid"), pids);
        assert_eq!(sums(1, "common_cpu", "fd"), by_cpu);
        let cpus = std::thread::available_parallelism().map_or(1, Into::into);
        assert_eq!(by_cpu.len(), cpus.min(4), "not on all CPUs: {by_cpu:?}");
        for table in &tables {
            assert_eq!(table["dropped"], 0, "{table}");
        }
    }
}

/// Events that come in an interrupt in which another program runs: the kernel runs none for them,
/// and says so from 6.7 on.
#[test]
fn what_the_kernel_skips_is_shown_as_missed() {
    require!(bpf);
    let _alone = alone();
    // Where the test fails it ends by itself.
    let options = ["--json", "--duration", "120s"];
    let running = counting([PRINTED, "hist:keys=common_cpu"].into_iter().chain(options));

    let recording = Recording::start("bpf_trace/bpf_trace_printk", "");
    let on_clock = Printer::on_clock().expect("it prints");
    let others = Printer::on_raw_tracepoint(libc::SYS_sched_rr_get_interval).expect("it prints");
    let n = scaled(50_000);
    calls(n);
    drop((on_clock, others));
    let events = recording.lines().len() as u64;

    running.signal(libc::SIGINT);
    let outcome = running.finish().expect_code(0);
    let table: Value = serde_json::from_str(&outcome.stdout()).expect("JSON");
    assert_eq!(table["hits"].as_u64(), Some(n), "{table}");
    assert!(events > n, "the clock never printed");
    if kernel() >= (6, 7) {
        assert_eq!(table["missed"].as_u64(), Some(events - n), "{table}");
        let said = format!("{PRINTED}: {} events", events - n);
        assert!(outcome.stderr().contains(&said), "{}", outcome.stderr());
    } else {
        assert!(table["missed"].is_null(), "{table}");
    }
}

/// An event within a program on another tracepoint is left out by perf before there is any talk of
/// programs, and counted by nobody.
#[test]
fn an_event_within_a_program_on_a_tracepoint_goes_unnoticed() {
    require!(bpf);
    let _alone = alone();
    let n = scaled(20_000);
    let _within = Printer::on_tracepoint("sched_rr_get_interval").expect("it prints");
    let _beside = Printer::on_raw_tracepoint(libc::SYS_sched_rr_get_interval).expect("it prints");
    let command = ["calls", &n.to_string(), "rare"];
    let arguments = [PRINTED, "hist:keys=common_cpu"];
    let outcome = hist(arguments.into_iter().chain(["--json"]), &command).expect_code(0);
    assert_eq!(json(&outcome)["hits"].as_u64(), Some(n));
    if has_triggers().is_ok() {
        // The kernel's own trigger is no program.
        let arguments = arguments.into_iter().chain(["--backend", "ftrace"]);
        let outcome = hist(arguments, &command).expect_code(0);
        assert_eq!(number_after(&outcome.stderr(), "Hits:"), 2 * n);
    }
}

/// What a program prints.
const PRINTED: &str = "bpf_trace:bpf_trace_printk";

/// System calls that nobody else makes.
fn calls(n: u64) {
    let calls = Command::new(fixture("calls"))
        .args([&n.to_string(), "rare"])
        .output();
    assert!(calls.expect("it runs").status.success());
}
