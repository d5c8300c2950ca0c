//! `cargo xtask bench`: what tracing costs, next to other tracers, and whether what they report is whole.

mod beside;
mod bpf_stats;
mod child;
mod complaint;
mod count;
mod hist;
mod interrupt;
mod lab;
mod machine;
mod micro;
mod pairs;
mod peers;
mod recording;
mod report;
mod run;
mod startup;
mod stats;
mod tool;
mod truth;
mod workload;

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use lab::Lab;
use pairs::Plan;

/// Measure what tracing costs, next to strace, perf, bpftrace and others in the same run
///
/// Each tool is measured in pairs, untraced and traced in random order; all tools take turns, so that a drift of the
/// machine hits all alike. `none` is an A/A pair: its distance from 1 is the noise. Needs root and a quiet machine.
///
/// wall x: the workload's own wall time, start and end of the tool excluded. CPU x: busy time of the whole machine
/// from the workload's start until the tool has ended. own x: CPU time of the workload's own processes. tool CPU: CPU
/// time of the tool's own processes from the workload's start on, as a share of the workload's in the same run. RSS:
/// sum of the peaks of the tool's processes, without kernel buffers. setup: from the tool's start to the command's, as
/// a multiple of strace's. fork, exec, exit: `all N`, or the worst deviation from what the workload counted.
#[derive(clap::Args)]
pub struct Args {
    /// Install the tracers to compare with (Debian's packages; tracexec by cargo, into the cache), and end
    #[arg(long)]
    peers: bool,
    /// List workloads and tools, and what is missing, and end
    #[arg(long)]
    list: bool,
    /// Measure only how long it takes from a tracer's start to the command's
    #[arg(long)]
    startup: bool,
    /// Measure only how many records a second are decoded, tracked and written
    #[arg(long)]
    micro: bool,
    /// Measure only `tracer record -a`: memory after 5 % and after all of N processes, CPU at 2,000 execs/s and when idle
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "2000000")]
    record: Option<u64>,

    /// Measure only what an event costs that `tracer hist` counts, in N rounds: next to bpftrace, and in guests next to the
    /// kernel's own triggers; --only names cases and machines
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "5")]
    hist: Option<u32>,

    /// Pairs for each workload and tool
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Size of the workloads; 1 is about a second each
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    scale: f64,
    /// Only the tools whose names match; separate several by commas
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these workloads, separated by commas
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    workloads: Vec<String>,
    /// Runs of each workload with the kernel's own measurement of eBPF programs; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 3)]
    bpf_runs: u32,
    /// Write everything that was measured to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of the random order
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Measure this tracer instead of the current sources'
    #[arg(long, value_name = "PATH")]
    tracer: Option<PathBuf>,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    if args.peers {
        return peers::install();
    }
    if args.micro {
        return micro::main();
    }
    let workloads = workload::Prepared::chosen(&args.workloads)?;
    let tools = tool::Tool::chosen(&args.only);
    anyhow::ensure!(
        args.hist.is_some() || !tools.is_empty(),
        "no tool matches {}",
        args.only.join(",")
    );
    let lab = Lab::new(lab::tracer(args.tracer.as_deref())?)?;
    if args.list {
        pairs::list(&lab);
        return Ok(ExitCode::SUCCESS);
    }
    interrupt::catch()?;
    let load = machine::load()?;
    let quiet = if load > 0.03 { ": NOT QUIET" } else { "" };
    eprintln!(
        "xtask: something else uses {:.1} % of the {} CPUs{quiet}",
        load * 100.0,
        machine::cpus()
    );
    let mut data = meta(args, load);
    let done = if args.startup {
        startup::main(&lab, args.pairs, &mut data)
    } else if let Some(processes) = args.record {
        recording::main(&lab, processes, &mut data)
    } else if let Some(rounds) = args.hist {
        hist::main(&lab, rounds, &args.only, &mut data)
    } else {
        let plan = Plan {
            workloads,
            tools,
            pairs: args.pairs,
            scale: args.scale,
            bpf_runs: args.bpf_runs,
            seed: args.seed,
        };
        pairs::main(&lab, &plan, &mut data)
    };
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&data)?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    done?;
    interrupt::check()?;
    Ok(ExitCode::SUCCESS)
}

fn meta(args: &Args, load: f64) -> Value {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "kernel": kernel.trim(),
        "machine": std::env::consts::ARCH,
        "cpus": machine::cpus(),
        "pairs": args.pairs,
        "scale": args.scale,
        "background_load": load,
    })
}
