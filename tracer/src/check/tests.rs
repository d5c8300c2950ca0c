use std::collections::BTreeMap;

use tracer_common::offsets::Offsets;

use super::facts::{Tracefs, Types};
use super::*;

fn all_members() -> Types {
    let offsets: BTreeMap<_, _> = Offsets::TABLE
        .iter()
        .map(|(field, ..)| (*field, Some(8)))
        .collect();
    Types {
        offsets,
        exit_params: Some(3),
    }
}

/// A machine on which everything works.
fn good() -> Facts {
    Facts {
        kernel: "6.18.1".to_owned(),
        root: true,
        capabilities: u64::MAX,
        seccomp: false,
        lockdown: Some("none".to_owned()),
        btf: Ok(all_members()),
        bpf: Ok(()),
        task_delayacct: Some(1),
        bpf_stats: Some(0),
        cgroup2: Some("/sys/fs/cgroup".into()),
        tracefs: Tracefs::Mounted {
            point: "/sys/kernel/tracing".into(),
            missing_events: Vec::new(),
        },
        initial_pids: true,
        own_pids: true,
        left_instances: Vec::new(),
        ptrace_scope: Some(1),
        ptrace: Ok(()),
    }
}

/// What stands in the way of `source`.
fn obstacle(facts: &Facts, source: &str) -> Option<Finding> {
    report(facts)
        .sources
        .iter()
        .find(|s| s.source == source)
        .unwrap()
        .obstacle()
        .cloned()
}

#[test]
fn where_all_is_well_nothing_is_said() {
    let report = report(&good());
    assert_eq!(report.auto, Some("ebpf"));
    for finding in report.sources.iter().flat_map(|s| &s.findings) {
        assert_eq!(
            (finding.state, finding.follows.as_str(), &finding.remedy),
            (State::Ok, "", &None),
            "{finding:?}"
        );
    }
}

#[test]
fn an_ordinary_user_is_left_with_ptrace() {
    let facts = Facts {
        root: false,
        capabilities: 0,
        bpf: Err(libc::EPERM),
        tracefs: Tracefs::Denied("/sys/kernel/tracing".into()),
        ..good()
    };
    let report = report(&facts);
    assert_eq!(report.auto, Some("ptrace"));
    let ebpf = obstacle(&facts, "ebpf").unwrap();
    assert_eq!(ebpf.name, "capabilities");
    assert!(ebpf.found.contains("CAP_BPF") && ebpf.remedy.unwrap().contains("sudo"));
    assert!(
        obstacle(&facts, "ftrace")
            .unwrap()
            .remedy
            .unwrap()
            .contains("sudo")
    );
    // Every obstacle comes with a remedy.
    for finding in report
        .sources
        .iter()
        .flat_map(|s| &s.findings)
        .filter(|f| f.state == State::Missing)
    {
        assert!(
            finding.remedy.is_some() && !finding.follows.is_empty(),
            "{finding:?}"
        );
    }
}

#[test]
fn two_capabilities_are_enough() {
    let facts = Facts {
        root: false,
        capabilities: 1 << 38 | 1 << 39,
        ..good()
    };
    assert_eq!(report(&facts).auto, Some("ebpf"));
    let one = Facts {
        capabilities: 1 << 39,
        ..facts
    };
    assert!(
        obstacle(&one, "ebpf")
            .unwrap()
            .found
            .contains("CAP_PERFMON")
    );
}

#[test]
fn a_refusal_names_who_refuses() {
    let refused = Facts {
        bpf: Err(libc::EPERM),
        ptrace: Err(libc::EPERM),
        ..good()
    };
    let remedy = |facts: &Facts, source| obstacle(facts, source).unwrap().remedy.unwrap();
    assert!(remedy(&refused, "ebpf").contains("security module"));
    let contained = Facts {
        seccomp: true,
        ..refused.clone()
    };
    assert!(remedy(&contained, "ebpf").contains("seccomp=unconfined"));
    assert!(remedy(&contained, "ptrace").contains("seccomp=unconfined"));
    let locked = Facts {
        lockdown: Some("confidentiality".to_owned()),
        ..refused.clone()
    };
    assert!(remedy(&locked, "ebpf").contains("lockdown"));
    assert_eq!(obstacle(&locked, "ftrace").unwrap().name, "lockdown");
    let absent = Facts {
        bpf: Err(libc::ENOSYS),
        ..good()
    };
    assert!(remedy(&absent, "ebpf").contains("CONFIG_BPF_SYSCALL"));
    let container = Facts {
        capabilities: 0,
        ..good()
    };
    assert!(remedy(&container, "ebpf").contains("--cap-add"));
}

#[test]
fn another_pid_namespace() {
    let inner = Facts {
        initial_pids: false,
        ..good()
    };
    assert_eq!(obstacle(&inner, "ftrace").unwrap().name, "pid_namespace");
    assert_eq!(obstacle(&inner, "ptrace"), None);
    let outer_proc = Facts {
        own_pids: false,
        ..inner
    };
    let finding = obstacle(&outer_proc, "ptrace").unwrap();
    assert_eq!(finding.remedy.as_deref(), Some("mount -t proc proc /proc"));
}

#[test]
fn kernels_and_their_types() {
    let old = Facts {
        kernel: "4.19.0".to_owned(),
        ..good()
    };
    assert_eq!(obstacle(&old, "ebpf").unwrap().name, "kernel_version");
    let bare = Facts {
        btf: Err("/sys/kernel/btf/vmlinux: No such file".to_owned()),
        ..good()
    };
    let finding = obstacle(&bare, "ebpf").unwrap();
    assert_eq!(finding.name, "btf");
    assert!(finding.remedy.unwrap().contains("CONFIG_DEBUG_INFO_BTF"));
    let mut types = all_members();
    types.offsets.insert("task_tgid", None);
    let finding = obstacle(
        &Facts {
            btf: Ok(types.clone()),
            ..good()
        },
        "ebpf",
    )
    .unwrap();
    assert!(finding.name == "required_members" && finding.found.contains("task_struct.tgid"));
    assert!(offsets_text(&types).contains("missing, and required"));
    let mut types = all_members();
    types.offsets.insert("task_delays", None);
    let facts = Facts {
        btf: Ok(types),
        ..good()
    };
    assert_eq!(obstacle(&facts, "ebpf"), None);
    assert!(text(&report(&facts)).contains("! optional members"));
    let mut types = all_members();
    types.exit_params = Some(7);
    assert_eq!(
        obstacle(
            &Facts {
                btf: Ok(types),
                ..good()
            },
            "ebpf"
        )
        .unwrap()
        .name,
        "exit_tracepoint"
    );
}

#[test]
fn ptrace_scope() {
    let scope = |n, capabilities| {
        let facts = Facts {
            ptrace_scope: n,
            capabilities,
            ..good()
        };
        obstacle(&facts, "ptrace").map(|f| f.remedy.unwrap())
    };
    assert_eq!(scope(None, 0), None);
    assert_eq!(scope(Some(1), 0), None);
    assert!(scope(Some(2), 0).unwrap().contains("sysctl"));
    assert_eq!(scope(Some(2), u64::MAX), None);
    assert!(scope(Some(3), u64::MAX).unwrap().contains("reboot"));
}

#[test]
fn where_nothing_works_it_says_so() {
    let facts = Facts {
        capabilities: 0,
        tracefs: Tracefs::Unknown,
        ptrace: Err(libc::EPERM),
        ..good()
    };
    let report = report(&facts);
    assert_eq!(report.auto, None);
    let text = text(&report);
    assert!(
        text.contains("✗ ptrace does not work here") && text.contains("Nothing can be traced"),
        "{text}"
    );
    let missing = Facts {
        tracefs: Tracefs::Mounted {
            point: "/t".into(),
            missing_events: vec!["task/task_newtask"],
        },
        ..good()
    };
    assert!(
        obstacle(&missing, "ftrace")
            .unwrap()
            .found
            .contains("task_newtask")
    );
}

#[test]
fn json_has_stable_names() {
    let value = serde_json::to_value(report(&good())).unwrap();
    assert_eq!(value["schema"], 1);
    assert_eq!(value["auto"], "ebpf");
    let names: Vec<_> = value["sources"][0]["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| &f["name"])
        .collect();
    assert_eq!(
        names,
        [
            "kernel_version",
            "capabilities",
            "bpf_syscall",
            "btf",
            "required_members",
            "optional_members",
            "exit_tracepoint",
            "task_delayacct",
            "cgroup_v2",
            "bpf_stats"
        ]
    );
    assert_eq!(value["sources"][1]["findings"][0]["state"], "ok");
}

#[test]
fn what_a_killed_tracer_left_is_named() {
    let facts = Facts {
        left_instances: vec!["tracer-1-2-3-0".to_owned()],
        ..good()
    };
    let report = report(&facts);
    assert!(text(&report).contains("removed tracer-1-2-3-0"));
    assert_eq!(obstacle(&facts, "ftrace"), None);
}
