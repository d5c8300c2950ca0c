//! Run time of tracer's kernel side, as the kernel measures it.

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    interrupt,
    lab::Lab,
    report, run,
    stats::{Spread, ratio},
    tool::TRACER_JSONL,
    workload::Prepared,
};

/// `BPF_ENABLE_STATS` of bpf(2).
const BPF_ENABLE_STATS: libc::c_long = 32;

/// The kernel measures the run time of all eBPF programs as long as this value lives; the setting
/// `kernel.bpf_stats_enabled` stays as it is, and nothing is to be restored.
struct Measurement {
    _open: OwnedFd,
}

impl Measurement {
    fn start() -> Result<Self> {
        // The only member is the kind of statistics, 0 for run time.
        let attr = [0_u32; 1];
        // SAFETY: the attributes outlive the call, and their size is given.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_ENABLE_STATS,
                attr.as_ptr(),
                size_of_val(&attr),
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error())
                .context("the kernel cannot measure eBPF programs (BPF_ENABLE_STATS)");
        }
        let fd = i32::try_from(fd).context("an impossible descriptor")?;
        // SAFETY: a descriptor that the kernel has just made for us, and that nobody else owns.
        let open = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { _open: open })
    }
}

/// Runs each workload under tracer and shows what its programs and its process used, relative to the workload.
pub fn main(lab: &Lab, workloads: &[Prepared], runs: u32, data: &mut Value) -> Result<()> {
    let _measurement = Measurement::start()?;
    println!(
        "\nThe kernel's own measurement of {}'s programs, and its process, as shares of the workload's CPU time:\n\n| workload | programs ms | runs of them | ns a run | programs % | process % | with its end % | its start ms |",
        TRACER_JSONL.name
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut out = Vec::new();
    for workload in workloads {
        let mut measured = Vec::new();
        for _ in 0..runs {
            measured.push(run::run(&TRACER_JSONL, workload, lab)?);
            interrupt::check()?;
        }
        let median = |of: &dyn Fn(&run::Measured) -> f64| {
            Spread::of(measured.iter().map(of)).map_or(0.0, |spread| spread.median)
        };
        println!(
            "| {} | {:.2} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} | {:.1} |",
            workload.name,
            median(&|run| run.bpf.run.as_secs_f64() * 1e3),
            median(&|run| run.bpf.count as f64),
            median(&|run| run.bpf.run.as_secs_f64() * 1e9 / run.bpf.count.max(1) as f64),
            median(&|run| ratio(run.bpf.run, run.workload_cpu) * 100.0),
            median(&|run| ratio(run.tool_cpu_during, run.workload_cpu) * 100.0),
            median(&|run| ratio(run.tool_cpu, run.workload_cpu) * 100.0),
            median(&|run| run.tool_cpu_before.as_secs_f64() * 1e3),
        );
        let run_json = |run: &run::Measured| {
            json!({
                "programs": run.bpf.programs,
                "programs_run_s": run.bpf.run.as_secs_f64(),
                "programs_run_count": run.bpf.count,
                "run": report::measured(run),
            })
        };
        let all: Value = measured.iter().map(run_json).collect();
        out.push(json!({"workload": workload.name, "runs": all}));
    }
    data["bpf_stats"] = out.into();
    Ok(())
}
