//! What is remembered of a process and of its threads while they run.

use rustc_hash::FxHashMap;

use super::parse::{Io, Sched, Stat, Status};
use super::rusage::Rusage;
use crate::model::{Bytes, Comm, Field, ProcId, Usage};

/// A traced thread.
#[derive(Debug)]
pub struct Task {
    pub tgid: u32,
    /// Boot ns.
    pub start: u64,
    /// It has passed its exit stop.
    pub exiting: bool,
    /// Its own totals, where threads are recorded.
    pub usage: Option<Box<Usage>>,
}

/// Processes that began in the newest tick: /proc does not tell those apart that
/// had the same pid in it.
#[derive(Debug, Default)]
pub struct Newest {
    tick: u64,
    begun: FxHashMap<u32, u64>,
}

impl Newest {
    /// The start of a new process, from that of /proc: a ns later than that of the
    /// one before it, where the two would be the same.
    pub fn begin(&mut self, pid: u32, start: u64) -> u64 {
        if start > self.tick {
            self.tick = start;
            self.begun.clear();
        }
        if start < self.tick {
            return start;
        }
        let before = self.begun.entry(pid).or_default();
        *before += 1;
        start + *before - 1
    }
}

/// What was read when the last thread of a process was about to end.
#[derive(Clone, Debug, Default)]
pub struct Last {
    pub status: Option<Status>,
    pub stat: Option<Stat>,
}

/// A traced process.
#[derive(Debug)]
pub struct Group {
    pub id: ProcId,
    pub orig_parent: Option<ProcId>,
    pub comm: Comm,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub ns_pid: Option<u32>,
    /// Owner of its files in /proc at the exec.
    pub owner: Option<(u32, u32)>,
    pub cgroup: Field<Bytes>,
    /// Threads ever created, and those that have not passed their exit stop.
    pub threads: u64,
    pub live: u64,
    /// Its program was begun while it had other threads, which were ended by that.
    pub ended_threads: bool,
    /// Sums over the threads that have; `None` once one could not be read.
    pub io: Option<Io>,
    pub sched: Option<Sched>,
    /// Child processes it has had, and the resources of those that have ended.
    pub children: u64,
    pub reaped: Rusage,
    /// `maxrss` when its program began, KiB: it includes that of the image before.
    pub maxrss_at_exec: u64,
    pub last: Last,
}

impl Group {
    pub fn new(id: ProcId, orig_parent: Option<ProcId>, comm: Comm) -> Self {
        Self {
            id,
            orig_parent,
            comm,
            uid: None,
            gid: None,
            ns_pid: None,
            owner: None,
            cgroup: Field::Missing(crate::model::Reason::Source),
            threads: 1,
            live: 1,
            ended_threads: false,
            io: Some(Io::default()),
            sched: Some(Sched::default()),
            children: 0,
            reaped: Rusage::default(),
            maxrss_at_exec: 0,
            last: Last::default(),
        }
    }

    /// Adds what a thread had used at its exit stop.
    pub fn add_thread(&mut self, io: Option<Io>, sched: Option<Sched>) {
        self.io = self.io.zip(io).map(|(a, b)| Io {
            rchar: a.rchar + b.rchar,
            wchar: a.wchar + b.wchar,
            read_bytes: a.read_bytes + b.read_bytes,
            write_bytes: a.write_bytes + b.write_bytes,
            cancelled_write_bytes: a.cancelled_write_bytes + b.cancelled_write_bytes,
        });
        self.sched = self.sched.zip(sched).map(|(a, b)| Sched {
            cpu: a.cpu + b.cpu,
            run_delay: a.run_delay + b.run_delay,
        });
    }

    /// Whether the children that are known are those that the kernel has
    /// counted in `both`: then what is left is the process's own.
    fn own(&self, both: &Rusage) -> Option<Rusage> {
        match &self.last.stat {
            Some(stat) => (stat.cminflt == self.reaped.minflt).then(|| both.without(&self.reaped)),
            None => (self.children == 0).then_some(*both),
        }
    }

    /// Totals after the end. `both` is what wait4 gave: final, but with the
    /// children that were waited for. `tick` is the length of a clock tick, ns.
    pub fn usage(&self, both: &Rusage, tick: u64) -> Usage {
        let own = self.own(both);
        let Last { status, stat } = &self.last;
        let hwm = status.as_ref().and_then(|s| s.max_rss);
        let max_rss_bytes = if self.children == 0 && both.maxrss > self.maxrss_at_exec {
            Some(both.maxrss * 1024)
        } else {
            hwm
        };
        let mut usage = Usage {
            is_final: own.is_some(),
            max_rss_bytes,
            max_rss_upper_bytes: max_rss_bytes.is_none().then_some(both.maxrss * 1024),
            run_delay_ns: self.sched.map(|s| s.run_delay),
            read_bytes: self.io.map(|i| i.read_bytes),
            write_bytes: self.io.map(|i| i.write_bytes),
            cancelled_write_bytes: self.io.map(|i| i.cancelled_write_bytes),
            rchar: self.io.map(|i| i.rchar),
            wchar: self.io.map(|i| i.wchar),
            ..Usage::default()
        };
        if let Some(own) = own {
            usage.utime_ns = Some(own.utime * 1000);
            usage.stime_ns = Some(own.stime * 1000);
            usage.cpu_ns = Some((own.utime + own.stime) * 1000);
            usage.minflt = Some(own.minflt);
            usage.majflt = Some(own.majflt);
            usage.nvcsw = Some(own.nvcsw);
            usage.nivcsw = Some(own.nivcsw);
            usage.inblock = Some(own.inblock);
            usage.oublock = Some(own.oublock);
            return usage;
        }
        // What it had at the exit stop, as far as /proc separates it from its children's.
        usage.cpu_ns = self.sched.map(|s| s.cpu);
        usage.inblock = self.io.map(|i| i.read_bytes >> 9);
        usage.oublock = self.io.map(|i| i.write_bytes >> 9);
        if let Some(stat) = stat {
            usage.utime_ns = Some(stat.utime * tick);
            usage.stime_ns = Some(stat.stime * tick);
            usage.minflt = Some(stat.minflt);
            usage.majflt = Some(stat.majflt);
        }
        if let (1, Some(status)) = (self.threads, status) {
            usage.nvcsw = Some(status.nvcsw);
            usage.nivcsw = Some(status.nivcsw);
        }
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::Newest;

    #[test]
    fn two_with_one_pid_in_one_tick_are_told_apart() {
        let mut newest = Newest::default();
        let begun = [
            (7, 10),
            (7, 10),
            (8, 10),
            (7, 10),
            (7, 20),
            (7, 10),
            (7, 20),
        ];
        let starts = begun.map(|(pid, start)| newest.begin(pid, start));
        assert_eq!(starts, [10, 11, 10, 12, 20, 10, 21]);
    }
}
