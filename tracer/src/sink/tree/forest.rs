//! Who is whose child. Linear in the number of processes but for one sort, and
//! without recursion.

use rustc_hash::FxHashMap;

use super::node::{Cpu, Node, Outcome, Rss};
use crate::model::ProcId;

/// Children of each node, by index into the nodes (which are in order of start).
pub struct Forest {
    /// Children of `i`: `children[first[i]..first[i + 1]]`.
    first: Vec<usize>,
    children: Vec<usize>,
    pub root: Option<usize>,
    /// Nodes without a known parent, but for the root.
    pub tops: Vec<usize>,
}

impl Forest {
    pub fn new(nodes: &[Node]) -> Self {
        let mut parents = link(nodes);
        let root = nodes.iter().position(|n| n.root);
        if let Some(parent) = root.and_then(|r| parents.get_mut(r)) {
            *parent = None;
        }
        cut_circles(&mut parents);
        // Each index below comes from `nodes`, whose length these share.
        let mut first = vec![0; nodes.len() + 1];
        for parent in parents.iter().flatten() {
            first[parent + 1] += 1;
        }
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        let mut free = first.clone();
        let mut children = vec![0; first.last().copied().unwrap_or(0)];
        let mut tops = Vec::new();
        for (i, parent) in parents.iter().enumerate() {
            match parent {
                Some(p) => {
                    children[free[*p]] = i;
                    free[*p] += 1;
                }
                None if Some(i) != root => tops.push(i),
                None => {}
            }
        }
        Self {
            first,
            children,
            root,
            tops,
        }
    }

    pub fn children(&self, i: usize) -> &[usize] {
        let range = self.first.get(i).zip(self.first.get(i + 1));
        range
            .and_then(|(a, b)| self.children.get(*a..*b))
            .unwrap_or_default()
    }
}

/// The parent of each node, matched at the coarser precision of the two.
fn link(nodes: &[Node]) -> Vec<Option<usize>> {
    let mut by_pid: Vec<(u32, u64, usize)> = nodes
        .iter()
        .enumerate()
        .map(|(i, n)| (n.id.pid, n.id.start, i))
        .collect();
    by_pid.sort_unstable();
    nodes
        .iter()
        .enumerate()
        .map(|(i, n)| find(&by_pid, nodes, n.parent?).filter(|p| *p != i))
        .collect()
}

fn find(by_pid: &[(u32, u64, usize)], nodes: &[Node], id: ProcId) -> Option<usize> {
    // The nearest start on either side; others of this pid lie further away.
    let at = by_pid.partition_point(|(pid, start, _)| (*pid, *start) < (id.pid, id.start));
    let near = [
        by_pid.get(at),
        at.checked_sub(1).and_then(|before| by_pid.get(before)),
    ];
    let matching = near
        .into_iter()
        .flatten()
        .filter(|(_, _, i)| nodes.get(*i).is_some_and(|n| n.id.matches(&id)));
    matching
        .min_by_key(|(_, start, _)| start.abs_diff(id.start))
        .map(|(_, _, i)| *i)
}

/// Damaged captures may hold parents that go round; nothing may be lost or endless.
fn cut_circles(parents: &mut [Option<usize>]) {
    // Parents are indices into `parents`.
    let mut walk = vec![usize::MAX; parents.len()];
    for begin in 0..parents.len() {
        let mut i = begin;
        while walk[i] == usize::MAX {
            walk[i] = begin;
            match parents[i] {
                Some(parent) if walk[parent] == begin => parents[i] = None,
                Some(parent) => i = parent,
                None => {}
            }
        }
    }
}

/// A line of the tree: one process, or equal leaves of one parent.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// The only one, or the first.
    pub node: usize,
    pub count: usize,
    pub cpu: Cpu,
    pub max_rss: Option<Rss>,
}

impl Item {
    fn new(node: usize) -> Self {
        Self {
            node,
            count: 0,
            cpu: Cpu::default(),
            max_rss: None,
        }
    }

    fn add(&mut self, node: &Node) {
        self.count += 1;
        self.cpu.add(node);
        self.max_rss = self.max_rss.max(node.max_rss);
    }
}

/// What two leaves must have in common to share a line.
#[derive(PartialEq, Eq, Hash)]
struct Look<'a> {
    name: &'a str,
    outcome: Outcome,
    killed_by: Option<&'a str>,
    adopted_by: Option<u32>,
    fork_lost: bool,
    by_kernel: bool,
}

/// The lines for `siblings`, in order of the first start in each.
pub fn items(forest: &Forest, nodes: &[Node], siblings: &[usize], fold: bool) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut known: FxHashMap<Look<'_>, usize> = FxHashMap::default();
    for &i in siblings {
        let Some(n) = nodes.get(i) else { continue };
        let place = if fold && forest.children(i).is_empty() {
            let look = Look {
                name: &n.name,
                outcome: n.outcome,
                killed_by: n.killed_by.as_deref(),
                adopted_by: n.adopted_by,
                fork_lost: n.fork_lost,
                by_kernel: n.by_kernel,
            };
            *known.entry(look).or_insert(items.len())
        } else {
            items.len()
        };
        if place == items.len() {
            items.push(Item::new(i));
        }
        if let Some(item) = items.get_mut(place) {
            item.add(n);
        }
    }
    items
}
