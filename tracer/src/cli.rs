//! The command line: what users may write, checked before anything starts.
//!
//! A usage error exits with 125, as 1 and 2 belong to the command.

mod compare;
mod value;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use tracer_common::config::{MAX_CGROUPS, MAX_UIDS};

pub use compare::Compare;

use crate::sink::format::{Encoding, Format};
use crate::sink::output::Destination;
use crate::sys::users::{self, User};

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
  tracer compare -- make                 do eBPF and ftrace see the same?
  tracer check                           what works on this machine, and how to fix the rest

Exit status: that of CMD; 128+N if signal N killed it; 124 after --timeout;
125 if tracer failed, 126 if CMD cannot be executed, 127 if it was not found.";

#[derive(Debug, Parser)]
#[command(
    name = "tracer",
    version,
    about = "Shows every process that a command runs: who started whom, how it ended, what it cost",
    override_usage = "tracer [OPTIONS] -- CMD [ARG]...\n       tracer check [--json] [--offsets]\n       tracer compare [OPTIONS] A B\n       tracer compare [OPTIONS] -- CMD [ARG]...",
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
    /// Compare two sources over one run, or two recordings, and report every difference
    Compare(Compare),
    /// Print a shell's completion script
    Completions {
        /// Shell to print it for
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(hide = true)]
    Man,
}

/// What was asked for.
#[derive(Debug)]
pub enum Invocation {
    Trace(Box<Trace>),
    Check(Check),
    Compare(Box<Compare>),
    /// For [`completions`].
    Completions(clap_complete::Shell),
    /// For [`man`].
    Man,
}

/// `tracer [OPTIONS] -- CMD [ARG]...`
#[derive(Debug, Args)]
pub struct Trace {
    /// Command to run and trace, with its arguments; always after --
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Write to FILE (- is stdout), in the format that its ending names: .jsonl, .csv, .txt, .log, each also with .zst; may be repeated
    #[arg(short, long = "output", value_name = "FILE", help_heading = "Output", value_hint = ValueHint::FilePath)]
    output: Vec<PathBuf>,
    /// Format of all files of -o, whatever their endings
    #[arg(
        long,
        value_name = "FORMAT",
        help_heading = "Output",
        requires = "output",
        value_parser = Format::from_name
    )]
    format: Option<Format>,
    /// One file for each process, FILE.PID; -ff for short, as in strace
    #[arg(long, help_heading = "Output", requires = "output")]
    per_process: bool,
    #[arg(short = 'f', action = ArgAction::Count, hide = true)]
    f: u8,
    /// Print a line for each event as it happens
    #[arg(short, long, help_heading = "Output")]
    pub log: bool,
    /// Tree at the end: folded (equal leaf siblings share a line), full, or none
    #[arg(
        long,
        value_name = "STYLE",
        help_heading = "Output",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "folded"
    )]
    pub tree: Option<TreeStyle>,
    /// When to use colours
    #[arg(
        long,
        value_name = "WHEN",
        help_heading = "Output",
        default_value = "auto"
    )]
    pub color: Color,
    /// Print neither tree nor summary; files of -o are still written
    #[arg(short, long, help_heading = "Output", conflicts_with_all = ["log", "tree"])]
    pub quiet: bool,

    /// Only processes whose name (comm) matches GLOB; may be repeated
    #[arg(long, value_name = "GLOB", help_heading = "Filters")]
    pub comm: Vec<OsString>,
    /// No process whose name (comm) matches GLOB; may be repeated
    #[arg(long, value_name = "GLOB", help_heading = "Filters")]
    pub exclude_comm: Vec<OsString>,
    /// Only processes of USER (name or number); may be repeated
    #[arg(long, value_name = "USER", help_heading = "Filters", value_parser = users::uid_of, value_hint = ValueHint::Username)]
    pub uid_filter: Vec<u32>,
    /// Only processes in the cgroup at PATH or below it (cgroup v2); may be repeated
    #[arg(long, value_name = "PATH", help_heading = "Filters", value_hint = ValueHint::DirPath)]
    pub cgroup: Vec<PathBuf>,
    /// Only processes that failed or still run at the end, with their ancestors
    #[arg(long, help_heading = "Filters")]
    pub failed: bool,
    /// Show kernel threads, too (left out otherwise)
    #[arg(long, help_heading = "Filters")]
    pub kthreads: bool,

    /// Also record each thread
    #[arg(long, help_heading = "What is recorded")]
    pub threads: bool,
    /// Also record execs that failed, with the error
    #[arg(long, help_heading = "What is recorded")]
    pub failed_execs: bool,
    /// Who sent the signals that end processes
    #[arg(long, help_heading = "What is recorded")]
    pub signals: bool,
    /// The environment of each program
    #[arg(long, help_heading = "What is recorded")]
    pub env: bool,
    /// Longest argument list recorded whole, at most 2MiB; longer ones are cut and marked
    #[arg(long, value_name = "SIZE", help_heading = "What is recorded", default_value = "64KiB", value_parser = value::max_argv)]
    pub max_argv: u32,

    /// Run CMD as USER, with the groups, HOME, USER, LOGNAME and SHELL of that user; needs root
    #[arg(long, value_name = "USER", help_heading = "The command", value_parser = User::find, value_hint = ValueHint::Username)]
    pub uid: Option<User>,
    /// End CMD after this time (30, 1.5m, 1h 30min): SIGTERM, and SIGKILL 5 s later
    #[arg(long, value_name = "DURATION", help_heading = "The command", value_parser = value::duration)]
    pub timeout: Option<Duration>,
    /// Wait for descendants that outlive CMD, too
    #[arg(long, help_heading = "The command")]
    pub wait_all: bool,

    /// Where events come from; auto takes the first of ebpf, ftrace, ptrace that works
    #[arg(
        long,
        value_name = "SOURCE",
        help_heading = "Source",
        default_value = "auto"
    )]
    pub backend: Backend,
    /// Buffer between kernel and tracer: a power of two, from 4KiB
    #[arg(long, value_name = "SIZE", help_heading = "Source", default_value = "8MiB", value_parser = value::ring_size)]
    pub ring_size: u32,
    /// Print the kernel side's own log, to debug tracer
    #[arg(long, help_heading = "Source")]
    pub debug_bpf: bool,
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

impl Trace {
    /// The files of `-o`, each with its format; stdout is JSONL unless `--format` says otherwise.
    pub fn outputs(&self) -> Result<Vec<(Destination, Encoding)>, Stop> {
        let output = |path: &PathBuf| {
            let to = Destination::from_arg(path);
            let format = match to {
                Destination::Stdout => self.format.or(Some(Format::Jsonl)),
                _ => self.format,
            };
            let encoding = Encoding::from_path(path, format);
            encoding.map(|e| (to, e)).map_err(|e| {
                let message = format!("-o {}: {e}", path.display());
                stop(ErrorKind::ValueValidation, message)
            })
        };
        self.output.iter().map(output).collect()
    }

    /// Whether some processes are not shown.
    pub const fn is_filtered(&self) -> bool {
        self.failed
            || !self.comm.is_empty()
            || !self.exclude_comm.is_empty()
            || !self.uid_filter.is_empty()
            || !self.cgroup.is_empty()
    }

    /// Whether each process gets files of its own.
    pub const fn per_process(&self) -> bool {
        self.per_process || self.f > 0
    }

    /// What clap cannot say.
    fn validate(&self) -> Result<(), Stop> {
        let fault = |message: &str| Err(stop(ErrorKind::ValueValidation, message));
        if self.command.is_empty() {
            return Err(stop(
                ErrorKind::MissingRequiredArgument,
                "no command was given; write it after --, as in: tracer -- make -j4",
            ));
        }
        match self.f {
            0 => {}
            1 => {
                return fault(
                    "-f is not needed: tracer always follows children; -ff writes one file for each process",
                );
            }
            _ if self.output.is_empty() => {
                return fault("-ff needs -o FILE: it writes FILE.PID for each process");
            }
            _ => {}
        }
        for (option, count, most) in [
            ("--uid-filter", self.uid_filter.len(), MAX_UIDS),
            ("--cgroup", self.cgroup.len(), MAX_CGROUPS),
        ] {
            if count > most {
                return fault(&format!(
                    "{option} can be given {most} times at most; leave some out"
                ));
            }
        }
        self.outputs().map(|_| ())
    }
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
    let mut cli = Cli::try_parse_from(args).map_err(explain)?;
    match cli.action {
        Some(Sub::Check(check)) => Ok(Invocation::Check(check)),
        Some(Sub::Compare(options)) => {
            options.validate()?;
            Ok(Invocation::Compare(Box::new(options)))
        }
        Some(Sub::Completions { shell }) => Ok(Invocation::Completions(shell)),
        Some(Sub::Man) => Ok(Invocation::Man),
        None => {
            cli.trace.validate()?;
            // As timeout(1) has it.
            cli.trace.timeout = cli.trace.timeout.filter(|t| !t.is_zero());
            Ok(Invocation::Trace(Box::new(cli.trace)))
        }
    }
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

/// Writes the manual page, in roff.
pub fn man(out: &mut dyn Write) -> io::Result<()> {
    clap_mangen::Man::new(Cli::command()).render(out)
}

#[cfg(test)]
mod tests;
