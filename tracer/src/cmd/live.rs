//! `tracer compare -- CMD`: two sources watch one run of the command.

use std::future::ready;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use tokio::time::{MissedTickBehavior, interval};

use super::backend::Root;
use super::run::{PROC, meta};
use super::signals::{Asked, Signals};
use crate::cli::{Backend, Compare};
use crate::compare::side::Side;
use crate::launch::{Command, Held};
use crate::model::time::boot_ns;
use crate::model::{End, Event, Meta, ProcId, Process};
use crate::pipeline::Pipeline;
use crate::sink::{Sink, jsonl};
use crate::source::ebpf::{self, EbpfSource};
use crate::source::ftrace::{self, FtraceSource};
use crate::source::ptrace::{self, PtraceSource};
use crate::source::{Drained, Source};
use crate::sys::cgroup::Cgroups;
use crate::sys::procfs::{cpus, in_initial_pid_namespace};

/// How often the buffers are looked at when they do not fill up.
const TICK: Duration = Duration::from_millis(50);
/// Bytes of argv at most.
const MAX_ARGV: u32 = 65_536;

/// Runs the command under both sources; one recording of each.
///
/// # Errors
/// A source cannot run here, or the command cannot be executed; what to do.
pub fn run(options: &Compare) -> Result<(Side, Side)> {
    let command = Arc::new(Command::resolve(&options.command, None)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the event loop cannot be started")?;
    runtime.block_on(watch(options, &command))
}

async fn watch(options: &Compare, command: &Arc<Command>) -> Result<(Side, Side)> {
    let [a, b] = *options.with else {
        bail!("--with needs two sources");
    };
    if !in_initial_pid_namespace() {
        bail!(
            "in this PID namespace processes have other numbers for ptrace than for ebpf, so that no \
             two sources can be compared; run tracer on the host"
        );
    }
    // Before the command exists: a signal that comes then must be passed on, and
    // must not end us before what we set up is taken down.
    let signals = Signals::new()?;
    let mut ebpf = None;
    let mut ftrace = None;
    if [a, b].contains(&Backend::Ebpf) {
        ebpf = Some(open_ebpf(options).context("ebpf cannot watch")?);
    }
    if [a, b].contains(&Backend::Ftrace) {
        ftrace = Some(open_ftrace(options).context("ftrace cannot watch")?);
    }
    let (ptrace, held) = if [a, b].contains(&Backend::Ptrace) {
        let (source, held) = open_ptrace(command).context("ptrace cannot watch")?;
        (Some(source), held)
    } else {
        let held = command.hold();
        (
            None,
            held.context("the command cannot be started: fork failed")?,
        )
    };
    let mut told = None;
    let mut found = Vec::new();
    if let Some(source) = ebpf {
        let root = source
            .root()?
            .ok_or_else(|| anyhow!("the kernel side did not see the fork of the command"))?;
        found.push((
            Backend::Ebpf,
            Recorder::new("ebpf", AnySource::Ebpf(Box::new(source)), root, options),
        ));
    }
    if let Some(mut source) = ftrace {
        let root = source.follow(held.pid(), true)?;
        let source = AnySource::Ftrace(Box::new(source));
        found.push((
            Backend::Ftrace,
            Recorder::new("ftrace", source, root, options),
        ));
    }
    if let Some(mut source) = ptrace {
        told = source.take_end();
        let root = source.root();
        let source = AnySource::Ptrace(source);
        found.push((
            Backend::Ptrace,
            Recorder::new("ptrace", source, root, options),
        ));
    }
    // In the order that was asked for.
    found.sort_by_key(|(backend, _)| *backend != a);
    let Ok([(_, a), (_, b)]) = <[_; 2]>::try_from(found) else {
        bail!("--with needs two different sources of ebpf, ftrace and ptrace");
    };
    let root = Root::release(held, told)?;
    both(a, b, root, signals).await
}

fn open_ebpf(options: &Compare) -> Result<EbpfSource> {
    let mut cgroups = Cgroups::new(Path::new(PROC));
    let ebpf = ebpf::Options {
        max_argv: MAX_ARGV,
        threads: true,
        ..ebpf::Options::new(ebpf::Whom::Command, options.ring_size)
    };
    let mut source = EbpfSource::open(&ebpf, Box::new(move |id| cgroups.path(id).clone()))?;
    source.arm()?;
    Ok(source)
}

fn open_ftrace(options: &Compare) -> Result<FtraceSource> {
    Ok(FtraceSource::open(&ftrace::Options {
        buffer_kib: options.ring_size / 1024 / cpus(),
        max_argv: MAX_ARGV as usize,
        threads: true,
        whole_system: false,
        kthreads: false,
        reader: ftrace::Reader::Raw,
    })?)
}

fn open_ptrace(command: &Arc<Command>) -> Result<(PtraceSource, Held)> {
    let ptrace = ptrace::Options {
        max_argv: MAX_ARGV as usize,
        env: false,
        threads: true,
        signals: false,
        wait_all: false,
        kill_on_exit: false,
    };
    let command = Arc::clone(command);
    Ok(PtraceSource::start(ptrace, move || {
        let held = command.hold()?;
        Ok((held.pid(), held))
    })?)
}

/// Reads both sources until the command has ended.
async fn both(
    mut a: Recorder,
    mut b: Recorder,
    mut root: Root,
    mut signals: Signals,
) -> Result<(Side, Side)> {
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut more = false;
    loop {
        let mut ended = false;
        tokio::select! {
            biased;
            asked = signals.next() => match asked {
                Asked::PassOn(signal) => root.signal(signal)?,
                Asked::Terminal => {}
            },
            end = root.end() => {
                // How it ended is the command's business.
                let _status = end?;
                ended = true;
            }
            () = ready(()), if more => {}
            r = a.source.ready() => r.context("reading events")?,
            r = b.source.ready() => r.context("reading events")?,
            _ = tick.tick() => {}
        }
        // Not one after the other to its end: neither shall wait long.
        let (empty_a, empty_b) = (a.drain(), b.drain());
        more = !(empty_a && empty_b);
        if ended {
            break;
        }
    }
    // Descendants may still run: what is later than this is not compared.
    let end = boot_ns();
    Ok((a.finish(end)?, b.finish(end)?))
}

/// One source, and what it has recorded.
struct Recorder {
    name: &'static str,
    source: AnySource,
    pipeline: Pipeline,
    events: Vec<(u64, Event)>,
    lines: Lines,
}

impl Recorder {
    fn new(name: &'static str, source: AnySource, root: ProcId, options: &Compare) -> Self {
        let lines = Lines::default();
        let mut pipeline = Pipeline::new();
        pipeline.show_threads(true);
        pipeline.add(name, Box::new(lines.clone()));
        pipeline.begin(&meta(name, &options.command, Some(root)));
        Self {
            name,
            source,
            pipeline,
            events: Vec::new(),
            lines,
        }
    }

    /// Says whether nothing more waits.
    fn drain(&mut self) -> bool {
        let drained = self.source.drain(&mut self.events);
        self.pipeline.take(&mut self.events, drained);
        drained.empty
    }

    fn finish(mut self, ts: u64) -> Result<Side> {
        while !self.drain() {}
        self.source.finish(&mut self.events);
        self.pipeline.finish(&mut self.events, ts, 0);
        let text =
            std::mem::take(&mut *self.lines.0.lock().unwrap_or_else(PoisonError::into_inner));
        let side = Side::from_jsonl(self.name.to_owned(), text, false);
        let mut side = side.context("this is a fault of tracer, please report it")?;
        side.in_memory = true;
        let remarks = self.source.remarks().into_iter();
        side.notes = remarks.map(|r| format!("{}: {r}", self.name)).collect();
        Ok(side)
    }
}

/// A capture in memory.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn append(&self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        write(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

impl Sink for Lines {
    fn begin(&mut self, m: &Meta) -> io::Result<()> {
        self.append(|buf| jsonl::meta(buf, m))
    }

    fn event(&mut self, e: &Event, p: Option<&Process>) -> io::Result<()> {
        self.append(|buf| jsonl::event(buf, e, p))
    }

    fn process(&mut self, p: &Process) -> io::Result<()> {
        self.append(|buf| jsonl::process(buf, p))
    }

    fn end(&mut self, e: &End) -> io::Result<()> {
        self.append(|buf| jsonl::end(buf, e))
    }
}

/// Whichever was asked for.
enum AnySource {
    Ebpf(Box<EbpfSource>),
    Ftrace(Box<FtraceSource>),
    Ptrace(PtraceSource),
}

impl Source for AnySource {
    async fn ready(&mut self) -> io::Result<()> {
        match self {
            Self::Ebpf(s) => s.ready().await,
            Self::Ftrace(s) => s.ready().await,
            Self::Ptrace(s) => s.ready().await,
        }
    }

    fn drain(&mut self, out: &mut Vec<(u64, Event)>) -> Drained {
        match self {
            Self::Ebpf(s) => s.drain(out),
            Self::Ftrace(s) => s.drain(out),
            Self::Ptrace(s) => s.drain(out),
        }
    }

    fn any_alive(&mut self) -> io::Result<bool> {
        match self {
            Self::Ebpf(s) => s.any_alive(),
            Self::Ftrace(s) => s.any_alive(),
            Self::Ptrace(s) => s.any_alive(),
        }
    }

    fn finish(&mut self, out: &mut Vec<(u64, Event)>) {
        match self {
            Self::Ebpf(s) => s.finish(out),
            Self::Ftrace(s) => s.finish(out),
            Self::Ptrace(s) => s.finish(out),
        }
    }

    fn remarks(&mut self) -> Vec<String> {
        match self {
            Self::Ebpf(s) => s.remarks(),
            Self::Ftrace(s) => s.remarks(),
            Self::Ptrace(s) => s.remarks(),
        }
    }
}
