//! The kernel's counters to a [`Usage`].

use tracer_common::record::Totals;

use super::settings::Known;
use crate::model::Usage;

/// User and system time of `runtime` ns, split in proportion to the ticks, never
/// below what somebody was told before: as `cputime_adjust` in
/// kernel/sched/cputime.c does, so that the result equals wait4's.
pub(super) fn split(t: &Totals) -> (u64, u64) {
    let runtime = t.runtime_ns;
    if t.prev_utime_ns.saturating_add(t.prev_stime_ns) >= runtime {
        return (t.prev_utime_ns, t.prev_stime_ns);
    }
    let system = match (t.utime_ns, t.stime_ns) {
        (_, 0) => 0, // without ticks all of it is user time
        (0, _) => runtime,
        (user, system) => {
            let all = u128::from(user) + u128::from(system);
            // A quotient of at most `runtime`, as system ≤ all.
            u64::try_from(u128::from(runtime) * u128::from(system) / all).unwrap_or(runtime)
        }
    };
    // prev_utime + prev_stime < runtime here: no difference below is negative.
    let system = system.clamp(t.prev_stime_ns, runtime - t.prev_utime_ns);
    (runtime - system, system)
}

pub(super) fn usage(t: &Totals, page_size: u64, known: &Known, is_final: bool) -> Usage {
    let (utime, stime) = split(t);
    let bytes = |pages: u64| pages.saturating_mul(page_size);
    let own = if t.maxrss_pages > t.exec_maxrss_pages {
        Some(t.maxrss_pages)
    } else {
        Some(t.mm_peak_pages).filter(|pages| *pages != 0)
    };
    let upper = Some(t.maxrss_pages).filter(|pages| *pages != 0 && own.is_none());
    let only = |is_known: bool, value: u64| is_known.then_some(value);
    Usage {
        is_final,
        utime_ns: Some(utime),
        stime_ns: Some(stime),
        cpu_ns: Some(utime.saturating_add(stime)),
        max_rss_bytes: own.map(bytes),
        max_rss_upper_bytes: upper.map(bytes),
        minflt: Some(t.minflt),
        majflt: Some(t.majflt),
        nvcsw: Some(t.nvcsw),
        nivcsw: Some(t.nivcsw),
        inblock: only(known.blocks, t.inblock),
        oublock: only(known.blocks, t.oublock),
        read_bytes: only(known.io_bytes, t.read_bytes),
        write_bytes: only(known.io_bytes, t.write_bytes),
        cancelled_write_bytes: only(known.cancelled, t.cancelled_write_bytes),
        rchar: only(known.io_chars, t.rchar),
        wchar: only(known.io_chars, t.wchar),
        run_delay_ns: only(known.run_delay, t.run_delay_ns),
        blkio_delay_ns: only(known.blkio_delay, t.blkio_delay_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(runtime: u64, ticks: (u64, u64), prev: (u64, u64)) -> Totals {
        Totals {
            runtime_ns: runtime,
            utime_ns: ticks.0,
            stime_ns: ticks.1,
            prev_utime_ns: prev.0,
            prev_stime_ns: prev.1,
            ..Totals::default()
        }
    }

    #[test]
    fn split_follows_the_ticks_and_never_falls_below_what_was_told() {
        assert_eq!(split(&totals(1000, (0, 0), (0, 0))), (1000, 0));
        assert_eq!(split(&totals(1000, (0, 4), (0, 0))), (0, 1000));
        assert_eq!(split(&totals(1000, (3, 1), (0, 0))), (750, 250));
        assert_eq!(split(&totals(1000, (3, 1), (0, 400))), (600, 400));
        assert_eq!(split(&totals(1000, (1, 3), (400, 100))), (400, 600));
        // Somebody was told as much or more already.
        assert_eq!(split(&totals(1000, (1, 3), (900, 100))), (900, 100));
        assert_eq!(split(&totals(1000, (1, 3), (1900, 100))), (1900, 100));
        // No overflow.
        let max = u64::MAX;
        assert_eq!(split(&totals(max, (max, max), (0, 0))).0, max / 2 + 1);
        assert_eq!(split(&totals(0, (1, 1), (max, max))), (max, max));
    }

    #[test]
    fn max_rss_is_the_programs_own_or_a_bound() {
        let rss = |max, exec, peak| {
            let t = Totals {
                maxrss_pages: max,
                exec_maxrss_pages: exec,
                mm_peak_pages: peak,
                ..Totals::default()
            };
            let u = usage(&t, 4096, &Known::ALL, true);
            (
                u.max_rss_bytes.map(|b| b / 4096),
                u.max_rss_upper_bytes.map(|b| b / 4096),
            )
        };
        assert_eq!(rss(10, 0, 7), (Some(10), None));
        assert_eq!(rss(10, 10, 7), (Some(7), None));
        assert_eq!(rss(10, 10, 0), (None, Some(10)));
        assert_eq!(rss(0, 0, 0), (None, None));
    }

    #[test]
    fn what_the_kernel_lacks_is_absent() {
        let none = Known {
            blocks: false,
            io_chars: false,
            io_bytes: false,
            cancelled: false,
            run_delay: false,
            blkio_delay: false,
            cwd: false,
        };
        let u = usage(&Totals::default(), 4096, &none, false);
        assert_eq!(
            (u.inblock, u.rchar, u.read_bytes, u.run_delay_ns),
            (None, None, None, None)
        );
        assert_eq!(u.minflt, Some(0));
    }
}
