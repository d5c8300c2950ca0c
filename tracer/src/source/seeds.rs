//! Processes that run already, as /proc shows them.
//!
//! Where the kernel has no better list, the programs (or events) are switched on
//! first, and then /proc is read. A process that is forked in between is in both:
//! the record of its fork counts. So what comes meanwhile is held until all up to
//! the end of the reading is there.

use crate::model::time::boot_ns;
use crate::model::{Args, Bytes, Event, Field, ProcId, Reason, Seed};
use crate::sys::procfs::Proc;

/// Program file and arguments of `id`, which is `pid` in our PID namespace
/// (0: it is not to be seen there).
pub(super) fn program(
    proc: &Proc,
    id: ProcId,
    pid: u32,
    kthread: bool,
    max_argv: usize,
) -> (Field<Bytes>, Field<Args>) {
    if kthread {
        return (Field::Missing(Reason::Kernel), Field::Full(Args::default()));
    }
    if pid == 0 {
        return (
            Field::Missing(Reason::Source),
            Field::Missing(Reason::Source),
        );
    }
    let (exe, argv) = (proc.exe(pid), proc.argv(pid, max_argv));
    if is_still(proc, ProcId { pid, ..id }) {
        (exe, argv)
    } else {
        (Field::Missing(Reason::Gone), Field::Missing(Reason::Gone))
    }
}

/// The pid may be another's meanwhile.
fn is_still(proc: &Proc, id: ProcId) -> bool {
    proc.stat(id.pid).is_ok_and(|stat| id.matches(&stat.id))
}

/// A process that runs, with the time `ts`.
fn seed(proc: &Proc, pid: u32, ts: u64, max_argv: usize) -> Option<Seed> {
    let stat = proc.stat(pid).ok()?;
    let (exe, argv) = program(proc, stat.id, pid, stat.kthread, max_argv);
    let seed = Seed {
        ts,
        id: stat.id,
        parent: proc.stat(stat.ppid).ok().map(|parent| parent.id),
        comm: stat.comm,
        exe,
        argv,
        uid: proc.status(pid).ok()?.number("Uid:", 0),
        cgroup: proc.cgroup(pid),
        kthread: stat.kthread,
    };
    let now = proc.stat(pid).ok()?;
    // The leader may end before its other threads. If it is the last one, its
    // record may have been before anybody listened, so it counts as gone.
    let ends = now.exiting && proc.tids(pid).len() < 2;
    (stat.id == now.id && !ends).then_some(seed)
}

/// Processes that a kernel does not list although they run: some protect the
/// first one from BPF. `listed` has the numbers of the others, in order; who
/// began after `ts` has a record of that.
pub(super) fn unlisted(
    proc: &Proc,
    listed: Vec<u32>,
    ts: u64,
    kthreads: bool,
    max_argv: usize,
) -> impl Iterator<Item = Seed> {
    let pids = proc.pids().into_iter();
    let unknown = pids.filter(move |pid| listed.binary_search(pid).is_err());
    let began_before = move |seed: &Seed| seed.id.start + seed.id.precision.tolerance_ns() < ts;
    unknown
        .filter_map(move |pid| seed(proc, pid, ts, max_argv))
        .filter(began_before)
        .filter(move |seed| kthreads || !seed.kthread)
}

/// Seeds out of /proc, and what came while it was read.
#[derive(Default)]
pub(super) struct Meanwhile {
    seeds: Vec<Seed>,
    /// When the reading ended, boot ns; 0: nothing is held any more.
    until: u64,
    held: Vec<(u64, Event)>,
}

impl Meanwhile {
    /// Reads /proc now: everything is switched on since `ts`.
    pub fn read(proc: &Proc, ts: u64, kthreads: bool, max_argv: usize) -> Self {
        let seeds = proc.pids().into_iter();
        let seeds = seeds.filter_map(|pid| seed(proc, pid, ts, max_argv));
        Self {
            seeds: seeds.filter(|seed| kthreads || !seed.kthread).collect(),
            until: boot_ns(),
            held: Vec::new(),
        }
    }

    /// Takes the events of a drain, which is complete up to `complete_to`, and
    /// gives back what may go on. Returns up to when that is complete.
    pub fn sift(&mut self, events: &mut Vec<(u64, Event)>, complete_to: u64) -> u64 {
        if self.until == 0 {
            return complete_to;
        }
        self.held.append(events);
        if complete_to < self.until {
            return 0;
        }
        self.until = 0;
        let held = std::mem::take(&mut self.held);
        for seed in self.seeds.drain(..) {
            let forked = held.iter().any(|(_, event)| match event {
                Event::Fork(fork) => !fork.thread && fork.child.matches(&seed.id),
                _ => false,
            });
            if !forked {
                events.push((0, Event::Seed(Box::new(seed))));
            }
        }
        events.extend(held);
        complete_to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Comm, Fork, Precision};

    fn child(pid: u32, start: u64, ts: u64) -> (u64, Event) {
        let fork = Fork {
            ts,
            cpu: None,
            parent: ProcId::exact(1, 1),
            tid: 1,
            comm: Comm::default(),
            child: ProcId::exact(pid, start),
            child_tid: pid,
            child_ns_pid: None,
            thread: false,
            kthread: false,
        };
        (1, Event::Fork(fork))
    }

    #[test]
    fn who_has_a_fork_is_no_seed() {
        let proc = Proc::default();
        let mut meanwhile = Meanwhile::read(&proc, 5, false, 100);
        let own = proc.stat(std::process::id()).unwrap().id;
        let is_own = |seed: &Seed| seed.id == own;
        assert_eq!(meanwhile.seeds.iter().filter(|s| is_own(s)).count(), 1);
        assert!(meanwhile.seeds.iter().all(|s| s.ts == 5 && !s.kthread));
        let all = meanwhile.seeds.len();
        let until = meanwhile.until;

        // Exact, within the tick that /proc knows.
        let mut events = vec![child(own.pid, own.start + 123, until - 1)];
        assert_eq!(own.precision, Precision::Tick);
        assert_eq!(meanwhile.sift(&mut events, until - 1), 0);
        assert!(events.is_empty());
        events.push(child(own.pid + 1, until, until));
        assert_eq!(meanwhile.sift(&mut events, until), until);
        let is_fork = |e: &&(u64, Event)| matches!(e.1, Event::Fork(_));
        assert_eq!(events.iter().filter(is_fork).count(), 2);
        assert_eq!(events.len(), all - 1 + 2);
        let seeded = |e: &(u64, Event)| matches!(&e.1, Event::Seed(s) if is_own(s));
        assert!(!events.iter().any(seeded));

        let mut events = vec![child(7, 1, 2)];
        assert_eq!(meanwhile.sift(&mut events, 3), 3);
        assert_eq!(events.len(), 1);
    }
}
