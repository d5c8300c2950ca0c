//! `tracer hist`

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, ValueEnum, ValueHint};

use super::record::{Pids, pids};
use super::{Stop, stop, value};
use crate::sys::users::User;

const EXAMPLES: &str = "\
Examples:
  tracer hist sched:sched_process_exit hist:keys=comm -- make    which programs ended, how often
  tracer hist raw_syscalls:sys_enter 'hist:keys=id.syscall:sort=hitcount.descending' -- ls
  tracer hist kmem:kmalloc 'hist:keys=call_site.sym:vals=bytes_req' --duration 5s
  tracer hist kmem:kmalloc hist:keys=bytes_req.log2 --plot --watch 1 --duration 10s
  tracer hist syscalls:sys_enter_openat 'hist:keys=common_pid.execname' -p 4711
  tracer hist process_exit hist:keys=comm:vals=cpu_ns,max_rss_bytes.max -- make -j8
  tracer hist --pause                                            act on one that runs

TRIGGER is the text that the kernel takes in events/GROUP/EVENT/trigger, see docs/hist.md. The
table is printed at the end: with a command on stderr, else on stdout; -o FILE writes it elsewhere.

Exit status: that of CMD (124 after --timeout); 0; 1 where --compare finds a difference; 125 if
tracer failed.";

/// With these there is no command. (A command that conflicts with something given is required by
/// nothing, so what acts on it must say so itself.)
const NO_COMMAND: [&str; 3] = ["duration", "pid", "cgroup"];

/// Which engine counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HistBackend {
    Ebpf,
    Ftrace,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "tracer hist EVENT TRIGGER [EVENT TRIGGER]... [OPTIONS] [-- CMD [ARG]...]\n       tracer hist (--pause | --cont | --clear | --show) [NAME | PID]",
    after_help = EXAMPLES
)]
pub struct Hist {
    /// An event of tracefs (GROUP:NAME) or process_exit, and what to count of it; may be repeated
    #[arg(value_names = ["EVENT", "TRIGGER"], num_args = 0.., value_hint = ValueHint::Other)]
    pub pairs: Vec<String>,
    /// Command to run; events of it and its descendants are counted
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Events of the running processes PID (several as 1,2 or "1 2", or repeated) and all their descendants, until the last of
    /// them has ended
    #[arg(short, long, value_name = "PID", help_heading = "Whom", value_parser = pids, conflicts_with_all = ["command", "cgroup"])]
    pid: Vec<Pids>,
    /// Events of processes in the cgroup at PATH or below it (cgroup v2)
    #[arg(long, value_name = "PATH", help_heading = "Whom", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    pub cgroup: Option<PathBuf>,
    /// Run CMD as USER; needs root
    #[arg(long, value_name = "USER", help_heading = "The command", value_parser = User::find, value_hint = ValueHint::Username, requires = "command", conflicts_with_all = NO_COMMAND)]
    pub uid: Option<User>,
    /// End CMD after this time (30, 1.5m, 1h 30min): SIGTERM, and SIGKILL 5 s later
    #[arg(long, value_name = "DURATION", help_heading = "The command", value_parser = value::duration, requires = "command", conflicts_with_all = NO_COMMAND)]
    pub timeout: Option<Duration>,
    /// Wait for descendants that outlive CMD, too
    #[arg(long, help_heading = "The command", requires = "command", conflicts_with_all = NO_COMMAND)]
    pub wait_all: bool,
    /// End after this time (30, 1.5m, 1h 30min)
    #[arg(long, value_name = "DURATION", help_heading = "Until when", value_parser = value::duration, conflicts_with = "command")]
    pub duration: Option<Duration>,

    /// Print the table each so often, too
    #[arg(long, value_name = "SECONDS", help_heading = "Output", value_parser = value::duration)]
    pub watch: Option<Duration>,
    /// As JSON
    #[arg(long, help_heading = "Output", conflicts_with_all = ["csv", "plot"])]
    pub json: bool,
    /// As CSV
    #[arg(long, help_heading = "Output", conflicts_with = "plot")]
    pub csv: bool,
    /// As bars
    #[arg(long, help_heading = "Output")]
    pub plot: bool,
    /// Write to FILE (- is stdout), in the form that its ending names: .txt, .json, .csv, .svg; may be repeated
    #[arg(short, long = "output", value_name = "FILE", help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub output: Vec<PathBuf>,

    /// What counts: a program of tracer's, or the kernel's own trigger (where it has them)
    #[arg(
        long,
        value_name = "ENGINE",
        help_heading = "Engine",
        default_value = "ebpf"
    )]
    pub backend: HistBackend,
    /// Let both engines count the same run, and print how they differ
    #[arg(long, help_heading = "Engine", requires = "command", conflicts_with_all = ["duration", "pid", "cgroup", "backend", "watch", "output", "json", "csv", "plot"])]
    pub compare: bool,

    /// Stop counting in the running tracer hist with this name or process number
    #[arg(long, help_heading = "One that runs", value_name = "NAME", num_args = 0..=1, default_missing_value = "", exclusive = true)]
    pub pause: Option<String>,
    /// Go on counting
    #[arg(long, help_heading = "One that runs", value_name = "NAME", num_args = 0..=1, default_missing_value = "", exclusive = true)]
    pub cont: Option<String>,
    /// Empty its tables
    #[arg(long, help_heading = "One that runs", value_name = "NAME", num_args = 0..=1, default_missing_value = "", exclusive = true)]
    pub clear: Option<String>,
    /// Print its tables as they are now
    #[arg(long, help_heading = "One that runs", value_name = "NAME", num_args = 0..=1, default_missing_value = "", exclusive = true)]
    pub show: Option<String>,
}

impl Hist {
    /// The processes of `-p`, each once.
    pub fn pids(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.pid.iter().flat_map(|p| &p.0).copied().collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// What one that runs shall do, and which one: its word, and a name or number.
    pub fn action(&self) -> Option<(&'static str, &str)> {
        let actions = [
            ("pause", &self.pause),
            ("cont", &self.cont),
            ("clear", &self.clear),
            ("show", &self.show),
        ];
        let mut asked = actions.into_iter();
        asked.find_map(|(word, whom)| Some((word, whom.as_deref()?)))
    }

    /// What clap cannot say.
    pub(super) fn validate(&self) -> Result<(), Stop> {
        if self.action().is_some() {
            return Ok(());
        }
        if self.pairs.is_empty() {
            return Err(stop(
                ErrorKind::MissingRequiredArgument,
                "no event was given, as in: tracer hist sched:sched_process_exit hist:keys=comm",
            ));
        }
        if !self.pairs.len().is_multiple_of(2) {
            return Err(stop(
                ErrorKind::WrongNumberOfValues,
                "each EVENT needs its TRIGGER, as in: tracer hist sched:sched_process_exit hist:keys=comm; \
                 a command is written after --",
            ));
        }
        if self.watch.is_some_and(|w| w.is_zero()) {
            return Err(stop(
                ErrorKind::ValueValidation,
                "--watch 0: give a time above 0",
            ));
        }
        Ok(())
    }
}
