//! `tracer record`: what runs already, and until when.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tracer_tests::cgroup::Cgroup;
use tracer_tests::host::{alone, in_vm, scaled, skipped};
use tracer_tests::run::Running;
use tracer_tests::{Capture, Record, Trace, fixture, require};

type Id = (u64, u64);

/// What /proc knows a start to, ns.
const TICK: u64 = 10_000_000;

/// A workload beside tracer, in a process group of its own that ends with the test.
struct Beside(Child);

impl Beside {
    fn start(command: &mut Command) -> Self {
        let command = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        Self(command.spawn().expect("it can be started"))
    }

    fn shell(script: &str) -> Self {
        Self::start(Command::new("/bin/sh").args(["-c", script]))
    }

    /// Two processes that start others all the time.
    fn storm() -> Self {
        let mut command = Command::new(fixture("execstorm"));
        Self::start(command.arg("-j2").arg(fixture("tiny")).arg("10000000"))
    }

    fn pid(&self) -> u64 {
        u64::from(self.0.id())
    }

    /// A line to its input.
    fn tell(&mut self, line: &str) {
        let input = self.0.stdin.as_mut().expect("a pipe");
        // In one piece: after the first word it may have ended.
        let line = format!("{line}\n");
        input.write_all(line.as_bytes()).expect("it reads");
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).expect("a pid is an int");
        // Until it is waited for, the number is nobody else's. It may have been.
        if let Ok(None) = self.0.try_wait() {
            // SAFETY: kill takes plain numbers.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        let _ = self.0.wait();
    }
}

/// Waits for a child of `pid` and gives its number.
fn child_of(pid: u64) -> u64 {
    loop {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.expect("it runs");
        if let Some(child) = children.split_whitespace().next() {
            return child.parse().expect("a number");
        }
        std::thread::yield_now();
    }
}

fn seeds(capture: &Capture) -> BTreeMap<Id, &Value> {
    let mut seeds = BTreeMap::new();
    for seed in capture.of("seed") {
        assert!(seeds.insert(seed.id(), seed).is_none(), "twice: {seed}");
    }
    seeds
}

fn ended(mut running: Running, signal: i32) -> Capture {
    running.await_recording();
    running.signal(signal);
    running.finish().expect_code(0).capture()
}

#[test]
fn a_signal_ends_it_well() {
    require!(source, root);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT] {
        let capture = ended(Trace::record(["-a"]).start(), signal);
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
    let capture = ended(running, libc::SIGTERM);
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
    seeds(&capture);
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

/// Compares captures with a longer one that began before and ended after them.
struct Longer {
    rows: BTreeMap<Id, Value>,
    /// Parents at the fork.
    parents: BTreeMap<Id, Id>,
}

impl Longer {
    fn new(capture: &Capture) -> Self {
        assert_eq!(capture.lost_at_all(), 0, "the longer one must have all");
        let parent = |f: &Value| {
            let id = |pid, start| (f.num(pid), f.num(start));
            (id("child_pid", "child_start"), id("pid", "start"))
        };
        Self {
            rows: capture.of("process").map(|p| (p.id(), p.clone())).collect(),
            parents: capture.of("fork").map(parent).collect(),
        }
    }

    fn is_below(&self, mut id: Id, root: u64) -> bool {
        loop {
            if id.0 == root {
                return true;
            }
            let Some(parent) = self.parents.get(&id) else {
                return false;
            };
            id = *parent;
        }
    }

    /// Each process that lived when `shorter` began, or was born in it, is in it
    /// once, and nobody else. `tolerance`: how well it knows starts.
    fn check(&self, shorter: &Capture, tolerance: u64, wanted: impl Fn(Id) -> bool) {
        assert_eq!(shorter.lost_at_all(), 0, "{}", shorter.outline());
        let begin = shorter.of("seed").next().expect("somebody runs").num("ts");
        // `--max-events` can end it while the programs are attached.
        let event = |l: &&Value| ["fork", "exec", "exit"].contains(&l.kind());
        let last = shorter.lines.iter().filter(event);
        let last = last.filter_map(|l| l.opt_num("ts")).max().expect("events");
        // The two captures read the clock one after the other.
        let end = last.saturating_sub(5_000_000);
        let mut left: BTreeMap<Id, &Value> = BTreeMap::new();
        for row in shorter.of("process") {
            assert!(left.insert(row.id(), row).is_none(), "twice: {row}");
        }
        let near = |id: Id| {
            // The first process can be hidden from BPF: then /proc tells of it.
            let tolerance = if id.0 == 1 { TICK } else { tolerance };
            (id.0, id.1.saturating_sub(tolerance))..=(id.0, id.1 + tolerance)
        };
        let (mut missing, mut found) = (Vec::new(), 0);
        for (id, row) in &self.rows {
            let ended = row.opt_num("end");
            let lived = id.1 < end && ended.is_none_or(|e| e > begin + 1_000_000);
            let known: Vec<Id> = left.range(near(*id)).map(|(id, _)| *id).collect();
            assert!(known.len() < 2, "doubled: {known:?}");
            match known.first() {
                Some(known) => {
                    left.remove(known);
                    found += 1;
                }
                None if lived && wanted(*id) => missing.push(row),
                None => {}
            }
        }
        assert!(
            missing.is_empty(),
            "missing in [{begin}, {end}]: {missing:#?}"
        );
        assert!(left.is_empty(), "not in the longer one: {left:#?}");
        assert!(found > 1);
        // Who was seeded has no fork, and the other way round.
        let seeds: BTreeSet<Id> = seeds(shorter).into_keys().collect();
        for fork in shorter.of("fork") {
            let child = (fork.num("child_pid"), fork.num("child_start"));
            let seeded = seeds.range(near(child)).next();
            assert!(seeded.is_none(), "a seed and a fork: {fork}");
        }
    }
}

fn seeding_under_load(times: u64, tolerance: u64, options: &[&str]) {
    let _alone = alone();
    let mut longer = Trace::record(["-a", "--ring-size", "64M"])
        .backend(Some("ebpf"))
        .start();
    longer.await_recording();
    let storm = Beside::storm();
    let shorter: Vec<Capture> = (0..times)
        .map(|_| {
            let trace = Trace::record(["-a", "--ring-size", "32M", "--max-events", "400"]);
            trace.options(options).run().expect_code(0).capture()
        })
        .collect();
    drop(storm);
    let longer = Longer::new(&ended(longer, libc::SIGTERM));
    for shorter in shorter {
        longer.check(&shorter, tolerance, |_| true);
    }
}

#[test]
fn under_load_nobody_is_missing_or_doubled() {
    require!(ebpf_is_tested, root);
    seeding_under_load(20, 0, &[]);
}

#[test]
fn under_load_nobody_is_missing_or_doubled_where_proc_is_read() {
    require!(ebpf_is_tested, root);
    seeding_under_load(5, TICK, &["--proc-seeds"]);
}

#[test]
fn trees_are_found_while_they_grow() {
    require!(ebpf_is_tested, root);
    let _alone = alone();
    let mut longer = Trace::record(["-a", "--ring-size", "64M"]).start();
    longer.await_recording();
    let storm = Beside::storm();
    let root = storm.pid();
    let shorter: Vec<Capture> = (0..10)
        .map(|_| {
            Trace::record(["-p", &root.to_string(), "--max-events", "400"])
                .run()
                .expect_code(0)
                .capture()
        })
        .collect();
    drop(storm);
    let longer = Longer::new(&ended(longer, libc::SIGTERM));
    for shorter in shorter {
        longer.check(&shorter, 0, |id| longer.is_below(id, root));
    }
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
        seeds(&capture)
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
    let capture = ended(running, libc::SIGTERM);
    let codes: BTreeSet<String> = capture.of("process").map(Record::code).collect();
    assert_eq!(codes, ["0", "7", "8"].map(String::from).into());
    assert_eq!(capture.of("process").count(), 4);
    assert_eq!(seeds(&capture).len(), 2);
    for seed in capture.of("seed") {
        assert!(seed.text("cgroup").starts_with(&group.name()), "{seed}");
    }
    fs::remove_dir(&below).expect("it is empty");
}

#[test]
fn forks_and_losses_are_what_the_kernel_counted() {
    require!(ebpf_is_tested, root);
    let _alone = alone();
    for (ring, n) in [("32M", scaled(4000)), ("4K", scaled(20_000))] {
        let options = ["-a", "--threads", "--kthreads", "--ring-size", ring];
        let mut running = Trace::record(options).start();
        running.await_recording();
        let (before, begin) = tracer_tests::clock::forks_at_rest();
        for storm in ["forkstorm", "threadstorm"] {
            let mut command = Command::new(fixture(storm));
            let mut storm = Beside::start(command.arg(n.to_string()));
            storm.0.wait().expect("it ends");
        }
        let (after, end) = tracer_tests::clock::forks_at_rest();
        let capture = ended(running, libc::SIGTERM);
        let within = |l: &&Value| (begin..end).contains(&l.num("ts"));
        let forks = capture.of("fork").filter(within).count() as u64;
        // A loss shows with the next record of that CPU only.
        let lost = capture.of("lost").filter(|l| l.num("ts") >= begin);
        let lost = lost
            .filter(|l| l.text("kind") == "fork")
            .map(|l| l.num("count"));
        let lost: u64 = lost.sum();
        assert_eq!(forks + lost, after - before, "{forks} forks, {lost} lost");
        assert!(after - before >= 2 * n);
        assert_eq!(lost > 0, ring == "4K", "{lost} lost");
    }
}

#[test]
fn kill_misses_the_last_second_at_most() {
    require!(ebpf_is_tested, root);
    let _alone = alone();
    let storm = Beside::storm();
    let mut running = Trace::record(["-a"]).start();
    running.await_recording();
    running.await_condition("some events", |r| r.so_far().len() > 300_000);
    drop(storm);
    let mut last = Beside::shell("exit 77");
    last.0.wait().expect("it ends");
    let ended = tracer_tests::clock::boot_ns();
    while tracer_tests::clock::boot_ns() < ended + 1_000_000_000 {
        std::thread::yield_now();
    }
    running.signal(libc::SIGKILL);
    let text = running.so_far();
    let lines = Capture::whole_lines(&text);
    let exit = |l: &&Value| l.kind() == "exit" && l.num("pid") == last.pid();
    assert_eq!(lines.iter().filter(exit).count(), 1);
    assert_eq!(running.finish().code(), 1009);
}

#[test]
fn memory_depends_on_the_living() {
    require!(ebpf_is_tested, root);
    let _alone = alone();
    let mut running = Trace::record(["-a"]).start();
    running.await_recording();
    let status = format!("/proc/{}/status", running.pid());
    let resident = || {
        let status = fs::read_to_string(&status).expect("it runs");
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("a size")
    };
    let storms = |n: u64| {
        let mut fork = Command::new(fixture("forkstorm"));
        let mut exec = Command::new(fixture("execstorm"));
        let commands = [
            fork.arg(n.to_string()),
            exec.arg(fixture("tiny")).arg(n.to_string()),
        ];
        for command in commands {
            Beside::start(command).0.wait().expect("it ends");
        }
    };
    storms(scaled(10_000));
    let before = resident();
    storms(scaled(30_000));
    let after = resident();
    running.signal(libc::SIGTERM);
    let outcome = running.finish().expect_code(0);
    assert!(
        after <= before + before / 10 + 1024,
        "{before} KiB, then {after} KiB\n{outcome}"
    );
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
    fs::copy(fixture("tiny"), helper).expect("a copy");
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
    let capture = ended(running, libc::SIGTERM);
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
    let capture = ended(running, libc::SIGTERM);
    let seed = capture.only("seed", |s| s.num("pid") == shell.pid());
    assert_eq!(seed.text("start_precision"), "tick");
    assert_eq!(seed.list("argv")[2], b"read line; exit 3");
    assert!(capture.process(shell.pid()).flag("seeded"));
    assert!(!capture.process(other.pid()).flag("seeded"));
    let execs = capture.of("exec").filter(|e| e.text("filename") == tiny);
    assert_eq!(execs.count(), 1);
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
