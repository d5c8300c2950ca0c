//! `cargo xtask test`: every test of the workspace, the end-to-end ones against the released binary.

use std::{
    env,
    io::{BufRead as _, BufReader, IsTerminal as _, stdout},
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{build, paths, process, setup, summary::Summary};

/// The package with the end-to-end tests.
const PACKAGE: &str = "tracer-tests";

/// The sources besides eBPF, which is what the tests trace with unless they are told otherwise.
pub const OTHER_SOURCES: [&str; 2] = ["ftrace", "ptrace"];
/// The end-to-end tests that ask every source the same questions: first those whose
/// answers are a matter of the kernel, too.
const SHARED: [&str; 10] = [
    "cases",
    "trees",
    "names",
    "exact",
    "totals",
    "undisturbed",
    "signals",
    "filters",
    "details",
    "outputs",
];
/// So many of them run in a guest, where time is dear.
const SHARED_IN_GUESTS: usize = 7;

pub fn shared_in_guests() -> String {
    SHARED[..SHARED_IN_GUESTS].join(" ")
}

/// What the counts are divided by for the other sources, more than for eBPF.
pub const OTHER_SCALE: u32 = 8;

/// Build the release, then run all tests of the workspace, and the end-to-end ones with each source
///
/// Tests that need root or BPF say that they are skipped where these are missing.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Run only the tests whose names contain this
    filter: Option<String>,

    /// More for each test executable, such as --nocapture
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let (summary, passed) = run(args)?;
    println!("{summary}");
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs the tests; the second value tells whether the test runner was content.
pub fn run(args: &Args) -> Result<(Summary, bool)> {
    let extras = build_and_fetch()?;
    let fixtures = fixtures()?;
    let base = |selection: &[&str]| {
        let mut cargo = process::cargo();
        cargo
            .args(["test", "--no-fail-fast"])
            .args(selection)
            .arg("--")
            .args(stdout().is_terminal().then_some("--color=always"))
            .args(&args.args)
            .args(&args.filter)
            .env("TRACER_BIN", paths::tracer())
            .env("TRACER_FIXTURES", &fixtures)
            .envs(extras.iter().map(|dir| ("TRACER_EXTRAS", dir)))
            .stdout(Stdio::piped());
        cargo
    };
    let mut summary = Summary::default();
    let mut passed = run_one(
        base(&["--workspace", "--exclude", "tracer-ebpf"]),
        &mut summary,
    )?;
    if env::var_os(SOURCE).is_some() {
        return Ok((summary, passed));
    }
    let mut shared = vec!["--package", PACKAGE];
    shared.extend(SHARED.iter().flat_map(|name| ["--test", name]));
    for source in OTHER_SOURCES {
        let mut cargo = base(&shared);
        cargo.env(SOURCE, source);
        if env::var_os(SCALE).is_none() {
            cargo.env(SCALE, OTHER_SCALE.to_string());
        }
        eprintln!("xtask: with {source}:");
        passed &= run_one(cargo, &mut summary)?;
    }
    Ok((summary, passed))
}

/// Makes the release current, and fetches what some tests use where it is there: one
/// waits for the compiler, the other for the network.
fn build_and_fetch() -> Result<Option<PathBuf>> {
    let (extras, built) = std::thread::scope(|scope| {
        let extras = scope.spawn(setup::extras);
        let built = build::release_quietly();
        (extras.join(), built)
    });
    built?;
    match extras {
        Ok(Ok(dir)) => Ok(Some(dir)),
        Ok(Err(error)) => {
            eprintln!("xtask: tests that need extras will be skipped: {error:#}");
            Ok(None)
        }
        Err(_) => bail!("the thread that fetches the extras panicked"),
    }
}

const SOURCE: &str = "TRACER_TEST_BACKEND";
const SCALE: &str = "TRACER_TEST_SCALE";

/// Runs the test runner, passes on what it prints, and adds up; says whether it was content.
fn run_one(mut cargo: Command, summary: &mut Summary) -> Result<bool> {
    eprintln!("xtask: {}", process::display(&cargo));
    let mut child = cargo.spawn().context("cannot start cargo test")?;
    let output = child.stdout.take().context("stdout is a pipe")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read the tests' output")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        summary.add_line(&line);
    }
    let status = child.wait().context("cannot wait for cargo test")?;
    Ok(status.success())
}

/// The directory with the static programs that the end-to-end tests trace, built if need be.
pub fn fixtures() -> Result<PathBuf> {
    let dir = paths::target().join("fixtures");
    let mut cargo = process::cargo();
    cargo
        .args([
            "run",
            "--quiet",
            "--package",
            PACKAGE,
            "--bin",
            "tracer-fixtures",
            "--",
        ])
        .arg(&dir);
    process::run_quietly(&mut cargo)?;
    Ok(dir)
}

/// The end-to-end tests' names and executables.
pub fn executables() -> Result<Vec<(String, PathBuf)>> {
    let mut cargo = process::cargo();
    cargo.args([
        "test",
        "--package",
        PACKAGE,
        "--tests",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    let messages = output_with_quiet_stderr(&mut cargo)?;
    let found: Vec<_> = messages.lines().filter_map(executable).collect();
    if found.is_empty() {
        bail!("package {PACKAGE} has no tests");
    }
    Ok(found)
}

/// The integration test that one of cargo's messages tells of.
fn executable(message: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    let target = message.get("target")?;
    if !target
        .get("kind")?
        .as_array()?
        .iter()
        .any(|kind| kind == "test")
    {
        return None;
    }
    Some((
        target.get("name")?.as_str()?.to_owned(),
        message.get("executable")?.as_str()?.into(),
    ))
}

fn output_with_quiet_stderr(command: &mut Command) -> Result<String> {
    let file = tempfile::NamedTempFile::new()?;
    process::run_quietly(command.stdout(file.reopen()?))?;
    Ok(std::fs::read_to_string(file.path())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_integration_tests_are_taken_from_cargos_messages() {
        let message = |kind: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"cases"}},"executable":"/t/cases-1"}}"#
            )
        };
        assert_eq!(
            executable(&message("test")),
            Some(("cases".to_owned(), PathBuf::from("/t/cases-1")))
        );
        assert_eq!(executable(&message("lib")), None);
        assert_eq!(executable("not JSON"), None);
    }
}
