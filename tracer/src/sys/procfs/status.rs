//! `/proc/PID/status` and `/proc/PID/cgroup`.

use std::fs;
use std::io;

use super::{Proc, Stat, gone};
use crate::model::{Bytes, Field, Reason};

/// `/proc/PID/status`.
pub struct Status(Vec<u8>);

impl Status {
    /// The number at `index` after `key`, as in `Uid:` (real, effective, …).
    pub fn number(&self, key: &str, index: usize) -> Option<u32> {
        let word = self.value(key)?.split_whitespace().nth(index)?;
        word.parse().ok()
    }

    /// A newline in the name is escaped, so no line but the first holds any of it.
    fn value(&self, key: &str) -> Option<&str> {
        let mut lines = self.0.split(|b| *b == b'\n');
        let value = lines.find_map(|line| line.strip_prefix(key.as_bytes()))?;
        std::str::from_utf8(value).ok()
    }
}

impl Proc {
    /// # Errors
    /// The process is gone (`NotFound`), or we may not read it.
    pub fn status(&self, pid: u32) -> io::Result<Status> {
        fs::read(self.file(pid, "status")).map(Status).map_err(gone)
    }

    /// The process that a thread belongs to.
    ///
    /// # Errors
    /// It is gone (`NotFound`), or the file is not understood.
    pub fn process_of(&self, tid: u32) -> io::Result<u32> {
        let tgid = self.status(tid)?.number("Tgid:", 0);
        tgid.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Path in the hierarchy of cgroup v2.
    pub fn cgroup(&self, pid: u32) -> Field<Bytes> {
        let Ok(text) = fs::read(self.file(pid, "cgroup")) else {
            return Field::Missing(Reason::Gone);
        };
        text.split(|b| *b == b'\n')
            .find_map(|l| l.strip_prefix(b"0::"))
            .map_or(Field::Missing(Reason::Kernel), |p| {
                Field::Full(Bytes::from(p))
            })
    }

    /// Numbers of the processes that are there.
    pub fn pids(&self) -> Vec<u32> {
        numbers(fs::read_dir(self.root()))
    }

    /// Whether the process has ended with all of its threads, of which the leader may have
    /// ended before the others.
    pub fn has_ended(&self, stat: &Stat) -> bool {
        stat.zombie && self.tids(stat.id.pid).len() < 2
    }

    /// Numbers of a process's threads; none if it is gone.
    pub fn tids(&self, pid: u32) -> Vec<u32> {
        whole(|| numbers(fs::read_dir(self.file(pid, "task"))))
    }
}

/// How often the threads of a process are listed at most, where some end all the time.
const LISTS: usize = 64;

/// A list of threads that lacks none. The kernel's breaks off after one that ends just then, and
/// goes on behind the next (`next_tid` and `first_tid`, fs/proc/base.c). That one is nearly always
/// in the list, and in none after it: a list that comes twice is whole.
fn whole(mut list: impl FnMut() -> Vec<u32>) -> Vec<u32> {
    let mut last = list();
    for _ in 1..LISTS {
        let before = std::mem::replace(&mut last, list());
        if last == before {
            break;
        }
    }
    last
}

/// The entries of a directory whose names are numbers, in order.
fn numbers(dir: io::Result<fs::ReadDir>) -> Vec<u32> {
    let entries = dir.into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn our_own() {
        let proc = Proc::default();
        let pid = std::process::id();
        let status = proc.status(pid).unwrap();
        assert_eq!(status.number("Tgid:", 0), Some(pid));
        assert!(status.number("Uid:", 3).is_some() && status.number("Uid:", 4).is_none());
        let tids = proc.tids(pid);
        assert!(tids.contains(&pid) && proc.pids().contains(&pid));
        for tid in tids {
            // Other tests' threads may end meanwhile.
            assert!(proc.process_of(tid).map_or(true, |of| of == pid));
        }
        assert_eq!(
            proc.process_of(u32::MAX).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn a_list_that_was_broken_off_is_not_taken() {
        // 3 ended when it was listed.
        let mut lists = [vec![1, 2, 3], vec![1, 2, 4, 5], vec![1, 2, 4, 5]].into_iter();
        assert_eq!(whole(|| lists.next().unwrap()), [1, 2, 4, 5]);
        let mut next = 0..;
        assert_eq!(whole(|| vec![next.next().unwrap()]).len(), 1, "it ends");
    }

    /// Threads end while they are listed; one that does not is in every list.
    #[test]
    fn a_thread_is_not_left_out_because_others_end() {
        let proc = Proc::default();
        let pid = std::process::id();
        let waiting = || {
            let (stop, stopped) = mpsc::channel::<()>();
            let (tell, told) = mpsc::channel();
            let thread = thread::spawn(move || {
                // SAFETY: takes nothing.
                tell.send(unsafe { libc::gettid() }.cast_unsigned())
                    .unwrap();
                let _ended = stopped.recv();
            });
            (stop, told.recv().unwrap(), thread)
        };
        for _ in 0..100 {
            let (ends, threads): (Vec<_>, Vec<_>) = (0..20)
                .map(|_| waiting())
                .map(|(stop, _, thread)| (stop, thread))
                .unzip();
            let (stop, stays, last) = waiting();
            let ender = thread::spawn(move || {
                drop(ends);
                threads.into_iter().for_each(|t| t.join().unwrap());
            });
            while !ender.is_finished() {
                assert!(proc.tids(pid).contains(&stays));
            }
            ender.join().unwrap();
            drop(stop);
            last.join().unwrap();
        }
    }

    #[test]
    fn a_name_cannot_pass_for_a_line() {
        let status = Status(b"Name:\tx\\nTgid:\t7\nState:\tZ (zombie)\nTgid:\t9\n".to_vec());
        assert_eq!(status.number("Tgid:", 0), Some(9));
        assert_eq!(status.value("State:"), Some("\tZ (zombie)"));
    }
}
