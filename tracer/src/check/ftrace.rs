//! What the ftrace source needs.

use super::facts::Tracefs;
use super::{Facts, Finding};

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = vec![root(facts)];
    if facts.lockdown.as_deref() == Some("confidentiality") {
        all.push(Finding::missing(
            "lockdown",
            "confidentiality",
            "the kernel keeps tracefs closed",
            "boot without lockdown=confidentiality, or use --backend ptrace",
        ));
    }
    all.push(tracefs(facts));
    if !facts.initial_pids {
        all.push(Finding::missing(
            "pid_namespace",
            "not the initial one",
            "ftrace's processes have other numbers than those here",
            "run tracer on the host, or use --backend ptrace",
        ));
    }
    all.extend(events(facts));
    if !facts.left_instances.is_empty() {
        let names = facts.left_instances.join(", ");
        all.push(Finding::ok(
            "instances",
            format!("removed {names}, which a killed tracer had left"),
        ));
    }
    all
}

fn root(facts: &Facts) -> Finding {
    if facts.root {
        Finding::ok("root", "yes")
    } else {
        Finding::missing("root", "no", "tracefs belongs to root", "sudo tracer ...")
    }
}

fn tracefs(facts: &Facts) -> Finding {
    const MOUNT: &str = "sudo mount -t tracefs tracefs /sys/kernel/tracing";
    let name = "tracefs";
    match &facts.tracefs {
        Tracefs::Mounted { point, .. } => {
            Finding::ok(name, format!("mounted at {}", point.display()))
        }
        Tracefs::Denied(point) => Finding::missing(
            name,
            format!("{} may not be entered", point.display()),
            "events cannot be switched on",
            if facts.root {
                "a security module or the container forbids it; run tracer on the host"
            } else {
                "sudo tracer ..."
            },
        ),
        Tracefs::NotMounted => Finding::limited(
            name,
            "not mounted",
            "tracer mounts it for as long as it runs",
            Some(MOUNT.to_owned()),
        ),
        Tracefs::Unknown => Finding::missing(
            name,
            "not in this kernel",
            "there is no ftrace",
            "boot a kernel with CONFIG_FTRACE=y, or use --backend ptrace",
        ),
    }
}

fn events(facts: &Facts) -> Option<Finding> {
    let Tracefs::Mounted { missing_events, .. } = &facts.tracefs else {
        return None;
    };
    Some(if missing_events.is_empty() {
        Finding::ok("events", "fork, exec, exit and newtask")
    } else {
        Finding::missing(
            "events",
            format!("no {}", missing_events.join(", no ")),
            "starts or ends of processes would go unseen",
            "boot a kernel with CONFIG_EVENT_TRACING=y, or use --backend ptrace",
        )
    })
}
