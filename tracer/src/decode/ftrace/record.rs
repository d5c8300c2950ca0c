//! One record of the events that make a process tree.

use crate::model::Comm;

/// `N` is the type of a file name: borrowed while decoding, owned in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<N> {
    /// In the clock of the trace: ns, or whatever an integer clock counts.
    pub ts: u64,
    pub cpu: u32,
    /// The thread that ran: the caller of clone, execve or exit.
    pub tid: u32,
    pub body: Body<N>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<N> {
    /// `task:task_newtask`, which comes right before the fork's record and
    /// alone tells threads from processes. Threads of io_uring and vhost have it only.
    NewTask {
        child: u32,
        comm: Comm,
        clone_flags: u64,
    },
    /// `sched:sched_process_fork`.
    Fork { comm: Comm, child: u32 },
    /// `sched:sched_process_exec`; `old_tid` differs from the record's `tid`
    /// where a thread other than the leader called execve.
    Exec { filename: N, old_tid: u32 },
    /// `sched:sched_process_exit`; `group_dead` since Linux 6.16.
    Exit {
        comm: Comm,
        group_dead: Option<bool>,
    },
}

impl<N> Record<N> {
    pub fn map_name<M>(self, f: impl FnOnce(N) -> M) -> Record<M> {
        let body = match self.body {
            Body::NewTask {
                child,
                comm,
                clone_flags,
            } => Body::NewTask {
                child,
                comm,
                clone_flags,
            },
            Body::Fork { comm, child } => Body::Fork { comm, child },
            Body::Exec { filename, old_tid } => Body::Exec {
                filename: f(filename),
                old_tid,
            },
            Body::Exit { comm, group_dead } => Body::Exit { comm, group_dead },
        };
        Record {
            ts: self.ts,
            cpu: self.cpu,
            tid: self.tid,
            body,
        }
    }
}
