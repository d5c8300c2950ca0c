//! `cargo xtask fuzz`: what reads foreign text and bytes, fed with all sorts of them.

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    bpf_toolchain, paths, process,
    setup::{self, Tool},
};

const FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    version: "0.13.2",
    options: &[],
};
/// The compiler that it needs.
const TOOLCHAIN: &str = "nightly";

/// Run the fuzz targets, each for a bounded number of inputs
///
/// It needs a nightly compiler and a C++ compiler; cargo-fuzz is built into the cache. An input that breaks something is
/// left in fuzz/artifacts.
#[derive(clap::Args)]
pub struct Args {
    /// Inputs for each target
    #[arg(long, value_name = "COUNT", default_value_t = RUNS)]
    runs: u64,

    /// Only these [default: all]
    targets: Vec<String>,
}

const RUNS: u64 = 50_000;

/// One target ends after this at the latest, seconds.
const TIME_S: u64 = 120;

impl Default for Args {
    fn default() -> Self {
        Self {
            runs: RUNS,
            targets: Vec::new(),
        }
    }
}

pub fn main(args: &Args) -> Result<ExitCode> {
    match missing() {
        Some(reason) => bail!("{reason}"),
        None => run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Why there is no fuzzing here.
pub fn missing() -> Option<String> {
    if bpf_toolchain::rustc(TOOLCHAIN, &["-vV"]).is_none() {
        return Some(format!(
            "fuzzing needs a nightly compiler: rustup toolchain install {TOOLCHAIN} --profile minimal"
        ));
    }
    if !setup::has_compiler("c++") {
        return Some("fuzzing needs a C++ compiler: install your system's g++".to_owned());
    }
    None
}

/// Runs the targets; fails with the first one that finds something.
pub fn run(args: &Args) -> Result<()> {
    setup::for_build()?;
    let cargo_fuzz = FUZZ.get()?;
    let all = targets()?;
    if let Some(unknown) = args.targets.iter().find(|t| !all.contains(t)) {
        bail!(
            "there is no fuzz target {unknown}; there are: {}",
            all.join(", ")
        );
    }
    let wanted = if args.targets.is_empty() {
        &all
    } else {
        &args.targets
    };
    for target in wanted {
        let corpus = paths::target().join("fuzz-corpus").join(target);
        fs::create_dir_all(&corpus).with_context(|| format!("cannot make {}", corpus.display()))?;
        let mut fuzz = Command::new("rustup");
        fuzz.current_dir(paths::root())
            .args(["run", TOOLCHAIN])
            .arg(&cargo_fuzz)
            .args(["run", target])
            .arg(&corpus)
            .arg("--")
            .arg(format!("-runs={}", args.runs))
            .arg(format!("-max_total_time={TIME_S}"))
            .args(["-max_len=4096", "-verbosity=0"])
            .env("CARGO_TARGET_DIR", paths::target().join("fuzz"))
            // These are of the compiler that built us.
            .env_remove("CARGO")
            .env_remove("RUSTC")
            .env_remove("RUSTUP_TOOLCHAIN");
        let words = paths::root()
            .join("fuzz/words")
            .join(format!("{target}.dict"));
        if words.is_file() {
            fuzz.arg(format!("-dict={}", words.display()));
        }
        process::run(&mut fuzz)?;
    }
    Ok(())
}

/// Names of the targets: those of their files.
fn targets() -> Result<Vec<String>> {
    let dir = paths::root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let name = Path::new(&name).file_stem()?.to_str()?.to_owned();
            Some(name)
        })
        .collect();
    names.sort();
    Ok(names)
}
