//! Runs the binary under test and keeps all that it said.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{Capture, Truth, host};

/// Nothing here may take this long; a run that does is stuck. Slow guests are
/// the reason for its size.
const WATCHDOG: Duration = Duration::from_secs(600);

type Change = Box<dyn FnOnce(&mut Command)>;

/// A run to be: `tracer [OPTIONS] -- CMD`, or `tracer record OPTIONS`.
pub struct Trace {
    subcommand: Option<&'static str>,
    options: Vec<OsString>,
    command: Vec<OsString>,
    backend: Option<String>,
    capture: bool,
    launcher: Vec<OsString>,
    binary: Option<OsString>,
    setup: Vec<Change>,
    dir: TempDir,
}

impl Trace {
    /// Traces the workload `name`.
    pub fn fixture<I, A>(name: &str, args: I) -> Self
    where
        I: IntoIterator<Item = A>,
        A: Into<OsString>,
    {
        Self::command(crate::fixture(name), args)
    }

    /// Traces `n` programs, one after the other.
    pub fn storm(n: u64) -> Self {
        let tiny = crate::fixture("tiny").into_os_string();
        Self::fixture("execstorm", [tiny, n.to_string().into()])
    }

    /// Traces a shell command.
    pub fn shell(script: &str) -> Self {
        Self::command("/bin/sh", ["-c", script])
    }

    pub fn command<I, A>(program: impl Into<OsString>, args: I) -> Self
    where
        I: IntoIterator<Item = A>,
        A: Into<OsString>,
    {
        let mut trace = Self::bare();
        trace.command = vec![program.into()];
        trace.command.extend(args.into_iter().map(Into::into));
        trace.backend = Some(host::backend());
        trace.capture = true;
        trace
    }

    /// Records what runs already.
    pub fn record<A: Into<OsString>>(options: impl IntoIterator<Item = A>) -> Self {
        let mut trace = Self::bare().options(options);
        trace.subcommand = Some("record");
        trace.backend = Some(host::backend());
        trace.capture = true;
        trace
    }

    /// Only the options that are given, no `--`.
    pub fn bare() -> Self {
        Self {
            subcommand: None,
            options: Vec::new(),
            command: Vec::new(),
            backend: None,
            capture: false,
            launcher: Vec::new(),
            binary: None,
            setup: Vec::new(),
            dir: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    pub fn option(self, option: impl Into<OsString>) -> Self {
        self.options([option])
    }

    pub fn options<A: Into<OsString>>(mut self, options: impl IntoIterator<Item = A>) -> Self {
        self.options.extend(options.into_iter().map(Into::into));
        self
    }

    /// Without the JSONL file that every run writes otherwise.
    pub fn without_capture(mut self) -> Self {
        self.capture = false;
        self
    }

    /// `None`: as tracer chooses.
    pub fn backend(mut self, backend: Option<&str>) -> Self {
        self.backend = backend.map(Into::into);
        self
    }

    /// Starts tracer through another program.
    pub fn through<A: Into<OsString>>(mut self, launcher: impl IntoIterator<Item = A>) -> Self {
        self.launcher = launcher.into_iter().map(Into::into).collect();
        self
    }

    /// A copy of the binary under test instead of itself.
    pub fn binary(mut self, copy: OsString) -> Self {
        self.binary = Some(copy);
        self
    }

    /// Changes how the process is started: group, files, environment.
    pub fn setup(mut self, change: impl FnOnce(&mut Command) + 'static) -> Self {
        self.setup.push(Box::new(change));
        self
    }

    pub fn in_dir(self, dir: &Path) -> Self {
        let dir = dir.to_owned();
        self.setup(move |c| {
            c.current_dir(dir);
        })
    }

    /// The run's own directory, removed at its end.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn start(self) -> Running {
        let mut line: Vec<OsString> = self.launcher;
        line.push(self.binary.unwrap_or_else(|| host::tracer().into()));
        line.extend(self.subcommand.map(OsString::from));
        if let Some(backend) = self.backend {
            line.extend(["--backend".into(), backend.into()]);
        }
        if self.capture {
            line.extend(["-o".into(), self.dir.path().join(CAPTURE).into()]);
        }
        line.extend(self.options);
        if !self.command.is_empty() {
            line.push("--".into());
            line.extend(self.command);
        }
        let file =
            |name| File::create(self.dir.path().join(name)).expect("a file in our own directory");
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .stdin(Stdio::null())
            .stdout(file(STDOUT))
            .stderr(file(STDERR));
        // Under nohup, or behind a shell's `&`, the test itself ignores some.
        // SAFETY: signal may be called between fork and exec, and fails for no such signal.
        unsafe {
            command.pre_exec(|| {
                for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        for change in self.setup {
            change(&mut command);
        }
        let child = command
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {}: {e}", line[0].display()));
        Running {
            child,
            dir: self.dir,
            line,
        }
    }

    pub fn run(self) -> Outcome {
        self.start().finish()
    }
}

// Files rather than pipes: nothing waits for a reader, and a descendant that
// outlives the run cannot keep the test waiting.
const CAPTURE: &str = "capture.jsonl";
const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";

pub struct Running {
    child: Child,
    dir: TempDir,
    line: Vec<OsString>,
}

impl Running {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid is an int")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn stdout(&self) -> String {
        lossy(&self.dir.path().join(STDOUT))
    }

    /// Waits until the output has `text`.
    pub fn await_stdout(&mut self, text: &str) {
        self.await_condition(&format!("{text:?} in the output"), |r| {
            r.stdout().contains(text)
        });
    }

    pub fn await_condition(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            let ended = self.child.try_wait().expect("a child can be waited for");
            let stuck = begin.elapsed() > WATCHDOG;
            if (ended.is_some() && !holds(self)) || stuck {
                let _ = self.child.kill();
                panic!("no {what}; ended: {ended:?}\n{}", self.story());
            }
            sleep(Duration::from_millis(2));
        }
    }

    /// Waits until a recording has begun: everything from now on is in it.
    pub fn await_recording(&mut self) {
        self.await_condition("beginning of a recording", |r| {
            r.so_far().contains("\"type\":\"meta\"")
        });
    }

    /// What the capture has already.
    pub fn so_far(&self) -> String {
        lossy(&self.dir.path().join(CAPTURE))
    }

    pub fn signal(&self, signal: i32) {
        send(self.pid(), signal);
    }

    pub fn finish(mut self) -> Outcome {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if begin.elapsed() > WATCHDOG {
                let _ = self.child.kill();
                panic!("did not end\n{}", self.story());
            }
            sleep(Duration::from_millis(2));
        };
        let capture = fs::read(self.dir.path().join(CAPTURE)).ok();
        Outcome {
            status,
            capture,
            dir: self.dir,
            line: self.line,
        }
    }

    /// Ends a recording by `signal`, once it has begun.
    pub fn ended_by(mut self, signal: i32) -> Capture {
        self.await_recording();
        self.signal(signal);
        self.finish().expect_code(0).capture()
    }

    fn story(&self) -> String {
        format!(
            "{:?}\nstdout: {}\nstderr: {}",
            self.line,
            self.stdout(),
            lossy(&self.dir.path().join(STDERR))
        )
    }
}

/// Sends to a process, or with a negative number to a process group, that the
/// test started.
pub fn send(pid: i32, signal: i32) {
    // SAFETY: kill takes plain numbers.
    let r = unsafe { libc::kill(pid, signal) };
    assert_eq!(
        r,
        0,
        "kill({pid}, {signal}): {}",
        io::Error::last_os_error()
    );
}

pub struct Outcome {
    pub status: ExitStatus,
    capture: Option<Vec<u8>>,
    dir: TempDir,
    line: Vec<OsString>,
}

impl Outcome {
    pub fn stdout(&self) -> String {
        lossy(&self.dir.path().join(STDOUT))
    }

    pub fn stderr(&self) -> String {
        lossy(&self.dir.path().join(STDERR))
    }

    pub fn stdout_bytes(&self) -> Vec<u8> {
        fs::read(self.dir.path().join(STDOUT)).expect("the output of the run")
    }

    pub fn stderr_bytes(&self) -> Vec<u8> {
        fs::read(self.dir.path().join(STDERR)).expect("the messages of the run")
    }

    pub fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.dir.path().join(name.as_ref())
    }

    /// Exit status as a shell shows it.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .or_else(|| self.status.signal().map(|s| 1000 + s))
            .expect("it has ended")
    }

    /// Asserts the exit status; the message has all that tracer said.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.code(),
            code,
            "exit status (1000 + N: tracer died of signal N)\n{self}"
        );
        self
    }

    #[track_caller]
    pub fn capture(&self) -> Capture {
        let bytes = self
            .capture
            .as_ref()
            .unwrap_or_else(|| panic!("no capture was written\n{self}"));
        Capture::parse(std::str::from_utf8(bytes).expect("JSON is UTF-8"))
    }

    pub fn has_capture(&self) -> bool {
        self.capture.is_some()
    }

    pub fn truth(&self) -> Truth {
        Truth::of(&self.stdout())
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?}\nstdout: {}\nstderr: {}",
            self.line,
            self.stdout(),
            self.stderr()
        )
    }
}

fn lossy(path: &Path) -> String {
    fs::read(path)
        .map(|b| String::from_utf8_lossy(&b).into_owned())
        .unwrap_or_default()
}
