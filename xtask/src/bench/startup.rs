//! How long it takes until the command runs, and how long a command takes that does nothing.

use std::{fs, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{
    child::Child,
    complaint, interrupt,
    lab::Lab,
    machine::number_after,
    run::monotonic,
    stats::{Random, Spread, ratio},
};

/// Name and command line of what is compared; the first is what the others are related to.
const WAYS: [(&str, &[&str]); 4] = [
    ("strace", &["strace", "-f", "-q", "-o", "/dev/null", "--"]),
    (
        "tracer",
        &["{tracer}", "--backend", "ebpf", "--color", "never", "--"],
    ),
    (
        "tracer-jsonl",
        &["{tracer}", "--backend", "ebpf", "-q", "-o", "{jsonl}", "--"],
    ),
    ("none", &[]),
];

/// From the tool's start to the first instruction of its command, and to its own end.
#[derive(Clone, Copy)]
struct Times {
    setup: Duration,
    total: Duration,
    cpu: Duration,
}

pub fn main(lab: &Lab, pairs: u32, data: &mut Value) -> Result<()> {
    let mut random = Random::new(u64::from(pairs));
    let mut rows: [Vec<Times>; WAYS.len()] = Default::default();
    let mut order: Vec<usize> = (0..WAYS.len()).collect();
    // Round 0 brings everything into the page cache.
    for round in 0..=pairs {
        random.shuffle(&mut order);
        for at in order.clone() {
            let (Some((name, words)), Some(row)) = (WAYS.get(at), rows.get_mut(at)) else {
                continue;
            };
            let times = once(lab, words).with_context(|| (*name).to_owned())?;
            if round > 0 {
                row.push(times);
            }
        }
        if interrupt::happened() {
            break;
        }
    }

    println!("| tool | setup ms (min–max) | × strace | total ms (min–max) | × strace | CPU ms |");
    println!("|---|---|---|---|---|---|");
    let mut out = Vec::new();
    let base = rows.first().cloned().unwrap_or_default();
    for ((name, _), row) in WAYS.iter().zip(&rows) {
        let ms = |of: fn(&Times) -> Duration| {
            Spread::of(row.iter().map(|times| of(times).as_secs_f64() * 1e3))
        };
        let relative = |of: fn(&Times) -> Duration| {
            Spread::of(row.iter().zip(&base).map(|(a, b)| ratio(of(a), of(b))))
        };
        let (Some(setup), Some(total), Some(cpu)) =
            (ms(|t| t.setup), ms(|t| t.total), ms(|t| t.cpu))
        else {
            continue;
        };
        let (Some(setups), Some(totals)) = (relative(|t| t.setup), relative(|t| t.total)) else {
            continue;
        };
        println!(
            "| {name} | {:.1} ({:.1}–{:.1}) | {:.2} | {:.1} ({:.1}–{:.1}) | {:.2} | {:.1} |",
            setup.median,
            setup.min,
            setup.max,
            setups.median,
            total.median,
            total.min,
            total.max,
            totals.median,
            cpu.median
        );
        let run = |times: &Times| {
            json!({
                "setup_s": times.setup.as_secs_f64(),
                "total_s": times.total.as_secs_f64(),
                "cpu_s": times.cpu.as_secs_f64(),
            })
        };
        out.push(json!({"tool": name, "runs": row.iter().map(run).collect::<Value>()}));
    }
    data["startup"] = out.into();
    Ok(())
}

fn once(lab: &Lab, words: &[&str]) -> Result<Times> {
    let dir = tempfile::tempdir_in(&lab.dir)?;
    let [out, err, jsonl] = ["out", "err", "trace.jsonl"].map(|name| dir.path().join(name));
    let mut argv: Vec<_> = words
        .iter()
        .map(|word| match *word {
            "{tracer}" => lab.tracer.clone().into_os_string(),
            "{jsonl}" => jsonl.clone().into_os_string(),
            word => word.into(),
        })
        .collect();
    argv.push(lab.fixtures.join("stamp").into());
    let (program, args) = argv.split_first().context("an empty command")?;
    let mut command = lab.command(program);
    command
        .args(args)
        .stdout(Stdio::from(fs::File::create(&out)?))
        .stderr(Stdio::from(fs::File::create(&err)?));
    let born = monotonic();
    let ended = Child::spawn(&mut command)?.finish()?;
    let gone = monotonic();
    let began = number_after(&fs::read_to_string(&out)?, "");
    let Some(began) = began.filter(|_| ended.status == 0) else {
        let why = complaint::of(&err).unwrap_or_else(|| "no message".to_owned());
        bail!("wait status {}: {why}", ended.status);
    };
    Ok(Times {
        setup: Duration::from_nanos(began).saturating_sub(born),
        total: gone.saturating_sub(born),
        cpu: ended.cpu,
    })
}
