//! `tracer compare`

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, ValueHint};

use super::{Backend, Stop, stop, value};

const EXAMPLES: &str = "\
Examples:
  tracer compare -- make -j4                   do eBPF and ftrace see the same?
  tracer compare --with ebpf,ptrace -- ./test  any two sources over one run
  tracer compare run.jsonl other.jsonl.zst     two captures
  tracer compare run.jsonl trace.txt           a capture and what ftrace printed:
                                               trace, trace_pipe, trace-cmd report, perf script
  tracer compare --json A B | jq .differences
  tracer compare --json -o report.json -- CMD

What is a property of a source (ftrace knows no exit codes), of how it was started, or of when it
began and ended is explained, not counted. What one side does not know is no difference.

Exit status: 0 equal; 1 different, or equal but for records that a side lost (they were not compared;
--json tells the two apart in `verdict`); 125 a file or a source failed. The exit status of CMD is not used.";

#[derive(Debug, Args)]
#[command(
    override_usage = "tracer compare [OPTIONS] A B\n       tracer compare [OPTIONS] -- CMD [ARG]...",
    after_help = EXAMPLES
)]
pub struct Compare {
    /// Two recordings: captures (.jsonl, .jsonl.zst), or one of them the text of ftrace
    #[arg(value_names = ["A", "B"], num_args = 0..=2, value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Command to run once and watch with two sources; always after --
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
    /// Sources that watch CMD: two of ebpf, ftrace, ptrace
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "ebpf,ftrace"
    )]
    pub with: Vec<Backend>,
    /// Records of one event whose times are further apart than D disagree on it [default: 100ms; 5s with ptrace,
    /// which learns of an event later on a busy machine]
    #[arg(long, value_name = "D", value_parser = value::duration)]
    pub tolerance: Option<Duration>,
    /// Size of the buffer of each source (K, M suffixes)
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = value::ring_size)]
    pub ring_size: u32,
    /// Write the report to FILE instead of stdout, which is CMD's, too
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Show every difference, not only the first 20
    #[arg(long)]
    pub all: bool,
    /// As JSON, for programs to read
    #[arg(long)]
    pub json: bool,
}

impl Compare {
    /// What clap cannot say.
    pub(super) fn validate(&self) -> Result<(), Stop> {
        let fault = |message: &str| Err(stop(ErrorKind::ValueValidation, message));
        match (self.files.len(), self.command.len()) {
            (0, 0) => {
                return fault(
                    "nothing to compare; give two files, or a command after --, as in: tracer compare -- make",
                );
            }
            (0, _) | (2, 0) => {}
            (_, 0) => return fault("two files are needed, as in: tracer compare A.jsonl B.jsonl"),
            _ => return fault("either two files or a command after --, not both"),
        }
        match *self.with {
            [a, b] if a != b && a != Backend::Auto && b != Backend::Auto => Ok(()),
            _ => fault("--with needs two different sources, as in: --with ebpf,ptrace"),
        }
    }
}
