//! `cargo xtask vm`: the end-to-end tests on Debian's kernels, in qemu.

mod cpio;
mod guest;
mod payload;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::Duration,
};

use anyhow::{Result, bail};
use clap::ValueEnum;
use guest::Machine;
pub use guest::{Outcome, RECORD};

use crate::{setup, test};

/// The suite takes minutes where the processor is emulated, and a busy machine multiplies them.
const TIMEOUT_S: u64 = 1800;

/// Run the end-to-end tests, or a command, on other kernels in qemu
///
/// The kernels, qemu, busybox and, unless the system has it, systemd are taken from Debian's archive into the cache;
/// nothing is installed. The guest has busybox, tracer on its PATH, and in /payload the tests and their fixtures; it
/// has no network and no disk.
#[derive(clap::Args)]
pub struct Args {
    /// A series of Debian's kernels, or the path of an image; may be repeated [default: 6.1 and 6.12]
    #[arg(long, value_name = "SERIES|PATH")]
    kernel: Vec<String>,

    /// How long the command may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT_S)]
    timeout: u64,

    /// The guest's memory
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    memory: u32,

    /// What runs the guest's instructions
    #[arg(long, value_enum, default_value_t = Accelerator::Tcg)]
    accel: Accelerator,

    /// What to divide the tests' counts by [default: 10 with tcg, else 1]
    #[arg(long, value_name = "DIVISOR")]
    scale: Option<u32>,

    /// Boot systemd, and run only the tests of the service there
    #[arg(long)]
    systemd: bool,

    /// Run this in the guest instead of the tests
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Accelerator {
    /// Emulation: works everywhere, ten times slower
    Tcg,
    /// The processor's own virtualisation, through /dev/kvm
    Kvm,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            kernel: Vec::new(),
            timeout: TIMEOUT_S,
            memory: 2048,
            accel: Accelerator::Tcg,
            scale: None,
            systemd: false,
            command: Vec::new(),
        }
    }
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let outcome = run(args)?;
    if args.command.is_empty() {
        println!("{}", outcome.summary);
    }
    Ok(ExitCode::from(outcome.status))
}

/// Runs the tests on both kernels.
pub fn test() -> Result<Outcome> {
    run(&Args::default())
}

/// Runs a command on a kernel and returns the lines of its output that begin with [`RECORD`].
pub fn records(kernel: &str, command: &[String], timeout: u64) -> Result<Vec<String>> {
    let outcome = run(&Args {
        kernel: vec![kernel.to_owned()],
        command: command.to_vec(),
        timeout,
        ..Args::default()
    })?;
    if outcome.status != 0 {
        bail!("it failed on kernel {kernel}, see above");
    }
    Ok(outcome.records)
}

fn run(args: &Args) -> Result<Outcome> {
    let (accelerator, scale) = match args.accel {
        Accelerator::Tcg =>
        // One thread for all virtual CPUs: with several, a CPU can run an int3 that another has
        // already patched away again (static calls of tracepoints), and the guest panics.
        {
            ("tcg,thread=single", 10)
        }
        Accelerator::Kvm => ("kvm", 1),
    };
    let scale = args.scale.unwrap_or(scale);
    let script = |tests| script(&args.command, tests, scale);
    let mut runs = Vec::new();
    if !args.systemd {
        runs.push(payload::suite()?.initramfs(&script("./run-tests"))?);
    }
    if args.systemd || args.command.is_empty() {
        let tests = format!("tests/{}", payload::SERVICE_TESTS);
        runs.push(payload::service()?.initramfs(&script(&tests))?);
    }
    let kernels = match args.kernel.as_slice() {
        [] => vec!["6.1".to_owned(), "6.12".to_owned()],
        some => some.to_vec(),
    };
    let images = kernels
        .iter()
        .map(|kernel| setup::vm::kernel(kernel))
        .collect::<Result<Vec<_>>>()?;
    let outcomes = side_by_side(&images, |image, show| {
        let mut all = Outcome::default();
        for initramfs in &runs {
            eprintln!("xtask: booting {}", image.display());
            let machine = Machine {
                kernel: image,
                initramfs,
                accelerator,
                memory_mib: args.memory,
                timeout: Duration::from_secs(args.timeout),
            };
            let outcome = machine.run(show)?;
            if args.command.is_empty() && outcome.summary.passed + outcome.summary.failed == 0 {
                bail!("no test ran in {}", image.display());
            }
            all += outcome;
        }
        Ok(all)
    })?;
    let mut total = Outcome::default();
    let mut closing = Vec::new();
    for (kernel, outcome) in kernels.iter().zip(outcomes) {
        closing.push(format!(
            "kernel {kernel}: status {}, {}",
            outcome.status, outcome.summary
        ));
        total += outcome;
    }
    if args.command.is_empty() {
        println!("{}", closing.join("\n"));
    }
    Ok(total)
}

/// Runs all guests at once: an emulated one keeps a single CPU busy. The first one's
/// output is shown as it comes, that of the others in one piece.
fn side_by_side(
    images: &[PathBuf],
    run: impl Fn(&Path, &mut dyn FnMut(&str)) -> Result<Outcome> + Sync,
) -> Result<Vec<Outcome>> {
    let Some((first, others)) = images.split_first() else {
        return Ok(Vec::new());
    };
    thread::scope(|scope| {
        let others: Vec<_> = others
            .iter()
            .map(|image| {
                let run = &run;
                scope.spawn(move || {
                    let mut lines = Vec::new();
                    let outcome = run(image, &mut |line| lines.push(line.to_owned()));
                    (lines, outcome)
                })
            })
            .collect();
        let mut outcomes = vec![run(first, &mut |line| println!("{line}"))];
        for other in others {
            let Ok((lines, outcome)) = other.join() else {
                bail!("a thread that runs a guest panicked");
            };
            println!("{}", lines.join("\n"));
            outcomes.push(outcome);
        }
        outcomes.into_iter().collect()
    })
}

/// The guest's shell script for a command, or else for these tests.
fn script(command: &[String], tests: &str, scale: u32) -> String {
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let command = if words.is_empty() {
        tests.to_owned()
    } else {
        words.join(" ")
    };
    format!(
        "export OTHER_SOURCES='{}' SHARED_TESTS='{}' OTHER_SCALE={}\n\
         export TRACER_BIN=/payload/tracer TRACER_FIXTURES=/payload/fixtures TRACER_TEST_VM=1 TRACER_TEST_SCALE={scale}\n\
         {command}\n",
        test::OTHER_SOURCES.join(" "),
        test::shared_in_guests(),
        scale.saturating_mul(test::OTHER_SCALE)
    )
}

/// The word as one word of a POSIX shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_gets_the_words_of_the_command() {
        let command = ["sh", "-c", "echo 'a  b' $HOME"].map(str::to_owned);
        assert!(
            script(&command, "./run-tests", 10)
                .ends_with("\n'sh' '-c' 'echo '\\''a  b'\\'' $HOME'\n")
        );
        assert!(script(&[], "./run-tests", 3).contains("TRACER_TEST_SCALE=3\n./run-tests\n"));
    }
}
