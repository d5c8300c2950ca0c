//! `--failed` at the sink: only failures and their ancestors are shown.
//!
//! The kernel side already drops good ends. But a fork or an exec comes before it
//! is known how its process will end, so what belongs to living processes is
//! held back here:
//! - a process that fails is shown from then on, and so are its ancestors, as far
//!   as they have not ended and been dropped before they were its ancestors;
//! - one that ends well is dropped once all its descendants have been;
//! - one that still runs at the end of the capture is shown: it did not end well.
//!
//! What is shown of several processes comes in order of time among itself, but a
//! failure shows events of its past after those of others that failed earlier:
//! with `--failed`, lines are in order of the time at which they were known to
//! matter. Waiting for the order of `ts` would hold everything until the command
//! ends.
//!
//! Memory is bounded by the living, their ended ancestors, and [`HELD_MAX`] events
//! of each process.

use std::io;

use rustc_hash::FxHashMap;

use crate::model::{End, Event, LossKind, LossPlace, Lost, Meta, ProcId, Process};
use crate::sink::{Sink, Stats};

/// Events held for one process; the oldest stay, further ones are counted and
/// reported as lost if the process turns out to matter.
pub const HELD_MAX: usize = 1024;

/// What waits for the fate of a process.
enum Item {
    Event(Event, Option<Box<Process>>),
    Row(Box<Process>),
}

impl Item {
    fn is_end(&self) -> bool {
        match self {
            Self::Event(event, _) => matches!(event, Event::Exit(e) if !e.thread),
            Self::Row(_) => true,
        }
    }

    /// A row belongs behind every event of its process.
    fn ts(&self) -> u64 {
        match self {
            Self::Event(event, _) => event.ts(),
            Self::Row(row) => row.end.unwrap_or(u64::MAX),
        }
    }
}

#[derive(Default)]
struct Node {
    parent: Option<ProcId>,
    held: Vec<Item>,
    overflow: u64,
    /// It, or a descendant, failed.
    shown: bool,
    /// Its row has come: nothing more will.
    ended: bool,
    /// Children whose nodes exist.
    children: usize,
}

/// Passes on what belongs to failures and their ancestors.
pub struct FailedOnly {
    inner: Box<dyn Sink>,
    nodes: FxHashMap<ProcId, Node>,
}

impl FailedOnly {
    pub fn new(inner: Box<dyn Sink>) -> Self {
        Self {
            inner,
            nodes: FxHashMap::default(),
        }
    }

    /// Processes whose fate is open.
    pub fn held(&self) -> usize {
        self.nodes.len()
    }

    /// The node of a process, made and linked to its parent's where there is none.
    fn node(&mut self, id: ProcId, parent: Option<ProcId>) -> &mut Node {
        if !self.nodes.contains_key(&id) {
            let parent = parent.filter(|p| *p != id && self.nodes.contains_key(p));
            if let Some(parent) = parent.and_then(|p| self.nodes.get_mut(&p)) {
                parent.children += 1;
            }
            self.nodes.insert(
                id,
                Node {
                    parent,
                    ..Node::default()
                },
            );
        }
        self.nodes.entry(id).or_default()
    }

    fn offer(&mut self, id: ProcId, parent: Option<ProcId>, item: Item) -> io::Result<()> {
        let node = self.node(id, parent);
        if node.shown {
            return self.pass(item);
        }
        if node.held.len() < HELD_MAX || item.is_end() {
            node.held.push(item);
        } else {
            node.overflow += 1;
        }
        Ok(())
    }

    fn pass(&mut self, item: Item) -> io::Result<()> {
        match item {
            Item::Event(event, process) => self.inner.event(&event, process.as_deref()),
            Item::Row(row) => self.inner.process(&row),
        }
    }

    /// Shows a process and its ancestors, and what was held of them.
    fn show(&mut self, id: ProcId) -> io::Result<()> {
        let mut held = Vec::new();
        let mut next = Some(id);
        while let Some(node) = next
            .and_then(|id| self.nodes.get_mut(&id))
            .filter(|node| !node.shown)
        {
            node.shown = true;
            if node.overflow != 0 {
                let ts = node.held.get(HELD_MAX - 1).map_or(0, Item::ts);
                let (place, kind) = (LossPlace::Sink, LossKind::Any);
                let lost = Lost {
                    ts,
                    cpu: None,
                    place,
                    kind,
                    count: node.overflow,
                };
                node.held.push(Item::Event(Event::Lost(lost), None));
            }
            held.append(&mut node.held);
            next = node.parent;
        }
        held.sort_by_key(Item::ts);
        held.into_iter().try_for_each(|item| self.pass(item))
    }

    /// Forgets a process that has ended, once none of its children can still
    /// fail; then perhaps its parent, and so on.
    fn settle(&mut self, id: ProcId) {
        let mut next = Some(id);
        while let Some(id) = next {
            let done = self
                .nodes
                .get(&id)
                .is_some_and(|n| n.ended && (n.shown || n.children == 0));
            if !done {
                return;
            }
            next = self.nodes.remove(&id).and_then(|node| node.parent);
            if let Some(parent) = next.and_then(|p| self.nodes.get_mut(&p)) {
                parent.children = parent.children.saturating_sub(1);
            }
        }
    }
}

/// Whom an event is about, and that one's parent where the event tells.
fn subject(event: &Event) -> Option<(ProcId, Option<ProcId>)> {
    match event {
        Event::Fork(e) => Some((e.child, Some(e.parent))),
        Event::Exec(e) => Some((e.id, e.parent)),
        Event::ExecFailed(e) => Some((e.id, None)),
        Event::Exit(e) => Some((e.id, e.orig_parent.or(e.parent))),
        Event::Signal(e) => Some((e.target, None)),
        Event::Seed(e) => Some((e.id, e.parent)),
        // The row of a good end follows; it decides.
        Event::Final(_) | Event::Gone { .. } | Event::Lost(_) => None,
    }
}

/// Whether something went wrong; an unknown status is not taken for a good one.
fn failed(process: &Process) -> bool {
    process.end.is_some() && !process.status.is_some_and(|status| status.is_success())
}

impl Sink for FailedOnly {
    fn begin(&mut self, meta: &Meta) -> io::Result<()> {
        self.inner.begin(meta)
    }

    fn event(&mut self, event: &Event, process: Option<&Process>) -> io::Result<()> {
        // Losses are shown always. What is about a process that is not in the
        // table will have no row to decide: better shown than dropped.
        let Some(((id, parent), process)) = subject(event).zip(process) else {
            return match event {
                Event::Final(_) | Event::Gone { .. } => Ok(()),
                _ => self.inner.event(event, process),
            };
        };
        let is_end = matches!(event, Event::Exit(e) if !e.thread);
        self.offer(
            id,
            parent,
            Item::Event(event.clone(), Some(Box::new(process.clone()))),
        )?;
        if is_end && failed(process) {
            self.show(id)
        } else {
            Ok(())
        }
    }

    fn process(&mut self, process: &Process) -> io::Result<()> {
        let id = process.id;
        self.offer(
            id,
            process.orig_parent.or(process.parent),
            Item::Row(Box::new(process.clone())),
        )?;
        if failed(process) || process.end.is_none() {
            self.show(id)?;
        }
        if let Some(node) = self.nodes.get_mut(&id) {
            node.ended = true;
        }
        self.settle(id);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        self.inner.end(end)
    }

    fn rotate(&mut self) -> io::Result<bool> {
        self.inner.rotate()
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }

    fn backlog(&self) -> usize {
        self.inner.backlog()
    }
}

#[cfg(test)]
#[path = "failed_tests.rs"]
mod tests;
