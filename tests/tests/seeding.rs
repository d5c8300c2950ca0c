//! What ran already when a recording began: everybody, and once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;

use serde_json::Value;
use tracer_tests::beside::Beside;
use tracer_tests::host::{alone, scaled};
use tracer_tests::{Capture, Record, Trace, fixture, require};

type Id = (u64, u64);

fn is_event(line: &Value) -> bool {
    ["fork", "exec", "exit"].contains(&line.kind())
}

/// What /proc knows a start to, ns.
const TICK: u64 = 10_000_000;

/// Compares captures with a longer one that began before and ended after them.
struct Longer {
    rows: BTreeMap<Id, Value>,
    /// Parents at the fork.
    parents: BTreeMap<Id, Id>,
    /// Times of all events of each CPU.
    events: BTreeMap<u64, BTreeSet<u64>>,
    /// CPU and time of each fork, and of each end.
    forks: BTreeMap<Id, (u64, u64)>,
    ends: BTreeMap<Id, (u64, u64)>,
}

impl Longer {
    fn new(capture: &Capture) -> Self {
        assert_eq!(capture.lost_at_all(), 0, "the longer one must have all");
        let child = |f: &Value| (f.num("child_pid"), f.num("child_start"));
        let place = |l: &Value| (l.num("cpu"), l.num("ts"));
        let mut events: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for event in capture.lines.iter().filter(|l| is_event(l)) {
            let (cpu, ts) = place(event);
            events.entry(cpu).or_default().insert(ts);
        }
        Self {
            rows: capture.of("process").map(|p| (p.id(), p.clone())).collect(),
            parents: capture.of("fork").map(|f| (child(f), f.id())).collect(),
            events,
            forks: capture.of("fork").map(|f| (child(f), place(f))).collect(),
            ends: capture.ends().map(|e| (e.id(), place(e))).collect(),
        }
    }

    /// Whether a capture that began at `begin`, with all programs attached, and has all up to
    /// `last` must have the process. The longer one's programs are run first by each event,
    /// the other's may be late by any time: a hypervisor takes the CPU away. But on one CPU
    /// no event begins before the one before it has been served in full.
    fn must_have(&self, id: Id, begin: u64, last: u64) -> bool {
        let between = |cpu: &u64, range: Range<u64>| {
            let events = self.events.get(cpu);
            range.start < range.end && events.is_some_and(|e| e.range(range).next().is_some())
        };
        let forked = |(cpu, ts): &(u64, u64)| between(cpu, ts + 1..last + 1);
        let lived = |(cpu, ts): &(u64, u64)| between(cpu, begin..*ts);
        self.forks.get(&id).is_none_or(forked) && self.ends.get(&id).is_none_or(lived)
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
        let last = shorter.lines.iter().filter(|l| is_event(l));
        let last = last.map(|l| l.num("ts")).max().expect("events");
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
            let known: Vec<Id> = left.range(near(*id)).map(|(id, _)| *id).collect();
            assert!(known.len() < 2, "doubled: {known:?}");
            match known.first() {
                Some(known) => {
                    left.remove(known);
                    found += 1;
                }
                None if wanted(*id) && self.must_have(*id, begin, last) => missing.push(row),
                None => {}
            }
        }
        assert!(
            missing.is_empty(),
            "missing in [{begin}, {last}]: {missing:#?}"
        );
        assert!(left.is_empty(), "not in the longer one: {left:#?}");
        assert!(found > 1);
        // Who was seeded has no fork, and the other way round.
        let seeds: BTreeSet<Id> = shorter.seeds().into_keys().collect();
        for fork in shorter.of("fork") {
            let child = (fork.num("child_pid"), fork.num("child_start"));
            let seeded = seeds.range(near(child)).next();
            assert!(seeded.is_none(), "a seed and a fork: {fork}");
        }
    }
}

/// `n` starts, fewer where each takes seconds.
fn starts(n: u64) -> u64 {
    scaled(2 * n).clamp(2, n)
}

fn seeding_under_load(times: u64, tolerance: u64, options: &[&str]) {
    let _alone = alone();
    let mut longer = Trace::record(["-a", "--ring-size", "64M"])
        .backend(Some("ebpf"))
        .start();
    longer.await_recording();
    let storm = Beside::storm();
    let shorter: Vec<Capture> = (0..starts(times))
        .map(|_| {
            let trace = Trace::record(["-a", "--ring-size", "32M", "--max-events", "400"]);
            trace.options(options).run().expect_code(0).capture()
        })
        .collect();
    drop(storm);
    let longer = Longer::new(&longer.ended_by(libc::SIGTERM));
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
    let shorter: Vec<Capture> = (0..starts(10))
        .map(|_| {
            Trace::record(["-p", &root.to_string(), "--max-events", "400"])
                .run()
                .expect_code(0)
                .capture()
        })
        .collect();
    drop(storm);
    let longer = Longer::new(&longer.ended_by(libc::SIGTERM));
    for shorter in shorter {
        longer.check(&shorter, 0, |id| longer.is_below(id, root));
    }
}

/// tracer and the tree in a container: the pid that it is given is an inner one, its
/// records have those of the machine.
#[test]
fn a_tree_is_found_from_within_a_pid_namespace() {
    require!(ebpf_is_tested, root, unshare, full_system);
    let dir = tempfile::tempdir().expect("a directory");
    let [gate, inner] = ["gate", "inner"].map(|name| dir.path().join(name));
    let script = format!(
        "(until [ -e '{}' ]; do sleep 0.02; done; '{}' 4; exit 5) & echo $! >'{}'; exec \"$@\" -p $!",
        gate.display(),
        fixture("tiny").display(),
        inner.display()
    );
    let unshare = ["unshare", "--pid", "--fork", "--mount-proc"];
    let shell = ["/bin/sh", "-c", &script, "sh"];
    let launcher = unshare.into_iter().chain(shell);
    let mut running = Trace::record([""; 0]).through(launcher).start();
    let first = |r: &tracer_tests::run::Running| {
        let lines = Capture::whole_lines(&r.so_far());
        lines.into_iter().find(|l| l.kind() == "seed")
    };
    running.await_condition("the tree's first process", |r| first(r).is_some());
    let seed = first(&running).expect("just seen");
    let pid = seed.num("pid");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it waits");
    let inner = fs::read_to_string(inner).expect("written before tracer began");
    let both = format!("NSpid:\t{pid}\t{}\n", inner.trim());
    assert!(status.contains(&both), "{both}{status}");
    fs::write(&gate, "").expect("a file in our own directory");
    let capture = running.finish().expect_code(0).capture();
    let root = capture.process(pid);
    assert_eq!((root.code().as_str(), root.id()), ("5", seed.id()));
    let tiny = capture.only("process", |p| p.text("comm") == "tiny");
    assert_eq!(tiny.code(), "1", "it counts its arguments");
    assert_eq!((tiny.num("ppid"), tiny.num("parent_start")), seed.id());
    assert_eq!(capture.lost_at_all(), 0);
}
