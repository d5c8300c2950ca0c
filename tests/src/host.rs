//! What the machine that runs the tests offers.

use std::env;
use std::ffi::CString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::knows::{Answer, answer};

/// `n` divided by `TRACER_TEST_SCALE`, at least 1.
pub fn scaled(n: u64) -> u64 {
    (n / scale()).max(1)
}

fn scale() -> u64 {
    env::var("TRACER_TEST_SCALE")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1)
        .max(1)
}

/// Held by tests of one file that load the machine, or that must not wait for it:
/// they would be in each other's way.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn in_vm() -> bool {
    env::var("TRACER_TEST_VM").is_ok_and(|v| v == "1")
}

/// Says why a test does not run here, past the test runner, which hides what
/// passing tests print.
pub fn skipped(reason: &str) {
    let test = std::thread::current();
    // A message that cannot be printed is no reason to fail.
    let _ = writeln!(
        io::stderr(),
        "skipped: {}: {reason}",
        test.name().unwrap_or("a test")
    );
}

/// The source under test.
pub fn backend() -> String {
    env::var("TRACER_TEST_BACKEND").unwrap_or_else(|_| "ebpf".into())
}

/// The binary under test.
pub fn tracer() -> PathBuf {
    if let Some(path) = env::var_os("TRACER_BIN") {
        return path.into();
    }
    let target = target_dir();
    ["release/tracer", "debug/tracer"]
        .map(|p| target.join(p))
        .into_iter()
        .find(|p| p.exists())
        .unwrap_or_else(|| {
            panic!(
                "no tracer in {}: run `cargo xtask build --release`, or set TRACER_BIN",
                target.display()
            )
        })
}

/// The target directory that this test was built in: the test lies in
/// `PROFILE/deps`, a binary in `PROFILE`.
pub fn target_dir() -> PathBuf {
    let exe = env::current_exe().expect("a process can name its program");
    let profile = exe
        .ancestors()
        .skip(1)
        .find(|p| !p.ends_with("deps"))
        .expect("a program lies in a directory");
    profile.parent().unwrap_or(profile).to_owned()
}

pub fn root() -> Result<(), String> {
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        Ok(())
    } else {
        Err("not root".into())
    }
}

/// Whether the source under test can run here. A machine that has what eBPF
/// needs must not skip: that tracer then fails is what the tests are to find.
pub fn source() -> Result<(), String> {
    match backend().as_str() {
        "ptrace" => Ok(()),
        "ftrace" => root(),
        _ => bpf(),
    }
}

pub fn bpf() -> Result<(), String> {
    root()?;
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err("this kernel has no BTF".into());
    }
    const BPF_PROG_GET_NEXT_ID: libc::c_long = 11;
    let mut attr = [0_u64; 16];
    // SAFETY: attr outlives the call and is at least as large as the size given.
    let r = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_GET_NEXT_ID,
            attr.as_mut_ptr(),
            size_of_val(&attr),
        )
    };
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS) if r != 0 => Err(format!("bpf() is refused: {error}")),
        _ => Ok(()),
    }
}

/// Not the guest: a compiler, make, python and coreutils may be used.
pub fn full_system() -> Result<(), String> {
    if in_vm() {
        Err("the guest has busybox only".into())
    } else {
        Ok(())
    }
}

pub fn python() -> Result<(), String> {
    program("python3")
}

/// A guest that systemd has booted: there a service may be the tests' own.
pub fn systemd() -> Result<(), String> {
    if !in_vm() {
        return Err("not in a guest".into());
    }
    if !Path::new("/run/systemd/system").exists() {
        return Err("systemd does not run here".into());
    }
    Ok(())
}

pub fn zstd() -> Result<(), String> {
    program("zstd")
}

pub fn make() -> Result<(), String> {
    program("make").and_then(|()| program("gcc"))
}

pub fn xargs() -> Result<(), String> {
    program("xargs").and_then(|()| program("seq"))
}

pub fn ebpf_is_tested() -> Result<(), String> {
    match backend().as_str() {
        "ebpf" => bpf(),
        other => Err(format!("only eBPF can answer, {other} is under test")),
    }
}

/// Whether the source under test knows how a process ended, what it cost and all
/// that its exec shows.
pub fn knows_ends() -> Result<(), String> {
    let backend = backend();
    source()?;
    match answer(&backend, "exit_code") {
        Answer::Always => Ok(()),
        _ => Err(format!("{backend} is under test, which cannot answer")),
    }
}

/// Python with duckdb, chdb and pyarrow.
pub fn databases() -> Result<(), String> {
    extra("python").map(drop)
}

pub fn systemd_analyze() -> Result<(), String> {
    program("systemd-analyze")
}

pub fn setpriv() -> Result<(), String> {
    program("setpriv")
}

pub fn unshare() -> Result<(), String> {
    program("unshare")
}

pub fn strace() -> Result<(), String> {
    program("strace")
}

/// rotel, an OpenTelemetry collector.
pub fn rotel() -> Result<(), String> {
    extra("rotel").map(drop)
}

/// promtool, of Prometheus.
pub fn promtool() -> Result<(), String> {
    extra("promtool").map(drop)
}

/// A program that `cargo xtask setup --extras` fetches: `python` (with the modules
/// duckdb, chdb and pyarrow), `rotel`, `promtool`.
pub fn extra(name: &str) -> Result<PathBuf, String> {
    let dir = match (env::var_os("TRACER_EXTRAS"), env::var_os("XDG_CACHE_HOME")) {
        (Some(dir), _) => PathBuf::from(dir),
        (None, Some(cache)) => Path::new(&cache).join("tracer/extras"),
        (None, None) => {
            Path::new(&env::var_os("HOME").unwrap_or_default()).join(".cache/tracer/extras")
        }
    };
    let path = dir.join("bin").join(name);
    // Its last file: without it the directory is not whole.
    if dir.join("tracer-extras").is_file() && path.is_file() {
        return Ok(path);
    }
    Err(format!(
        "no {} here: run `cargo xtask setup --extras`",
        path.display()
    ))
}

/// Whether `name` is on PATH.
pub fn program(name: &str) -> Result<(), String> {
    find_program(name)
        .map(drop)
        .ok_or_else(|| format!("no {name} here"))
}

pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|p| is_executable(p))
}

fn is_executable(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) else {
        return false;
    };
    // SAFETY: path is a NUL-terminated string that outlives the call.
    unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
}

/// Release of the running kernel as (major, minor).
pub fn kernel() -> (u32, u32) {
    let text =
        std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel says its release");
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
