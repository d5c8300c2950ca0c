//! Starting other programs.

use std::{
    env,
    io::{self, Read as _, Write as _},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::paths;

/// A build that takes longer than this shows what it does.
const QUIET: Duration = Duration::from_secs(2);

/// Shows the command, runs it, and fails unless it succeeds.
///
/// All its output goes to stderr: stdout is for what the user asked for, maybe the output of a traced command.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("xtask: {}", display(command));
    command.stdin(Stdio::null()).stdout(io::stderr());
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", display(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", display(command));
    }
    Ok(())
}

/// What the command prints on stdout; fails, with its stderr, unless it succeeds.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", display(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} failed: {}\n{}",
            display(command),
            output.status,
            stderr.trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command whose stderr is shown only if it fails or lasts.
pub fn run_quietly(command: &mut Command) -> Result<()> {
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", display(command)))?;
    let mut stderr = child.stderr.take().context("stderr is a pipe")?;
    let (send, receive) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stderr.read(&mut buffer) {
            if send
                .send(buffer.iter().take(length).copied().collect::<Vec<u8>>())
                .is_err()
            {
                break;
            }
        }
    });

    let loud = Instant::now() + QUIET;
    let mut held = Vec::new();
    loop {
        match receive.recv_timeout(loud.saturating_duration_since(Instant::now())) {
            Ok(bytes) => held.extend(bytes),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                eprintln!("xtask: {}", display(command));
                io::stderr().write_all(&held)?;
                held.clear();
                for bytes in &receive {
                    io::stderr().write_all(&bytes)?;
                }
                break;
            }
        }
    }
    let status = child.wait()?;
    if reader.join().is_err() {
        bail!(
            "the thread that reads the output of {} panicked",
            display(command)
        );
    }
    if !status.success() {
        io::stderr().write_all(&held)?;
        bail!("{} failed: {status}", display(command));
    }
    Ok(())
}

/// The cargo that started us, in the workspace's root.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(paths::root());
    command
}

/// The program if it is on PATH.
pub fn on_path(program: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// The command as one would type it, as far as that is of use to a reader.
pub fn display(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", name.display(), value.display()));
        }
    }
    let program = command.get_program();
    let program = Path::new(program).file_name().unwrap_or(program);
    words.push(program.display().to_string());
    words.extend(command.get_args().map(|arg| arg.display().to_string()));
    words.join(" ")
}
