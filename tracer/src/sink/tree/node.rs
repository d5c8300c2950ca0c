//! What the tree keeps of a process.

use std::fmt;
use std::sync::Arc;

use super::super::describe;
use super::super::units::Time;
use crate::model::{ProcId, Process, Status};

/// How far a process came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    Running,
    Ended(Option<Status>),
    /// Only its identity is known.
    Unrecorded,
}

#[derive(Debug)]
pub struct Node {
    pub id: ProcId,
    /// At the fork; at the end where that is not known.
    pub parent: Option<ProcId>,
    /// The process that took it over.
    pub adopted_by: Option<u32>,
    pub end: Option<u64>,
    pub name: Arc<str>,
    /// Arguments, where there was an exec. Harmless to print, as is `name`.
    pub command: Option<Box<str>>,
    pub outcome: Outcome,
    pub killed_by: Option<Box<str>>,
    pub cpu_ns: Option<u64>,
    pub is_final: bool,
    pub max_rss: Option<Rss>,
    pub threads: Option<u64>,
    pub fork_lost: bool,
    pub by_kernel: bool,
    pub root: bool,
}

impl Node {
    /// The command is cut at `limit` bytes.
    pub fn new(p: &Process, name: Arc<str>, limit: usize) -> Self {
        let command = p.exec.as_deref().map(|e| {
            let mut text = String::new();
            describe::exec_command(&mut text, e, limit);
            text.into_boxed_str()
        });
        let adopted = match (p.orig_parent, p.parent) {
            (Some(then), Some(now)) if !then.matches(&now) => Some(now.pid),
            _ => None,
        };
        let u = &p.usage;
        Self {
            id: p.id,
            parent: p.orig_parent.or(p.parent),
            adopted_by: adopted,
            end: p.end,
            name,
            command,
            outcome: if p.end.is_none() {
                Outcome::Running
            } else {
                Outcome::Ended(p.status)
            },
            killed_by: p
                .killed_by
                .as_deref()
                .map(describe::sender)
                .filter(|s| !s.is_empty())
                .map(Into::into),
            cpu_ns: u
                .cpu_ns
                .or_else(|| Some(u.utime_ns?.saturating_add(u.stime_ns?))),
            is_final: u.is_final,
            max_rss: match (u.max_rss_bytes, u.max_rss_upper_bytes) {
                (Some(bytes), _) => Some(Rss {
                    bytes,
                    upper: false,
                }),
                (None, Some(bytes)) => Some(Rss { bytes, upper: true }),
                (None, None) => None,
            },
            threads: p.threads,
            fork_lost: !p.fork_seen && !p.seeded && !p.root,
            by_kernel: p.exec.as_deref().is_some_and(|e| e.by_kernel),
            root: p.root,
        }
    }

    /// Stands for the command where its own record was lost.
    pub fn unrecorded_root(id: ProcId, command: &[Vec<u8>]) -> Self {
        let mut text = String::new();
        super::super::escape::command(
            &mut text,
            command.iter().map(Vec::as_slice),
            super::COMMAND,
            false,
        );
        Self {
            id,
            parent: None,
            adopted_by: None,
            end: None,
            name: text.as_str().into(),
            command: Some(text.into()),
            outcome: Outcome::Unrecorded,
            killed_by: None,
            cpu_ns: None,
            is_final: false,
            max_rss: None,
            threads: None,
            fork_lost: false,
            by_kernel: false,
            root: true,
        }
    }

    pub fn recorded(&self) -> bool {
        self.outcome != Outcome::Unrecorded
    }

    pub fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Ended(Some(status)) if !status.is_success())
    }

    pub fn wall_ns(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.id.start))
    }
}

/// Peak resident set; an upper bound where the program's own is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rss {
    pub bytes: u64,
    pub upper: bool,
}

/// A sum of CPU times that knows whether it is whole. Rounded only when shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    pub ns: u64,
    pub known: u64,
    /// Members that are absent or not final: the true sum is at least `ns`.
    pub partial: u64,
}

impl Cpu {
    pub fn add(&mut self, node: &Node) {
        if let Some(ns) = node.cpu_ns {
            self.ns = self.ns.saturating_add(ns);
            self.known += 1;
        }
        if node.cpu_ns.is_none() || !node.is_final {
            self.partial += 1;
        }
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { known: 0, .. } => f.write_str("-"),
            Self { partial: 0, ns, .. } => write!(f, "{}", Time(*ns)),
            Self { ns, .. } => write!(f, "≥{}", Time(*ns)),
        }
    }
}
