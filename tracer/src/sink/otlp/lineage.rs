//! Which trace a process belongs to: a tree is a trace, and its root is the first process below
//! one that ran before the capture.

use rustc_hash::FxHashMap;

use crate::model::{Event, ProcId, Process};

/// Where a process stands in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The process that begins the trace; it may be this one.
    pub root: ProcId,
    /// Parent at the fork, if it is in the trace too.
    pub parent: Option<ProcId>,
}

/// Places of the processes that live and were born during the capture.
#[derive(Debug, Default)]
pub struct Lineage {
    places: FxHashMap<ProcId, Place>,
}

impl Lineage {
    /// Takes note of an event; `process` is what is known of its subject after it.
    pub fn event(&mut self, event: &Event, process: Option<&Process>) {
        match event {
            Event::Fork(e) if !e.thread => self.born(e.child, Some(e.parent)),
            // The fork was lost, or is the command's own.
            Event::Exec(e) => self.seen(e.id, process),
            Event::Exit(e) if !e.thread => self.seen(e.id, process),
            // It will have no row.
            Event::Gone { id, left: true, .. } => drop(self.places.remove(id)),
            _ => {}
        }
    }

    fn seen(&mut self, id: ProcId, process: Option<&Process>) {
        let before = process.is_some_and(|p| p.seeded && !p.fork_seen);
        if !before && !self.places.contains_key(&id) {
            self.born(id, process.and_then(|p| p.orig_parent.or(p.parent)));
        }
    }

    fn born(&mut self, id: ProcId, parent: Option<ProcId>) {
        let above = parent.and_then(|p| Some((p, self.places.get(&p)?.root)));
        let place = Place {
            root: above.map_or(id, |(_, root)| root),
            parent: above.map(|(parent, _)| parent),
        };
        self.places.insert(id, place);
    }

    /// The place of a process whose row has come; it is forgotten.
    pub fn leave(&mut self, id: &ProcId) -> Place {
        self.places.remove(id).unwrap_or(Place {
            root: *id,
            parent: None,
        })
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::samples;

    fn id(pid: u32) -> ProcId {
        samples::pid(pid, u64::from(pid))
    }

    fn fork(lineage: &mut Lineage, parent: u32, child: u32) {
        let fork = samples::fork(id(parent), id(child));
        lineage.event(&Event::Fork(fork), None);
    }

    #[test]
    fn the_first_below_a_running_one_begins_a_trace() {
        let mut lineage = Lineage::default();
        fork(&mut lineage, 1, 10);
        fork(&mut lineage, 10, 11);
        fork(&mut lineage, 11, 12);
        fork(&mut lineage, 1, 20);
        let place = |root, parent: Option<u32>| Place {
            root: id(root),
            parent: parent.map(id),
        };
        // A parent may be gone before its child ends.
        assert_eq!(lineage.leave(&id(10)), place(10, None));
        assert_eq!(lineage.leave(&id(11)), place(10, Some(10)));
        assert_eq!(lineage.leave(&id(12)), place(10, Some(11)));
        assert_eq!(lineage.leave(&id(20)), place(20, None));
        assert_eq!(lineage.leave(&id(1)), place(1, None));
        assert_eq!(lineage.len(), 0);
    }

    #[test]
    fn one_that_ran_before_does_not_become_a_root_by_an_exec() {
        let mut lineage = Lineage::default();
        let mut process = samples::process(id(1), None, &["bash"], 1);
        (process.seeded, process.fork_seen) = (true, false);
        let exec = Event::Exec(samples::exec(id(1), &["bash"]).into());
        lineage.event(&exec, Some(&process));
        fork(&mut lineage, 1, 2);
        assert_eq!(lineage.leave(&id(2)).root, id(2));
        assert_eq!(lineage.len(), 0);
    }

    #[test]
    fn a_lost_fork_is_made_up_for() {
        let mut lineage = Lineage::default();
        fork(&mut lineage, 1, 2);
        let process = samples::process(id(3), Some(id(2)), &["ls"], 1);
        let exec = Event::Exec(samples::exec(id(3), &["ls"]).into());
        lineage.event(&exec, Some(&process));
        assert_eq!(
            lineage.leave(&id(3)),
            Place {
                root: id(2),
                parent: Some(id(2))
            }
        );
    }

    #[test]
    fn what_leaves_the_filters_is_forgotten() {
        let mut lineage = Lineage::default();
        fork(&mut lineage, 1, 2);
        let gone = Event::Gone {
            ts: 9,
            id: id(2),
            left: true,
        };
        lineage.event(&gone, None);
        assert_eq!(lineage.len(), 0);
    }
}
