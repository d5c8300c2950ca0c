//! What an event costs that `tracer hist` counts: next to the kernel's own trigger, in guests, and next to bpftrace.

mod cases;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use cases::{CASES, Case};

use super::{lab::Lab, stats::Spread};
use crate::vm::{self, RECORD, quoted};

/// The machine that this runs on.
const HOST: &str = "host";
/// Kernels that have hist triggers.
const KERNELS: [&str; 2] = ["6.1", "6.12"];
/// Events of a run; a guest is an emulated machine.
const LOOPS: u32 = 1_000_000;
const LOOPS_IN_GUESTS: u32 = 200_000;
/// Events that change the task take longer.
const SWITCHES_ARE_FEWER: u32 = 10;
/// For all that is done in a guest, s.
const TIMEOUT: u64 = 3000;

/// CPU time of the loop and run time of the programs in it, by case and engine, ns for each event.
type Measured = BTreeMap<(String, String), Vec<(f64, f64)>>;

pub fn main(lab: &Lab, rounds: u32, only: &[String], data: &mut Value) -> Result<()> {
    let (machines, cases) = chosen(only)?;
    let mut out = serde_json::Map::new();
    if machines.contains(&HOST) {
        let measured = on_host(lab, rounds, &cases)?;
        host_table(&cases, &measured);
        out.insert(HOST.to_owned(), as_json(&measured));
    }
    for kernel in KERNELS {
        if machines.contains(&kernel) {
            let measured = in_guest(kernel, rounds, &cases)?;
            guest_table(kernel, &cases, &measured);
            out.insert(kernel.to_owned(), as_json(&measured));
        }
    }
    data["hist"] = out.into();
    Ok(())
}

/// The machines and cases that are named; all, where none is.
fn chosen(names: &[String]) -> Result<(Vec<&'static str>, Vec<&'static Case>)> {
    let machines = [HOST].into_iter().chain(KERNELS);
    let cases = || CASES.iter();
    let known: Vec<&str> = machines
        .clone()
        .chain(cases().map(|case| case.name))
        .collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("no {name}; there are {}", known.join(", "));
    }
    let is_named = |name: &str| names.iter().any(|other| other == name);
    let some: Vec<&str> = machines.clone().filter(|name| is_named(name)).collect();
    let some_cases: Vec<&Case> = cases().filter(|case| is_named(case.name)).collect();
    Ok((
        if some.is_empty() {
            machines.collect()
        } else {
            some
        },
        if some_cases.is_empty() {
            cases().collect()
        } else {
            some_cases
        },
    ))
}

fn on_host(lab: &Lab, rounds: u32, cases: &[&Case]) -> Result<Measured> {
    let has_bpftrace = lab.has("bpftrace");
    let script = script(
        cases,
        rounds,
        LOOPS,
        &lab.tracer.display().to_string(),
        &lab.fixtures.display().to_string(),
        &|case| {
            let mut engines = vec!["untraced", if case.tree { "tree" } else { "tracer" }];
            if case.bpftrace.is_some() && has_bpftrace {
                engines.push("bpftrace");
            }
            engines
        },
    );
    let mut shell = lab.command("sh".as_ref());
    let output = shell.args(["-c", &script]).output();
    let output = output.context("cannot run sh")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    let text = String::from_utf8_lossy(&output.stdout);
    read(text.lines().filter_map(|line| line.strip_prefix(RECORD)))
}

fn in_guest(kernel: &str, rounds: u32, cases: &[&Case]) -> Result<Measured> {
    let script = script(
        cases,
        rounds,
        LOOPS_IN_GUESTS,
        "/payload/tracer",
        "/payload/fixtures",
        &|case| match case.tree {
            true => vec!["untraced", "kernel_tree", "tree"],
            false => vec!["untraced", "kernel", "tracer"],
        },
    );
    let records = vm::records(kernel, &["sh".to_owned(), "-c".to_owned(), script], TIMEOUT)?;
    read(records.iter().map(String::as_str))
}

fn script(
    cases: &[&Case],
    rounds: u32,
    loops: u32,
    tracer: &str,
    fixtures: &str,
    engines: &dyn Fn(&Case) -> Vec<&'static str>,
) -> String {
    let stats = u32::from(loops == LOOPS);
    let calls = format!("{fixtures}/calls");
    let mut text = format!(
        "{}\nTRACER={} CALLS={} ROUNDS={rounds} STATS={stats}\n",
        include_str!("hist/measure.sh").replace("RECORD", RECORD.trim_end()),
        quoted(tracer),
        quoted(&calls)
    );
    for case in cases {
        let loops = if case.kind == "switch" {
            loops / SWITCHES_ARE_FEWER
        } else {
            loops
        };
        let words = [
            case.name,
            case.kind,
            case.event,
            case.trigger,
            case.bpftrace.unwrap_or_default(),
        ];
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let engines = engines(case).join(" ");
        text += &format!("LOOPS={loops}\nmeasure {} {engines}\n", words.join(" "));
    }
    text
}

/// Reads lines of `case round engine loops CPU run runs`.
fn read<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Measured> {
    let mut measured = Measured::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [case, _, engine, loops, cpu, run, runs] = words[..] else {
            bail!("not a result: {line}");
        };
        let number = |text: &str| {
            let number = text.parse::<f64>();
            number.with_context(|| format!("not a number in: {line}"))
        };
        let cpu = number(cpu)? / number(loops)?;
        let run = number(run)? / number(runs)?.max(1.0);
        let key = (case.to_owned(), engine.to_owned());
        measured.entry(key).or_default().push((cpu, run));
    }
    Ok(measured)
}

impl Case {
    fn get<'a>(&self, measured: &'a Measured, engine: &str) -> &'a [(f64, f64)] {
        let key = (self.name.to_owned(), engine.to_owned());
        measured.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Of the run time of the programs, which the kernel measures.
    fn run(&self, measured: &Measured, engine: &str) -> Option<Spread> {
        Spread::of(self.get(measured, engine).iter().map(|(_, run)| *run))
    }

    /// Of the CPU time of the loop.
    fn cpu(&self, measured: &Measured, engine: &str) -> Option<Spread> {
        Spread::of(self.get(measured, engine).iter().map(|(cpu, _)| *cpu))
    }

    /// What counting adds to each event, by the least and by the median of the loop.
    fn added(&self, measured: &Measured, engine: &str) -> Option<(f64, f64)> {
        let base = self.cpu(measured, "untraced")?;
        let with = self.cpu(measured, engine)?;
        Some((with.min - base.min, with.median - base.median))
    }
}

fn host_table(cases: &[&Case], measured: &Measured) {
    println!(
        "Run time of the programs for each event as the kernel measures it, ns: least (median) of the rounds; and what counting \
         adds to the CPU time of the loop for each event, without that measurement, ns.\n\n\
         | case | event | trigger | tracer | bpftrace | × | tracer adds | bpftrace adds | × |\n|---|---|---|---|---|---|---|---|---|"
    );
    for case in cases {
        let ours = if case.tree { "tree" } else { "tracer" };
        let run = |engine: &str| case.run(measured, &format!("{engine}-stats"));
        let shown = |spread: Option<Spread>| {
            spread.map_or("–".to_owned(), |s| {
                format!("{:.0} ({:.0})", s.min, s.median)
            })
        };
        let (mine, theirs) = (run(ours), run("bpftrace"));
        let times = match (mine, theirs) {
            (Some(a), Some(b)) => format!("{:.2}", a.min / b.min),
            _ => "–".to_owned(),
        };
        let (a, b) = (case.added(measured, ours), case.added(measured, "bpftrace"));
        println!(
            "| {} | {} | `{}` | {} | {} | {times} | {} | {} | {} |",
            case.name,
            case.event,
            case.trigger,
            shown(mine),
            shown(theirs),
            pair(a),
            pair(b),
            quotient(a, b)
        );
    }
}

fn guest_table(kernel: &str, cases: &[&Case], measured: &Measured) {
    println!(
        "\nLinux {kernel}, emulated: what counting adds to the CPU time of the loop for each event, ns: by the least (median) of \
         the rounds.\n\n| case | event | trigger | the kernel's trigger | tracer | × | by medians |\n|---|---|---|---|---|---|---|"
    );
    for case in cases {
        let (kernel, ours) = match case.tree {
            true => ("kernel_tree", "tree"),
            false => ("kernel", "tracer"),
        };
        let (a, b) = (case.added(measured, ours), case.added(measured, kernel));
        let medians = |pair: Option<(f64, f64)>| pair.map(|(_, median)| (median, median));
        println!(
            "| {} | {} | `{}` | {} | {} | {} | {} |",
            case.name,
            case.event,
            case.trigger,
            pair(b),
            pair(a),
            quotient(a, b),
            quotient(medians(a), medians(b))
        );
    }
}

fn pair(pair: Option<(f64, f64)>) -> String {
    pair.map_or("–".to_owned(), |(least, median)| {
        format!("{least:.0} ({median:.0})")
    })
}

/// By the least.
fn quotient(a: Option<(f64, f64)>, b: Option<(f64, f64)>) -> String {
    match (a, b) {
        (Some((a, _)), Some((b, _))) if b > 0.0 => format!("{:.2}", a / b),
        _ => "–".to_owned(),
    }
}

fn as_json(measured: &Measured) -> Value {
    let row = |((case, engine), runs): (&(String, String), &Vec<(f64, f64)>)| {
        let column = |of: fn(&(f64, f64)) -> f64| runs.iter().map(of).collect::<Vec<_>>();
        json!({
            "case": case,
            "engine": engine,
            "cpu_ns": column(|run| run.0),
            "run_ns": column(|run| run.1),
        })
    };
    measured.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_related_to_the_loop_alone() {
        let lines = [
            "number 0 untraced 10 1000 0 0",
            "number 1 untraced 10 1200 0 0",
            "number 0 tracer 10 3000 0 0",
            "number 1 tracer 10 3400 500 5",
        ];
        let measured = read(lines.into_iter()).unwrap();
        let [case, ..] = &CASES;
        let (least, median) = case.added(&measured, "tracer").unwrap();
        assert!((least - 200.0).abs() < 1e-9 && (median - 210.0).abs() < 1e-9);
        assert!((case.run(&measured, "tracer").unwrap().max - 100.0).abs() < 1e-9);
        assert!(read(["a b"].into_iter()).is_err());
    }
}
