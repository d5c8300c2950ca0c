//! What is counted.

/// A trigger, and the same in bpftrace's language where that can say it.
pub struct Case {
    pub name: &'static str,
    /// What the loop makes.
    pub kind: &'static str,
    pub event: &'static str,
    pub trigger: &'static str,
    pub bpftrace: Option<&'static str>,
    /// Restricted to a tree of processes.
    pub tree: bool,
}

const fn case(
    name: &'static str,
    event: &'static str,
    trigger: &'static str,
    bpftrace: &'static str,
) -> Case {
    Case {
        name,
        kind: "getppid",
        event,
        trigger,
        bpftrace: Some(bpftrace),
        tree: false,
    }
}

pub const CASES: [Case; 11] = [
    case(
        "number",
        "raw_syscalls:sys_enter",
        "hist:keys=id",
        "tracepoint:raw_syscalls:sys_enter { @[args->id] = count(); }",
    ),
    case(
        "two-keys",
        "raw_syscalls:sys_enter",
        "hist:keys=common_pid.execname,id.syscall",
        "tracepoint:raw_syscalls:sys_enter { @[tid, args->id] = count(); }",
    ),
    case(
        "filter",
        "raw_syscalls:sys_enter",
        "hist:keys=id if id == 110",
        "tracepoint:raw_syscalls:sys_enter / args->id == 110 / { @[args->id] = count(); }",
    ),
    case(
        "value",
        "raw_syscalls:sys_enter",
        "hist:keys=id:vals=common_pid",
        "tracepoint:raw_syscalls:sys_enter { @n[args->id] = count(); @[args->id] = sum(tid); }",
    ),
    case(
        "one-call",
        "syscalls:sys_enter_getppid",
        "hist:keys=common_pid",
        "tracepoint:syscalls:sys_enter_getppid { @[tid] = count(); }",
    ),
    case(
        "name",
        "raw_syscalls:sys_enter",
        "hist:keys=common_pid.execname",
        "tracepoint:raw_syscalls:sys_enter { @[tid, comm] = count(); }",
    ),
    Case {
        kind: "switch",
        ..case(
            "text",
            "sched:sched_switch",
            "hist:keys=prev_comm",
            "tracepoint:sched:sched_switch { @[args->prev_comm] = count(); }",
        )
    },
    Case {
        kind: "switch",
        ..case(
            "text-filter",
            "sched:sched_switch",
            "hist:keys=prev_pid if prev_comm ~ \"cal*\"",
            "tracepoint:sched:sched_switch / strncmp(args->prev_comm, \"cal\", 3) == 0 / { @[args->prev_pid] = count(); }",
        )
    },
    Case {
        kind: "switch",
        bpftrace: None,
        ..case(
            "glob-filter",
            "sched:sched_switch",
            "hist:keys=prev_pid if prev_comm ~ \"c*l?[a-t]\"",
            "",
        )
    },
    case(
        "stack",
        "raw_syscalls:sys_enter",
        "hist:keys=stacktrace",
        "tracepoint:raw_syscalls:sys_enter { @[kstack] = count(); }",
    ),
    Case {
        bpftrace: None,
        tree: true,
        ..case("tree", "raw_syscalls:sys_enter", "hist:keys=id", "")
    },
];
