//! Workloads that run beside tracer.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::fixture;

/// A workload beside tracer, in a process group of its own that ends with the test.
pub struct Beside(pub Child);

impl Beside {
    pub fn start(command: &mut Command) -> Self {
        let command = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        Self(command.spawn().expect("it can be started"))
    }

    pub fn shell(script: &str) -> Self {
        Self::start(Command::new("/bin/sh").args(["-c", script]))
    }

    /// Two processes that start others all the time.
    pub fn storm() -> Self {
        let mut command = Command::new(fixture("execstorm"));
        Self::start(command.arg("-j2").arg(fixture("tiny")).arg("10000000"))
    }

    pub fn pid(&self) -> u64 {
        u64::from(self.0.id())
    }

    /// A line to its input.
    pub fn tell(&mut self, line: &str) {
        let input = self.0.stdin.as_mut().expect("a pipe");
        // In one piece: after the first word it may have ended.
        let line = format!("{line}\n");
        input.write_all(line.as_bytes()).expect("it reads");
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).expect("a pid is an int");
        // Until it is waited for, the number is nobody else's. It may have been.
        if let Ok(None) = self.0.try_wait() {
            // SAFETY: kill takes plain numbers.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        let _ = self.0.wait();
    }
}

/// Waits for a child of `pid` and gives its number.
pub fn child_of(pid: u64) -> u64 {
    loop {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.expect("it runs");
        if let Some(child) = children.split_whitespace().next() {
            return child.parse().expect("a number");
        }
        std::thread::yield_now();
    }
}
