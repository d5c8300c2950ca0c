//! Draws the tree, line by line, with a stack of its own.

use std::io::{self, Write};

use super::TreeOptions;
use super::forest::{Forest, Item, items};
use super::node::{Node, Outcome};
use crate::sink::describe;
use crate::sink::escape::{columns, shorten};
use crate::sink::output::Output;
use crate::sink::style::{Paint, Style};
use crate::sink::units::{Size, Time};

/// Deepest level that is drawn indented. Deeper ones stay there and say their level.
const MAX_LEVELS: usize = 40;
/// Columns a level takes.
const INDENT: usize = 3;
/// Least columns for a command, however narrow the terminal.
const LEAST: usize = 16;

pub struct Renderer<'a> {
    nodes: &'a [Node],
    forest: &'a Forest,
    options: TreeOptions,
    /// Records that hide processes were lost; else what is missing was filtered out.
    lost: bool,
    levels: usize,
    line: String,
}

/// Siblings that are being drawn.
struct Frame {
    items: std::vec::IntoIter<Item>,
    /// Bytes of the prefix that are theirs.
    prefix: usize,
    /// Whether a branch is drawn before them.
    branch: bool,
}

impl<'a> Renderer<'a> {
    pub fn new(nodes: &'a [Node], forest: &'a Forest, options: TreeOptions, lost: bool) -> Self {
        // At most half of a terminal goes to indentation.
        let levels = options
            .width
            .map_or(MAX_LEVELS, |w| (w / 2 / INDENT).clamp(1, MAX_LEVELS));
        Self {
            nodes,
            forest,
            options,
            lost,
            levels,
            line: String::new(),
        }
    }

    /// Writes all trees; returns how many levels deep the deepest is.
    pub fn draw(&mut self, out: &mut Output) -> io::Result<usize> {
        let mut depth = 0;
        if let Some(root) = self.forest.root {
            depth = self.family(out, &[root], false)?;
        }
        if self.forest.tops.is_empty() {
            return Ok(depth);
        }
        let strangers = self.forest.root.is_some();
        let strangers_are = match self.options.filtered && !self.lost {
            true => "(parent filtered out)",
            false => "(parent unknown)",
        };
        if strangers {
            self.options
                .style
                .paint(&mut self.line, Paint::Note, strangers_are);
            self.end_line(out)?;
        }
        let forest = self.forest;
        Ok(depth.max(self.family(out, &forest.tops, strangers)?))
    }

    fn family(&mut self, out: &mut Output, siblings: &[usize], branch: bool) -> io::Result<usize> {
        let mut prefix = String::new();
        let mut depth = 0;
        let mut stack = vec![Frame {
            items: self.items(siblings),
            prefix: 0,
            branch,
        }];
        loop {
            let level = stack.len();
            let Some(frame) = stack.last_mut() else {
                return Ok(depth);
            };
            let Some(item) = frame.items.next() else {
                stack.pop();
                continue;
            };
            depth = depth.max(level);
            prefix.truncate(frame.prefix);
            let (last, branch) = (frame.items.as_slice().is_empty(), frame.branch);
            self.draw_line(&prefix, branch.then_some(last), level, &item);
            self.end_line(out)?;
            let children = self.forest.children(item.node);
            if !children.is_empty() {
                if branch && level <= self.levels {
                    prefix.push_str(if last { "   " } else { "│  " });
                }
                stack.push(Frame {
                    items: self.items(children),
                    prefix: prefix.len(),
                    branch: true,
                });
            }
        }
    }

    fn items(&self, siblings: &[usize]) -> std::vec::IntoIter<Item> {
        items(self.forest, self.nodes, siblings, !self.options.full).into_iter()
    }

    fn draw_line(&mut self, prefix: &str, branch: Option<bool>, level: usize, item: &Item) {
        let Some(node) = self.nodes.get(item.node) else {
            return;
        };
        let style = self.options.style;
        let mut lead = String::from(prefix);
        lead.push_str(match branch {
            Some(true) => "└─ ",
            Some(false) => "├─ ",
            None => "",
        });
        if level > self.levels + 1 {
            lead.push_str(&format!("[{level}] "));
        }
        let details = details(node, item, self.lost);
        let (mut pid, mut text) = (String::new(), String::new());
        if item.count == 1 {
            pid = format!("{} ", node.id.pid);
            let used: usize = details.iter().map(|(_, d)| columns(d) + 2).sum();
            let used = used + columns(&lead) + pid.len();
            let command = node.command.as_deref().unwrap_or(&node.name);
            match self.options.width {
                Some(width) => shorten(&mut text, command, width.saturating_sub(used).max(LEAST)),
                None => text.push_str(command),
            }
        } else {
            text = format!("{} ×{}", node.name, item.count);
        }
        style.paint(&mut self.line, Paint::Dim, &lead);
        style.paint(&mut self.line, Paint::Dim, &pid);
        style.paint(
            &mut self.line,
            if node.failed() {
                Paint::Bad
            } else {
                Paint::Strong
            },
            &text,
        );
        self.finish_line(style, &details);
    }

    fn finish_line(&mut self, style: Style, details: &[(Paint, String)]) {
        for (paint, text) in details {
            self.line.push_str("  ");
            style.paint(&mut self.line, *paint, text);
        }
    }

    fn end_line(&mut self, out: &mut Output) -> io::Result<()> {
        self.line.push('\n');
        let written = out.write_all(self.line.as_bytes());
        self.line.clear();
        written
    }
}

/// What follows the command. What is not known is left out.
fn details(node: &Node, item: &Item, lost: bool) -> Vec<(Paint, String)> {
    let mut d = Vec::new();
    let single = item.count == 1;
    if single && let Some(wall) = node.wall_ns() {
        d.push((Paint::Plain, Time(wall).to_string()));
    }
    if item.cpu.known > 0 {
        d.push((Paint::Plain, format!("cpu {}", item.cpu)));
    }
    if let Some(rss) = item.max_rss {
        let bound = if rss.upper { "≤" } else { "" };
        d.push((Paint::Plain, format!("max-rss {bound}{}", Size(rss.bytes))));
    }
    if single && let Some(threads) = node.threads.filter(|t| *t > 1) {
        d.push((Paint::Plain, format!("{threads} threads")));
    }
    match node.outcome {
        Outcome::Running => d.push((Paint::Note, "running".into())),
        Outcome::Unrecorded if lost => d.push((Paint::Note, "(its record is missing)".into())),
        Outcome::Unrecorded => d.push((Paint::Dim, "(filtered out)".into())),
        Outcome::Ended(status) => {
            let mut text = status.map(describe::outcome).unwrap_or_default();
            if let Some(by) = &node.killed_by {
                text.push_str(if text.is_empty() { "killed " } else { " " });
                text.push_str(by);
            }
            if !text.is_empty() {
                d.push((Paint::Bad, text));
            }
        }
    }
    if node.by_kernel {
        d.push((Paint::Dim, "(started by the kernel)".into()));
    }
    if let Some(pid) = node.adopted_by {
        d.push((Paint::Dim, format!("(re-parented to {pid})")));
    }
    if node.fork_lost && lost {
        d.push((Paint::Note, "(fork lost)".into()));
    }
    d
}
