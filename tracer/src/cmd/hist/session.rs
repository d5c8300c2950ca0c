//! The course of a run: engines are attached around it, tables shown after it.

use std::future::pending;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::compare;
use super::control::{Control, NoSuchTable, Request};
use super::ebpf::{Ebpf, Whom};
use super::ftrace::Ftrace;
use super::own::Own;
use super::show::Outputs;
use super::targets::Targets;
use crate::cli::{Hist, HistBackend};
use crate::cmd::backend::Root;
use crate::cmd::run::{Course, Pace};
use crate::cmd::signals::{Asked, Signals};
use crate::hist::Table;
use crate::hist::render::View;
use crate::hist::resolve::Names;
use crate::launch::{Command, Held};
use crate::pipeline::Pipeline;
use crate::source::Source;

/// Counts until the end and shows the tables.
///
/// # Errors
/// What the kernel refuses; an output that cannot be written.
pub async fn count(
    options: &Hist,
    targets: Targets,
    command: Option<Command>,
    outputs: &Outputs,
    names: &Names,
) -> Result<ExitCode> {
    // Before the command exists: a signal that comes then must be passed on.
    let signals = Signals::new()?;
    let mut session = Session::new(options, targets)?;
    let held = command.map(|c| session.hold(&c)).transpose()?;
    session.begin()?;
    let root = match held.map(|h| Root::release(h, None)).transpose() {
        Ok(root) => root,
        Err(error) => {
            eprintln!("tracer: {error}");
            return Ok(ExitCode::from(error.exit_code()));
        }
    };
    let run = session.own.as_mut().and_then(|own| own.run.take());
    let mut work = Work {
        session,
        outputs,
        names,
        root,
        signals,
        control: Control::open(),
        end: options.duration.and_then(|d| Instant::now().checked_add(d)),
        watch: options.watch.map(ticks),
        status: 0,
    };
    match run {
        Some(mut run) => {
            run.until(&mut work, Pace::new(false)).await?;
            work.read()?;
            run.finish(work.status).await;
        }
        None => {
            while !work.next().await? {}
            work.read()?;
        }
    }
    work.finish(options)
}

fn ticks(period: Duration) -> Interval {
    let mut watch = interval(period.max(Duration::from_millis(10)));
    watch.set_missed_tick_behavior(MissedTickBehavior::Skip);
    watch.reset();
    watch
}

/// A run on its way.
struct Work<'a> {
    session: Session,
    outputs: &'a Outputs,
    names: &'a Names,
    root: Option<Root>,
    signals: Signals,
    control: Option<Control>,
    end: Option<Instant>,
    watch: Option<Interval>,
    /// The command's.
    status: u8,
}

impl Course for Work<'_> {
    async fn next(&mut self) -> Result<bool> {
        let Self {
            root,
            signals,
            control,
            watch,
            ..
        } = self;
        let end = self.end;
        tokio::select! {
            biased;
            asked = signals.next() => match (asked, root) {
                (Asked::PassOn(signal), Some(root)) => root.signal(signal)?,
                (Asked::Terminal, Some(_)) => {}
                (_, None) => return Ok(true),
            },
            ended = end_of(root) => {
                self.status = ended?;
                return Ok(true);
            }
            () = at(end) => return Ok(true),
            asked = asked(control) => {
                let (request, asker) = asked;
                asker.answer(self.session.act(&request, self.names));
            }
            () = tick(watch) => self.session.show(self.outputs, self.names, true)?,
        }
        Ok(false)
    }

    fn is_over<S: Source>(&mut self, _source: &mut S, _pipeline: &mut Pipeline) -> Result<bool> {
        Ok(false)
    }
}

impl Work<'_> {
    /// The run is over: what the kernel has counted is fixed.
    fn read(&mut self) -> Result<()> {
        // A trigger of the kernel's cannot be stopped without being emptied, so it is read first.
        self.session.kernel = self.session.kernel_texts()?;
        self.session.detach();
        Ok(())
    }

    fn finish(self, options: &Hist) -> Result<ExitCode> {
        let Self {
            session,
            outputs,
            names,
            status,
            ..
        } = self;
        let mut status = status;
        if options.compare {
            let equal = session.compare(names)?;
            status = if equal { status } else { status.max(1) };
        } else {
            session.show(outputs, names, options.watch.is_some())?;
        }
        if let Some(ftrace) = &session.ftrace {
            ftrace.end(&session.targets);
        }
        for remark in session.remarks() {
            eprintln!("tracer: {remark}");
        }
        Ok(ExitCode::from(status))
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

async fn tick(watch: &mut Option<Interval>) {
    match watch {
        Some(watch) => {
            watch.tick().await;
        }
        None => pending().await,
    }
}

async fn asked(control: &mut Option<Control>) -> (Request, super::control::Asker) {
    let next = match control {
        Some(control) => control.next().await,
        None => None,
    };
    match next {
        Some(asked) => asked,
        None => pending().await,
    }
}

/// Tables that are being counted.
struct Session {
    targets: Targets,
    ebpf: Option<Ebpf>,
    ftrace: Option<Ftrace>,
    own: Option<Own>,
    /// Tables that do not count just now.
    paused: Vec<bool>,
    /// The kernel's own files as they were in the end.
    kernel: Vec<Vec<u8>>,
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
        let own = match options.backend {
            HistBackend::Ebpf => Own::open(&targets, &whom)?,
            HistBackend::Ftrace => None,
        };
        let paused = targets.tables.iter();
        let paused = paused.map(|first| targets.list.get(*first).is_some_and(|t| t.trigger.pause));
        Ok(Self {
            paused: paused.collect(),
            targets,
            ebpf,
            ftrace,
            own,
            kernel: Vec::new(),
        })
    }

    /// Starts the command; it waits before its exec.
    fn hold(&mut self, command: &Command) -> Result<Held> {
        if let Some(ebpf) = &mut self.ebpf {
            ebpf.arm()?;
        }
        if let Some(own) = &mut self.own {
            own.arm()?;
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

    /// Counts from now on.
    fn begin(&mut self) -> Result<()> {
        if let Some(own) = &mut self.own {
            own.begin("ebpf")?;
        }
        for table in 0..self.paused.len() {
            // The kernel knows by itself what begins paused.
            if let Some(ftrace) = &self.ftrace {
                ftrace.attach(&self.targets, table)?;
            }
            if self.is_paused(table) {
                self.set_own(table, Some(true), false);
            } else if let Some(ebpf) = &mut self.ebpf {
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

    fn set_own(&self, table: usize, paused: Option<bool>, clear: bool) {
        if let Some(own) = &self.own {
            own.act(&self.targets, table, paused, clear);
        }
    }

    fn is_paused(&self, table: usize) -> bool {
        self.paused.get(table).copied().unwrap_or(false)
    }

    /// Does what somebody asks for from outside.
    fn act(&mut self, request: &Request, names: &Names) -> Result<Vec<u8>> {
        let name = |table: &usize| {
            let plan = self.targets.plan(*table);
            request.name.is_empty()
                || plan.is_some_and(|p| p.name.as_deref() == Some(&request.name))
        };
        let tables: Vec<usize> = (0..self.paused.len()).filter(name).collect();
        if tables.is_empty() {
            return Err(NoSuchTable.into());
        }
        let mut text = Vec::new();
        for table in tables {
            match request.word.as_str() {
                "pause" | "cont" => self.pause(table, request.word == "pause")?,
                "clear" => self.clear(table)?,
                "show" => text.extend(self.text(table, names)?),
                other => bail!("{other:?} is not understood: pause, cont, clear or show"),
            }
        }
        Ok(text)
    }

    fn pause(&mut self, table: usize, paused: bool) -> Result<()> {
        if let Some(ebpf) = &mut self.ebpf {
            match paused {
                true => ebpf.detach(&self.targets, table),
                false => ebpf.attach(&self.targets, table)?,
            }
        }
        if let Some(ftrace) = &self.ftrace {
            let word = if paused { "pause" } else { "cont" };
            ftrace.act(&self.targets, table, word)?;
        }
        self.set_own(table, Some(paused), false);
        if let Some(state) = self.paused.get_mut(table) {
            *state = paused;
        }
        Ok(())
    }

    fn clear(&mut self, table: usize) -> Result<()> {
        let paused = self.is_paused(table);
        if let Some(ebpf) = &mut self.ebpf {
            ebpf.detach(&self.targets, table);
            ebpf.clear(&self.targets, table)?;
            if !paused {
                ebpf.attach(&self.targets, table)?;
            }
        }
        if let Some(ftrace) = &self.ftrace {
            ftrace.act(&self.targets, table, "clear")?;
        }
        self.set_own(table, None, true);
        Ok(())
    }

    fn text(&self, table: usize, names: &Names) -> Result<Vec<u8>> {
        if let (Some(ftrace), None) = (&self.ftrace, &self.ebpf) {
            return ftrace.text(&self.targets, table);
        }
        let Some(plan) = self.targets.plan(table) else {
            return Ok(Vec::new());
        };
        let found = self.table(table, names)?;
        let view = View {
            plan,
            table: &found,
            names,
            paused: self.is_paused(table),
        };
        Ok(view.text())
    }

    /// A table as it is now, sorted.
    fn table(&self, table: usize, names: &Names) -> Result<Table> {
        let own = self.own.as_ref();
        let found = own.and_then(|own| own.table(&self.targets, table));
        let mut found = match (found, &self.ebpf) {
            (Some(found), _) => found,
            (None, Some(ebpf)) => ebpf.table(&self.targets, table, names, 0)?,
            (None, None) => Table::default(),
        };
        if let Some(plan) = self.targets.plan(table) {
            found.sort(plan);
        }
        Ok(found)
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

    fn compare(&self, names: &Names) -> Result<bool> {
        let Some(ebpf) = &self.ebpf else {
            return Ok(false);
        };
        let out = &mut io::stdout().lock();
        compare::report(&self.targets, ebpf, &self.kernel, names, out)
    }

    fn show(&self, outputs: &Outputs, names: &Names, again: bool) -> Result<()> {
        if self.ebpf.is_none() {
            return match self.kernel.is_empty() {
                true => outputs.show_texts(&self.kernel_texts()?, again),
                false => outputs.show_texts(&self.kernel, again),
            };
        }
        let tables = 0..self.targets.tables.len();
        let tables = tables.map(|table| self.table(table, names));
        let tables = tables.collect::<Result<Vec<_>>>()?;
        let views = tables.iter().enumerate().filter_map(|(at, table)| {
            Some(View {
                plan: self.targets.plan(at)?,
                table,
                names,
                paused: self.is_paused(at),
            })
        });
        outputs.show(&views.collect::<Vec<_>>(), again)
    }

    /// What users should know in the end.
    fn remarks(&self) -> Vec<String> {
        let ebpf = self.ebpf.iter().flat_map(|e| e.remarks(&self.targets));
        ebpf.chain(self.own.iter().flat_map(Own::remarks)).collect()
    }
}
