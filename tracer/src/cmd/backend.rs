//! Which source watches the command, and how each takes hold of it.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use tokio::sync::oneshot;
use tracer_common::config::Glob;

use super::run::PROC;
use crate::cli::{self, Backend, Capture, RING_SIZE, Trace};
use crate::filter::glob;
use crate::filter::select::{Select, Selected};
use crate::launch::{Child, Command, Held, LaunchError, shell_code};
use crate::model::{Bytes, ProcId};
use crate::source::Source as _;
use crate::source::ebpf::{self, EbpfSource};
use crate::source::ftrace::{self, FtraceSource};
use crate::source::ptrace::{self, PtraceSource, RootEnd};
use crate::sys::cgroup::Cgroups;
use crate::sys::procfs::{Proc, cpus};

/// A source that watches the command, which is still held before its exec.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of it, and it is moved once"
)]
pub enum Watch {
    Ebpf(Watching<EbpfSource>),
    Ftrace(Watching<Selected<FtraceSource>>),
    Ptrace(Watching<Selected<PtraceSource>>),
}

pub struct Watching<S> {
    pub name: &'static str,
    pub source: S,
    pub root: ProcId,
    pub held: Held,
    /// Where the source tells the command's end, if nobody else may wait for it.
    pub told: Option<oneshot::Receiver<RootEnd>>,
}

/// Takes the source that was asked for, or the best one that works here, and
/// then says why the better ones do not.
///
/// # Errors
/// The source that was asked for, or each of them, cannot run; what to do.
pub fn watch(options: &Trace, command: &Arc<Command>) -> Result<Watch> {
    match options.capture.backend {
        Backend::Ebpf => ebpf(options, command),
        Backend::Ftrace => ftrace(options, command),
        Backend::Ptrace => ptrace(options, command),
        Backend::Auto => best(options, command),
    }
}

/// A source that watches what runs already.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of it, and it is moved once"
)]
pub enum Record {
    Ebpf(EbpfSource),
    Ftrace(Selected<FtraceSource>),
}

impl Record {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ebpf(_) => "ebpf",
            Self::Ftrace(_) => "ftrace",
        }
    }
}

/// As [`watch`], for `tracer record`.
///
/// # Errors
/// The source that was asked for, or each of them, cannot run; what to do.
pub fn record(options: &cli::Record) -> Result<Record> {
    // What is wrong in the options is so for every source.
    let pids = processes(&options.pids())?;
    match options.capture.backend {
        Backend::Ebpf => record_ebpf(options, pids),
        Backend::Ftrace => record_ftrace(options),
        Backend::Ptrace => bail!(
            "ptrace can watch only what tracer itself starts; use --backend ebpf or ftrace as root, or: tracer -- CMD"
        ),
        Backend::Auto => {
            selection(&options.capture)?;
            let not_ebpf = match record_ebpf(options, pids) {
                Ok(source) => return Ok(source),
                Err(error) => error,
            };
            match record_ftrace(options) {
                Ok(source) => {
                    eprintln!("tracer: recording with ftrace; not with ebpf: {not_ebpf:#}");
                    Ok(source)
                }
                Err(error) => bail!(
                    "no source of events works here; not with ebpf: {not_ebpf:#}; not with ftrace: {error:#}"
                ),
            }
        }
    }
}

fn record_ebpf(options: &cli::Record, pids: Vec<u32>) -> Result<Record> {
    let whom = match pids.is_empty() {
        true => ebpf::Whom::All,
        false => ebpf::Whom::Trees(pids),
    };
    let trees = whom != ebpf::Whom::All;
    let mut source = open_ebpf(&options.capture, whom, options.proc_seeds)?;
    if trees && !source.any_alive()? {
        bail!("-p: the process ended just now; find another with: pgrep -a NAME");
    }
    Ok(Record::Ebpf(source))
}

/// The processes that `-p` names, each of which may be given by a thread of its.
pub(super) fn processes(pids: &[u32]) -> Result<Vec<u32>> {
    let proc = Proc::default();
    let process = |pid: &u32| match proc.process_of(*pid) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            bail!("-p {pid}: there is no such process; find it with: pgrep -a NAME")
        }
        found => found.with_context(|| format!("-p {pid}")),
    };
    pids.iter().map(process).collect()
}

fn record_ftrace(options: &cli::Record) -> Result<Record> {
    refuse("ftrace does", &[("-p", !options.pids().is_empty())])?;
    let select = selection(&options.capture)?;
    let source = open_ftrace(&options.capture, true)?;
    Ok(Record::Ftrace(Selected::new(source, select)))
}

/// A source's name, and how to begin with it.
type Candidate = (&'static str, fn(&Trace, &Arc<Command>) -> Result<Watch>);

/// The best first.
const CANDIDATES: [Candidate; 3] = [("ebpf", ebpf), ("ftrace", ftrace), ("ptrace", ptrace)];

fn best(options: &Trace, command: &Arc<Command>) -> Result<Watch> {
    // What is wrong in the options is so for every source.
    selection(&options.capture)?;
    let mut reasons = Vec::new();
    for (name, begin) in CANDIDATES {
        match begin(options, command) {
            Ok(watch) => {
                if !reasons.is_empty() {
                    eprintln!("tracer: tracing with {name}; {}", reasons.join("; "));
                }
                return Ok(watch);
            }
            Err(error) => reasons.push(format!("not with {name}: {error:#}")),
        }
    }
    bail!("no source of events works here; {}", reasons.join("; "))
}

fn ebpf(options: &Trace, command: &Arc<Command>) -> Result<Watch> {
    let mut source = open_ebpf(&options.capture, ebpf::Whom::Command, false)?;
    source.arm()?;
    let held = command.hold().context(FORK)?;
    let root = source
        .root()?
        .ok_or_else(|| anyhow!("the kernel side did not see the fork of the command"))?;
    Ok(Watch::Ebpf(Watching {
        name: "ebpf",
        source,
        root,
        held,
        told: None,
    }))
}

fn open_ebpf(options: &Capture, whom: ebpf::Whom, proc_seeds: bool) -> Result<EbpfSource> {
    let mut cgroups = Cgroups::new(Path::new(PROC));
    let ebpf = ebpf::Options {
        whom,
        proc_seeds,
        ring_size: options.ring_size,
        max_argv: options.max_argv,
        threads: options.threads,
        env: options.env,
        failed_execs: options.failed_execs,
        signals: options.signals,
        kthreads: options.kthreads,
        failed_only: options.failed,
        debug: options.debug_bpf,
        comm: compile("--comm", &options.comm)?,
        exclude_comm: compile("--exclude-comm", &options.exclude_comm)?,
        uids: options.uid_filter.clone(),
        cgroups: cgroup_ids(options, &cgroups)?,
    };
    let source = EbpfSource::open(&ebpf, Box::new(move |id| cgroups.path(id).clone()))?;
    Ok(source)
}

const FORK: &str = "the command cannot be started: fork failed";

fn ftrace(options: &Trace, command: &Arc<Command>) -> Result<Watch> {
    let select = selection(&options.capture)?;
    let mut source = open_ftrace(&options.capture, false)?;
    let held = command.hold().context(FORK)?;
    let root = source.follow(held.pid(), true)?;
    Ok(Watch::Ftrace(Watching {
        name: "ftrace",
        source: Selected::new(source, select),
        root,
        held,
        told: None,
    }))
}

fn open_ftrace(options: &Capture, whole_system: bool) -> Result<FtraceSource> {
    refuse(
        "ftrace records",
        &[
            ("--env", options.env),
            ("--failed-execs", options.failed_execs),
            ("--signals", options.signals),
            // Users and cgroups are known of those only that live long enough to be
            // looked at, statuses of nobody: such filters would hide what is to be shown.
            ("--uid-filter", !options.uid_filter.is_empty()),
            ("--cgroup", !options.cgroup.is_empty()),
            ("--failed", options.failed),
            ("--debug-bpf", options.debug_bpf),
        ],
    )?;
    Ok(FtraceSource::open(&ftrace::Options {
        buffer_kib: options.ring_size / 1024 / cpus(),
        max_argv: usize::try_from(options.max_argv).unwrap_or(usize::MAX),
        threads: options.threads,
        whole_system,
        kthreads: options.kthreads,
        reader: ftrace::Reader::Raw,
    })?)
}

/// What a source cannot do must not be left out silently.
fn refuse(source: &str, options: &[(&str, bool)]) -> Result<()> {
    if let Some((option, _)) = options.iter().find(|(_, asked)| *asked) {
        bail!("{option} is beyond what {source}; leave it out, or use --backend ebpf as root");
    }
    Ok(())
}

fn ptrace(options: &Trace, command: &Arc<Command>) -> Result<Watch> {
    refuse(
        "ptrace can do",
        &[
            ("--failed-execs", options.capture.failed_execs),
            ("--kthreads", options.capture.kthreads),
            ("--debug-bpf", options.capture.debug_bpf),
        ],
    )?;
    let select = selection(&options.capture)?;
    if options.capture.ring_size != RING_SIZE {
        eprintln!("tracer: --ring-size has no effect: ptrace has no such buffer");
    }
    if options.capture.signals {
        eprintln!("tracer: --signals: ptrace does not see who sends a SIGKILL");
    }
    let ptrace = ptrace::Options {
        max_argv: usize::try_from(options.capture.max_argv).unwrap_or(usize::MAX),
        env: options.capture.env,
        threads: options.capture.threads,
        signals: options.capture.signals,
        wait_all: options.wait_all,
        kill_on_exit: false,
    };
    let command = Arc::clone(command);
    let (mut source, held) = PtraceSource::start(ptrace, move || {
        let held = command.hold()?;
        Ok((held.pid(), held))
    })?;
    Ok(Watch::Ptrace(Watching {
        name: "ptrace",
        root: source.root(),
        told: source.take_end(),
        source: Selected::new(source, select),
        held,
    }))
}

/// The filters, for sources that do not evaluate them by themselves.
fn selection(options: &Capture) -> Result<Select> {
    let mut cgroups = Cgroups::new(Path::new(PROC));
    let ids = cgroup_ids(options, &cgroups)?;
    let path = |id| {
        let path: Option<&Bytes> = cgroups.path(id).value();
        path.cloned().context("--cgroup: it was removed meanwhile")
    };
    Ok(Select {
        comm: compile("--comm", &options.comm)?,
        exclude_comm: compile("--exclude-comm", &options.exclude_comm)?,
        uids: options.uid_filter.clone(),
        cgroups: ids.into_iter().map(path).collect::<Result<_>>()?,
        failed_only: options.failed,
    })
}

fn compile(option: &'static str, patterns: &[OsString]) -> Result<Option<Box<Glob>>> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let bytes: Vec<&[u8]> = patterns.iter().map(|p| p.as_encoded_bytes()).collect();
    Ok(Some(Box::new(glob::compile(&bytes).context(option)?)))
}

fn cgroup_ids(options: &Capture, cgroups: &Cgroups) -> Result<Vec<u64>> {
    let ids = options.cgroup.iter().map(|path| cgroups.id(path));
    ids.collect::<Result<_, _>>().context("--cgroup")
}

/// The command on its way; its end is learnt from whoever may wait for it.
pub struct Root {
    child: Child,
    told: Option<oneshot::Receiver<RootEnd>>,
}

impl Root {
    /// Lets the command go.
    ///
    /// # Errors
    /// It cannot be executed; nothing is left of it then.
    pub fn release(
        held: Held,
        told: Option<oneshot::Receiver<RootEnd>>,
    ) -> Result<Self, LaunchError> {
        let opened = held.open()?;
        let child = match told {
            None => opened.finish(),
            Some(_) => opened.finish_unreaped(),
        }?;
        Ok(Self { child, told })
    }

    /// Sends a signal; after the end it does nothing.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        self.child.signal(signal)
    }

    /// Sends a signal that is to end it; one that is stopped must see it, too.
    pub fn expire(&self, signal: i32) -> io::Result<()> {
        self.signal(signal)?;
        self.signal(libc::SIGCONT)
    }

    /// Waits for the end and gives it as a shell says it. Cancel safe; not to be
    /// called again after that.
    pub async fn end(&mut self) -> Result<u8> {
        let Some(told) = &mut self.told else {
            return Ok(self.child.wait_async().await?.exit_code());
        };
        let end = told
            .await
            .context("tracing broke off before the command's end")?;
        Ok(shell_code(end.wait_status.cast_signed()))
    }
}
