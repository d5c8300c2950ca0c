//! What each tool reported of the workload: its own forks, execs and exits, taken out of whatever it wrote.

mod tree;

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

use super::machine::number_after;
use tree::Tree;

/// What a tool writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Nothing.
    None,
    /// tracer's tree and summary, on stderr.
    Tree,
    Jsonl,
    Strace,
    /// `perf.data`, read with perf script.
    PerfData,
    PerfTrace,
    /// trace_pipe.
    Ftrace,
    /// `trace.dat`, read with trace-cmd report.
    TraceCmd,
    /// What our script prints.
    Bpftrace,
    /// execsnoop, and exitsnoop in the second file.
    Snoop,
    Forkstat,
    Tracexec,
}

/// Events of the workload's tree, without those of the root itself. `None`: the tool does not report that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub fork: Option<u64>,
    pub exec: Option<u64>,
    pub exit: Option<u64>,
    /// As the tool itself says.
    pub lost: Option<u64>,
}

/// Counts the events of `root`'s descendants in a tool's trace.
pub fn count(
    format: Format,
    trace: &Path,
    second: &Path,
    stderr: &Path,
    root: u32,
    path: &OsStr,
) -> Result<Counts> {
    match format {
        Format::None => Ok(Counts::default()),
        Format::Tree => each(open(stderr)?, Summary::default(), Summary::line).map(Summary::counts),
        Format::Jsonl => jsonl(open(trace)?, root),
        Format::Strace => strace(open(trace)?, root),
        Format::PerfData => {
            let args = ["script", "--show-lost-events", "-i"];
            reader("perf", &args, trace, path, |out| tracepoints(out, root))
        }
        Format::TraceCmd => reader("trace-cmd", &["report", "-i"], trace, path, |out| {
            tracepoints(out, root)
        }),
        Format::Ftrace => tracepoints(open(trace)?, root),
        // It says on stderr what it lost.
        Format::PerfTrace => tracepoints(open(trace)?.chain(open(stderr)?), root),
        Format::Bpftrace => bpftrace(open(trace)?, root),
        Format::Snoop => Ok(Counts {
            exec: snoop(open(trace)?, root)?.into(),
            exit: snoop(open(second)?, root)?.into(),
            ..Counts::default()
        }),
        Format::Forkstat => tree::forkstat(open(trace)?, root),
        Format::Tracexec => tracexec(open(trace)?, root),
    }
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("it left no {}", path.display()))?;
    Ok(BufReader::new(file))
}

/// Reads a binary trace with the tool's own reader.
fn reader(
    program: &str,
    args: &[&str],
    trace: &Path,
    path: &OsStr,
    count: impl FnOnce(&mut dyn BufRead) -> Result<Counts>,
) -> Result<Counts> {
    let mut child = Command::new(program)
        .args(args)
        .arg(trace)
        .env("PATH", path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let out = child.stdout.take().context("stdout is a pipe")?;
    let counts = count(&mut BufReader::new(out));
    child.wait()?;
    counts
}

/// Hands each line to `take`; bytes that are not UTF-8 do not stop it.
fn each<T>(mut input: impl BufRead, mut state: T, take: impl Fn(&mut T, &str)) -> Result<T> {
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).map_err(io_error)? != 0 {
        take(&mut state, String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    Ok(state)
}

fn io_error(error: io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context("cannot read the trace")
}

/// The last lines of tracer's tree.
#[derive(Default)]
struct Summary {
    processes: Option<u64>,
    execs: Option<u64>,
    lost: Option<u64>,
}

impl Summary {
    fn line(&mut self, line: &str) {
        let before = |what: &str| {
            let (number, _) = line.split_once(what)?;
            number.rsplit(' ').next()?.replace(',', "").parse().ok()
        };
        self.processes = before(" processes,").or(self.processes);
        self.execs = before(" execs,").or(self.execs);
        self.lost = before(" events lost").or(self.lost);
    }

    fn counts(self) -> Counts {
        // The root is a process, too.
        Counts {
            fork: self.processes.map(|n| n.saturating_sub(1)),
            exec: self.execs.map(|n| n.saturating_sub(1)),
            exit: None,
            lost: self.lost,
        }
    }
}

#[derive(Default)]
struct Direct {
    fork: u64,
    exec: u64,
    exit: u64,
    lost: u64,
}

impl Direct {
    fn counts(self, lost: bool) -> Counts {
        Counts {
            fork: Some(self.fork),
            exec: Some(self.exec),
            exit: Some(self.exit),
            lost: lost.then_some(self.lost),
        }
    }
}

fn jsonl(input: impl BufRead, root: u32) -> Result<Counts> {
    let direct = each(input, Direct::default(), |n, line| {
        let others = || number_after(line, "\"pid\":") != Some(root.into());
        if line.starts_with("{\"type\":\"fork\"") {
            n.fork += u64::from(line.contains("\"thread\":false"));
        } else if line.starts_with("{\"type\":\"exec\"") {
            n.exec += u64::from(others());
        } else if line.starts_with("{\"type\":\"exit\"") {
            n.exit += u64::from(others() && line.contains("\"process\":true"));
        } else if line.starts_with("{\"type\":\"lost\"") {
            n.lost += number_after(line, "\"count\":").unwrap_or(0);
        }
    })?;
    Ok(direct.counts(true))
}

fn strace(input: impl BufRead, root: u32) -> Result<Counts> {
    let root = root.to_string();
    let direct = each(input, Direct::default(), |n, line| {
        let Some((pid, rest)) = line.split_once(' ') else {
            return;
        };
        let rest = rest.trim_start();
        let call = rest.strip_prefix("<... ").unwrap_or(rest);
        let call = call.split(['(', ' ']).next().unwrap_or_default();
        let result = rest.rsplit_once(" = ").map(|(_, result)| result);
        match call {
            "+++" => n.exit += u64::from(pid != root),
            "execve" | "execveat" => n.exec += u64::from(result == Some("0") && pid != root),
            "fork" | "vfork" | "clone" | "clone3" => {
                n.fork += u64::from(result.is_some_and(|made| made.parse::<u32>().is_ok()));
            }
            _ => {}
        }
    })?;
    Ok(direct.counts(false))
}

/// The text of the scheduler's tracepoints, as ftrace, trace-cmd, perf script and perf trace print it.
fn tracepoints(input: impl BufRead, root: u32) -> Result<Counts> {
    let (tree, lost) = each(input, (Tree::new(root), 0), |(tree, lost), line| {
        let number = |key: &str| {
            let found = number_after(line, &format!(" {key}="));
            let found = found.or_else(|| number_after(line, &format!("{key}: ")));
            found.and_then(|n| u32::try_from(n).ok())
        };
        if line.contains("sched_process_fork") {
            if let (Some(parent), Some(child)) = (
                number("parent_pid").or_else(|| number("pid")),
                number("child_pid"),
            ) {
                tree.fork(parent, child);
            }
        } else if line.contains("sched_process_exec") {
            number("pid").into_iter().for_each(|pid| tree.exec(pid));
        } else if line.contains("sched_process_exit") {
            number("pid").into_iter().for_each(|pid| tree.exit(pid));
        }
        *lost += number_after(line, "LOST ").unwrap_or(0);
        *lost += number_after(line, "PERF_RECORD_LOST lost ").unwrap_or(0);
    })?;
    Ok(tree.counts(Some(lost)))
}

fn bpftrace(input: impl BufRead, root: u32) -> Result<Counts> {
    let start = (Vec::new(), 0);
    let (mut events, lost) = each(input, start, |(events, lost), line| {
        let mut words = line.split(' ');
        let Some(kind @ ("fork" | "exec" | "exit")) = words.next() else {
            *lost += number_after(line, "Lost ").unwrap_or(0);
            return;
        };
        let time: Option<u64> = words.next().and_then(|word| word.parse().ok());
        let pid: Option<u32> = words.next().and_then(|word| word.parse().ok());
        let child = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        if let (Some(time), Some(pid)) = (time, pid) {
            events.push((time, kind.to_owned(), pid, child));
        }
    })?;
    // The buffers of the CPUs are printed one after the other.
    events.sort_by_key(|(time, ..)| *time);
    let mut tree = Tree::new(root);
    for (_, kind, pid, child) in events {
        match &*kind {
            "fork" => tree.fork(pid, child),
            "exec" => tree.exec(pid),
            _ => tree.exit(pid),
        }
    }
    Ok(tree.counts(Some(lost)))
}

/// Rows of execsnoop or exitsnoop: a command, maybe with blanks, and the process id. Heading lines have none; failed
/// execs have a result other than 0, exits none.
fn snoop(input: impl BufRead, root: u32) -> Result<u64> {
    each(input, 0, |n, line| {
        let row = line.get(16..).unwrap_or_default();
        let mut numbers = row.split_whitespace();
        let pid = numbers.next().and_then(|word| word.parse::<u32>().ok());
        let result = numbers.nth(1).unwrap_or_default();
        if pid.is_some_and(|pid| pid != root) && !result.starts_with('-') {
            *n += 1;
        }
    })
}

/// `PID<comm>: "program" …`, with ` = -2 (ENOENT)` where it failed.
fn tracexec(input: impl BufRead, root: u32) -> Result<Counts> {
    let exec = each(input, 0, |n, line| {
        let pid = line
            .split_once('<')
            .and_then(|(pid, _)| pid.parse::<u32>().ok());
        let worked = line.contains(">: \"") && !line.contains(" = -");
        *n += u64::from(worked && pid.is_some_and(|pid| pid != root));
    })?;
    Ok(Counts {
        exec: Some(exec),
        ..Counts::default()
    })
}

#[cfg(test)]
mod tests;
