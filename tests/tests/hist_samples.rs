//! `tracer hist` and the kernel's own triggers over the same runs: the recorded samples, all of them,
//! and a wider set.

use tracer_tests::hist::{has_triggers, tables};
use tracer_tests::host::{kernel, skipped};
use tracer_tests::{Outcome, Trace, fixture, require};

const SAMPLES_6_1: &str = include_str!("../../tracer/tests/data/hist/hist-6.1.txt");
const SAMPLES_6_12: &str = include_str!("../../tracer/tests/data/hist/hist-6.12.txt");
const MORE_6_12: &str = include_str!("../../tracer/tests/data/hist/hist-more-6.12.txt");
/// Not of samples; `EVENT TRIGGER`, and from which kernel on, if not from 6.1.
const WIDER: &str = include_str!("../data/hist-wider.txt");

/// Pairs of a run.
const AT_ONCE: usize = 8;

/// Processes of several names, descriptors, pipes, signals, threads, memory and files.
const WORKLOAD: &str = "\
for i in 1 2 3 4; do /bin/true; done; cat /proc/self/stat | cat >/dev/null; ls -l / >/dev/null; \
$FIXTURES/hammer 4 40 5 >/dev/null; $FIXTURES/threads 4 >/dev/null 2>&1; \
$FIXTURES/calls 200 switch >/dev/null; $FIXTURES/killer >/dev/null; \
echo x >/tmp/tracer-hist-$$; rm /tmp/tracer-hist-$$; sleep 0.02";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair<'a> {
    event: &'a str,
    trigger: &'a str,
}

impl Pair<'_> {
    /// The keys as a text; those of all events have two names.
    fn keys(&self) -> String {
        let trigger = self.trigger.split(" if ").next().unwrap_or_default();
        let mut parts = trigger.split(':');
        let keys = parts.find_map(|p| p.strip_prefix("keys=").or(p.strip_prefix("key=")));
        keys.unwrap_or_default().replace("common_", "")
    }
}

/// The pairs of each run. No event has the same keys twice in one: the kernel could take
/// both for one trigger.
fn batches<'a>(pairs: &[Pair<'a>]) -> Vec<Vec<Pair<'a>>> {
    let mut batches: Vec<Vec<Pair<'a>>> = Vec::new();
    for pair in pairs {
        let has_room = |batch: &&mut Vec<Pair<'a>>| {
            let same = |p: &Pair<'a>| p.event == pair.event && p.keys() == pair.keys();
            batch.len() < AT_ONCE && !batch.iter().any(same)
        };
        match batches.iter_mut().find(has_room) {
            Some(batch) => batch.push(*pair),
            None => batches.push(vec![*pair]),
        }
    }
    batches
}

fn run(pairs: &[Pair<'_>], options: &[&str]) -> Outcome {
    let directory = fixture("hammer");
    let directory = directory.parent().expect("a directory").display();
    let script = format!("FIXTURES={directory}; {WORKLOAD}");
    let pairs = pairs.iter().flat_map(|p| [p.event, p.trigger]);
    Trace::bare()
        .without_capture()
        .option("hist")
        .options(pairs)
        .options(options.iter().copied())
        .options(["--", "sh", "-c", &script])
        .run()
}

/// How the engines differ, by pair; empty where they do not.
fn differences(pairs: &[Pair<'_>]) -> Vec<String> {
    let outcome = run(pairs, &["--compare"]);
    let report = outcome.stdout();
    let mut parts: Vec<String> = Vec::new();
    for line in report.lines() {
        if line.starts_with("equal: ") {
            parts.push(String::new());
        } else if line.starts_with("different: ") {
            parts.push(format!("{line}\n"));
        } else if let Some(part) = parts.last_mut() {
            *part += line;
            *part += "\n";
        }
    }
    assert_eq!(
        parts.len(),
        pairs.len(),
        "{pairs:?}\n{report}{}",
        outcome.stderr()
    );
    parts
}

/// Runs pairs by both engines, several at once; those that differ again by themselves. What is left
/// differs each time.
fn all_differences(
    pairs: &[Pair<'_>],
    is_accepted: impl Fn(&Pair<'_>, &str) -> bool,
) -> Vec<String> {
    let mut different = Vec::new();
    for pairs in batches(pairs) {
        for (pair, difference) in pairs.iter().zip(differences(&pairs)) {
            let mut difference = difference;
            // Where two CPUs begin the same row at once the kernel drops one of the events, though the
            // table has room (`__tracing_map_insert()`); in the guest, one in some dozens of runs.
            for _ in 0..4 {
                if difference.is_empty() || is_accepted(pair, &difference) {
                    break;
                }
                difference = differences(&[*pair]).remove(0);
            }
            if !difference.is_empty() && !is_accepted(pair, &difference) {
                different.push(format!("{} {}\n{difference}", pair.event, pair.trigger));
            }
        }
    }
    different
}

/// The pairs of a file of samples, and whether the kernel took them.
fn samples(text: &str) -> Vec<(Pair<'_>, bool)> {
    let blocks = text.split("\n#### ").skip(1);
    let pairs = blocks.filter_map(|block| {
        let (head, body) = block.split_once('\n')?;
        let (event, trigger) = head.split_once(": ")?;
        let taken = !body.starts_with("WRITE FAILED");
        trigger
            .starts_with("hist:")
            .then_some((Pair { event, trigger }, taken))
    });
    pairs.collect()
}

fn of_this_kernel() -> Vec<(Pair<'static>, bool)> {
    match kernel() {
        version if version >= (6, 12) => [samples(SAMPLES_6_12), samples(MORE_6_12)].concat(),
        _ => samples(SAMPLES_6_1),
    }
}

/// What is not in a record that a program sees.
fn is_beyond_programs(pair: &Pair<'_>) -> bool {
    ["common_flags", "common_preempt_count"]
        .iter()
        .any(|field| pair.trigger.contains(field))
}

/// Whether the lines of a difference are the same but for numbers after `name: `.
fn same_but_for(difference: &str, name: &str) -> bool {
    let name = format!("{name}: ");
    let lines = |sign: &str| -> Vec<String> {
        let lines = difference.lines().filter_map(|l| l.strip_prefix(sign));
        let blanked = lines.map(|line| match line.rsplit_once(&name) {
            Some((head, rest)) => {
                let rest = rest
                    .trim_start()
                    .trim_start_matches(|c: char| c.is_ascii_digit());
                format!("{head}{name}{rest}")
            }
            None => line.to_owned(),
        });
        let mut lines: Vec<String> = blanked.collect();
        lines.sort();
        lines
    };
    lines("- ") == lines("+ ")
}

#[test]
fn all_samples_are_counted_the_same_by_both_engines() {
    require!(bpf);
    if let Err(reason) = has_triggers() {
        return skipped(&reason);
    }
    let taken: Vec<Pair<'_>> = of_this_kernel()
        .into_iter()
        .filter_map(|(pair, taken)| (taken && !is_beyond_programs(&pair)).then_some(pair))
        .collect();
    assert!(taken.len() >= 28, "{}", taken.len());
    let different = all_differences(&taken, |pair, difference| {
        // Each engine reads the clock itself; and a text as a value is an address.
        let field = match pair.trigger {
            t if t.contains("keys=common_timestamp") => "common_timestamp",
            t if t.ends_with("vals=comm") => "comm",
            _ => return false,
        };
        same_but_for(difference, field)
    });
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Also where the kernel itself has fewer, or none.
#[test]
fn all_samples_run_on_every_kernel() {
    require!(bpf);
    if has_triggers().is_ok() && kernel() >= (6, 12) {
        return;
    }
    let latest = [samples(SAMPLES_6_12), samples(MORE_6_12)].concat();
    let taken: Vec<Pair<'_>> = latest
        .into_iter()
        .filter_map(|(pair, taken)| (taken && !is_beyond_programs(&pair)).then_some(pair))
        // Later kernels have texts of any length there, two of which no key has room for.
        .filter(|pair| !pair.trigger.contains("parent_comm,child_comm"))
        .collect();
    for pairs in batches(&taken) {
        let outcome = run(&pairs, &["--json"]).expect_code(0);
        let tables = tables(&outcome);
        assert_eq!(tables.len(), pairs.len(), "{}", outcome.stderr());
        for (pair, table) in pairs.iter().zip(&tables) {
            let is_paused = pair.trigger.contains(":pause");
            assert_eq!(table["hits"] == 0, is_paused, "{pair:?} {table}");
        }
    }
}

#[test]
fn a_wider_set_is_counted_the_same_by_both_engines() {
    require!(bpf);
    if let Err(reason) = has_triggers() {
        return skipped(&reason);
    }
    let lines = WIDER
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    let pairs: Vec<Pair<'_>> = lines
        .filter_map(|line| {
            let (line, later) = match line.strip_prefix("6.12 ") {
                Some(line) => (line, true),
                None => (line, false),
            };
            let (event, trigger) = line.split_once(' ').expect("EVENT TRIGGER");
            (!later || kernel() >= (6, 12)).then_some(Pair { event, trigger })
        })
        .collect();
    let different = all_differences(&pairs, |_, _| false);
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn a_table_of_two_events_is_the_same_in_both_engines() {
    require!(bpf);
    if let Err(reason) = has_triggers() {
        return skipped(&reason);
    }
    let trigger = "hist:name=n1:keys=common_pid.execname";
    let pairs = ["sched/sched_process_exit", "sched/sched_process_fork"]
        .map(|event| Pair { event, trigger });
    let report = (0..4)
        .map(|_| run(&pairs, &["--compare"]).stdout())
        .find(|report| report.starts_with("equal: "));
    assert!(report.is_some());
}

/// What 6.12 refuses is refused on all kernels; with the kernel's own engine, what that kernel refuses.
#[test]
fn samples_that_the_kernel_refuses_are_refused() {
    require!(bpf);
    let latest = [samples(SAMPLES_6_12), samples(MORE_6_12)].concat();
    for (pair, taken) in latest {
        if !taken || is_beyond_programs(&pair) {
            let outcome = run(&[pair], &[]);
            assert_eq!(outcome.code(), 125, "{pair:?}\n{}", outcome.stderr());
        }
    }
    if has_triggers().is_ok() {
        for (pair, taken) in of_this_kernel() {
            if !taken {
                let outcome = run(&[pair], &["--backend", "ftrace"]);
                assert_eq!(outcome.code(), 125, "{pair:?}\n{}", outcome.stderr());
            }
        }
    }
}
