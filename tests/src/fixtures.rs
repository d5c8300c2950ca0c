//! The workloads: C programs, linked statically so that they also run in a
//! guest without a C library, and shell scripts.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use crate::host;

/// Path of the workload `name`.
pub fn fixture(name: &str) -> PathBuf {
    let path = dir().join(name);
    assert!(path.exists(), "no workload {}", path.display());
    path
}

/// Copies a program that is to be run, by a process of its own: while a test has a file
/// open for writing, what another thread forks has it too until its exec, and the program
/// would be busy (ETXTBSY).
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success(), "{}", to.display());
}

/// Directory of the compiled workloads.
pub fn dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        if let Some(dir) = std::env::var_os("TRACER_FIXTURES") {
            return dir.into();
        }
        let dir = host::target_dir().join("fixtures");
        build(&dir).unwrap_or_else(|e| panic!("cannot build the workloads: {e:#}"));
        dir
    })
}

/// Compiles the workloads that are older than their sources into `out`; test
/// programs that do so at the same time wait for each other.
///
/// # Errors
/// No C compiler, one that fails, or a directory that cannot be written.
pub fn build(out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let _lock = lock(&out.join(".lock"))?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let header = changed(&sources.join("tally.h"))?;
    for entry in
        fs::read_dir(&sources).with_context(|| format!("cannot read {}", sources.display()))?
    {
        let source = entry?.path();
        let newest = changed(&source)?.max(header);
        let (Some(stem), Some(kind)) = (
            source.file_stem(),
            source.extension().and_then(|e| e.to_str()),
        ) else {
            continue;
        };
        let target = match kind {
            "c" => out.join(stem),
            "sh" => out.join(source.file_name().unwrap_or(stem)),
            _ => continue,
        };
        if changed(&target).is_ok_and(|t| t >= newest) {
            continue;
        }
        // Built beside it and renamed, so that a run that breaks off leaves no half of a program.
        let fresh = target.with_extension("new");
        if kind == "c" {
            compile(&source, &fresh)?;
        } else {
            copy_program(&source, &fresh);
        }
        fs::rename(&fresh, &target)
            .with_context(|| format!("cannot write {}", target.display()))?;
    }
    Ok(())
}

fn changed(path: &Path) -> Result<SystemTime> {
    fs::metadata(path)
        .and_then(|m| m.modified())
        .with_context(|| format!("cannot look at {}", path.display()))
}

fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    // SAFETY: the descriptor belongs to `file`, which lives until after the call.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("cannot lock {}", path.display()));
    }
    Ok(file)
}

fn compile(source: &Path, out: &Path) -> Result<()> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "gcc".into());
    let mut command = Command::new(&compiler);
    command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-static", "-s"]);
    // The tiny one brings its own entry point.
    command.arg(if source.ends_with("tiny.c") {
        "-nostdlib"
    } else {
        "-pthread"
    });
    command.arg("-o").arg(out).arg(source);
    let done = command.output().with_context(|| {
        format!(
            "cannot run {}: install gcc and libc6-dev, or set CC",
            compiler.display()
        )
    })?;
    if !done.status.success() {
        bail!(
            "{} failed:\n{}",
            source.display(),
            String::from_utf8_lossy(&done.stderr)
        );
    }
    Ok(())
}
