//! The filters for sources that cannot evaluate them in the kernel.
//!
//! The rule is that of `filter.rs` of the kernel side: the decision is made when
//! a process execs, is inherited at fork, and who is filtered out is still
//! followed. Losses are shown always.

use std::io;

use rustc_hash::FxHashMap;
use tracer_common::config::Glob;
use tracer_common::glob::matches;

use crate::model::{Bytes, Comm, Event, Field, ProcId};
use crate::source::{Drained, Source};

/// What is wanted; different members are combined with AND.
#[derive(Clone, Debug, Default)]
pub struct Select {
    pub comm: Option<Box<Glob>>,
    pub exclude_comm: Option<Box<Glob>>,
    /// None: everybody.
    pub uids: Vec<u32>,
    /// Paths from the v2 mount, descendants included; none: all.
    pub cgroups: Vec<Bytes>,
    /// Of good ends only that they happened.
    pub failed_only: bool,
}

impl Select {
    /// Whether every process is wanted.
    fn wants_all(&self) -> bool {
        self.comm.is_none()
            && self.exclude_comm.is_none()
            && self.uids.is_empty()
            && self.cgroups.is_empty()
    }

    /// What is not known is not what was asked for.
    fn wants(&self, comm: &Comm, uid: Option<u32>, cgroup: &Field<Bytes>) -> bool {
        if self.comm.as_deref().is_some_and(|g| !matches(g, &comm.0))
            || (self.exclude_comm.as_deref()).is_some_and(|g| matches(g, &comm.0))
        {
            return false;
        }
        (self.uids.is_empty() || uid.is_some_and(|uid| self.uids.contains(&uid)))
            && (self.cgroups.is_empty() || cgroup.value().is_some_and(|path| self.holds(path)))
    }

    fn holds(&self, path: &Bytes) -> bool {
        self.cgroups.iter().any(|group| {
            let group = group.as_slice();
            let group = group.strip_suffix(b"/").unwrap_or(group);
            path.as_slice()
                .strip_prefix(group)
                .is_some_and(|below| below.is_empty() || below.starts_with(b"/"))
        })
    }
}

/// A source whose events pass the filters.
pub struct Selected<S> {
    source: S,
    select: Select,
    /// The living, with whether they are shown. Stays empty where all are.
    shown: FxHashMap<ProcId, bool>,
    taken: Vec<(u64, Event)>,
}

impl<S> Selected<S> {
    pub fn new(source: S, select: Select) -> Self {
        Self {
            source,
            select,
            shown: FxHashMap::default(),
            taken: Vec::new(),
        }
    }

    fn is_shown(&self, id: &ProcId) -> bool {
        // Before its exec the command is not yet anything that was asked for.
        self.shown
            .get(id)
            .copied()
            .unwrap_or(self.select.wants_all())
    }

    fn remember(&mut self, id: ProcId, shown: bool) {
        if !self.select.wants_all() {
            self.shown.insert(id, shown);
        }
    }

    fn sift(&mut self, out: &mut Vec<(u64, Event)>) {
        let mut taken = std::mem::take(&mut self.taken);
        for (order, event) in taken.drain(..) {
            if let Some(event) = self.pass(event) {
                out.push((order, event));
            }
        }
        self.taken = taken;
    }

    fn pass(&mut self, event: Event) -> Option<Event> {
        let shown = match &event {
            Event::Fork(e) if e.thread => self.is_shown(&e.parent),
            Event::Fork(e) => {
                let shown = self.is_shown(&e.parent);
                self.remember(e.child, shown);
                shown
            }
            Event::Exec(e) => {
                let before = self.is_shown(&e.id);
                let shown = self.select.wants(&e.comm, e.uid, &e.cgroup);
                self.remember(e.id, shown);
                if before && !shown {
                    return Some(Event::Gone {
                        ts: e.ts,
                        id: e.id,
                        left: true,
                    });
                }
                shown
            }
            Event::Exit(e) if e.thread => self.is_shown(&e.id),
            Event::Exit(e) => {
                let shown = self.is_shown(&e.id);
                self.shown.remove(&e.id);
                if shown && self.select.failed_only && e.status.is_some_and(|s| s.is_success()) {
                    return Some(Event::Gone {
                        ts: e.ts,
                        id: e.id,
                        left: false,
                    });
                }
                shown
            }
            Event::Seed(e) => {
                let shown = self.select.wants(&e.comm, e.uid, &e.cgroup);
                self.remember(e.id, shown);
                shown
            }
            Event::ExecFailed(e) => self.is_shown(&e.id),
            Event::Signal(e) => self.is_shown(&e.target),
            Event::Final(_) | Event::Gone { .. } | Event::Lost(_) => true,
        };
        shown.then_some(event)
    }
}

impl<S: Source> Source for Selected<S> {
    const FINALS_COME: bool = S::FINALS_COME;

    async fn ready(&mut self) -> io::Result<()> {
        self.source.ready().await
    }

    fn drain(&mut self, out: &mut Vec<(u64, Event)>) -> Drained {
        let drained = self.source.drain(&mut self.taken);
        self.sift(out);
        drained
    }

    fn any_alive(&mut self) -> io::Result<bool> {
        self.source.any_alive()
    }

    fn finish(&mut self, out: &mut Vec<(u64, Event)>) {
        self.source.finish(&mut self.taken);
        self.sift(out);
    }

    fn remarks(&mut self) -> Vec<String> {
        self.source.remarks()
    }
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
