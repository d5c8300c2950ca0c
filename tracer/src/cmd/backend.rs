//! Which source watches the command, and how each takes hold of it.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use tokio::sync::oneshot;
use tracer_common::config::Glob;

use super::trace::PROC;
use crate::cli::{Backend, RING_SIZE, Trace};
use crate::filter::glob;
use crate::filter::select::{Select, Selected};
use crate::launch::{Child, Command, Held, LaunchError, shell_code};
use crate::model::{Bytes, ProcId};
use crate::source::ebpf::{self, EbpfSource};
use crate::source::ftrace::{self, FtraceSource};
use crate::source::ptrace::{self, PtraceSource, RootEnd};
use crate::sys::cgroup::Cgroups;
use crate::sys::procfs::cpus;

/// A source that watches the command, which is still held before its exec.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one, and it is moved once"
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
    match options.backend {
        Backend::Ebpf => ebpf(options, command),
        Backend::Ftrace => ftrace(options, command),
        Backend::Ptrace => ptrace(options, command),
        Backend::Auto => best(options, command),
    }
}

/// A source's name, and how to begin with it.
type Candidate = (&'static str, fn(&Trace, &Arc<Command>) -> Result<Watch>);

/// The best first.
const CANDIDATES: [Candidate; 3] = [("ebpf", ebpf), ("ftrace", ftrace), ("ptrace", ptrace)];

fn best(options: &Trace, command: &Arc<Command>) -> Result<Watch> {
    // What is wrong in the options is so for every source.
    selection(options)?;
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
    let mut cgroups = Cgroups::new(Path::new(PROC));
    let ebpf = ebpf::Options {
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
    let mut source = EbpfSource::open(&ebpf, Box::new(move |id| cgroups.path(id).clone()))?;
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

const FORK: &str = "the command cannot be started: fork failed";

fn ftrace(options: &Trace, command: &Arc<Command>) -> Result<Watch> {
    // Users and cgroups are known of those only that live long enough to be looked
    // at, statuses of nobody: filters by them would hide what should be shown.
    let beyond = [
        ("--uid-filter", !options.uid_filter.is_empty()),
        ("--cgroup", !options.cgroup.is_empty()),
        ("--failed", options.failed),
        ("--env", options.env),
        ("--failed-execs", options.failed_execs),
        ("--signals", options.signals),
        ("--debug-bpf", options.debug_bpf),
    ];
    if let Some((option, _)) = beyond.iter().find(|(_, asked)| *asked) {
        bail!("{option} is beyond what ftrace records; leave it out, or use --backend ebpf");
    }
    let select = selection(options)?;
    let mut source = FtraceSource::open(&ftrace::Options {
        buffer_kib: options.ring_size / 1024 / cpus(),
        max_argv: usize::try_from(options.max_argv).unwrap_or(usize::MAX),
        threads: options.threads,
        whole_system: false,
        kthreads: options.kthreads,
        reader: ftrace::Reader::Raw,
    })?;
    let held = command.hold().context(FORK)?;
    Ok(Watch::Ftrace(Watching {
        name: "ftrace",
        root: source.follow(held.pid(), true)?,
        source: Selected::new(source, select),
        held,
        told: None,
    }))
}

fn ptrace(options: &Trace, command: &Arc<Command>) -> Result<Watch> {
    let beyond = [
        ("--failed-execs", options.failed_execs),
        ("--kthreads", options.kthreads),
        ("--debug-bpf", options.debug_bpf),
    ];
    if let Some((option, _)) = beyond.iter().find(|(_, asked)| *asked) {
        bail!("{option} is beyond what ptrace can do; leave it out, or use --backend ebpf as root");
    }
    let select = selection(options)?;
    if options.ring_size != RING_SIZE {
        eprintln!("tracer: --ring-size has no effect: ptrace has no such buffer");
    }
    if options.signals {
        eprintln!("tracer: --signals: ptrace does not see who sends a SIGKILL");
    }
    let ptrace = ptrace::Options {
        max_argv: usize::try_from(options.max_argv).unwrap_or(usize::MAX),
        env: options.env,
        threads: options.threads,
        signals: options.signals,
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
fn selection(options: &Trace) -> Result<Select> {
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

fn cgroup_ids(options: &Trace, cgroups: &Cgroups) -> Result<Vec<u64>> {
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
