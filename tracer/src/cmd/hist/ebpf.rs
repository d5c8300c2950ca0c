//! Triggers executed in eBPF: a program for each, and what they share.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tracer_common::hist::{Config, TICK, whom};

use super::targets::Targets;
use super::whom::{Running, Whom, each_of_trees, is_alive};
use crate::hist::resolve::{Names, Resolve as _};
use crate::hist::{Row, Table};
use crate::source::hist::{Compiled, Counter, Shared, Tree, grace_period, rows, trim_stacks};
use crate::source::over::all_over;
use crate::sys::cgroup::Cgroups;
use crate::sys::procfs::{Proc, in_initial_pid_namespace};
use crate::sys::tracefs::mount_unseen;

pub struct Ebpf {
    /// One for each target, in their order; none for an event of our own.
    counters: Vec<Option<Counter>>,
    tree: Option<Tree>,
    /// Those of `-p` who ran already.
    seeds: Vec<Running>,
    /// Where maps are shared.
    _pins: Option<OwnedFd>,
}

impl Ebpf {
    /// Loads the programs; they count from [`Self::attach`] on.
    ///
    /// # Errors
    /// The kernel refuses them, or cannot do what a trigger asks for.
    pub fn load(targets: &Targets, whom: &Whom) -> Result<Self> {
        // An event of our own has a source that follows them by itself.
        let tree = matches!(whom, Whom::Command | Whom::Trees(_))
            && targets.list.iter().any(|t| !t.format.is_own());
        if tree && matches!(whom, Whom::Trees(_)) && !in_initial_pid_namespace() {
            bail!(
                "-p: process numbers in this container are not those that the kernel counts by; run tracer \
                 outside it, or use --cgroup PATH, or start the program by tracer: tracer hist ... -- CMD"
            );
        }
        let shares = targets.list.len() > targets.tables.len();
        let pins = match tree || shares {
            true => Some(mount_unseen(c"bpf").context(
                "a BPF file system for maps that programs share cannot be mounted (it needs CAP_SYS_ADMIN)",
            )?),
            false => None,
        };
        let dir = pins
            .as_ref()
            .map(|fd| PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd())));
        let tree = match (tree, &dir) {
            (true, Some(dir)) => Some(Tree::load(dir, *whom != Whom::Command)?),
            _ => None,
        };
        let mut counters = Vec::new();
        for target in &targets.list {
            if target.format.is_own() {
                counters.push(None);
                continue;
            }
            let mut compiled = Compiled::new(&target.plan, &target.format)
                .with_context(|| target.plan.event.clone())?;
            restrict(&mut compiled.config, whom)?;
            let table = match targets.of_table(target.table).count() {
                1 => None,
                _ => Some(format!("TABLE-{}", target.table)),
            };
            let shared = dir.as_deref().map(|dir| Shared {
                dir,
                table: table.as_deref(),
                tree: tree.as_ref(),
            });
            let counter = Counter::load(&compiled, u64::from(target.format.id), shared)
                .with_context(|| target.plan.event.clone())?;
            counters.push(Some(counter));
        }
        let mut ebpf = Self {
            counters,
            tree,
            seeds: Vec::new(),
            _pins: pins,
        };
        if let Whom::Trees(pids) = whom {
            ebpf.seed(pids)?;
        }
        Ok(ebpf)
    }

    /// From now on the next process that tracer forks is the root.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn arm(&mut self) -> Result<()> {
        match &mut self.tree {
            Some(tree) => Ok(tree.arm()?),
            None => Ok(()),
        }
    }

    /// Whether the root's fork was seen.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn has_root(&self) -> Result<bool> {
        self.tree.as_ref().map_or(Ok(true), |t| Ok(t.has_root()?))
    }

    /// Names the processes that run already.
    fn seed(&mut self, pids: &[u32]) -> Result<()> {
        let Some(tree) = &mut self.tree else {
            return Ok(());
        };
        each_of_trees(pids, |(pid, start)| {
            tree.seed(pid, start / TICK)?;
            self.seeds.push((pid, start));
            Ok(())
        })
    }

    /// Whether somebody whose events count has not ended.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn any_alive(&self) -> Result<bool> {
        let Some(tree) = &self.tree else {
            return Ok(true);
        };
        // Of a command they leave the set with their end.
        if self.seeds.is_empty() {
            return Ok(tree.members().next().is_some());
        }
        let proc = Proc::default();
        // Those first: what the last of them forks is in the set before its end.
        if self.seeds.iter().any(|seed| is_alive(&proc, *seed)) {
            return Ok(true);
        }
        let ended = |member| (!is_alive(&proc, member)).then_some(member);
        Ok(!all_over(|| tree.members().map(ended).collect()))
    }

    /// Counts the events of a table from now on.
    ///
    /// # Errors
    /// Those of perf_event_open(2) and bpf(2).
    pub fn attach(&mut self, targets: &Targets, table: usize) -> Result<()> {
        for at in targets.of_table(table) {
            if let Some(Some(counter)) = self.counters.get_mut(at) {
                let event = targets.list.get(at).map(|t| t.plan.event.clone());
                counter
                    .attach()
                    .with_context(|| event.unwrap_or_default())?;
            }
        }
        Ok(())
    }

    /// Counts no more, and returns when no program runs any more.
    pub fn detach(&mut self, targets: &Targets, table: usize) {
        let mut any = false;
        for at in targets.of_table(table) {
            if let Some(Some(counter)) = self.counters.get_mut(at) {
                any |= counter.is_attached();
                counter.detach();
            }
        }
        if any {
            grace_period();
        }
    }

    /// Empties a table that is detached.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn clear(&mut self, targets: &Targets, table: usize) -> Result<()> {
        for at in targets.of_table(table) {
            if let Some(Some(counter)) = self.counters.get_mut(at) {
                counter.clear()?;
            }
        }
        Ok(())
    }

    /// A table as it is now, in no order. Stacks begin outside the tracepoint, as
    /// far as `names` tell, and without `skip` frames more.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn table(
        &self,
        targets: &Targets,
        table: usize,
        names: &Names,
        skip: usize,
    ) -> Result<Table> {
        let is_tracepoint = |address| {
            let symbol = names.symbol(address);
            symbol.is_some_and(|s| s.name.starts_with("__traceiter_"))
        };
        let mut found = Table::default();
        let mut first = true;
        for at in targets.of_table(table) {
            let (Some(Some(counter)), Some(target)) = (self.counters.get(at), targets.list.get(at))
            else {
                continue;
            };
            // Programs of the same table share the map.
            if std::mem::take(&mut first) {
                let all = rows(&target.plan, &counter.rows()?);
                found.rows = trim_stacks(&target.plan, all, is_tracepoint, skip);
            }
            found.dropped += counter.dropped()?;
            found.missed = match (found.missed, counter.missed()?) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
        }
        found.hits = found.rows.iter().map(|r: &Row| r.hitcount).sum();
        Ok(found)
    }

    /// What users should know in the end.
    pub fn remarks(&self, targets: &Targets) -> Vec<String> {
        let mut remarks = Vec::new();
        let full = self.tree.as_ref().and_then(|t| t.full().ok()).unwrap_or(0);
        if full != 0 {
            remarks.push(format!(
                "{full} processes did not fit into the set of those that are followed: their events are missing"
            ));
        }
        for (counter, target) in self.counters.iter().zip(&targets.list) {
            let missed = counter.as_ref().and_then(|c| c.missed().ok().flatten());
            if let Some(missed) = missed.filter(|m| *m != 0) {
                remarks.push(format!(
                    "{}: {missed} events (of the whole machine) came while another BPF program ran on their CPU, \
                     so that the kernel ran none for them",
                    target.plan.event
                ));
            }
        }
        remarks
    }
}

fn restrict(config: &mut Config, whom: &Whom) -> Result<()> {
    config.whom = match whom {
        Whom::All => whom::ALL,
        Whom::Command => whom::TREE,
        Whom::Trees(_) => whom::SEEDED_TREE,
        Whom::Cgroup(path) => {
            let mut cgroups = Cgroups::new(Path::new("/proc"));
            config.cgroup = cgroups.id(path).context("--cgroup")?;
            config.cgroup_level = level(&mut cgroups, config.cgroup).unwrap_or(u32::MAX);
            whom::CGROUP
        }
    };
    Ok(())
}

/// How deep a group lies, where the mount shows the whole hierarchy.
fn level(cgroups: &mut Cgroups, id: u64) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    /// Inode number of the hierarchy's root.
    const ROOT: u64 = 1;
    let mount = cgroups.mount()?;
    if fs::metadata(mount).ok()?.ino() != ROOT {
        return None;
    }
    let names = cgroups
        .path(id)
        .value()?
        .0
        .split(|b| *b == b'/')
        .filter(|name| !name.is_empty());
    u32::try_from(names.count()).ok()
}
