//! Where a benchmark runs: directories, a cgroup and a tracefs instance of its own, all gone afterwards.

use std::{
    ffi::{CString, OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::peers;
use crate::{paths, setup, test};

/// Where tracefs usually is.
const TRACEFS: &str = "/sys/kernel/tracing";

/// Start of the names of cgroups and instances; the process id follows.
const PREFIX: &str = "tracer-bench-";

/// Events that are switched on in an instance.
const EVENTS: [&str; 3] = [
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
];

pub struct Lab {
    pub dir: PathBuf,
    pub fixtures: PathBuf,
    pub tracer: PathBuf,
    /// The program for bpftrace.
    pub script: PathBuf,
    pub cgroup: Option<PathBuf>,
    /// Name of the cgroup and of the instance.
    pub tag: String,
    /// PATH of all that is run.
    pub path: OsString,
    tracefs: bool,
    /// Whether the kernel's own buffer records; trace-cmd may leave it changed.
    tracing_on: Option<String>,
    _temporary: TempDir,
}

impl Lab {
    /// Must be called while the process has one thread.
    pub fn new(tracer: PathBuf) -> Result<Self> {
        if !setup::is_root() {
            bail!("tracers need root; run it as root, or with sudo");
        }
        let fixtures = test::fixtures()?;
        let temporary = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir()
            .context("cannot make a temporary directory")?;
        let dir = temporary.path().to_owned();
        let script = dir.join("process.bt");
        fs::write(&script, include_str!("process.bt"))?;
        let tracefs = mount_tracefs()
            .inspect_err(|error| eprintln!("xtask: no tracefs: {error:#}"))
            .is_ok();
        if tracefs {
            remove_stale(&Path::new(TRACEFS).join("instances"));
        }
        let tag = format!("{PREFIX}{}", process::id());
        let cgroup = make_cgroup(&tag);
        if cgroup.is_none() {
            eprintln!("xtask: no cgroup of its own: what needs one counts the whole machine");
        }
        let mut path = peers::bin()?.into_os_string();
        for dirs in [
            std::env::var_os("PATH").unwrap_or_default(),
            "/usr/sbin:/sbin".into(),
        ] {
            path.push(":");
            path.push(dirs);
        }
        Ok(Self {
            dir,
            fixtures,
            tracer,
            script,
            cgroup,
            tag,
            path,
            tracefs,
            tracing_on: fs::read_to_string(tracing_on()).ok(),
            _temporary: temporary,
        })
    }

    /// A command in an environment that is the same for all and everywhere.
    pub fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", &self.dir)
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        command
    }

    pub fn has(&self, program: &str) -> bool {
        std::env::split_paths(&self.path).any(|dir| dir.join(program).is_file())
    }

    pub const fn has_tracefs(&self) -> bool {
        self.tracefs
    }

    pub fn instance(&self) -> PathBuf {
        Path::new(TRACEFS).join("instances").join(&self.tag)
    }

    /// Makes the tracefs instance and switches the events on.
    pub fn make_instance(&self) -> Result<()> {
        let instance = self.instance();
        fs::create_dir(&instance).with_context(|| format!("cannot make {}", instance.display()))?;
        for event in EVENTS {
            let switch = instance.join("events/sched").join(event).join("enable");
            fs::write(&switch, "1")
                .with_context(|| format!("cannot write {}", switch.display()))?;
        }
        Ok(())
    }

    /// Whether somebody has switched on the events in the instance.
    pub fn instance_is_on(&self) -> bool {
        let on = |event: &str| {
            let switch = self
                .instance()
                .join("events/sched")
                .join(event)
                .join("enable");
            fs::read_to_string(switch).is_ok_and(|state| state.starts_with('1'))
        };
        EVENTS.into_iter().all(on)
    }

    /// It stays as long as one of its files is open.
    pub fn remove_instance(&self) {
        for _ in 0..100 {
            match fs::remove_dir(self.instance()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    thread::sleep(Duration::from_millis(20));
                }
                _ => return,
            }
        }
        eprintln!("xtask: cannot remove {}", self.instance().display());
    }

    /// Ends what is left of a run that went wrong.
    pub fn kill_workload(&self) {
        let Some(cgroup) = &self.cgroup else { return };
        let populated = || {
            let events = fs::read_to_string(cgroup.join("cgroup.events"));
            events.is_ok_and(|events| events.contains("populated 1"))
        };
        if populated() && fs::write(cgroup.join("cgroup.kill"), "1").is_ok() {
            for _ in 0..100 {
                if !populated() {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.kill_workload();
        if self.tracefs && self.instance().exists() {
            self.remove_instance();
        }
        let state = fs::read_to_string(tracing_on()).ok();
        if let Some(before) = &self.tracing_on
            && state.as_ref() != Some(before)
            && let Err(error) = fs::write(tracing_on(), before)
        {
            eprintln!("xtask: cannot restore {}: {error}", tracing_on().display());
        }
        if let Some(cgroup) = &self.cgroup
            && let Err(error) = fs::remove_dir(cgroup)
        {
            eprintln!("xtask: cannot remove {}: {error}", cgroup.display());
        }
    }
}

/// Makes tracefs available to us and our children alone: in a mount namespace that goes when we go.
fn mount_tracefs() -> Result<()> {
    if Path::new(TRACEFS).join("events").is_dir() {
        return Ok(());
    }
    // SAFETY: unshare takes no pointers.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error()).context("cannot make a mount namespace");
    }
    mount(None, Path::new("/"), libc::MS_REC | libc::MS_PRIVATE)?;
    mount(Some("tracefs"), Path::new(TRACEFS), 0)
}

fn mount(kind: Option<&str>, target: &Path, flags: libc::c_ulong) -> Result<()> {
    let kind = kind.map(CString::new).transpose()?;
    let kind = kind.as_ref().map_or(std::ptr::null(), |kind| kind.as_ptr());
    let place = CString::new(target.as_os_str().as_bytes())?;
    // SAFETY: all strings are NUL-terminated and outlive the call; null stands for an absent one.
    let done = unsafe { libc::mount(kind, place.as_ptr(), kind, flags, std::ptr::null()) };
    if done != 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("cannot mount {}", target.display()));
    }
    Ok(())
}

fn tracing_on() -> PathBuf {
    Path::new(TRACEFS).join("tracing_on")
}

/// Removes what benchmarks that were killed have left there.
fn remove_stale(dir: &Path) {
    for old in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = old.file_name();
        let name = name.to_string_lossy();
        if let Some(pid) = name.strip_prefix(PREFIX)
            && !Path::new("/proc").join(pid).exists()
        {
            // One that is still in use stays.
            let _in_use = fs::remove_dir(old.path());
        }
    }
}

/// A cgroup (v2) of our own.
fn make_cgroup(tag: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let root = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    })?;
    remove_stale(&root);
    let cgroup = root.join(tag);
    fs::create_dir(&cgroup).ok()?;
    Some(cgroup)
}

/// The tracer that was just built, unless another one is to be measured.
pub fn tracer(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(given) = given {
        return fs::canonicalize(given).with_context(|| format!("there is no {}", given.display()));
    }
    crate::build::release_quietly()?;
    Ok(paths::tracer())
}
