//! What the threads of a process share.

use tracer_common::offsets::NONE;

use super::{Signal, load};
use crate::globals::offset;

/// `enum pid_type`.
const PIDTYPE_PGID: u32 = 2;
const PIDTYPE_SID: u32 = 3;

impl Signal {
    /// Asks for the cache lines of the sums, see [`Task::prefetch`].
    #[inline(always)]
    pub fn prefetch(self) {
        self.utime();
        self.prev_stime();
        self.nivcsw();
        self.oublock();
        self.runtime();
    }

    /// Threads that have not been released, 0 where this kernel does not tell.
    #[inline(always)]
    pub fn nr_threads(self) -> u32 {
        let off = offset!(signal_nr_threads);
        if off == NONE {
            return 0;
        }
        // SAFETY: as load().
        unsafe { load(self.0, off) }
    }

    #[inline(always)]
    fn pid_nr(self, kind: u32) -> u32 {
        let (pids, numbers, nr) = (offset!(signal_pids), offset!(pid_numbers), offset!(upid_nr));
        if pids == NONE || numbers == NONE || nr == NONE {
            return 0;
        }
        // SAFETY: as load(). The first number is that of the initial namespace.
        unsafe {
            let pid: *const u8 = load(self.0, pids + kind * 8);
            load(pid, numbers + nr)
        }
    }

    #[inline(always)]
    pub fn pgid(self) -> u32 {
        self.pid_nr(PIDTYPE_PGID)
    }

    #[inline(always)]
    pub fn sid(self) -> u32 {
        self.pid_nr(PIDTYPE_SID)
    }

    /// `tty_struct::name` of the controlling terminal, cut to 16 bytes.
    #[inline(always)]
    pub fn tty(self) -> [u8; 16] {
        let (tty, name) = (offset!(signal_tty), offset!(tty_name));
        if tty == NONE || name == NONE {
            return [0; 16];
        }
        // Without a terminal the loads give zeroes.
        // SAFETY: as load(); both types are 16 bytes of integers.
        unsafe {
            let tty: *const u8 = load(self.0, tty);
            let halves: [u64; 2] = [load(tty, name), load(tty, name + 8)];
            core::mem::transmute(halves)
        }
    }
}
