//! A process's memory.

use tracer_common::offsets::NONE;

use super::{Mm, load};
use crate::globals::{config, offset};

impl Mm {
    /// Peak of the resident set, pages: as get_mm_hiwater_rss() of
    /// include/linux/mm.h, with the same approximate counters that the kernel
    /// itself takes there (percpu_counter_read_positive). Only for kernels
    /// whose exit tracepoint still has the mm (6.16 and later); the counters
    /// were of another kind before 6.2.
    #[inline(always)]
    pub fn peak_rss(self) -> u64 {
        let (hiwater, stat, count) = (
            offset!(mm_hiwater_rss),
            offset!(mm_rss_stat),
            offset!(percpu_counter_count),
        );
        if hiwater == NONE || stat == NONE || count == NONE {
            return 0;
        }
        let mut rss = 0;
        // MM_FILEPAGES, MM_ANONPAGES, MM_SHMEMPAGES; MM_SWAPENTS (2) is not resident.
        for index in [0, 1, 3] {
            let at = stat + index * config!(percpu_counter_size) + count;
            // SAFETY: as load().
            let v: i64 = unsafe { load(self.0, at) };
            rss += v.max(0) as u64;
        }
        // SAFETY: as load().
        let peak: u64 = unsafe { load(self.0, hiwater) };
        peak.max(rss)
    }
}
