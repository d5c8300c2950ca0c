//! Hand-made events for the tests of the sinks.

use std::sync::Arc;

use crate::model::{
    Args, Bytes, Comm, End, Event, Exec, ExecFailed, Exit, Field, Final, Fork, LossKind, LossPlace,
    Lost, Meta, Precision, ProcId, Process, Reason, Seed, Signal, SignalBy, Status, Usage,
};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;
/// When the captures begin, boot ns.
pub const T0: u64 = 100 * SECOND;

pub fn pid(pid: u32, start_ms: u64) -> ProcId {
    ProcId::exact(pid, T0 + start_ms * MS)
}

pub fn full(text: &str) -> Field<Bytes> {
    Field::Full(text.as_bytes().into())
}

pub fn meta() -> Meta {
    Meta {
        backend: "ebpf",
        kernel: "6.18.0".into(),
        host: "box".into(),
        boot_id: "1b4e28ba-2fa1-11d2-883f-0016d3cca427".into(),
        cpus: 2,
        wall_start_ns: 1_700_000_000_123_456_789,
        boot_start_ns: T0,
        command: vec![b"make".to_vec(), b"-j8".to_vec()],
        root: Some(pid(100, 0)),
        part: None,
    }
}

pub fn end() -> End {
    End {
        ts: T0 + 3_200 * MS,
        forks: 9,
        execs: 8,
        exits: 9,
        threads: 50,
        lost: 0,
        exit_code: 2,
        continued: false,
    }
}

pub fn exec(id: ProcId, argv: &[&str]) -> Exec {
    let file = argv.first().copied().unwrap_or_default();
    Exec {
        ts: id.start + MS,
        cpu: Some(1),
        id,
        tid: id.pid,
        old_tid: None,
        parent: Some(pid(99, 0)),
        comm: Comm::new(file.rsplit('/').next().unwrap_or_default().as_bytes()),
        filename: full(file),
        argv: Field::Full(Args::from_strings(argv)),
        env: None,
        cwd: full("/src"),
        uid: Some(1000),
        euid: Some(0),
        gid: Some(1000),
        egid: Some(1000),
        loginuid: None,
        sid: Some(90),
        pgid: Some(100),
        tty: Some(b"pts/3".as_slice().into()),
        cgroup: full("/user.slice"),
        ns_pid: Some(7),
        by_kernel: false,
        root: false,
    }
}

pub fn usage() -> Usage {
    Usage {
        is_final: true,
        utime_ns: Some(4_100_000),
        stime_ns: Some(1_000_000),
        cpu_ns: Some(5_100_000),
        max_rss_bytes: Some(61 << 20),
        max_rss_upper_bytes: None,
        minflt: Some(1),
        majflt: Some(0),
        nvcsw: Some(2),
        nivcsw: Some(3),
        inblock: Some(4),
        oublock: Some(5),
        read_bytes: Some(6),
        write_bytes: Some(7),
        cancelled_write_bytes: Some(8),
        rchar: Some(9),
        wchar: Some(10),
        run_delay_ns: Some(11),
        blkio_delay_ns: None,
    }
}

/// A process that ended well after `wall_ms`.
pub fn process(id: ProcId, parent: Option<ProcId>, argv: &[&str], wall_ms: u64) -> Process {
    let e = exec(id, argv);
    let cgroup = e.cgroup.clone();
    Process {
        id,
        orig_parent: parent,
        parent,
        end: Some(id.start + wall_ms * MS),
        comm: e.comm,
        exe: e.filename.value().cloned(),
        exec: Some(Arc::new(e)),
        execs: 1,
        status: Some(Status::from_wait(0)),
        uid: Some(1000),
        gid: Some(1000),
        ns_pid: None,
        cgroup: Some(cgroup),
        threads: Some(1),
        usage: usage(),
        killed_by: None,
        kthread: false,
        seeded: false,
        fork_seen: true,
        root: false,
    }
}

/// A process that only forked: it runs its parent's program.
pub fn forked(id: ProcId, parent: Option<ProcId>, comm: &str, wall_ms: u64) -> Process {
    Process {
        exec: None,
        exe: None,
        execs: 0,
        comm: Comm::new(comm.as_bytes()),
        ..process(id, parent, &[comm], wall_ms)
    }
}

pub fn signal() -> Signal {
    Signal {
        ts: T0 + 5 * MS,
        cpu: Some(0),
        signal: 9,
        by: SignalBy::Process,
        sender: Some(pid(98, 0)),
        sender_comm: Some(Comm::new(b"sh")),
        target: pid(101, 1),
    }
}

pub fn exit(id: ProcId) -> Exit {
    Exit {
        ts: id.start + 10 * MS,
        cpu: Some(1),
        id,
        tid: id.pid,
        thread: false,
        thread_start: None,
        parent: Some(pid(1, 0)),
        orig_parent: Some(pid(100, 0)),
        comm: Comm::new(b"ls"),
        status: Some(Status::from_wait(0)),
        uid: Some(0),
        gid: Some(0),
        ns_pid: None,
        cgroup: full("/"),
        threads: Some(1),
        usage: usage(),
        kthread: false,
        root: false,
    }
}

pub fn fork(parent: ProcId, child: ProcId) -> Fork {
    Fork {
        ts: child.start,
        cpu: Some(0),
        parent,
        tid: parent.pid,
        comm: Comm::new(b"sh"),
        child,
        child_tid: child.pid,
        child_ns_pid: Some(3),
        thread: false,
        kthread: false,
    }
}

pub fn exec_failed(id: ProcId) -> ExecFailed {
    ExecFailed {
        ts: id.start,
        cpu: Some(0),
        id,
        tid: id.pid,
        comm: Comm::new(b"sh"),
        filename: full("/x"),
        argv: Field::Truncated(Args::from_strings(["x", ""])),
        errno: 2,
    }
}

pub fn seed() -> Seed {
    Seed {
        ts: T0,
        id: ProcId {
            precision: Precision::Tick,
            ..pid(50, 0)
        },
        parent: Some(ProcId {
            precision: Precision::Tick,
            ..pid(1, 0)
        }),
        comm: Comm::new(b"sshd"),
        exe: Field::Missing(Reason::Denied),
        argv: Field::Missing(Reason::Gone),
        uid: None,
        cgroup: full("/"),
        kthread: false,
    }
}

pub fn lost(place: LossPlace, kind: LossKind, count: u64) -> Lost {
    Lost {
        ts: T0 + MS,
        cpu: Some(1),
        place,
        kind,
        count,
    }
}

/// An event of every kind, in several shapes: with everything known, with
/// nothing known, with text that is not UTF-8.
pub fn every_event() -> Vec<Event> {
    let (root, child) = (pid(100, 0), pid(101, 1));
    let rough = ProcId {
        precision: Precision::Inferred,
        ..child
    };
    let odd = b"a)\x1b[2J\xff\n\"\\\xe2\x80\xae";
    let nothing = Exec {
        cpu: None,
        old_tid: Some(105),
        parent: None,
        comm: Comm::new(odd),
        filename: Field::Missing(Reason::Fault),
        argv: Field::Missing(Reason::Lost),
        env: Some(Field::Missing(Reason::Fault)),
        cwd: Field::Missing(Reason::Kernel),
        uid: None,
        euid: None,
        gid: None,
        egid: None,
        sid: None,
        pgid: None,
        tty: None,
        cgroup: Field::Missing(Reason::Source),
        ns_pid: None,
        by_kernel: true,
        ..exec(rough, &["/bin/ls"])
    };
    let bytes = Exec {
        filename: Field::Truncated(odd.as_slice().into()),
        argv: Field::Truncated(Args::from_strings([odd.as_slice(), b"", b"plain"])),
        env: Some(Field::Full(Args::from_strings([
            b"A=1".as_slice(),
            b"B=\xff",
        ]))),
        cwd: Field::Full(odd.as_slice().into()),
        tty: Some(odd.as_slice().into()),
        ..exec(child, &["/bin/ls"])
    };
    let unknown_end = Exit {
        cpu: None,
        parent: None,
        orig_parent: None,
        status: None,
        threads: None,
        cgroup: Field::Missing(Reason::Source),
        usage: Usage::default(),
        ..exit(rough)
    };
    vec![
        Event::Fork(fork(root, child)),
        Event::Fork(Fork {
            cpu: None,
            child: rough,
            thread: true,
            child_ns_pid: None,
            ..fork(root, child)
        }),
        Event::Exec(Arc::new(exec(child, &["/bin/ls", "-l"]))),
        Event::Exec(Arc::new(nothing)),
        Event::Exec(Arc::new(bytes)),
        Event::ExecFailed(Box::new(exec_failed(child))),
        Event::Signal(Box::new(signal())),
        Event::Signal(Box::new(Signal {
            by: SignalBy::Oom,
            ..signal()
        })),
        Event::Signal(Box::new(Signal {
            signal: 36,
            by: SignalBy::Kernel,
            sender: None,
            sender_comm: None,
            ..signal()
        })),
        Event::Seed(Box::new(seed())),
        Event::Exit(Box::new(exit(child))),
        Event::Exit(Box::new(Exit {
            status: Some(Status::from_wait(0x8b)),
            ..exit(child)
        })),
        Event::Exit(Box::new(Exit {
            thread: true,
            tid: 102,
            thread_start: Some(T0 + 2 * MS),
            ..exit(child)
        })),
        Event::Exit(Box::new(unknown_end)),
        Event::Final(Box::new(Final {
            ts: T0 + 20 * MS,
            id: child,
            threads: Some(1),
            usage: usage(),
            told_ns: None,
        })),
        Event::Gone {
            ts: T0 + 20 * MS,
            id: child,
            left: false,
        },
        Event::Lost(lost(LossPlace::Ring, LossKind::Fork, 12)),
        Event::Lost(Lost {
            cpu: None,
            ..lost(LossPlace::Table, LossKind::Any, 1)
        }),
    ]
}

/// Process records in several shapes.
pub fn every_process() -> Vec<Process> {
    let (root, child) = (pid(100, 0), pid(101, 1));
    let whole = process(child, Some(root), &["/bin/ls", "-l", "=1+1"], 10);
    vec![
        Process {
            root: true,
            ..process(root, None, &["make", "-j8"], 3_200)
        },
        whole.clone(),
        forked(child, Some(root), "sh", 1),
        Process {
            end: None,
            status: None,
            parent: None,
            orig_parent: None,
            exe: None,
            uid: None,
            gid: None,
            threads: None,
            usage: Usage::default(),
            seeded: true,
            fork_seen: false,
            ..whole.clone()
        },
        Process {
            seeded: true,
            ..forked(child, Some(root), "sshd", 1)
        },
        Process {
            status: Some(Status::from_wait(9)),
            killed_by: Some(Box::new(signal())),
            ..whole
        },
    ]
}
