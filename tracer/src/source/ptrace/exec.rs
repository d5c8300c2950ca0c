//! A new program: everything is read while the task stands at its exec stop.

use std::sync::Arc;

use super::call;
use super::group::Task;
use super::note::Note;
use super::parse::{self, Stat, Status};
use super::proc::Program;
use super::rusage::Rusage;
use super::stack::{Ids, Stack};
use super::tracer::Tracer;
use crate::model::time::boot_ns;
use crate::model::{Args, Event, Exec, Field, Reason};
use crate::sys::procfs::reason;

impl Tracer {
    pub(super) fn on_exec(&mut self, pid: u32, rusage: &Rusage) {
        let alone = self.groups.get(&pid).is_some_and(|g| g.threads == 1);
        if !alone {
            // Other threads were ended by this.
            self.find_children(pid);
        }
        let ts = boot_ns();
        let former = if alone {
            None
        } else {
            call::event_message(pid, &[libc::PTRACE_EVENT_EXEC]).ok()
        };
        let former = former
            .and_then(|tid| u32::try_from(tid).ok())
            .unwrap_or(pid);
        if former != pid {
            self.take_over(pid, former);
        }
        let (stat, owner) = self.proc.stat_and_owner(pid).unzip();
        let stack = match &stat {
            Some(stat) => self.stack(pid, stat),
            None => Stack::missing(Reason::Gone, self.options.env),
        };
        let ids = self.ids(pid, stack.ids, owner);
        let cwd = match self.proc.cwd(pid) {
            Ok(cwd) => Field::Full(cwd),
            Err(e) => Field::Missing(reason(&e)),
        };
        let cgroup = match self.proc.cgroup(pid) {
            Ok(Some(path)) => Field::Full(path),
            Ok(None) => Field::Missing(Reason::Kernel),
            Err(e) => Field::Missing(reason(&e)),
        };
        let loginuid = self.loginuid(pid);
        let parent = stat.as_ref().and_then(|s| self.identify(s.ppid));
        let Some(group) = self.groups.get_mut(&pid) else {
            return;
        };
        if let Some(stat) = &stat {
            group.comm = stat.comm;
        }
        if let Some(ids) = ids {
            (group.uid, group.gid) = (Some(ids.uid), Some(ids.gid));
        }
        group.ended_threads = !alone;
        group.owner = owner;
        group.cgroup = cgroup.clone();
        group.maxrss_at_exec = rusage.maxrss;
        let exec = Exec {
            ts,
            cpu: None,
            id: group.id,
            tid: pid,
            old_tid: (former != pid).then_some(former),
            parent: parent.or(group.orig_parent),
            comm: group.comm,
            filename: stack.filename,
            argv: stack.argv,
            env: stack.env,
            cwd,
            uid: ids.map(|i| i.uid),
            euid: ids.map(|i| i.euid),
            gid: ids.map(|i| i.gid),
            egid: ids.map(|i| i.egid),
            loginuid,
            sid: stat.as_ref().map(|s| s.sid),
            pgid: stat.as_ref().map(|s| s.pgid),
            tty: stat.as_ref().and_then(|s| parse::tty(s.tty)),
            cgroup,
            ns_pid: group.ns_pid,
            by_kernel: false,
            root: pid == self.root.pid,
        };
        if self.ordinary {
            self.note_unprivileged(&exec);
        }
        self.out.push(Event::Exec(Arc::new(exec)));
    }

    /// A thread called execve: it becomes the leader, all others are gone.
    fn take_over(&mut self, tgid: u32, former: u32) {
        // The old leader is dead and reports no end; the others have reported theirs.
        self.tasks.retain(|tid, t| t.tgid != tgid || *tid == former);
        let task = self.tasks.remove(&former);
        let start = task.map_or(0, |t| t.start);
        self.tasks.insert(
            tgid,
            Task {
                tgid,
                start,
                exiting: false,
                usage: None,
            },
        );
        if let Some(group) = self.groups.get_mut(&tgid) {
            group.live = 1;
        }
    }

    fn stack(&mut self, pid: u32, stat: &Stat) -> Stack {
        let env = self.options.env;
        if Stack::is_told(stat) {
            let read = Stack::read(pid, stat, self.options.max_argv, env, &mut self.memory);
            return read.unwrap_or_else(|e| Stack::missing(reason(&e), env));
        }
        let mut stack = Stack::missing(Reason::Denied, env);
        if let Ok(bytes) = self.proc.cmdline(pid) {
            stack.argv = Field::Full(Args(bytes.into()));
        }
        stack
    }

    /// What the process believes of its ids holds unless it lives in another
    /// user namespace: then /proc shows another owner. /proc/PID/status knows
    /// for certain, at twenty times the price.
    fn ids(&mut self, pid: u32, own: Option<Ids>, owner: Option<(u32, u32)>) -> Option<Ids> {
        let nested = self.groups.get(&pid).is_some_and(|g| g.ns_pid.is_some());
        if let Some(ids) = own.filter(|i| !nested && Some((i.euid, i.egid)) == owner) {
            return Some(ids);
        }
        let Status {
            uid,
            euid,
            gid,
            egid,
            ns_pid,
            ..
        } = self.proc.status(pid)?;
        if let Some(group) = self.groups.get_mut(&pid) {
            group.ns_pid = ns_pid;
        }
        Some(Ids {
            uid,
            euid,
            gid,
            egid,
        })
    }

    /// Once set it can be changed by the privileged only.
    fn loginuid(&mut self, pid: u32) -> Option<u32> {
        if !self.ordinary || self.loginuid.is_none() {
            self.loginuid = self.proc.loginuid(pid);
        }
        self.loginuid
    }

    fn note_unprivileged(&mut self, exec: &Exec) {
        let Some(filename) = exec.filename.value() else {
            return;
        };
        let Some(program) = self.proc.program(exec.id.pid) else {
            return;
        };
        if !lost_privileges(&program, exec.euid, exec.egid) || self.unprivileged.contains(filename)
        {
            return;
        }
        // With no_new_privs it would have run so without a tracer, too.
        if self
            .proc
            .status(exec.id.pid)
            .is_some_and(|s| !s.no_new_privs)
        {
            self.unprivileged.insert(filename.clone());
            self.notes.push(Note::Unprivileged {
                id: exec.id,
                filename: filename.clone(),
            });
        }
    }
}

/// Whether the file should have given privileges that the process has not got.
fn lost_privileges(program: &Program, euid: Option<u32>, egid: Option<u32>) -> bool {
    let setuid = program.mode & libc::S_ISUID != 0 && euid != Some(program.uid);
    // Without the group's execute bit it marks mandatory locking.
    let both = libc::S_ISGID | libc::S_IXGRP;
    let setgid = program.mode & both == both && egid != Some(program.gid);
    setuid || setgid || program.caps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_that_were_lost() {
        let lost = |mode, uid, gid, caps| {
            lost_privileges(
                &Program {
                    mode,
                    uid,
                    gid,
                    caps,
                },
                Some(1000),
                Some(100),
            )
        };
        assert!(lost(0o4755, 0, 0, false));
        assert!(lost(0o2755, 0, 5, false));
        assert!(lost(0o755, 0, 0, true));
        assert!(!lost(0o755, 0, 0, false));
        assert!(!lost(0o4755, 1000, 0, false));
        assert!(!lost(0o2745, 0, 5, false));
    }
}
