//! What /proc says of the machine and of processes. What cannot be read counts as nothing: processes come and go.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::interrupt;

/// Run time of eBPF programs, as far as it is counted (see [`super::bpf_stats`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct BpfTime {
    pub run: Duration,
    pub count: u64,
    pub programs: u64,
}

/// CPU time that the whole machine has spent since its start; without idle, waiting and stolen time.
pub fn busy() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    busy_of(&stat)
}

fn busy_of(stat: &str) -> Duration {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .map(|tick| tick.parse().unwrap_or(0))
        .collect();
    // user nice system idle iowait irq softirq
    let total: u64 = [0, 1, 2, 5, 6].iter().filter_map(|at| ticks.get(*at)).sum();
    // USER_HZ is 100 on all architectures that Linux still has.
    Duration::from_millis(total * 10)
}

pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}

/// Share of the machine's CPUs that something else uses now.
pub fn load() -> Result<f64> {
    let (from, start) = (busy(), Instant::now());
    while start.elapsed() < Duration::from_secs(2) {
        interrupt::check()?;
        thread::sleep(Duration::from_millis(50));
    }
    let used = busy().saturating_sub(from).as_secs_f64();
    Ok(used / start.elapsed().as_secs_f64() / cpus() as f64)
}

pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        for task in entries(format!("/proc/{parent}/task")) {
            let children = fs::read_to_string(task.join("children")).unwrap_or_default();
            for child in children.split_whitespace().flat_map(str::parse) {
                found.push(child);
                next.push(child);
            }
        }
    }
    found
}

/// Peak of the resident memory, KiB.
pub fn peak_rss(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    number_after(&status, "VmHWM:").unwrap_or(0)
}

/// CPU time of a process, of threads that have ended, too.
pub fn cpu(pid: u32) -> Duration {
    let mut clock = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live clock id.
    let found = unsafe { libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) };
    // SAFETY: the pointer is to a live timespec; a process that has gone makes the call fail.
    if found != 0 || unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(secs) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

/// What the process's eBPF programs have run until now.
pub fn bpf_time(pid: u32) -> BpfTime {
    let mut seen = Vec::new();
    let mut time = BpfTime::default();
    for fd in entries(format!("/proc/{pid}/fdinfo")) {
        let info = fs::read_to_string(fd).unwrap_or_default();
        let (Some(id), Some(run)) = (
            number_after(&info, "prog_id:"),
            number_after(&info, "run_time_ns:"),
        ) else {
            continue;
        };
        // Descriptors may share a program.
        if !seen.contains(&id) {
            seen.push(id);
            time.run += Duration::from_nanos(run);
            time.count += number_after(&info, "run_cnt:").unwrap_or(0);
            time.programs += 1;
        }
    }
    time
}

/// Perf events and links through which a process has attached something.
pub fn links(pid: u32) -> usize {
    let attached = |fd: PathBuf| {
        fs::read_link(fd).is_ok_and(|target| {
            let target = target.to_string_lossy();
            ["perf_event", "bpf_link", "bpf-link"]
                .iter()
                .any(|kind| target.contains(kind))
        })
    };
    entries(format!("/proc/{pid}/fd"))
        .filter(|fd| attached(fd.clone()))
        .count()
}

/// Waits until none of the processes has used CPU time for `quiet`; false where one has ended.
pub fn settle(pids: &[u32], quiet: Duration, limit: Duration) -> Result<bool> {
    let start = Instant::now();
    let mut since = start;
    let mut last = Vec::new();
    while start.elapsed() < limit {
        interrupt::check()?;
        if pids.iter().any(|pid| !is_alive(*pid)) {
            return Ok(false);
        }
        let now: Vec<_> = pids.iter().map(|pid| cpu(*pid)).collect();
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() >= quiet {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The unsigned number after `key` and blanks.
pub fn number_after(text: &str, key: &str) -> Option<u64> {
    let (_, rest) = text.split_once(key)?;
    let rest = rest.trim_start();
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

fn entries(dir: impl AsRef<Path>) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_stolen_time_is_not_busy() {
        let stat = "cpu  10 20 30 1000 2000 1 2 5000 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(busy_of(stat), Duration::from_millis(630));
        assert_eq!(busy_of(""), Duration::ZERO);
    }

    #[test]
    fn numbers_are_found_behind_their_keys() {
        assert_eq!(number_after("VmHWM:\t  1234 kB\n", "VmHWM:"), Some(1234));
        assert_eq!(number_after("VmHWM:", "VmHWM:"), None);
        assert_eq!(number_after("", "VmHWM:"), None);
    }
}
