//! What `tracer record -a` takes while it runs for long: memory, and CPU under load and without any.

use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::{
    child::Child,
    interrupt,
    lab::Lab,
    machine::{self, number_after},
};

/// Processes that one storm starts, at most.
const STORM: u64 = 25_000;
/// Starts a second of the steady load.
const RATE: u32 = 2000;
/// How long steady load and idleness are looked at.
const STEADY: Duration = Duration::from_secs(20);
/// Nothing here may take longer.
const LIMIT: Duration = Duration::from_secs(3600);

/// `tracer record -a`, writing JSON Lines to nowhere.
struct Recorder(Child);

impl Recorder {
    fn start(lab: &Lab) -> Result<Self> {
        let mut command = Command::new(&lab.tracer);
        command
            .args(["record", "-a", "--backend", "ebpf", "--kthreads"])
            .args(["-o", "/dev/null", "--format", "jsonl"])
            .stdin(Stdio::null());
        let recorder = Self(Child::spawn(&mut command)?);
        // It has nothing to do any more when it is ready.
        let mut before = Duration::ZERO;
        let begin = Instant::now();
        loop {
            thread::sleep(Duration::from_millis(300));
            let cpu = recorder.cpu();
            if cpu.saturating_sub(before) < Duration::from_millis(10) && !before.is_zero() {
                return Ok(recorder);
            }
            ensure!(begin.elapsed() < LIMIT, "tracer does not come to rest");
            before = cpu;
        }
    }

    /// Resident memory, KiB.
    fn resident(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.0.pid());
        let status = fs::read_to_string(&path);
        let status = status.with_context(|| format!("cannot read {path}; has tracer ended?"))?;
        number_after(&status, "VmRSS:").context("no VmRSS")
    }

    fn cpu(&self) -> Duration {
        machine::cpu(self.0.pid())
    }

    /// Share of one CPU during `work`.
    fn share(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        let (cpu, begin) = (self.cpu(), Instant::now());
        work()?;
        Ok(self.cpu().saturating_sub(cpu).as_secs_f64() / begin.elapsed().as_secs_f64())
    }

    fn end(mut self) -> Result<()> {
        self.0.signal(libc::SIGTERM);
        let ended = self.0.wait(LIMIT, || {})?;
        ensure!(ended.status == 0, "tracer ended with {:#x}", ended.status);
        Ok(())
    }
}

fn workload(lab: &Lab, name: &str, args: &[String]) -> Result<()> {
    let mut command = Command::new(lab.fixtures.join(name));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let ended = Child::spawn(&mut command)?.wait(LIMIT, || {})?;
    if ended.status != 0 {
        bail!("{name} ended with {:#x}", ended.status);
    }
    Ok(())
}

/// Starts this many processes, by forkstorm and execstorm in turn.
fn storms(lab: &Lab, mut processes: u64) -> Result<()> {
    let tiny = lab.fixtures.join("tiny").display().to_string();
    let mut exec = false;
    while processes > 0 {
        interrupt::check()?;
        let n = processes.min(STORM);
        processes -= n;
        match exec {
            true => workload(
                lab,
                "execstorm",
                &["-v".into(), tiny.clone(), n.to_string()],
            )?,
            false => workload(lab, "forkstorm", &[n.to_string()])?,
        }
        exec = !exec;
    }
    Ok(())
}

pub fn main(lab: &Lab, processes: u64, data: &mut Value) -> Result<()> {
    let recorder = Recorder::start(lab)?;
    let sleep = || {
        thread::sleep(STEADY);
        Ok(())
    };
    let idle = recorder.share(sleep)?;
    let tiny = lab.fixtures.join("tiny").display().to_string();
    let count = u64::from(RATE) * STEADY.as_secs();
    let paced = ["-r".into(), RATE.to_string(), tiny, count.to_string()];
    let begin = Instant::now();
    let steady = recorder.share(|| workload(lab, "execstorm", &paced))?;
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    let early = (processes / 20).max(1);
    storms(lab, early)?;
    let first = recorder.resident()?;
    storms(lab, processes - early)?;
    let last = recorder.resident()?;
    recorder.end()?;
    let growth = last as f64 / first.max(1) as f64 - 1.0;
    println!("| tracer record -a --kthreads | |");
    println!("|---|---|");
    println!("| CPU, idle | {:.3} % of one |", idle * 100.0);
    println!(
        "| CPU at {rate:.0} execs/s | {:.2} % of one |",
        steady * 100.0
    );
    println!("| resident after {early} processes | {first} KiB |");
    println!(
        "| resident after {processes} processes | {last} KiB, {:+.1} % |",
        growth * 100.0
    );
    if let Some(data) = data.as_object_mut() {
        data.insert(
            "record".to_owned(),
            json!({
                "idle": idle, "rate": rate, "steady": steady, "processes": processes,
                "resident_early_kib": first, "resident_kib": last,
            }),
        );
    }
    Ok(())
}
