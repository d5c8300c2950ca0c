//! Ends: totals are read at the exit stop, the end is told when wait4 reports it.

use super::RootEnd;
use super::call::{self, Report};
use super::group::{Last, Task};
use super::parse::{Io, Sched, Status as ProcStatus};
use super::rusage::Rusage;
use super::tracer::Tracer;
use crate::model::time::boot_ns;
use crate::model::{Event, Exit, Field, Final, Reason, Status, Usage};

impl Tracer {
    /// `tid` is about to end; its memory and files are still there.
    pub(super) fn on_exit_stop(&mut self, tid: u32, rusage: &Rusage) {
        let Some(tgid) = self.tasks.get(&tid).map(|t| t.tgid) else {
            return;
        };
        let of = self.groups.get(&tgid);
        let Some((threads, live)) = of.map(|g| (g.threads, g.live)) else {
            return;
        };
        let alone = threads == 1;
        if live <= 1 && (!alone || is_killed(tid)) {
            self.find_children(tgid);
        }
        let (task, group) = (self.tasks.get_mut(&tid), self.groups.get_mut(&tgid));
        let (Some(task), Some(group)) = (task, group) else {
            return;
        };
        if std::mem::replace(&mut task.exiting, true) {
            return;
        }
        // The file of the process holds the I/O of its children, too.
        let io = if alone && group.children == 0 {
            self.proc.process_io(tgid)
        } else {
            self.proc.thread_io(tgid, tid)
        };
        let sched = self.proc.sched(tid);
        group.add_thread(io, sched);
        group.live = group.live.saturating_sub(1);
        let last = group.live == 0;
        let stat = if last || tid == tgid {
            self.proc.stat_and_owner(tid)
        } else {
            None
        };
        let (stat, owner) = stat.unzip();
        // The longest of the files. Without a change of ids, and with a peak
        // that has grown since the exec, it has nothing new to tell.
        let same_ids = group.owner.is_some() && owner == group.owner;
        let peak_known = group.children == 0 && rusage.maxrss > group.maxrss_at_exec;
        let wanted = self.options.threads || (last && !(same_ids && peak_known));
        let status = if wanted { self.proc.status(tid) } else { None };
        if self.options.threads && !alone {
            task.usage = Some(Box::new(thread_usage(io, sched, status.as_ref())));
        }
        // The process bears its leader's name.
        if let (true, Some(stat)) = (tid == tgid, &stat) {
            group.comm = stat.comm;
        }
        if last {
            if let Some(status) = &status {
                (group.uid, group.gid) = (Some(status.uid), Some(status.gid));
                group.ns_pid = status.ns_pid;
            }
            group.last = Last { status, stat };
        }
    }

    /// A task has ended and was reaped. A leader is reported after all other
    /// threads of its process, so that its end is that of the process.
    pub(super) fn on_end(&mut self, status: u32, report: &Report) {
        let tid = report.tid;
        let Some(task) = self.tasks.remove(&tid) else {
            return;
        };
        if tid == task.tgid {
            self.on_process_end(status, report);
        } else {
            self.on_thread_end(tid, task, status);
        }
    }

    fn on_thread_end(&mut self, tid: u32, task: Task, status: u32) {
        let Some(group) = self.groups.get_mut(&task.tgid) else {
            return;
        };
        if !task.exiting {
            // A kill made it skip its exit stop.
            group.add_thread(None, None);
            group.live = group.live.saturating_sub(1);
        }
        if self.options.threads {
            let exit = Exit {
                ts: boot_ns(),
                cpu: None,
                id: group.id,
                tid,
                thread: true,
                thread_start: Some(task.start),
                parent: None,
                orig_parent: None,
                comm: group.comm,
                status: Some(Status::from_wait(status)),
                uid: None,
                gid: None,
                ns_pid: None,
                cgroup: Field::Missing(Reason::Source),
                threads: None,
                usage: task.usage.map(|u| *u).unwrap_or_default(),
                kthread: false,
                root: false,
            };
            self.out.push(Event::Exit(Box::new(exit)));
        }
    }

    fn on_process_end(&mut self, status: u32, report: &Report) {
        let (pid, rusage) = (report.tid, &report.rusage);
        let Some(mut group) = self.groups.remove(&pid) else {
            return;
        };
        if group.live > 0 {
            group.add_thread(None, None);
        }
        self.remember(group.id, group.comm);
        let ts = boot_ns();
        let ppid = group.last.stat.as_ref().map(|s| s.ppid);
        let parent = match ppid {
            Some(ppid) => self.identify(ppid),
            None => group.orig_parent,
        };
        // Its parent will wait for it, and then have its resources.
        match parent.and_then(|p| self.groups.get_mut(&p.pid)) {
            Some(to) if to.live > 0 => {
                to.reaped.add(rusage);
                to.children += u64::from(parent != group.orig_parent);
            }
            _ => self.stray.add(rusage),
        }
        let hidden = group
            .last
            .stat
            .as_ref()
            .is_some_and(|s| s.cminflt > group.reaped.minflt + self.stray.minflt);
        if hidden {
            self.untraced(ts, group.id);
        }
        let mut usage = group.usage(rusage, self.tick);
        usage.is_final &= report.complete;
        let status_of = Status::from_wait(status);
        let exit = Exit {
            ts,
            cpu: None,
            id: group.id,
            tid: pid,
            thread: false,
            thread_start: None,
            parent,
            orig_parent: group.orig_parent,
            comm: group.comm,
            status: Some(status_of),
            uid: group.uid,
            gid: group.gid,
            ns_pid: group.ns_pid,
            cgroup: group.cgroup,
            threads: Some(group.threads),
            usage,
            kthread: false,
            root: pid == self.root.pid,
        };
        // Nobody need wait for better ones.
        let last_word = (!exit.usage.is_final).then(|| Final {
            ts,
            id: exit.id,
            threads: exit.threads,
            usage: exit.usage.clone(),
            told_ns: None,
        });
        self.out.push(Event::Exit(Box::new(exit)));
        if let Some(last_word) = last_word {
            self.out.push(Event::Final(Box::new(last_word)));
        }
        if pid == self.root.pid
            && let Some(end) = self.end.take()
        {
            // An error: nobody wants to know.
            let _ = end.send(RootEnd {
                wait_status: status,
                status: status_of,
                rusage: *rusage,
            });
        }
    }
}

/// Whether a task at its exit stop was killed, at whatever stop it may have stood.
fn is_killed(tid: u32) -> bool {
    let status = call::event_message(tid, &[libc::PTRACE_EVENT_EXIT]);
    status.is_ok_and(|s| s & 0x7f == u64::from(libc::SIGKILL.cast_unsigned()))
}

/// A thread's own totals at its exit stop.
fn thread_usage(io: Option<Io>, sched: Option<Sched>, status: Option<&ProcStatus>) -> Usage {
    Usage {
        cpu_ns: sched.map(|s| s.cpu),
        run_delay_ns: sched.map(|s| s.run_delay),
        nvcsw: status.map(|s| s.nvcsw),
        nivcsw: status.map(|s| s.nivcsw),
        inblock: io.map(|i| i.read_bytes >> 9),
        oublock: io.map(|i| i.write_bytes >> 9),
        read_bytes: io.map(|i| i.read_bytes),
        write_bytes: io.map(|i| i.write_bytes),
        cancelled_write_bytes: io.map(|i| i.cancelled_write_bytes),
        rchar: io.map(|i| i.rchar),
        wchar: io.map(|i| i.wchar),
        ..Usage::default()
    }
}
