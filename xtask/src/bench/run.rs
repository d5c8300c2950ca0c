//! One run of a workload under one tool.

use std::{
    ffi::CString,
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{
    beside,
    child::Child,
    complaint,
    count::{self, Counts},
    interrupt,
    lab::Lab,
    machine::{self, BpfTime},
    tool::{How, Tool},
    truth::Truth,
    workload::Prepared,
};

/// After this a run is given up.
const LIMIT: Duration = Duration::from_secs(600);

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Of the workload alone: its start and end, nothing of the tool's.
    pub wall: Duration,
    /// CPU time of the whole machine from the workload's start to its end.
    pub busy_during: Duration,
    /// And until the tool has ended.
    pub busy: Duration,
    /// CPU time of the workload's own processes.
    pub workload_cpu: Duration,
    /// From the start of the tool until its command runs.
    pub setup: Duration,
    /// From the end of the workload until the tool has ended.
    pub teardown: Duration,
    /// CPU time of the tool's own processes before the workload's start.
    pub tool_cpu_before: Duration,
    /// CPU time of the tool's own processes from the workload's start to its end.
    pub tool_cpu_during: Duration,
    /// And until they have ended.
    pub tool_cpu: Duration,
    /// Sum of the peaks of the tool's processes, KiB.
    pub rss_kib: u64,
    /// Of the root's descendants.
    pub truth: Truth,
    pub counts: Counts,
    pub bpf: BpfTime,
}

/// Files of a run.
pub struct Files {
    pub trace: PathBuf,
    pub second: PathBuf,
    pub stdout: PathBuf,
    pub stderr: PathBuf,
    workload: PathBuf,
    report: PathBuf,
    go: PathBuf,
}

impl Files {
    fn new(dir: &Path) -> Self {
        let file = |name: &str| dir.join(name);
        Self {
            trace: file("trace"),
            second: file("trace.2"),
            stdout: file("tool.out"),
            stderr: file("tool.err"),
            workload: file("workload.out"),
            report: file("report"),
            go: file("go"),
        }
    }
}

/// Runs the workload under the tool. Whatever happens, nothing of the run is left.
pub fn run(tool: &Tool, workload: &Prepared, lab: &Lab) -> Result<Measured> {
    let dir = tempfile::Builder::new()
        .prefix("run-")
        .tempdir_in(&lab.dir)?;
    let files = Files::new(dir.path());
    workload.reset()?;
    let measured = attempt(tool, workload, lab, &files);
    lab.kill_workload();
    if lab.has_tracefs() {
        lab.remove_instance();
    }
    measured.map_err(|error| match complaint::of(&files.stderr) {
        Some(text) if !interrupt::happened() => error.context(text),
        _ => error,
    })
}

fn attempt(tool: &Tool, workload: &Prepared, lab: &Lab, files: &Files) -> Result<Measured> {
    let mut talk = Talk::new(&files.report, &files.go)?;
    let mut stamp = vec![lab.fixtures.join("stamp").into_os_string()];
    for (option, value) in [
        ("-r", &files.report),
        ("-g", &files.go),
        ("-o", &files.workload),
    ] {
        stamp.extend([option.into(), value.into()]);
    }
    if let Some(cgroup) = &lab.cgroup {
        stamp.extend(["-c".into(), cgroup.join("cgroup.procs").into()]);
    }
    stamp.push("--".into());
    stamp.extend(workload.command().iter().cloned());

    let mut beside = match tool.how {
        How::Launch(_) => Vec::new(),
        How::Beside(commands, ready) => beside::start(commands, ready, lab, files)?,
    };
    let mut argv = match tool.how {
        How::Launch(words) => beside::fill(words, lab, files)?,
        How::Beside(..) => Vec::new(),
    };
    argv.append(&mut stamp);
    let (program, args) = argv.split_first().context("an empty command")?;

    let born = monotonic();
    let mut main = Child::spawn(
        lab.command(program)
            .args(args)
            .current_dir(&workload.dir)
            .stdout(File::create(&files.stdout)?)
            .stderr(
                OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(&files.stderr)?,
            ),
    )?;
    let [began, root] = talk.hear("BEGIN", &mut main)?;
    let root = u32::try_from(root).context("an impossible process id")?;

    // The workload waits: time to look at the tool, which has set itself up.
    let heads = if beside.is_empty() {
        vec![main.pid()]
    } else {
        beside.iter().map(Child::pid).collect()
    };
    let tool_pids = own_pids(&heads, root);
    let tool_cpu = || {
        tool_pids
            .iter()
            .map(|pid| machine::cpu(*pid))
            .sum::<Duration>()
    };
    let mut peaks = vec![0; tool_pids.len()];
    let mut look = || {
        for (peak, pid) in peaks.iter_mut().zip(&tool_pids) {
            *peak = machine::peak_rss(*pid).max(*peak);
        }
    };
    look();
    let tool_cpu_before = tool_cpu();
    let busy_start = machine::busy();
    talk.go()?;
    let [from, to, status, children_us, self_us] = talk.hear("END", &mut main)?;

    let busy_end = machine::busy();
    let tool_cpu_end = tool_cpu();
    look();
    let bpf = match tool_pids.first() {
        Some(pid) => machine::bpf_time(*pid),
        None => BpfTime::default(),
    };
    let released = Instant::now();
    talk.go()?;
    let ended = main.wait(LIMIT, &mut look).context("the tool")?;
    let root_cpu = Duration::from_micros(children_us + self_us);
    let mut tool_total = if tool.waits {
        ended.cpu.saturating_sub(root_cpu)
    } else {
        ended.cpu
    };
    if !beside.is_empty() {
        tool_total = beside::stop(&mut beside, &mut look)?;
    }
    let teardown = released.elapsed();
    let busy_gone = machine::busy();

    if status != 0 {
        bail!("{} ended with wait status {status}", workload.name);
    }
    let traced = !tool.is_none();
    let counts = count::count(
        tool.format,
        &files.trace,
        &files.second,
        &files.stderr,
        root,
        &lab.path,
    )?;
    let used = |time: Duration| if traced { time } else { Duration::ZERO };
    Ok(Measured {
        wall: Duration::from_nanos(to.saturating_sub(from)),
        busy_during: busy_end.saturating_sub(busy_start),
        busy: busy_gone.saturating_sub(busy_start),
        workload_cpu: Duration::from_micros(children_us),
        setup: Duration::from_nanos(began).saturating_sub(born),
        teardown,
        tool_cpu_before: used(tool_cpu_before),
        tool_cpu_during: used(tool_cpu_end.saturating_sub(tool_cpu_before)),
        tool_cpu: used(tool_total.saturating_sub(tool_cpu_before)),
        rss_kib: if traced { peaks.iter().sum() } else { 0 },
        truth: workload.truth(&files.workload)?.with_workload(),
        counts,
        bpf,
    })
}

/// The tool's processes: those below its first ones, without the workload's root.
fn own_pids(heads: &[u32], root: u32) -> Vec<u32> {
    let mut pids = heads.to_vec();
    for head in heads {
        pids.extend(machine::descendants(*head));
    }
    pids.retain(|pid| *pid != root);
    pids
}

/// CLOCK_MONOTONIC, which the root of the run reads, too.
pub fn monotonic() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(secs) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

/// The two FIFOs between us and the root of the run.
struct Talk {
    report: File,
    go: File,
    heard: Vec<u8>,
}

impl Talk {
    fn new(report: &Path, go: &Path) -> Result<Self> {
        for path in [report, go] {
            let name = CString::new(path.as_os_str().as_bytes())?;
            // SAFETY: a NUL-terminated string that outlives the call.
            if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } != 0 {
                return Err(io::Error::last_os_error()).context("cannot make a FIFO");
            }
        }
        // Open for both, so that neither side waits for the other to open it.
        let both = |path: &Path| {
            let mut options = OpenOptions::new();
            options.read(true).write(true);
            options.custom_flags(libc::O_NONBLOCK).open(path)
        };
        Ok(Self {
            report: both(report)?,
            go: both(go)?,
            heard: Vec::new(),
        })
    }

    fn go(&mut self) -> Result<()> {
        self.go
            .write_all(b"g")
            .context("cannot release the workload")
    }

    /// Sleeps until the root says `word` with its numbers.
    fn hear<const N: usize>(&mut self, word: &str, main: &mut Child) -> Result<[u64; N]> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).into_owned();
                let mut words = line.split_whitespace();
                if words.next() != Some(word) {
                    bail!("the root of the run said {line:?} instead of {word}");
                }
                let numbers: Vec<u64> = words.flat_map(str::parse).collect();
                return numbers
                    .try_into()
                    .map_err(|_| anyhow::anyhow!("the root of the run said {line:?}"));
            }
            let mut poll = libc::pollfd {
                fd: self.report.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one live pollfd, and the count says one.
            let ready = unsafe { libc::poll(&raw mut poll, 1, 500) };
            interrupt::check()?;
            if ready > 0 {
                let mut buffer = [0; 256];
                let count = self.report.read(&mut buffer)?;
                self.heard.extend(buffer.iter().take(count));
            } else if let Some(ended) = main.poll()? {
                bail!(
                    "it ended before the workload, with wait status {}",
                    ended.status
                );
            } else if Instant::now() > deadline {
                bail!("the workload had not ended after {} s", LIMIT.as_secs());
            }
        }
    }
}
