//! ftrace: what it cannot do is refused, and nothing is left behind.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use tracer_tests::host::alone;
use tracer_tests::{Trace, require};

fn ftrace(trace: Trace) -> Trace {
    trace.backend(Some("ftrace"))
}

#[test]
fn what_it_cannot_do_is_refused_before_the_command_starts() {
    require!(root);
    let outcome = ftrace(Trace::shell("echo started"))
        .option("--failed")
        .run();
    assert_eq!(outcome.code(), 125, "{outcome}");
    assert_eq!(outcome.stdout(), "");
    assert!(outcome.stderr().contains("--backend ebpf"), "{outcome}");
}

/// tracefs, wherever it is, seen by this process alone.
struct Tracefs(OwnedFd);

impl Tracefs {
    fn open() -> Self {
        // SAFETY: the name is a string that ends in NUL; the rest are numbers.
        let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), 1) });
        let none = std::ptr::null::<u8>();
        // SAFETY: a command without arguments.
        let made =
            unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), 6, none, none, 0) };
        assert_eq!(made, 0, "{}", io::Error::last_os_error());
        // SAFETY: takes numbers only.
        Self(owned(unsafe {
            libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, 0)
        }))
    }

    fn path(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()).into()
    }

    fn instances(&self) -> BTreeSet<String> {
        fs::read_dir(self.path("instances"))
            .expect("a directory")
            .map(|e| {
                e.expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect()
    }

    /// The instance of the tracer with this pid.
    fn of(&self, pid: i32) -> Option<String> {
        let is_of = |name: &String| name.split('-').nth(2) == Some(&pid.to_string());
        self.instances().into_iter().find(is_of)
    }

    /// The system's own settings.
    fn settings(&self) -> Vec<String> {
        [
            "tracing_on",
            "current_tracer",
            "trace_clock",
            "set_event",
            "set_event_pid",
            "buffer_size_kb",
        ]
        .map(|f| fs::read_to_string(self.path(f)).expect("a setting"))
        .to_vec()
    }
}

fn owned(fd: libc::c_long) -> OwnedFd {
    let fd = i32::try_from(fd).expect("a descriptor is an int");
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: new, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A tracer that has begun to trace a command that waits.
fn waiting() -> tracer_tests::run::Running {
    let mut running = ftrace(Trace::shell("echo begun; exec sleep 600")).start();
    running.await_stdout("begun");
    running
}

#[test]
fn nothing_is_left_whatever_the_end() {
    require!(root);
    let _alone = alone();
    let tracefs = Tracefs::open();
    let settings = tracefs.settings();
    let mounts = || fs::read_to_string("/proc/self/mountinfo").expect("our mounts");
    let mounted = mounts();

    let running = ftrace(Trace::shell("true")).start();
    let pid = running.pid();
    running.finish().expect_code(0);
    assert_eq!(tracefs.of(pid), None, "after a normal end");

    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let running = waiting();
        let pid = running.pid();
        assert!(tracefs.of(pid).is_some());
        running.signal(signal);
        running.finish().expect_code(128 + signal);
        assert_eq!(tracefs.of(pid), None, "after signal {signal}");
    }

    // A terminal's Ctrl-C reaches both.
    let mut running = ftrace(Trace::shell("echo begun; exec sleep 600"))
        .setup(|c| {
            use std::os::unix::process::CommandExt as _;
            c.process_group(0);
        })
        .start();
    running.await_stdout("begun");
    let pid = running.pid();
    tracer_tests::run::send(-pid, libc::SIGINT);
    running.finish().expect_code(128 + libc::SIGINT);
    assert_eq!(tracefs.of(pid), None, "after SIGINT");

    let outcome = ftrace(Trace::command("/no/such/program", [""; 0])).run();
    assert_eq!(outcome.code(), 127, "{outcome}");

    assert_eq!(tracefs.settings(), settings);
    assert_eq!(mounts(), mounted);
}

#[test]
fn what_a_killed_tracer_leaves_goes_with_the_next_start() {
    require!(root);
    // Each that starts removes what a killed one has left.
    let _alone = alone();
    let tracefs = Tracefs::open();
    let foreign = format!("somebody-{}", std::process::id());
    fs::create_dir(tracefs.path(&format!("instances/{foreign}"))).expect("an instance");
    let living = waiting();
    let settings = tracefs.settings();

    for by_check in [false, true] {
        let killed = waiting();
        let pid = killed.pid();
        // The command would outlive its tracer.
        let command = children(pid);
        killed.signal(libc::SIGKILL);
        assert_eq!(killed.finish().code(), 1000 + libc::SIGKILL);
        for child in command {
            tracer_tests::run::send(child, libc::SIGKILL);
        }
        let left = tracefs.of(pid);
        assert!(left.is_some(), "nobody has removed it yet");
        if by_check {
            let outcome = Trace::bare().option("check").run();
            assert!(
                outcome.stdout().contains(&left.expect("it is")),
                "{outcome}"
            );
        } else {
            ftrace(Trace::shell("true")).run().expect_code(0);
        }
        assert_eq!(tracefs.of(pid), None);
    }

    assert_eq!(tracefs.settings(), settings);
    assert!(tracefs.of(living.pid()).is_some(), "the living one's stays");
    assert!(
        tracefs.instances().contains(&foreign),
        "and everybody else's"
    );
    living.signal(libc::SIGTERM);
    living.finish().expect_code(128 + libc::SIGTERM);
    fs::remove_dir(tracefs.path(&format!("instances/{foreign}"))).expect("our instance");
}

fn children(pid: i32) -> Vec<i32> {
    let text =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("its children");
    text.split_whitespace()
        .map(|p| p.parse().expect("a pid"))
        .collect()
}
