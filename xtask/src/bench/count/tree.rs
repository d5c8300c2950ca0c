//! Which events of the whole machine belong to the workload.

use std::{collections::HashSet, io::BufRead};

use anyhow::Result;

use super::{Counts, each};

/// The living descendants of `root`, followed through a stream of events.
pub struct Tree {
    root: u32,
    alive: HashSet<u32>,
    fork: u64,
    exec: u64,
    exit: u64,
}

impl Tree {
    pub fn new(root: u32) -> Self {
        Self {
            root,
            alive: HashSet::from([root]),
            fork: 0,
            exec: 0,
            exit: 0,
        }
    }

    pub fn fork(&mut self, parent: u32, child: u32) {
        if self.alive.contains(&parent) {
            self.fork += 1;
            self.alive.insert(child);
        } else if child != self.root {
            // The number was used before, and its end was lost.
            self.alive.remove(&child);
        }
    }

    pub fn exec(&mut self, pid: u32) {
        self.exec += u64::from(pid != self.root && self.alive.contains(&pid));
    }

    pub fn exit(&mut self, pid: u32) {
        self.exit += u64::from(pid != self.root && self.alive.remove(&pid));
    }

    pub const fn counts(&self, lost: Option<u64>) -> Counts {
        Counts {
            fork: Some(self.fork),
            exec: Some(self.exec),
            exit: Some(self.exit),
            lost,
        }
    }
}

/// forkstat prints parent 0 for a child that had gone when it looked; between the root's exec and its end such
/// count as the workload's. So it is only counted right on a quiet machine.
pub fn forkstat(input: impl BufRead, root: u32) -> Result<Counts> {
    let state = (Tree::new(root), 0, false);
    let (tree, ..) = each(input, state, |(tree, parent, inside), line| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, pid) = (words.next(), words.next());
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else {
            return;
        };
        match (kind, words.next()) {
            (Some("exec"), _) => {
                *inside |= pid == root;
                tree.exec(pid);
            }
            (Some("fork"), Some("parent")) => *parent = pid,
            (Some("fork"), _) if *parent == 0 && *inside => tree.fork(root, pid),
            (Some("fork"), _) => tree.fork(*parent, pid),
            (Some("exit"), _) => {
                *inside &= pid != root;
                tree.exit(pid);
            }
            _ => {}
        }
    })?;
    Ok(tree.counts(None))
}
