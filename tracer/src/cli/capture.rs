//! The options that every capture has, of a command or of what runs already.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, ValueHint};
use tracer_common::config::{MAX_CGROUPS, MAX_UIDS};

use super::{Backend, Color, Export, Files, Stop, TreeStyle, stop, value};
use crate::sink::format::{Encoding, Format};
use crate::sink::output::Destination;
use crate::sys::users;

#[derive(Debug, Args)]
pub struct Capture {
    /// Write to FILE (- is stdout), in the format that its ending names: .jsonl, .csv, .txt, .log, each also with .zst, or .parquet; may be repeated
    #[arg(short, long = "output", value_name = "FILE", help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub(super) output: Vec<PathBuf>,
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

    #[command(flatten)]
    pub files: Files,

    /// Only processes whose name (comm) matches GLOB; may be repeated
    #[arg(long, value_name = "GLOB", help_heading = "Filters", value_parser = value::pattern())]
    pub comm: Vec<OsString>,
    /// No process whose name (comm) matches GLOB; may be repeated
    #[arg(long, value_name = "GLOB", help_heading = "Filters", value_parser = value::pattern())]
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

    #[command(flatten)]
    pub export: Export,

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

impl Capture {
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
    pub(super) fn validate(&self) -> Result<(), Stop> {
        let fault = |message: &str| Err(stop(ErrorKind::ValueValidation, message));
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
        let rotates = self.files.rotate_size.is_some() || self.files.rotate_every.is_some();
        if rotates && self.output.is_empty() {
            return fault("--rotate-size and --rotate-every need a file: add -o FILE");
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
