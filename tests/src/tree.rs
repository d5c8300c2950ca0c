//! Who started whom, without what tells one run from another.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::{Capture, Record};

impl Capture {
    /// The tree below the command as text, a line a process: its depth and
    /// `members`; siblings are in order of what is below them.
    pub fn tree(&self, members: &[&str]) -> String {
        let rows: Vec<&Value> = self.of("process").collect();
        let mut children: HashMap<(u64, u64), Vec<&Value>> = HashMap::new();
        for row in rows.iter().filter(|r| !r.flag("root")) {
            let parent = (row.num("orig_ppid"), row.num("orig_parent_start"));
            children.entry(parent).or_default().push(row);
        }
        // From the leaves up, without recursion: chains may be long.
        let mut order = vec![self.root()];
        let mut at = 0;
        while let Some(row) = order.get(at) {
            order.extend(children.get(&row.id()).into_iter().flatten());
            at += 1;
        }
        assert_eq!(order.len(), rows.len(), "each process hangs on the command");
        let mut done: BTreeMap<(u64, u64), Vec<String>> = BTreeMap::new();
        for row in order.iter().rev() {
            let mut below: Vec<Vec<String>> = children
                .get(&row.id())
                .into_iter()
                .flatten()
                .filter_map(|child| done.remove(&child.id()))
                .collect();
            below.sort();
            let label: Vec<String> = members.iter().map(|m| row[*m].to_string()).collect();
            let mut lines = vec![label.join(" ")];
            lines.extend(below.into_iter().flatten().map(|line| format!(" {line}")));
            done.insert(row.id(), lines);
        }
        let lines = done.remove(&self.root().id()).unwrap_or_default();
        lines.join("\n")
    }
}
