//! What the ptrace source needs.

use super::{Facts, Finding, unblock};

const CAP_SYS_PTRACE: u32 = 19;

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = vec![scope(facts), attempt(facts), setuid(facts)];
    if !facts.own_pids {
        all.push(Finding::missing(
            "pid_namespace",
            "/proc is that of another one",
            "names and totals there are those of other processes",
            "mount -t proc proc /proc",
        ));
    }
    all
}

/// Yama lets a parent trace its children up to 1; up to 2 with the capability.
fn scope(facts: &Facts) -> Finding {
    let name = "ptrace_scope";
    let privileged = facts.has_capability(CAP_SYS_PTRACE);
    match facts.ptrace_scope {
        None => Finding::ok(name, "no Yama"),
        Some(n) if n < 2 || (n == 2 && privileged) => Finding::ok(name, n.to_string()),
        Some(2) => Finding::missing(
            name,
            "2",
            "only root may trace, even its own children",
            "sudo sysctl kernel.yama.ptrace_scope=1 (or: sudo tracer ...)",
        ),
        Some(n) => Finding::missing(
            name,
            n.to_string(),
            "nobody may trace until the next boot",
            "set kernel.yama.ptrace_scope = 1 in /etc/sysctl.d/ and reboot",
        ),
    }
}

fn attempt(facts: &Facts) -> Finding {
    let name = "ptrace_syscall";
    match facts.ptrace {
        Ok(()) => Finding::ok(name, "a child was seized"),
        Err(errno) => Finding::missing(
            name,
            format!(
                "ptrace(PTRACE_SEIZE): {}",
                std::io::Error::from_raw_os_error(errno)
            ),
            "processes cannot be stopped and looked at",
            unblock(facts, "ptrace(2)"),
        ),
    }
}

fn setuid(facts: &Facts) -> Finding {
    let name = "setuid";
    if facts.has_capability(CAP_SYS_PTRACE) {
        Finding::ok(name, "set-user-ID programs keep their privileges")
    } else {
        Finding::limited(
            name,
            "no CAP_SYS_PTRACE",
            "set-user-ID programs such as sudo run without their privileges under ptrace",
            Some("sudo tracer --uid $USER ...".to_owned()),
        )
    }
}
