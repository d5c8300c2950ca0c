//! A child process, with what it used when it ended.

use std::{
    io,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::interrupt;
use crate::process;

/// How a child ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// As wait(2) has it.
    pub status: i32,
    /// User and system time of it and of the children that it waited for.
    pub cpu: Duration,
}

/// A child that is ended and reaped at the latest when this value is dropped.
pub struct Child {
    pid: libc::pid_t,
    ended: Option<Ended>,
}

impl Child {
    /// It is waited for with wait4, which tells what it used.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let child = command
            .spawn()
            .with_context(|| format!("cannot run {}", process::display(command)))?;
        let pid = child.id().try_into().context("an impossible process id")?;
        Ok(Self { pid, ended: None })
    }

    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Sleeps until it has ended.
    pub fn finish(mut self) -> Result<Ended> {
        self.reap(0)?
            .context("a child that was waited for has not ended")
    }

    /// How it ended, if it has.
    pub fn poll(&mut self) -> Result<Option<Ended>> {
        self.reap(libc::WNOHANG)
    }

    fn reap(&mut self, options: libc::c_int) -> Result<Option<Ended>> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        let mut status = 0;
        // SAFETY: all-zero is a valid rusage, a struct of integers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live values of the right type.
        let pid = unsafe { libc::wait4(self.pid, &raw mut status, options, &raw mut usage) };
        if pid < 0 {
            return Err(io::Error::last_os_error()).context("cannot wait for a child");
        }
        if pid == self.pid {
            let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
            self.ended = Some(Ended { status, cpu });
        }
        Ok(self.ended)
    }

    /// Waits until it has ended; `meanwhile` is called now and then.
    pub fn wait(&mut self, limit: Duration, mut meanwhile: impl FnMut()) -> Result<Ended> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(ended) = self.poll()? {
                return Ok(ended);
            }
            interrupt::check()?;
            if Instant::now() > deadline {
                bail!("it had not ended after {} s", limit.as_secs());
            }
            meanwhile();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal unless it has ended.
    pub fn signal(&mut self, signal: libc::c_int) {
        if self.ended.is_none() {
            // SAFETY: kill has no preconditions; the id is ours until it is reaped.
            unsafe { libc::kill(self.pid, signal) };
        }
    }

    /// Ends it, gently first.
    fn end(&mut self) {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
            self.signal(signal);
            let deadline = Instant::now() + Duration::from_secs(5);
            while Instant::now() < deadline {
                if !matches!(self.poll(), Ok(None)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.end();
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(secs) + Duration::from_micros(micros)
}
