//! `tracer record`

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgGroup, Args};

use super::{Capture, Stop, TreeStyle, stop, value};
use crate::sink::format::Format;

const EXAMPLES: &str = "\
Examples:
  tracer record -a -o all.jsonl.zst              the whole machine, until Ctrl-C
  tracer record -a -l --duration 10s             a line for each event, for ten seconds
  tracer record -p \"$(pidof sshd)\" -l            whatever the SSH server starts from now on
  tracer record -p 4711 --tree                   the tree of 4711 when its last process has ended
  tracer record --cgroup /system.slice/x.service -o x.jsonl
  tracer record -a --failed --signals -o bad.jsonl   what goes wrong on this machine
  tracer record -a -o /var/lib/tracer/run.parquet --keep-size 10G   for months; a file each five minutes

What runs already is recorded first (`seed`). The capture ends with Ctrl-C, SIGTERM, --duration,
--max-events, or (-p) with the last process. SIGHUP begins the next files where files are rotated.

Exit status: 0; 125 if tracer failed.";

/// Most processes that `-p` can name.
const MAX_PIDS: usize = 1024;

#[derive(Debug, Args)]
#[command(
    override_usage = "tracer record (-a | -p PID... | --cgroup PATH) [OPTIONS]",
    after_help = EXAMPLES,
    group = ArgGroup::new("whom").args(["all", "pid", "cgroup"]).required(true).multiple(true)
)]
pub struct Record {
    /// Every process of this machine
    #[arg(short, long, conflicts_with = "pid", help_heading = "Whom")]
    pub all: bool,
    /// The running processes PID with all their descendants; several as 1,2 or "1 2", or repeated
    #[arg(short, long, value_name = "PID", help_heading = "Whom", num_args = 1.., value_parser = pids)]
    pid: Vec<Pids>,

    /// End after this time (30, 1.5m, 1h 30min)
    #[arg(long, value_name = "DURATION", help_heading = "Until when", value_parser = value::duration)]
    pub duration: Option<Duration>,
    /// End after N events
    #[arg(long, value_name = "N", help_heading = "Until when", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_events: Option<u64>,

    /// Read who runs already from /proc, as where the kernel has no iterator over tasks
    #[arg(long, hide = true)]
    pub proc_seeds: bool,

    /// Take further options from FILE (TOML; the keys are the options' long names); those given here come first
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: Option<PathBuf>,

    #[command(flatten)]
    pub capture: Capture,
}

/// One value of `-p`.
#[derive(Clone, Debug)]
pub(super) struct Pids(pub(super) Vec<u32>);

/// As strace takes them: the output of pidof will do.
pub(super) fn pids(text: &str) -> Result<Pids, String> {
    let words = text.split([',', ' ', '\t', '\n']).filter(|w| !w.is_empty());
    let pid = |word: &str| match word.parse::<u32>() {
        Ok(pid) if pid > 0 && i32::try_from(pid).is_ok() => Ok(pid),
        _ => Err(format!(
            "{word:?} is no process number; find it with: pgrep -a NAME"
        )),
    };
    let pids = words.map(pid).collect::<Result<Vec<_>, _>>()?;
    if pids.is_empty() {
        return Err("no process number; is the program running? see: pgrep -a NAME".into());
    }
    Ok(Pids(pids))
}

impl Record {
    /// The processes of `-p`, each once.
    pub fn pids(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.pid.iter().flat_map(|p| &p.0).copied().collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// What clap cannot say.
    pub(super) fn validate(&self) -> Result<(), Stop> {
        self.capture.validate()?;
        let fault = |message: &str| Err(stop(ErrorKind::ValueValidation, message));
        if self.pids().len() > MAX_PIDS {
            return fault("-p can name 1024 processes at most; use --cgroup, or -a");
        }
        let tree = self
            .capture
            .tree
            .is_some_and(|style| style != TreeStyle::None);
        let export = self.capture.export.is_used();
        if !self.capture.log && !tree && !export && self.capture.output.is_empty() {
            return fault(
                "nothing would be written; add -o FILE.jsonl, -l for a line for each event, --metrics or --otlp",
            );
        }
        let is_tree = |format| format == Format::Text;
        let mut outputs = self.capture.outputs()?.into_iter();
        let tree = tree || outputs.any(|(_, encoding)| is_tree(encoding.format));
        let ends = self.duration.is_some() || self.max_events.is_some() || !self.pid.is_empty();
        if tree && !ends {
            return fault(
                "a tree holds every process in memory until the end, and this capture has none; add --duration or --max-events, or write FILE.jsonl",
            );
        }
        Ok(())
    }
}
