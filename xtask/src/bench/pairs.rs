//! The main measurement: pairs of an untraced and a traced run.

use std::{
    collections::BTreeMap,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    bpf_stats, interrupt,
    lab::Lab,
    report::{self, Row},
    run::{self, Measured},
    stats::{Random, ratio},
    tool::{self, Package, Tool},
    workload::{self, Prepared, Workload},
};

/// What is to be measured.
pub struct Plan {
    pub workloads: Vec<Workload>,
    pub tools: Vec<Tool>,
    pub pairs: u32,
    pub scale: f64,
    pub bpf_runs: u32,
    pub seed: Option<u64>,
}

/// An untraced run and a traced one, one right after the other.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub base: Measured,
    pub traced: Measured,
}

/// Why some tools were not measured, by name.
pub type Skipped = BTreeMap<&'static str, String>;

/// Measures and reports; after an interrupt, what there is until then.
pub fn main(lab: &Lab, plan: &Plan, data: &mut Value) -> Result<()> {
    let mut skipped = Skipped::new();
    let mut tools = plan.tools.clone();
    tools.retain(|tool| {
        let why = missing(tool, lab);
        if let Some(why) = &why {
            skipped.insert(tool.name, why.clone());
        }
        why.is_none()
    });
    let mut prepared = Vec::new();
    for workload in &plan.workloads {
        prepared.push(Prepared::new(workload, plan.scale, lab)?);
    }
    let mut rows = Vec::new();
    for workload in &prepared {
        rows.extend(tools.iter().map(|tool| Row {
            workload: workload.name,
            tool: *tool,
            pairs: Vec::new(),
        }));
    }

    let measured = measure(lab, plan, &prepared, &mut rows, &mut skipped);
    rows.retain(|row| !row.pairs.is_empty());
    println!("{}", report::table(&rows, &skipped));
    data["rows"] = rows.iter().map(report::row_json).collect();
    data["not_measured"] = json!(skipped);
    // Before the measurement of programs, which would be in vain after an interrupt.
    measured?;
    if plan.bpf_runs > 0
        && tools
            .iter()
            .any(|tool| tool.name == tool::TRACER_JSONL.name)
    {
        bpf_stats::main(lab, &prepared, plan.bpf_runs, data)?;
    }
    Ok(())
}

fn measure(
    lab: &Lab,
    plan: &Plan,
    prepared: &[Prepared],
    rows: &mut [Row],
    skipped: &mut Skipped,
) -> Result<()> {
    let none = Tool::chosen(&["none".to_owned()]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = plan
        .seed
        .unwrap_or_else(|| now.map_or(1, |now| now.as_secs()));
    let mut random = Random::new(seed);
    let started = Instant::now();
    for workload in prepared {
        // Files into the page cache, and no first run among those that count.
        run::run(none.first().unwrap_or(&tool::TRACER_JSONL), workload, lab)?;
    }
    for round in 1..=plan.pairs {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        random.shuffle(&mut order);
        for at in order {
            let (Some(row), Some(none)) = (rows.get_mut(at), none.first()) else {
                continue;
            };
            let Some(workload) = prepared.iter().find(|w| w.name == row.workload) else {
                continue;
            };
            if skipped.contains_key(row.tool.name) {
                continue;
            }
            let traced_first = random.coin();
            let pair = if traced_first {
                run::run(&row.tool, workload, lab)
                    .and_then(|traced| Ok((run::run(none, workload, lab)?, traced)))
            } else {
                run::run(none, workload, lab)
                    .and_then(|base| Ok((base, run::run(&row.tool, workload, lab)?)))
            };
            interrupt::check()?;
            match pair {
                Ok((base, traced)) => {
                    eprintln!(
                        "{:5.0} s  {round}/{} {} {}: wall {:.3} CPU {:.3}",
                        started.elapsed().as_secs_f64(),
                        plan.pairs,
                        row.workload,
                        row.tool.name,
                        ratio(traced.wall, base.wall),
                        ratio(traced.busy, base.busy),
                    );
                    row.pairs.push(Pair { base, traced });
                }
                Err(error) => {
                    let why = format!("{error:#} (in {})", row.workload);
                    eprintln!("xtask: {} is given up: {why}", row.tool.name);
                    skipped.insert(row.tool.name, why);
                }
            }
        }
    }
    Ok(())
}

fn missing(tool: &Tool, lab: &Lab) -> Option<String> {
    let program = tool.programs.iter().find(|program| !lab.has(program))?;
    Some(match tool.package {
        Package::None => format!("no {program}"),
        Package::Debian(package) => {
            format!("no {program}: `apt-get install {package}`, or `cargo xtask bench --peers`")
        }
        Package::Cargo(_) => format!("no {program}: `cargo xtask bench --peers` builds it"),
    })
}

/// Prints what could be measured here.
pub fn list(lab: &Lab) {
    for workload in workload::ALL {
        println!("workload {}", workload.name);
    }
    for tool in tool::ALL {
        let found = missing(tool, lab).unwrap_or_else(|| "found".to_owned());
        println!("tool {:<16} {found}", tool.name);
    }
}
