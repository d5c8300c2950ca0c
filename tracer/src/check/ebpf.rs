//! What the eBPF source needs.

use super::{Facts, Finding, unblock};
use crate::sys::procfs::version_of;

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Ring buffers, capabilities of BPF's own and `start_boottime` are all there.
const OLDEST: (u32, u32) = (5, 17);

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = vec![version(facts), capabilities(facts), syscall(facts)];
    all.extend(types(facts));
    all.extend([delayacct(facts), cgroup(facts), stats(facts)]);
    all
}

fn version(facts: &Facts) -> Finding {
    let name = "kernel_version";
    match version_of(&facts.kernel) {
        Some(version) if version >= OLDEST => Finding::ok(name, format!("Linux {}", facts.kernel)),
        _ => Finding::missing(
            name,
            format!("Linux {}", facts.kernel),
            "eBPF as tracer uses it (bpf_loop) came with Linux 5.17",
            "run Linux 5.17 or later, or use --backend ptrace",
        ),
    }
}

fn capabilities(facts: &Facts) -> Finding {
    let name = "capabilities";
    if facts.has_capability(CAP_SYS_ADMIN) {
        return Finding::ok(name, "CAP_SYS_ADMIN");
    }
    let lacking: Vec<_> = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
        .into_iter()
        .filter(|(number, _)| !facts.has_capability(*number))
        .map(|(_, name)| name)
        .collect();
    if lacking.is_empty() {
        return Finding::ok(name, "CAP_BPF, CAP_PERFMON");
    }
    Finding::missing(
        name,
        format!("no {}", lacking.join(", no ")),
        "the kernel refuses eBPF programs",
        privileges(facts),
    )
}

/// How to get the capabilities.
const fn privileges(facts: &Facts) -> &'static str {
    if facts.root {
        "start the container with --cap-add BPF --cap-add PERFMON, or run tracer on the host"
    } else {
        "sudo tracer ..."
    }
}

fn syscall(facts: &Facts) -> Finding {
    let name = "bpf_syscall";
    let errno = match facts.bpf {
        Ok(()) => return Finding::ok(name, "a map was made"),
        Err(errno) => errno,
    };
    let found = format!(
        "bpf(BPF_MAP_CREATE): {}",
        std::io::Error::from_raw_os_error(errno)
    );
    let remedy = match errno {
        libc::ENOSYS => "boot a kernel with CONFIG_BPF_SYSCALL=y, or use --backend ptrace".to_owned(),
        _ if facts.lockdown.as_deref() == Some("confidentiality") => {
            "the kernel is locked down (confidentiality); boot without lockdown=confidentiality, or use --backend ptrace"
                .to_owned()
        }
        _ if !facts.has_capability(CAP_SYS_ADMIN) && !facts.has_capability(CAP_BPF) => privileges(facts).to_owned(),
        _ => unblock(facts, "bpf(2)"),
    };
    Finding::missing(name, found, "no eBPF program can be loaded", remedy)
}

fn types(facts: &Facts) -> Vec<Finding> {
    let types = match &facts.btf {
        Ok(types) => types,
        Err(error) => {
            return vec![Finding::missing(
                "btf",
                error,
                "tracer cannot know where the kernel keeps what it reads",
                "boot a kernel with CONFIG_DEBUG_INFO_BTF=y (see: grep BTF /boot/config-$(uname -r)), \
                 and mount sysfs: mount -t sysfs sysfs /sys",
            )];
        }
    };
    let mut all = vec![Finding::ok("btf", crate::sys::btf::VMLINUX)];
    let (required, optional) = (types.lacking(true), types.lacking(false));
    all.push(if required.is_empty() {
        Finding::ok("required_members", "all found")
    } else {
        Finding::missing(
            "required_members",
            format!("no {}", required.join(", no ")),
            "this kernel is built in a way that tracer does not know",
            "use --backend ftrace or --backend ptrace, and report this output",
        )
    });
    all.push(if optional.is_empty() {
        Finding::ok("optional_members", "all found")
    } else {
        Finding::limited(
            "optional_members",
            format!("no {}", optional.join(", no ")),
            "what these members hold is left out",
            None,
        )
    });
    all.push(match types.exit_params {
        Some(2) => Finding::ok("exit_tracepoint", "one argument (before Linux 6.16)"),
        Some(3) => Finding::ok("exit_tracepoint", "two arguments (since Linux 6.16)"),
        other => Finding::missing(
            "exit_tracepoint",
            other.map_or("not found".to_owned(), |n| {
                format!("{} arguments", n.saturating_sub(1))
            }),
            "tracer does not know how this kernel reports the end of a process",
            "use --backend ftrace or --backend ptrace, and report this output",
        ),
    });
    all
}

fn delayacct(facts: &Facts) -> Finding {
    let name = "task_delayacct";
    let follows = "the time that processes wait for block I/O is unknown";
    match facts.task_delayacct {
        Some(0) => Finding::limited(
            name,
            "off",
            follows,
            Some("sudo sysctl kernel.task_delayacct=1".to_owned()),
        ),
        Some(_) => Finding::ok(name, "on"),
        None => Finding::limited(
            name,
            "not in this kernel (CONFIG_TASK_DELAY_ACCT)",
            follows,
            None,
        ),
    }
}

fn cgroup(facts: &Facts) -> Finding {
    let name = "cgroup_v2";
    match &facts.cgroup2 {
        Some(point) => Finding::ok(name, format!("mounted at {}", point.display())),
        None => Finding::limited(
            name,
            "not mounted",
            "the cgroups of processes are unknown, and --cgroup cannot be used",
            Some("sudo mount -t cgroup2 none /sys/fs/cgroup".to_owned()),
        ),
    }
}

fn stats(facts: &Facts) -> Finding {
    let name = "bpf_stats";
    match facts.bpf_stats {
        Some(n) if n > 0 => Finding::limited(
            name,
            "kernel.bpf_stats_enabled is on",
            "every run of an eBPF program is timed, which slows all of them a little",
            Some("sudo sysctl kernel.bpf_stats_enabled=0".to_owned()),
        ),
        _ => Finding::ok(name, "off"),
    }
}
