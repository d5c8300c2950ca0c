//! Whose events count.

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::cli::Hist;
use crate::cmd::backend::processes;
use crate::sys::procfs::Proc;

/// Whose events count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    All,
    /// The process that tracer is going to fork, and its descendants.
    Command,
    /// Running processes, and their descendants.
    Trees(Vec<u32>),
    Cgroup(PathBuf),
}

/// A process that runs: its number and its start, boot ns.
pub type Running = (u32, u64);

impl Whom {
    /// What the options say.
    ///
    /// # Errors
    /// `-p` names a process that does not run.
    pub fn of(options: &Hist) -> Result<Self> {
        let pids = options.pids();
        Ok(match &options.cgroup {
            Some(path) => Self::Cgroup(path.clone()),
            None if !pids.is_empty() => Self::Trees(processes(&pids)?),
            None if !options.command.is_empty() => Self::Command,
            None => Self::All,
        })
    }
}

/// Calls `each` once for every process of the trees, until none is new: whoever
/// is forked by one that was named must be followed by the kernel from then on.
///
/// # Errors
/// One that `-p` names has ended; those of `each`.
pub fn each_of_trees(pids: &[u32], mut each: impl FnMut(Running) -> Result<()>) -> Result<()> {
    let proc = Proc::default();
    let mut known: HashSet<Running> = HashSet::new();
    let mut numbers: HashSet<u32> = HashSet::new();
    loop {
        let all = listed(&proc);
        let before = known.len();
        let mut found = true;
        while found {
            found = false;
            for (pid, ppid, start) in &all {
                let wanted = pids.contains(pid) || numbers.contains(ppid);
                if wanted && known.insert((*pid, *start)) {
                    numbers.insert(*pid);
                    each((*pid, *start))?;
                    found = true;
                }
            }
        }
        if let Some(missing) = pids.iter().find(|pid| !numbers.contains(pid)) {
            bail!("-p {missing}: the process ended just now; find another with: pgrep -a NAME");
        }
        if known.len() == before {
            return Ok(());
        }
    }
}

/// Whether it has not ended. Tracer itself does not count: it may be below the
/// shell that `-p` names.
pub fn is_alive(proc: &Proc, (pid, start): Running) -> bool {
    pid != std::process::id()
        && proc.stat(pid).is_ok_and(|stat| {
            let same = stat.id.start.abs_diff(start) <= stat.id.precision.tolerance_ns();
            // Not `exiting`: the event of its end is still to come then.
            same && !proc.has_ended(&stat)
        })
}

/// Number, parent and start of every process.
fn listed(proc: &Proc) -> Vec<(u32, u32, u64)> {
    let pids = proc.pids().into_iter();
    pids.filter_map(|pid| {
        let stat = proc.stat(pid).ok()?;
        Some((pid, stat.ppid, stat.id.start))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn who_is_about_to_end_has_not_ended() {
        let dir = tempfile::tempdir().unwrap();
        let proc = Proc::at(dir.path());
        let is = |state: &str, flags: u32, tids: &[&str]| {
            let _none_yet = fs::remove_dir_all(dir.path().join("7"));
            for tid in tids {
                fs::create_dir_all(dir.path().join("7/task").join(tid)).unwrap();
            }
            let stat = format!("7 (x) {state} 1 7 7 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 500 0");
            fs::write(dir.path().join("7/stat"), stat).unwrap();
            is_alive(&proc, (7, 5_000_000_000))
        };
        const PF_EXITING: u32 = 4;
        assert!(is("S", 0, &["7"]));
        assert!(is("R", PF_EXITING, &["7"]), "its last event is to come");
        assert!(!is("Z", PF_EXITING, &["7"]));
        assert!(is("Z", PF_EXITING, &["7", "8"]), "another thread goes on");
        assert!(!is_alive(&proc, (7, 6_000_000_000)), "another process");
    }
}
