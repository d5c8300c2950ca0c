//! A new program: everything is read while the task stands at its exec stop.

use std::io;
use std::sync::Arc;

use super::call;
use super::group::Task;
use super::note::Note;
use super::parse::{self, Stat, Status};
use super::proc::{Program, read_memory};
use super::rusage::Rusage;
use super::tracer::Tracer;
use crate::model::time::boot_ns;
use crate::model::{Args, Bytes, Event, Exec, Field, Reason};

/// Longest file name that execve(2) takes.
const FILENAME_MAX: usize = 4096;

/// The strings that the kernel put on top of the new stack.
struct Strings {
    argv: Field<Args>,
    env: Option<Field<Args>>,
    filename: Field<Bytes>,
}

impl Strings {
    const fn missing(reason: Reason, env: bool) -> Self {
        Self {
            argv: Field::Missing(reason),
            env: if env {
                Some(Field::Missing(reason))
            } else {
                None
            },
            filename: Field::Missing(reason),
        }
    }
}

impl Tracer {
    pub(super) fn on_exec(&mut self, pid: u32, rusage: &Rusage) {
        let ts = boot_ns();
        let alone = self.groups.get(&pid).is_some_and(|g| g.threads == 1);
        let former = if alone {
            None
        } else {
            call::event_message(pid).ok()
        };
        let former = former
            .and_then(|tid| u32::try_from(tid).ok())
            .unwrap_or(pid);
        if former != pid {
            self.take_over(pid, former);
        }
        let stat = self.proc.stat(pid);
        let status = self.proc.status(pid);
        let strings = match &stat {
            Some(stat) => self.strings(pid, stat),
            None => Strings::missing(Reason::Gone, self.options.env),
        };
        let cwd = match self.proc.cwd(pid) {
            Ok(cwd) => Field::Full(cwd),
            Err(e) => Field::Missing(reason(&e)),
        };
        let cgroup = match self.proc.cgroup(pid) {
            Ok(Some(path)) => Field::Full(path),
            Ok(None) => Field::Missing(Reason::Kernel),
            Err(e) => Field::Missing(reason(&e)),
        };
        let loginuid = self.proc.loginuid(pid);
        let parent = stat.as_ref().and_then(|s| self.identify(s.ppid));
        let Some(group) = self.groups.get_mut(&pid) else {
            return;
        };
        if let Some(stat) = &stat {
            group.comm = stat.comm;
        }
        if let Some(status) = &status {
            (group.uid, group.gid, group.ns_pid) =
                (Some(status.uid), Some(status.gid), status.ns_pid);
        }
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
            filename: strings.filename,
            argv: strings.argv,
            env: strings.env,
            cwd,
            uid: status.as_ref().map(|s| s.uid),
            euid: status.as_ref().map(|s| s.euid),
            gid: status.as_ref().map(|s| s.gid),
            egid: status.as_ref().map(|s| s.egid),
            loginuid,
            sid: stat.as_ref().map(|s| s.sid),
            pgid: stat.as_ref().map(|s| s.pgid),
            tty: stat.as_ref().and_then(|s| parse::tty(s.tty)),
            cgroup,
            ns_pid: status.as_ref().and_then(|s| s.ns_pid),
            by_kernel: false,
        };
        if let (true, Some(status)) = (self.ordinary, &status) {
            self.note_unprivileged(&exec, status);
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

    /// argv, environment and the file name as execve got them lie one after
    /// the other in the new stack (fs/exec.c, copy_strings): one call reads them.
    fn strings(&mut self, pid: u32, stat: &Stat) -> Strings {
        let env_wanted = self.options.env;
        if stat.arg_end <= stat.arg_start || stat.env_end < stat.env_start {
            // Zeros: the program is not readable to us, its memory neither.
            let mut strings = Strings::missing(Reason::Denied, env_wanted);
            if let Ok(bytes) = self.proc.cmdline(pid) {
                strings.argv = Field::Full(Args(bytes.into()));
            }
            return strings;
        }
        let cap = self.options.max_argv;
        let length = |from: u64, to: u64| usize::try_from(to - from).unwrap_or(usize::MAX);
        let arg_len = length(stat.arg_start, stat.arg_end);
        let env_len = length(stat.env_start, stat.env_end);
        let arg_take = arg_len.min(cap);
        let env_take = if env_wanted { env_len.min(cap) } else { 0 };
        let want = arg_take + env_take + FILENAME_MAX;
        if self.memory.len() < want {
            self.memory.resize(want, 0);
        }
        let ranges = [
            (stat.arg_start, arg_take),
            (stat.env_start, env_take),
            (stat.env_end, FILENAME_MAX),
        ];
        // The stack ends behind the file name: fewer bytes than asked for is usual.
        let buf = self.memory.get_mut(..want).unwrap_or_default();
        let n = match read_memory(pid, &ranges, buf) {
            Ok(n) => n,
            Err(e) => return Strings::missing(reason(&e), env_wanted),
        };
        let read = self.memory.get(..n).unwrap_or_default();
        let (argv, rest) = read.split_at(arg_take.min(read.len()));
        let (env, rest) = rest.split_at(env_take.min(rest.len()));
        let filename = match memchr::memchr(0, rest) {
            Some(end) => Field::Full(Bytes::from(rest.get(..end).unwrap_or_default())),
            None if rest.is_empty() => Field::Missing(Reason::Fault),
            None => Field::Truncated(Bytes::from(rest)),
        };
        Strings {
            argv: args(argv, arg_len),
            env: env_wanted.then(|| args(env, env_len)),
            filename,
        }
    }

    fn note_unprivileged(&mut self, exec: &Exec, status: &Status) {
        // With no_new_privs it would have run so without a tracer, too.
        let Some(program) = self
            .proc
            .program(exec.id.pid)
            .filter(|_| !status.no_new_privs)
        else {
            return;
        };
        let Some(filename) = exec.filename.value() else {
            return;
        };
        if lost_privileges(&program, status) && self.unprivileged.insert(filename.clone()) {
            self.notes.push(Note::Unprivileged {
                id: exec.id,
                filename: filename.clone(),
            });
        }
    }
}

fn args(bytes: &[u8], whole: usize) -> Field<Args> {
    let args = Args(bytes.into());
    if bytes.len() == whole {
        Field::Full(args)
    } else if bytes.is_empty() {
        Field::Missing(Reason::Fault)
    } else {
        Field::Truncated(args)
    }
}

/// Whether the file should have given privileges that the process has not got.
fn lost_privileges(program: &Program, status: &Status) -> bool {
    let setuid = program.mode & libc::S_ISUID != 0 && status.euid != program.uid;
    // Without the group's execute bit it marks mandatory locking.
    let both = libc::S_ISGID | libc::S_IXGRP;
    let setgid = program.mode & both == both && status.egid != program.gid;
    setuid || setgid || program.caps
}

pub(super) fn reason(error: &io::Error) -> Reason {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Reason::Denied,
        Some(libc::EFAULT) => Reason::Fault,
        _ => Reason::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_that_were_lost() {
        let status = Status {
            uid: 1000,
            euid: 1000,
            gid: 100,
            egid: 100,
            ..Status::default()
        };
        let lost = |mode, uid, gid, caps| {
            lost_privileges(
                &Program {
                    mode,
                    uid,
                    gid,
                    caps,
                },
                &status,
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
