//! Looks at the machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use tracer_common::offsets::Offsets;

use crate::launch::Command;
use crate::sys::btf::{Blob, Btf, BtfError, VMLINUX};
use crate::sys::cgroup::Cgroups;
use crate::sys::mounts;
use crate::sys::procfs::{Proc, has_own_pids, in_initial_pid_namespace};
use crate::sys::tracefs;

/// Everything that a source's work depends on.
#[derive(Clone, Debug)]
pub struct Facts {
    /// `uname -r`.
    pub kernel: String,
    pub root: bool,
    /// Effective capabilities, as in `/proc/PID/status`.
    pub capabilities: u64,
    /// A seccomp filter is at work on us.
    pub seccomp: bool,
    /// `none`, `integrity` or `confidentiality`; absent: not built in, or not
    /// readable.
    pub lockdown: Option<String>,
    pub btf: Result<Types, String>,
    /// Errno of an attempt to make a small map.
    pub bpf: Result<(), i32>,
    pub task_delayacct: Option<u64>,
    pub bpf_stats: Option<u64>,
    pub cgroup2: Option<PathBuf>,
    pub tracefs: Tracefs,
    /// Our pids are those that the kernel itself uses.
    pub initial_pids: bool,
    /// /proc has the pids that system calls use.
    pub own_pids: bool,
    /// Trace instances that killed tracers had left, removed by this look.
    pub left_instances: Vec<String>,
    /// `kernel.yama.ptrace_scope`; absent: no Yama.
    pub ptrace_scope: Option<u64>,
    /// Errno of an attempt to seize a child.
    pub ptrace: Result<(), i32>,
}

/// What BTF says.
#[derive(Clone, Debug, Default)]
pub struct Types {
    /// By the names in [`Offsets::TABLE`]; absent: this kernel has no such member.
    pub offsets: BTreeMap<&'static str, Option<u32>>,
    /// Parameters of the exit tracepoint, its private data included.
    pub exit_params: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracefs {
    /// Not in `/proc/filesystems`.
    Unknown,
    NotMounted,
    /// Mounted, but we may not look into it.
    Denied(PathBuf),
    Mounted {
        point: PathBuf,
        missing_events: Vec<&'static str>,
    },
}

/// Events of the ftrace source.
const EVENTS: [&str; 4] = [
    "sched/sched_process_fork",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
    "task/task_newtask",
];

impl Facts {
    pub fn gather() -> Self {
        let proc = Proc::default();
        let status = fs::read_to_string(proc.root().join("self/status")).unwrap_or_default();
        let status = |key: &str| {
            status
                .lines()
                .find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))
                .map(str::trim)
        };
        Self {
            kernel: proc.kernel().unwrap_or_else(|_| "?".to_owned()),
            // SAFETY: geteuid has no preconditions.
            root: unsafe { libc::geteuid() } == 0,
            capabilities: status("CapEff")
                .and_then(|v| u64::from_str_radix(v, 16).ok())
                .unwrap_or(0),
            seccomp: status("Seccomp") == Some("2"),
            lockdown: fs::read_to_string("/sys/kernel/security/lockdown")
                .ok()
                .and_then(|t| chosen(&t)),
            btf: Types::gather(Path::new(VMLINUX)),
            bpf: try_bpf(),
            task_delayacct: proc.kernel_number("task_delayacct"),
            bpf_stats: proc.kernel_number("bpf_stats_enabled"),
            cgroup2: Cgroups::new(proc.root()).mount().map(Path::to_path_buf),
            tracefs: Tracefs::gather(proc.root()),
            initial_pids: in_initial_pid_namespace(),
            own_pids: has_own_pids(proc.root()),
            left_instances: left_instances(&proc),
            ptrace_scope: proc.kernel_number("yama/ptrace_scope"),
            ptrace: try_ptrace(),
        }
    }

    pub const fn has_capability(&self, number: u32) -> bool {
        self.capabilities >> number & 1 != 0
    }
}

/// The word in brackets of `none [integrity] confidentiality`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

impl Types {
    fn gather(path: &Path) -> Result<Self, String> {
        let blob = Blob::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::read(&blob).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn read(blob: &[u8]) -> Result<Self, BtfError> {
        let btf = Btf::parse(blob)?;
        let mut offsets = BTreeMap::new();
        for (field, structure, member, _) in Offsets::TABLE.iter().copied() {
            offsets.insert(field, btf.member_offset(structure, member)?);
        }
        Ok(Self {
            offsets,
            exit_params: btf.typedef_params("btf_trace_sched_process_exit")?,
        })
    }

    /// `struct.member` of those that this kernel lacks.
    pub fn lacking(&self, required: bool) -> Vec<String> {
        Offsets::TABLE
            .iter()
            .filter(|(field, _, _, need)| {
                *need == required && !matches!(self.offsets.get(field), Some(Some(_)))
            })
            .map(|(_, structure, member, _)| format!("{structure}.{member}"))
            .collect()
    }
}

impl Tracefs {
    fn gather(proc: &Path) -> Self {
        let known = fs::read_to_string(proc.join("filesystems")).unwrap_or_default();
        if !known
            .lines()
            .any(|l| l.split_whitespace().next_back() == Some("tracefs"))
        {
            return Self::Unknown;
        }
        // debugfs mounts tracefs by itself when somebody enters its `tracing`.
        let by_itself = PathBuf::from("/sys/kernel/debug/tracing");
        let points = mounts::mounts(proc).unwrap_or_default().into_iter();
        let points = points.filter(|m| m.fs_type == "tracefs").map(|m| m.point);
        for point in points.chain([by_itself]) {
            match fs::metadata(point.join("events")) {
                Ok(_) => {
                    let missing_events = EVENTS
                        .into_iter()
                        .filter(|e| !point.join("events").join(e).is_dir())
                        .collect();
                    return Self::Mounted {
                        point,
                        missing_events,
                    };
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Self::Denied(point);
                }
                Err(_) => {}
            }
        }
        Self::NotMounted
    }
}

/// Where tracefs cannot be opened nothing can be left either, as far as we may know.
fn left_instances(proc: &Proc) -> Vec<String> {
    let removed = tracefs::Tracefs::open(proc.root())
        .ok()
        .and_then(|t| t.remove_stale(proc).ok());
    let names = removed.unwrap_or_default().into_iter();
    names
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect()
}

/// Makes an array map of one element and closes it again.
fn try_bpf() -> Result<(), i32> {
    const BPF_MAP_CREATE: i32 = 0;
    const BPF_MAP_TYPE_ARRAY: u32 = 2;
    // The start of `union bpf_attr` for this command: type, key size, value
    // size, entries. What a newer kernel has beyond that is zero.
    let attr: [u32; 4] = [BPF_MAP_TYPE_ARRAY, 4, 4, 1];
    // SAFETY: the kernel reads as many bytes as `attr` has.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_CREATE,
            attr.as_ptr(),
            size_of_val(&attr),
        )
    };
    let fd = i32::try_from(fd)
        .ok()
        .filter(|fd| *fd >= 0)
        .ok_or_else(last_errno)?;
    // SAFETY: new, and nobody else's.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

/// Seizes a child of ours, which is never let go.
fn try_ptrace() -> Result<(), i32> {
    let errno = |e: io::Error| e.raw_os_error().unwrap_or(libc::EIO);
    let command = Command::resolve(&["/proc/self/exe".into()], None).map_err(|_| libc::ENOENT)?;
    let held = command.hold().map_err(errno)?;
    let pid = held.pid().cast_signed();
    let null = std::ptr::null_mut::<u8>();
    // SAFETY: the pid is that of our own child; no memory is involved.
    let result = match unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, null, null) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    };
    // It ends now; a command that is traced next must not find it as a sibling.
    drop(held);
    // SAFETY: our own child, which nobody else waits for; its status is not asked for.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
    result
}

fn last_errno() -> i32 {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lockdown_is_the_word_in_brackets() {
        assert_eq!(
            chosen("none [integrity] confidentiality\n").as_deref(),
            Some("integrity")
        );
        assert_eq!(chosen("none"), None);
        assert_eq!(chosen("]["), None);
    }

    #[test]
    fn a_file_that_is_no_btf_is_an_error_that_names_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Types::gather(file.path()).unwrap_err();
        assert!(error.contains(&*file.path().to_string_lossy()), "{error}");
        assert!(
            Types::gather(Path::new("/no/such/btf"))
                .unwrap_err()
                .contains("/no/such/btf")
        );
    }

    #[test]
    fn tracefs_needs_to_be_known_and_mounted() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Tracefs::gather(dir.path()), Tracefs::Unknown);
        fs::write(
            dir.path().join("filesystems"),
            "nodev\tproc\nnodev\ttracefs\n\text4\n",
        )
        .unwrap();
        fs::create_dir(dir.path().join("self")).unwrap();
        let point = dir.path().join("t");
        for event in EVENTS {
            fs::create_dir_all(point.join("events").join(event)).unwrap();
        }
        let line = format!("1 1 0:1 / {} rw - tracefs none rw\n", point.display());
        fs::write(dir.path().join("self/mountinfo"), line).unwrap();
        let Tracefs::Mounted {
            point: found,
            missing_events,
        } = Tracefs::gather(dir.path())
        else {
            panic!()
        };
        assert_eq!((found, missing_events), (point.clone(), vec![]));
        fs::remove_dir(point.join("events").join(EVENTS[3])).unwrap();
        let Tracefs::Mounted { missing_events, .. } = Tracefs::gather(dir.path()) else {
            panic!()
        };
        assert_eq!(missing_events, ["task/task_newtask"]);
    }

    #[test]
    fn looking_changes_nothing_and_agrees_with_the_system() {
        let facts = Facts::gather();
        // SAFETY: geteuid has no preconditions.
        assert_eq!(facts.root, unsafe { libc::geteuid() } == 0);
        assert_eq!(facts.kernel, Proc::default().kernel().unwrap());
        assert_eq!(facts.btf.is_ok(), fs::read(VMLINUX).is_ok());
    }
}
