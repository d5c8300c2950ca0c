//! `tracer hist`: hist triggers over a run.

mod compare;
mod ebpf;
mod ftrace;
mod own;
mod show;
mod targets;

use std::future::pending;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use self::ebpf::{Ebpf, Whom};
use self::ftrace::Ftrace;
use self::show::Outputs;
use self::targets::Targets;
use super::backend::Root;
use super::run::{PROC, block_on};
use super::signals::{Asked, Signals};
use crate::cli::{Hist, HistBackend};
use crate::hist::Table;
use crate::hist::plan::KeyForm;
use crate::hist::render::View;
use crate::hist::resolve::{Kallsyms, Names, Syscalls};
use crate::launch::{Command, Held};
use crate::sys::tracefs::Tracefs;

/// Counts, and prints the tables. The exit status is the command's, or 0.
pub fn run(options: &Hist) -> Result<ExitCode> {
    let command = match options.command.is_empty() {
        true => None,
        false => match Command::resolve(&options.command, options.uid.clone()) {
            Ok(command) => Some(command),
            Err(error) => {
                eprintln!("tracer: {error}");
                return Ok(ExitCode::from(error.exit_code()));
            }
        },
    };
    let tracefs = Tracefs::open(Path::new(PROC))?;
    let targets = Targets::new(options, &tracefs)?;
    let outputs = Outputs::open(options)?;
    block_on(async {
        let names = names(&targets, &tracefs);
        let session = Session::new(options, targets)?;
        session.run(options, command, &outputs, &names).await
    })
}

/// What names tables need, which takes time to read.
fn names(targets: &Targets, tracefs: &Tracefs) -> Names {
    let has = |forms: &[KeyForm]| {
        let mut keys = targets.list.iter().flat_map(|t| &t.plan.keys);
        keys.any(|k| forms.contains(&k.form))
    };
    let mut names = Names::default();
    if has(&[KeyForm::Symbol, KeyForm::SymbolOffset, KeyForm::Stack]) {
        match Kallsyms::read(Path::new("/proc/kallsyms")) {
            Ok(symbols) => names.symbols = symbols,
            Err(error) => eprintln!("tracer: addresses have no names: {error}"),
        }
    }
    if has(&[KeyForm::Syscall]) {
        names.syscalls = Syscalls::read(tracefs.root());
    }
    names
}

/// Tables that are being counted.
struct Session {
    targets: Targets,
    ebpf: Option<Ebpf>,
    ftrace: Option<Ftrace>,
    /// Tables that do not count just now.
    paused: Vec<bool>,
}

impl Session {
    fn new(options: &Hist, targets: Targets) -> Result<Self> {
        let whom = match (&options.cgroup, options.pids()) {
            (Some(path), _) => Whom::Cgroup(path.clone()),
            (None, pids) if !pids.is_empty() => Whom::Trees(pids),
            _ if !options.command.is_empty() => Whom::Command,
            _ => Whom::All,
        };
        let wants = |backend| options.compare || options.backend == backend;
        let ftrace = wants(HistBackend::Ftrace).then(|| Ftrace::open(&targets, &whom));
        let ftrace = ftrace.transpose()?;
        let ebpf = wants(HistBackend::Ebpf).then(|| Ebpf::load(&targets, &whom));
        let ebpf = ebpf.transpose()?;
        let paused = targets.tables.iter();
        let paused = paused.map(|first| targets.list.get(*first).is_some_and(|t| t.trigger.pause));
        Ok(Self {
            paused: paused.collect(),
            targets,
            ebpf,
            ftrace,
        })
    }

    async fn run(
        mut self,
        options: &Hist,
        command: Option<Command>,
        outputs: &Outputs,
        names: &Names,
    ) -> Result<ExitCode> {
        let mut signals = Signals::new()?;
        let held = command.map(|c| self.hold(&c)).transpose()?;
        self.attach()?;
        let mut root = match held.map(|h| Root::release(h, None)).transpose() {
            Ok(root) => root,
            Err(error) => {
                eprintln!("tracer: {error}");
                return Ok(ExitCode::from(error.exit_code()));
            }
        };
        let end = options.duration.and_then(|d| Instant::now().checked_add(d));
        let mut watch = options.watch.map(|period| {
            let mut watch = interval(period.max(Duration::from_millis(10)));
            watch.set_missed_tick_behavior(MissedTickBehavior::Skip);
            watch.reset();
            watch
        });
        let mut status = 0;
        loop {
            tokio::select! {
                biased;
                asked = signals.next() => match (asked, &root) {
                    (Asked::PassOn(signal), Some(root)) => root.signal(signal)?,
                    (Asked::Terminal, Some(_)) => {}
                    (_, None) => break,
                },
                ended = end_of(&mut root) => {
                    status = ended?;
                    break;
                }
                () = at(end) => break,
                () = tick(&mut watch) => self.show(outputs, names, true)?,
            }
        }
        // A trigger of the kernel's cannot be stopped without being emptied, so it is read first.
        let kernel = self.kernel_texts()?;
        self.detach();
        if options.compare {
            let equal = self.compare(&kernel, names)?;
            return Ok(ExitCode::from(if equal { status } else { status.max(1) }));
        }
        match self.ebpf {
            Some(_) => self.show(outputs, names, options.watch.is_some())?,
            None => outputs.show_texts(&kernel, options.watch.is_some())?,
        }
        if let Some(ftrace) = &self.ftrace {
            ftrace.end(&self.targets);
        }
        for remark in self.ebpf.iter().flat_map(Ebpf::remarks) {
            eprintln!("tracer: {remark}");
        }
        Ok(ExitCode::from(status))
    }

    fn attach(&mut self) -> Result<()> {
        for table in 0..self.paused.len() {
            // The kernel knows by itself what begins paused.
            if let Some(ftrace) = &self.ftrace {
                ftrace.attach(&self.targets, table)?;
            }
            if !self.is_paused(table)
                && let Some(ebpf) = &mut self.ebpf
            {
                ebpf.attach(&self.targets, table)?;
            }
        }
        Ok(())
    }

    fn detach(&mut self) {
        for table in 0..self.paused.len() {
            if let Some(ebpf) = &mut self.ebpf {
                ebpf.detach(&self.targets, table);
            }
        }
    }

    /// The kernel's own files, where its triggers count.
    fn kernel_texts(&self) -> Result<Vec<Vec<u8>>> {
        let Some(ftrace) = &self.ftrace else {
            return Ok(Vec::new());
        };
        let tables = 0..self.targets.tables.len();
        tables
            .map(|table| ftrace.text(&self.targets, table))
            .collect()
    }

    fn compare(&self, kernel: &[Vec<u8>], names: &Names) -> Result<bool> {
        if let Some(ftrace) = &self.ftrace {
            ftrace.end(&self.targets);
        }
        match &self.ebpf {
            Some(ebpf) => {
                compare::report(&self.targets, ebpf, kernel, names, &mut io::stdout().lock())
            }
            None => Ok(false),
        }
    }

    /// Starts the command; it waits before its exec.
    fn hold(&mut self, command: &Command) -> Result<Held> {
        if let Some(ebpf) = &mut self.ebpf {
            ebpf.arm()?;
        }
        let held = command
            .hold()
            .context("the command cannot be started: fork failed")?;
        if let Some(ebpf) = &self.ebpf
            && !ebpf.has_root()?
        {
            bail!("the kernel side did not see the fork of the command");
        }
        if let Some(ftrace) = &self.ftrace {
            ftrace.follow(&[held.pid()])?;
        }
        Ok(held)
    }

    fn is_paused(&self, table: usize) -> bool {
        self.paused.get(table).copied().unwrap_or(false)
    }

    fn show(&self, outputs: &Outputs, names: &Names, again: bool) -> Result<()> {
        let Some(ebpf) = &self.ebpf else {
            return outputs.show_texts(&self.kernel_texts()?, again);
        };
        let mut tables: Vec<(usize, Table)> = Vec::new();
        for table in 0..self.paused.len() {
            let Some(plan) = self.targets.plan(table) else {
                continue;
            };
            let mut found = ebpf.table(&self.targets, table, names, 0)?;
            found.sort(plan);
            tables.push((table, found));
        }
        let views: Vec<View<'_>> = tables
            .iter()
            .filter_map(|(at, table)| {
                Some(View {
                    plan: self.targets.plan(*at)?,
                    table,
                    names,
                    paused: self.is_paused(*at),
                })
            })
            .collect();
        outputs.show(&views, again)
    }
}

async fn end_of(root: &mut Option<Root>) -> Result<u8> {
    match root {
        Some(root) => root.end().await,
        None => pending().await,
    }
}

async fn at(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}

async fn tick(watch: &mut Option<tokio::time::Interval>) {
    match watch {
        Some(watch) => {
            watch.tick().await;
        }
        None => pending().await,
    }
}
