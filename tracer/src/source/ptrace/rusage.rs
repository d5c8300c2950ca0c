//! Resources as wait4(2) counts them: a process together with the children
//! that it has waited for. What is its own is found by subtraction.

/// Times in µs, `maxrss` in KiB, blocks of 512 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rusage {
    pub utime: u64,
    pub stime: u64,
    pub maxrss: u64,
    pub minflt: u64,
    pub majflt: u64,
    pub nvcsw: u64,
    pub nivcsw: u64,
    pub inblock: u64,
    pub oublock: u64,
}

fn count(n: libc::c_long) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

fn micros(t: libc::timeval) -> u64 {
    count(t.tv_sec) * 1_000_000 + count(t.tv_usec)
}

impl From<&libc::rusage> for Rusage {
    fn from(r: &libc::rusage) -> Self {
        Self {
            utime: micros(r.ru_utime),
            stime: micros(r.ru_stime),
            maxrss: count(r.ru_maxrss),
            minflt: count(r.ru_minflt),
            majflt: count(r.ru_majflt),
            nvcsw: count(r.ru_nvcsw),
            nivcsw: count(r.ru_nivcsw),
            inblock: count(r.ru_inblock),
            oublock: count(r.ru_oublock),
        }
    }
}

impl Rusage {
    /// Adds a child that was waited for (wait_task_zombie does the same).
    pub fn add(&mut self, child: &Self) {
        self.utime += child.utime;
        self.stime += child.stime;
        self.maxrss = self.maxrss.max(child.maxrss);
        self.minflt += child.minflt;
        self.majflt += child.majflt;
        self.nvcsw += child.nvcsw;
        self.nivcsw += child.nivcsw;
        self.inblock += child.inblock;
        self.oublock += child.oublock;
    }

    /// What remains without `children`; `maxrss` is a maximum and stays. The
    /// times of each child were cut to whole µs, so those of the rest may be
    /// up to 1 µs a child too long.
    pub fn without(&self, children: &Self) -> Self {
        Self {
            utime: self.utime.saturating_sub(children.utime),
            stime: self.stime.saturating_sub(children.stime),
            maxrss: self.maxrss,
            minflt: self.minflt.saturating_sub(children.minflt),
            majflt: self.majflt.saturating_sub(children.majflt),
            nvcsw: self.nvcsw.saturating_sub(children.nvcsw),
            nivcsw: self.nivcsw.saturating_sub(children.nivcsw),
            inblock: self.inblock.saturating_sub(children.inblock),
            oublock: self.oublock.saturating_sub(children.oublock),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtraction_undoes_addition() {
        let own = Rusage {
            utime: 5,
            stime: 7,
            maxrss: 100,
            minflt: 3,
            nvcsw: 1,
            ..Rusage::default()
        };
        let child = Rusage {
            utime: 50,
            stime: 1,
            maxrss: 80,
            minflt: 30,
            inblock: 8,
            ..Rusage::default()
        };
        let mut both = own;
        both.add(&child);
        assert_eq!(both.without(&child), own);
    }
}
