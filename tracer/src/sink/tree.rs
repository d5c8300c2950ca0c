//! The default output: at the end, who started whom, how each ended and what
//! it cost, then a summary of five lines.
//!
//! It is built from process records alone, so it is right even where a fork was
//! lost. A node keeps only what its line shows.

mod forest;
mod node;
mod render;
mod summary;

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::Sink;
use super::output::Output;
use super::style::Style;
use crate::model::{End, Event, LossKind, LossPlace, Meta, Process};
use forest::Forest;
use node::Node;
use render::Renderer;

/// Longest command that is kept for output without a width, in bytes.
const COMMAND: usize = 4096;
/// When the kept commands together are longer than this, further ones are cut to [`SHORT`].
const COMMANDS: usize = 16 << 20;
const SHORT: usize = 120;

/// How the tree looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeOptions {
    /// A line for every process (`--tree=full`).
    pub full: bool,
    pub style: Style,
    /// Filters hide some processes: what is not there is not missing.
    pub filtered: bool,
    /// Columns of the terminal; absent where it is none: lines keep their length.
    pub width: Option<usize>,
}

/// Losses by where and of what.
type Losses = FxHashMap<(LossPlace, LossKind), u64>;

/// Keeps a node for each process and draws them at the end.
pub struct Tree {
    out: Output,
    options: TreeOptions,
    meta: Option<Meta>,
    nodes: Vec<Node>,
    /// Program names, each once.
    names: HashSet<Arc<str>, FxBuildHasher>,
    command_bytes: usize,
    lost: Losses,
}

impl Tree {
    pub fn new(out: Output, options: TreeOptions) -> Self {
        Self {
            out,
            options,
            meta: None,
            nodes: Vec::new(),
            names: HashSet::default(),
            command_bytes: 0,
            lost: Losses::default(),
        }
    }

    fn intern(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.names.get(name.as_str()) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }
}

impl Sink for Tree {
    fn begin(&mut self, meta: &Meta) -> io::Result<()> {
        self.meta = Some(meta.clone());
        Ok(())
    }

    fn event(&mut self, event: &Event, _: Option<&Process>) -> io::Result<()> {
        if let Event::Lost(l) = event {
            let count = self.lost.entry((l.place, l.kind)).or_default();
            *count = count.saturating_add(l.count);
        }
        Ok(())
    }

    fn process(&mut self, p: &Process) -> io::Result<()> {
        let limit = match self.options.width {
            // Two bytes a column leave room for other scripts.
            Some(width) => width.saturating_mul(2).min(COMMAND),
            None => COMMAND,
        };
        let limit = if self.command_bytes > COMMANDS {
            limit.min(SHORT)
        } else {
            limit
        };
        let name = self.intern(super::describe::program(p));
        let node = Node::new(p, name, limit);
        self.command_bytes += node.command.as_ref().map_or(0, |c| c.len());
        self.nodes.push(node);
        Ok(())
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        let mut nodes = std::mem::take(&mut self.nodes);
        if let Some(meta) = &self.meta
            && let Some(id) = meta.root
        {
            match nodes.iter_mut().find(|n| n.root || n.id.matches(&id)) {
                Some(node) => node.root = true,
                None => nodes.push(Node::unrecorded_root(id, &meta.command)),
            }
        }
        nodes.sort_by_key(|n| (n.id.start, n.id.pid));
        let forest = Forest::new(&nodes);
        let hidden = self.lost.keys().any(|(_, kind)| kind.hides_processes());
        let mut renderer = Renderer::new(&nodes, &forest, self.options, hidden);
        let depth = renderer.draw(&mut self.out)?;
        let mut text = String::new();
        let facts = summary::Facts {
            nodes: &nodes,
            lost: &self.lost,
            meta: self.meta.as_ref(),
            end,
            depth,
            filtered: self.options.filtered,
        };
        summary::write(&mut text, self.options.style, &facts);
        self.out.write_all(text.as_bytes())?;
        self.out.finish()
    }

    fn backlog(&self) -> usize {
        self.out.backlog()
    }
}

#[cfg(test)]
mod tests;
