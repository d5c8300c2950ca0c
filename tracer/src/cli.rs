//! The command line: what users may write, checked before anything starts.
//!
//! A usage error exits with 125, as 1 and 2 belong to the command.

mod capture;
mod compare;
mod config;
mod export;
mod files;
mod hist;
mod record;
mod trace;
mod value;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

pub use capture::Capture;
pub use compare::Compare;
pub use export::Export;
pub use files::Files;
pub use hist::{Hist, HistBackend};
pub use record::Record;
pub use trace::Trace;

/// Exit status when tracer itself failed, as of env(1) and timeout(1).
pub const FAILURE: u8 = 125;

/// Default of `--ring-size`, bytes.
pub const RING_SIZE: u32 = 8 << 20;

const EXAMPLES: &str = "\
Examples:
  tracer -- make -j8                     what did this build run, and what did it cost?
  tracer --tree=full -- ./configure      every process by itself
  tracer -l -- ssh host true             a line for each event as it happens
  tracer --failed -- make test           only what went wrong, and who started it
  tracer -o run.jsonl -o run.csv -- CMD  everything, for other programs to read
  tracer record -a -o all.jsonl          the whole machine, until Ctrl-C
  tracer compare -- make                 do eBPF and ftrace see the same?
  tracer hist kmem:kmalloc hist:keys=bytes_req.log2 -- CMD   how often, how large?
  tracer check                           what works on this machine, and how to fix the rest

Exit status: that of CMD; 128+N if signal N killed it; 124 after --timeout;
125 if tracer failed, 126 if CMD cannot be executed, 127 if it was not found.";

#[derive(Debug, Parser)]
#[command(
    name = "tracer",
    version,
    about = "Shows every process that a command runs: who started whom, how it ended, what it cost",
    override_usage = "tracer [OPTIONS] -- CMD [ARG]...\n       tracer record (-a | -p PID...) [OPTIONS]\n       tracer check [--json] [--offsets]\n       tracer compare [OPTIONS] A B\n       tracer compare [OPTIONS] -- CMD [ARG]...\n       tracer hist EVENT TRIGGER [OPTIONS] [-- CMD [ARG]...]",
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    action: Option<Sub>,
    #[command(flatten)]
    trace: Trace,
}

#[derive(Debug, Subcommand)]
enum Sub {
    /// Say what works on this machine, what does not, why, and how to fix it
    Check(Check),
    /// Record the whole machine, running processes with their descendants, or a cgroup
    Record(Box<Record>),
    /// Compare two sources over one run, or two recordings, and report every difference
    Compare(Compare),
    /// Count events in tables: the kernel's hist triggers, executed in eBPF
    Hist(Box<Hist>),
    /// Print a shell's completion script
    Completions {
        /// Shell to print it for
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all subcommands into DIR
    #[command(hide = true)]
    Man {
        /// Directory for tracer.1, tracer-record.1 and so on
        dir: Option<PathBuf>,
    },
}

/// What was asked for.
#[derive(Debug)]
pub enum Invocation {
    Trace(Box<Trace>),
    Record(Box<Record>),
    Check(Check),
    Compare(Box<Compare>),
    Hist(Box<Hist>),
    /// For [`completions`].
    Completions(clap_complete::Shell),
    /// For [`man`].
    Man(Option<PathBuf>),
}

/// `tracer check`
#[derive(Debug, Args)]
pub struct Check {
    /// As JSON, for programs to read
    #[arg(long)]
    pub json: bool,
    /// Print the offsets of the kernel structure members that tracer reads
    #[arg(long)]
    pub offsets: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TreeStyle {
    Folded,
    Full,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    Auto,
    Ebpf,
    Ftrace,
    Ptrace,
}

/// The end of tracer before it began: help, version, or a usage error.
#[derive(Debug)]
pub struct Stop(Box<clap::Error>);

impl Stop {
    /// 0 for help and version, 125 for a usage error.
    pub fn exit_code(&self) -> u8 {
        if self.0.use_stderr() { FAILURE } else { 0 }
    }

    /// Prints it where it belongs: help to stdout, an error to stderr.
    pub fn print(&self) -> io::Result<()> {
        self.0.print()
    }
}

impl std::error::Error for Stop {}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

fn stop(kind: ErrorKind, message: impl std::fmt::Display) -> Stop {
    Stop(Box::new(Cli::command().error(kind, message)))
}

/// Reads the command line; `args` begins with tracer's own name.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, Stop> {
    let (args, file) = with_file(args.into_iter().collect())?;
    read(args).map_err(|error| {
        let located = file.and_then(|file| file.locate(&error.0));
        located.map_or(error, |fault| stop(ErrorKind::ValueValidation, fault))
    })
}

/// Takes what is there in the end.
fn read(args: Vec<OsString>) -> Result<Invocation, Stop> {
    let mut cli = Cli::try_parse_from(args).map_err(explain)?;
    match cli.action {
        Some(Sub::Check(check)) => Ok(Invocation::Check(check)),
        Some(Sub::Record(options)) => {
            options.validate()?;
            Ok(Invocation::Record(options))
        }
        Some(Sub::Compare(options)) => {
            options.validate()?;
            Ok(Invocation::Compare(Box::new(options)))
        }
        Some(Sub::Hist(options)) => {
            options.validate()?;
            Ok(Invocation::Hist(options))
        }
        Some(Sub::Completions { shell }) => Ok(Invocation::Completions(shell)),
        Some(Sub::Man { dir }) => Ok(Invocation::Man(dir)),
        None => {
            cli.trace.validate()?;
            // As timeout(1) has it.
            cli.trace.timeout = cli.trace.timeout.filter(|t| !t.is_zero());
            Ok(Invocation::Trace(Box::new(cli.trace)))
        }
    }
}

/// Puts the options of `--config` in front of those of `tracer record`.
fn with_file(mut args: Vec<OsString>) -> Result<(Vec<OsString>, Option<config::Origin>), Stop> {
    // Options may stand between the names, but not to any purpose.
    const OWN: usize = 2;
    if args.get(1).is_none_or(|a| a != "record") {
        return Ok((args, None));
    }
    let own = args.split_off(OWN);
    let mut origin = None;
    if let Some(path) = config::file(&own) {
        let command = Cli::command();
        let record = command.find_subcommand("record");
        let added = record.map(|c| config::arguments(&path, c, &own));
        let added = added.transpose();
        if let Some((added, of_file)) = added.map_err(|e| stop(ErrorKind::ValueValidation, e))? {
            args.extend(added);
            origin = Some(of_file);
        }
    }
    args.extend(own);
    Ok((args, origin))
}

/// A command without `--` is what everybody tries first.
fn explain(error: clap::Error) -> Stop {
    let word = match error
        .get(ContextKind::InvalidSubcommand)
        .or_else(|| error.get(ContextKind::InvalidArg))
    {
        Some(ContextValue::String(word)) if !word.starts_with('-') => word,
        _ => return Stop(Box::new(error)),
    };
    if !matches!(
        error.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument
    ) {
        return Stop(Box::new(error));
    }
    if Cli::command().find_subcommand(word).is_some() {
        let message = format!(
            "'{word}' must come first, without the options for tracing; see: tracer {word} --help"
        );
        return stop(error.kind(), message);
    }
    let message = format!(
        "'{word}' is no subcommand; to trace a command, write it after --, as in: tracer -- {word}"
    );
    stop(error.kind(), message)
}

/// Writes the completion script for `shell`.
pub fn completions(shell: clap_complete::Shell, out: &mut dyn Write) -> io::Result<()> {
    // To memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tracer", &mut script);
    out.write_all(&script)
}

/// Writes the manual page, in roff; with `dir` those of the subcommands too, as files there.
pub fn man(dir: Option<&Path>, out: &mut dyn Write) -> io::Result<()> {
    match dir {
        Some(dir) => clap_mangen::generate_to(Cli::command(), dir),
        None => clap_mangen::Man::new(Cli::command()).render(out),
    }
}

#[cfg(test)]
mod tests;
