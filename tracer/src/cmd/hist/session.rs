//! The tables of a run and the engines that count for them.

use std::io;

use anyhow::{Context as _, Result, bail};

use super::compare;
use super::control::{NoSuchTable, Request};
use super::ebpf::Ebpf;
use super::ftrace::Ftrace;
use super::own::Own;
use super::show::{Outputs, heading};
use super::targets::Targets;
use super::whom::Whom;
use crate::cli::{Hist, HistBackend};
use crate::hist::Table;
use crate::hist::render::View;
use crate::hist::resolve::Names;
use crate::launch::{Command, Held};

/// Tables that are being counted.
pub struct Session {
    targets: Targets,
    ebpf: Option<Ebpf>,
    ftrace: Option<Ftrace>,
    pub own: Option<Own>,
    /// Tables that do not count just now.
    paused: Vec<bool>,
    /// The kernel's own files as they were in the end.
    kernel: Vec<Vec<u8>>,
}

impl Session {
    pub fn new(options: &Hist, targets: Targets) -> Result<Self> {
        let whom = Whom::of(options)?;
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
    pub fn hold(&mut self, command: &Command) -> Result<Held> {
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
            ftrace.follow(held.pid())?;
        }
        Ok(held)
    }

    /// Counts from now on.
    pub fn begin(&mut self) -> Result<()> {
        if let Some(own) = &mut self.own {
            own.begin()?;
        }
        for table in 0..self.paused.len() {
            // The kernel, and events of our own, know by themselves what begins paused.
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

    /// The run is over: what has been counted is fixed.
    pub fn end(&mut self) -> Result<()> {
        // A trigger of the kernel's cannot be stopped without being emptied, so it is read first.
        self.kernel = self.kernel_texts()?;
        if let Some(ftrace) = &self.ftrace {
            ftrace.end(&self.targets);
        }
        for table in 0..self.paused.len() {
            if let Some(ebpf) = &mut self.ebpf {
                ebpf.detach(&self.targets, table);
            }
        }
        Ok(())
    }

    /// Whether somebody whose events count has not ended.
    ///
    /// # Errors
    /// Those of bpf(2) and tracefs.
    pub fn any_alive(&self) -> Result<bool> {
        match (&self.ebpf, &self.ftrace) {
            (Some(ebpf), _) => ebpf.any_alive(),
            (None, Some(ftrace)) => ftrace.any_alive(),
            (None, None) => Ok(true),
        }
    }

    fn is_paused(&self, table: usize) -> bool {
        self.paused.get(table).copied().unwrap_or(false)
    }

    /// Does what somebody asks for from outside.
    pub fn act(&mut self, request: &Request, names: &Names) -> Result<Vec<u8>> {
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
        let count = tables.len();
        for table in tables {
            match request.word.as_str() {
                "pause" | "cont" => self.pause(table, request.word == "pause")?,
                "clear" => self.clear(table)?,
                "show" => {
                    text.extend(self.heading(table, count));
                    text.extend(self.text(table, names)?);
                }
                // It was asked whether there is such a table.
                "has" => {}
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
        if let Some(own) = &self.own {
            own.pause(table, paused);
        }
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
        if let Some(own) = &self.own {
            own.clear(table);
        }
        Ok(())
    }

    fn heading(&self, table: usize, of: usize) -> Vec<u8> {
        let plan = self.targets.plan(table);
        plan.map_or_else(Vec::new, |plan| heading(&plan.event, of))
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
        let found = own.and_then(|own| own.table(table));
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

    pub fn compare(&self, names: &Names) -> Result<bool> {
        let Some(ebpf) = &self.ebpf else {
            return Ok(false);
        };
        let out = &mut io::stdout().lock();
        compare::report(&self.targets, ebpf, &self.kernel, names, out)
    }

    /// Shows the tables as they are now; `false`: nobody reads them any more.
    pub fn show(&self, outputs: &Outputs, names: &Names, again: bool) -> Result<bool> {
        if self.ebpf.is_none() {
            let now = match self.kernel.is_empty() {
                true => &self.kernel_texts()?,
                false => &self.kernel,
            };
            let mut text = Vec::new();
            for (table, part) in now.iter().enumerate() {
                text.extend(self.heading(table, now.len()));
                text.extend(part);
            }
            return outputs.show_text(&text, again);
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
    pub fn remarks(&self) -> Vec<String> {
        let ebpf = self.ebpf.iter().flat_map(|e| e.remarks(&self.targets));
        ebpf.chain(self.own.iter().flat_map(Own::remarks)).collect()
    }
}
