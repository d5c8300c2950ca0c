//! Boots one kernel in qemu, shows what it prints, and finds out how its command ended.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    ops::AddAssign,
    os::fd::AsRawFd as _,
    path::Path,
    process::{self, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{setup, summary::Summary};

const UP: &str = "TRACER-VM-UP ";
const STATUS: &str = "TRACER-VM-STATUS ";
/// Begins a line of the guest's output that is a result and not to be shown.
pub const RECORD: &str = "TRACER-VM-RECORD ";
const PANIC: &str = "Kernel panic";
/// A boot takes some 8 s where the processor is emulated.
const BOOT: Duration = Duration::from_secs(180);

/// How the virtual machine is made.
pub struct Machine<'a> {
    pub kernel: &'a Path,
    pub initramfs: &'a [u8],
    pub accelerator: &'a str,
    pub memory_mib: u32,
    /// For the command, once the guest is up.
    pub timeout: Duration,
}

/// What the command did.
#[derive(Default)]
pub struct Outcome {
    pub status: u8,
    /// The sum of the test runners' closing lines in its output.
    pub summary: Summary,
    /// What its output has after [`RECORD`].
    pub records: Vec<String>,
}

impl AddAssign for Outcome {
    /// The first status that is not zero stays.
    fn add_assign(&mut self, other: Self) {
        if self.status == 0 {
            self.status = other.status;
        }
        self.summary += other.summary;
        self.records.extend(other.records);
    }
}

impl Machine<'_> {
    /// Runs the guest to its end; its output goes to `show` line by line.
    pub fn run(&self, show: &mut dyn FnMut(&str)) -> Result<Outcome> {
        let mut initramfs = tempfile::tempfile().context("cannot make a temporary file")?;
        initramfs
            .write_all(self.initramfs)
            .context("cannot write the initramfs")?;
        let mut qemu = setup::vm::qemu()?;
        let cpu = if self.accelerator == "kvm" {
            "host"
        } else {
            "max"
        };
        qemu.args(["-accel", self.accelerator, "-cpu", cpu])
            .args(["-m", &self.memory_mib.to_string(), "-smp", "2"])
            .args([
                "-nodefaults",
                "-no-user-config",
                "-display",
                "none",
                "-no-reboot",
            ])
            .args([
                "-chardev",
                "stdio,id=console,signal=off",
                "-serial",
                "chardev:console",
            ])
            .args([
                "-append",
                "console=ttyS0 quiet panic=-1 nokaslr mitigations=off rdinit=/init",
            ])
            .arg("-kernel")
            .arg(self.kernel)
            .arg("-initrd")
            // The file has no name, so that nothing is left behind however this ends.
            .arg(format!(
                "/proc/{}/fd/{}",
                process::id(),
                initramfs.as_raw_fd()
            ));
        let mut child = qemu
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start qemu")?;
        let output = child.stdout.take().context("stdout is a pipe")?;
        let (send, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if send
                    .send(
                        String::from_utf8_lossy(&line)
                            .trim_end_matches('\r')
                            .to_owned(),
                    )
                    .is_err()
                {
                    break;
                }
            }
        });
        let outcome = self.follow(&lines, show);
        // Whatever the reason for being here, the guest has nothing more to say.
        let _ = child.kill();
        child.wait().context("cannot wait for qemu")?;
        drop(lines);
        if reader.join().is_err() {
            bail!("the thread that reads the guest's output panicked");
        }
        outcome.with_context(|| format!("kernel {} in qemu", self.kernel.display()))
    }

    fn follow(
        &self,
        lines: &mpsc::Receiver<String>,
        show: &mut dyn FnMut(&str),
    ) -> Result<Outcome> {
        let mut summary = Summary::default();
        let mut records = Vec::new();
        let mut deadline = Instant::now() + BOOT;
        let mut last = String::new();
        let mut up = false;
        loop {
            let line = match lines.recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) if up => bail!(
                    "the guest's command did not end within {} s (--timeout); its last line was: {last}",
                    self.timeout.as_secs()
                ),
                Err(RecvTimeoutError::Timeout) => bail!(
                    "the guest did not come up within {} s; its last line was: {last}",
                    BOOT.as_secs()
                ),
                Err(RecvTimeoutError::Disconnected) if last.is_empty() => {
                    bail!("the guest ended without a word")
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the guest ended before its command did; its last words: {last}")
                }
            };
            if let Some(version) = line.strip_prefix(UP) {
                up = true;
                deadline = Instant::now() + self.timeout;
                eprintln!("xtask: Linux {version} is up");
            } else if let Some(status) = line.strip_prefix(STATUS) {
                let status = status
                    .trim()
                    .parse()
                    .context("the guest reports a status that is no number")?;
                return Ok(Outcome {
                    status,
                    summary,
                    records,
                });
            } else if let Some(record) = line.strip_prefix(RECORD) {
                records.push(record.to_owned());
            } else {
                summary.add_line(&line);
                show(&line);
                // After a panic the kernel prints a trace, which says less.
                if !line.trim().is_empty() && !last.contains(PANIC) {
                    last = line;
                }
            }
        }
    }
}
