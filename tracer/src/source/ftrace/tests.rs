//! The live source, as root, read both ways. The truth is the shell's script.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::launch::{Child, Command};
use crate::own_process::in_own_process;

const READERS: [Reader; 2] = [Reader::Raw, Reader::Text];

fn root() -> bool {
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        println!("skipped: not root");
    }
    root
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn options(reader: Reader) -> Options {
    Options {
        buffer_kib: 1024,
        max_argv: 4096,
        threads: true,
        whole_system: false,
        kthreads: false,
        reader,
    }
}

struct Seen {
    pid: u32,
    events: Vec<Event>,
    source: FtraceSource,
}

/// Runs a shell script and reads meanwhile; `see` is told of each event.
fn run(options: &Options, script: &str, arg: &Path, see: impl FnMut(&Event)) -> Seen {
    run_with(options, script, arg, async |source, child, out| {
        read_until_end(source, child, out, see).await;
    })
}

fn run_with(
    options: &Options,
    script: &str,
    arg: &Path,
    read: impl AsyncFnOnce(&mut FtraceSource, Child, &mut Vec<(u64, Event)>),
) -> Seen {
    let argv = [
        OsString::from("/bin/sh"),
        "-c".into(),
        script.into(),
        "sh".into(),
        arg.into(),
    ];
    let command = Command::resolve(&argv, None).unwrap();
    runtime().block_on(async {
        let mut source = FtraceSource::open(options).unwrap();
        let held = command.hold().unwrap();
        let pid = held.pid();
        source.follow(pid, true).unwrap();
        let child = held.release().unwrap();
        let mut out = Vec::new();
        read(&mut source, child, &mut out).await;
        source.finish(&mut out);
        assert!(out.is_sorted_by_key(|(order, _)| *order));
        let mut ts = 0;
        for (_, event) in &out {
            assert!(
                matches!(event, Event::Lost(_)) || event.ts() >= ts,
                "{event:?}"
            );
            ts = event.ts().max(ts);
        }
        assert_eq!(source.malformed(), 0);
        Seen {
            pid,
            events: out.into_iter().map(|(_, e)| e).collect(),
            source,
        }
    })
}

async fn read_until_end(
    source: &mut FtraceSource,
    mut child: Child,
    out: &mut Vec<(u64, Event)>,
    mut see: impl FnMut(&Event),
) {
    let mut complete_to = 0;
    loop {
        let ended = tokio::select! {
            _ = child.wait_async() => true,
            r = source.ready() => { r.unwrap(); false }
            () = tokio::time::sleep(Duration::from_millis(20)) => false,
        };
        let from = out.len();
        let drained = source.drain(out);
        for (_, event) in &out[from..] {
            assert!(event.ts() <= drained.complete_to, "{event:?}");
            assert!(event.ts() >= complete_to, "{event:?} after {complete_to}");
            see(event);
        }
        assert!(drained.complete_to >= complete_to);
        complete_to = drained.complete_to;
        if ended {
            return;
        }
    }
}

fn count(events: &[Event]) -> (u64, u64, u64) {
    let mut n = (0, 0, 0);
    for event in events {
        match event {
            Event::Fork(_) => n.0 += 1,
            Event::Exec(_) => n.1 += 1,
            Event::Exit(_) => n.2 += 1,
            Event::Lost(_) => {}
            other => panic!("{other:?}"),
        }
    }
    n
}

fn lost(events: &[Event]) -> u64 {
    let count = |e: &Event| match e {
        Event::Lost(lost) => lost.count,
        _ => 0,
    };
    events.iter().map(count).sum()
}

#[test]
fn every_process_of_a_script_once_and_in_order() {
    if !root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let name = std::ffi::CString::new(fifo.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the name is a string that ends in NUL.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    for reader in READERS {
        let script = "for i in 1 2 3 4 5; do /bin/sleep 0.01; (exit 3); done; exec cat \"$1\"";
        let seen = run(&options(reader), script, &fifo, |event| {
            // It waits for somebody who writes until it was seen.
            if matches!(event, Event::Exec(e) if e.comm.as_slice() == b"cat") {
                fs::OpenOptions::new().write(true).open(&fifo).unwrap();
            }
        });
        assert_eq!(
            count(&seen.events),
            (10, 7, 11),
            "{reader:?} {:?}",
            seen.events
        );
        assert_eq!(lost(&seen.events), 0);
        assert_eq!(seen.source.family.alive().count(), 0, "{reader:?}");
        let mut known = BTreeSet::from([seen.pid]);
        for event in &seen.events {
            match event {
                Event::Fork(e) => {
                    assert_eq!(e.parent.pid, seen.pid);
                    known.insert(e.child.pid);
                }
                Event::Exec(e) => {
                    assert!(known.contains(&e.id.pid) && e.parent.is_some());
                    assert_eq!(e.root, e.id.pid == seen.pid);
                }
                Event::Exit(e) => {
                    assert!(known.contains(&e.id.pid));
                    assert_eq!((e.status, e.usage.cpu_ns), (None, None));
                }
                _ => {}
            }
        }
        // The last program waited to be looked at.
        let last = seen.events.iter().rev().find_map(|e| match e {
            Event::Exec(e) => Some(e),
            _ => None,
        });
        let last = last.unwrap();
        let argv: Vec<_> = last.argv.value().unwrap().iter().collect();
        assert_eq!(argv, [&b"cat"[..], fifo.as_os_str().as_encoded_bytes()]);
        assert_eq!((last.uid, last.comm.as_slice()), (Some(0), &b"cat"[..]));
        assert!(last.cwd.value().is_some());
    }
}

#[test]
fn what_does_not_fit_is_counted() {
    if !root() {
        return;
    }
    for reader in READERS {
        let small = Options {
            buffer_kib: 1,
            ..options(reader)
        };
        let script = "i=0; while [ $i -lt 300 ]; do (:); i=$((i+1)); done";
        let seen = run_with(&small, script, Path::new("/"), async |_, mut child, _| {
            child.wait().unwrap();
        });
        let read: u64 = seen.source.cpus.iter().map(Cpu::records).sum();
        // newtask, fork, exit of each; exec and exit of the shell.
        assert_eq!(read + lost(&seen.events), 3 * 300 + 2, "{reader:?}");
        assert!(lost(&seen.events) > 0, "{reader:?}");
    }
}

/// Names that imitate records, one of them perfectly.
#[test]
fn a_forged_name_makes_no_event() {
    if !root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let forged = "           <...>-1       [000] .....     NOW: \
        sched_process_exit: comm=init pid=1 prio=120 group_dead=true";
    let exec = "              sh-PID     [000] .....     NOW: sched_process_exec: filename=q";
    let names = [
        format!("x\n{forged}\nz"),
        format!("x pid=PID old_pid=PID\n{forged}\nz"),
        format!("x pid=PID old_pid=PID\n{forged}\n{exec}"),
    ];
    for reader in READERS {
        for name in &names {
            // The process that execs knows its number, and waits for its name.
            let script = "echo $$ > \"$1/pid\"; until [ -e \"$1/go\" ]; do sleep 0.01; done; \
                 IFS= ; name=$(cat \"$1/go\"; echo /); name=${name%/}; exec \"$1/$name\"";
            let (at, text) = (dir.path().to_path_buf(), name.clone());
            let (pid_file, go) = (at.join("pid"), at.join("go"));
            let _old = (fs::remove_file(&pid_file), fs::remove_file(&go));
            let maker = std::thread::spawn({
                let at = at.clone();
                move || {
                    let pid = loop {
                        match fs::read_to_string(&pid_file) {
                            Ok(pid) if pid.ends_with('\n') => break pid.trim().to_owned(),
                            _ => std::thread::sleep(Duration::from_millis(2)),
                        }
                    };
                    // A little later than now, as if it knew.
                    let now = boot_ns() / 1000 + 20_000;
                    let now = format!("{}.{:06}", now / 1_000_000, now % 1_000_000);
                    let name = text.replace("PID", &pid).replace("NOW", &now);
                    symlink("/bin/true", at.join(&name)).unwrap();
                    fs::write(at.join("new"), &name).unwrap();
                    fs::rename(at.join("new"), go).unwrap();
                    (name, pid)
                }
            });
            let seen = run(&options(reader), script, &at, |_| ());
            let (name, pid) = maker.join().unwrap();
            let pid: u32 = pid.parse().unwrap();
            assert_eq!(pid, seen.pid);
            for event in &seen.events {
                if let Event::Exit(e) = event {
                    assert_ne!(e.tid, 1, "{reader:?} {name:?}");
                }
                if let Event::Exec(e) = event {
                    assert_ne!(e.filename.value().unwrap().as_slice(), b"q");
                }
            }
            let forgers: Vec<_> = seen.source.forgers().iter().collect();
            assert!(
                forgers.iter().any(|(p, lines)| *p == pid && *lines > 0),
                "{reader:?} {name:?}: {forgers:?}"
            );
            if reader == Reader::Raw {
                let whole = at.join(&name);
                let whole = whole.as_os_str().as_encoded_bytes();
                let found = |e: &Event| match e {
                    Event::Exec(e) => e.filename.value().is_some_and(|f| f.as_slice() == whole),
                    _ => false,
                };
                assert_eq!(seen.events.iter().filter(|e| found(e)).count(), 1);
            }
        }
    }
}

#[test]
fn a_panic_leaves_nothing() {
    if !root() || !in_own_process(concat!(module_path!(), "::a_panic_leaves_nothing")) {
        return;
    }
    let runtime = runtime();
    let _inside = runtime.enter();
    let tracefs = Tracefs::open(Path::new("/proc")).unwrap();
    let settings = || {
        let files = ["tracing_on", "trace_clock", "set_event", "set_event_pid"];
        files.map(|f| fs::read_to_string(tracefs.root().join(f)).unwrap())
    };
    let before = settings();
    let mut name = PathBuf::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let source = FtraceSource::open(&options(Reader::Raw)).unwrap();
        name = source.instance.path().file_name().unwrap().into();
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(settings(), before);
    let instances = tracefs.root().join("instances");
    assert!(!name.as_os_str().is_empty() && !instances.join(name).exists());
}

#[test]
fn following_what_is_gone_is_an_error_that_says_so() {
    if !root() {
        return;
    }
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let runtime = runtime();
    let _inside = runtime.enter();
    let mut source = FtraceSource::open(&options(Reader::Raw)).unwrap();
    let error = source.follow(ended.id(), false).unwrap_err().to_string();
    assert!(error.contains(&ended.id().to_string()), "{error}");
}

#[test]
fn the_header_tells_the_size_of_a_page() {
    let of = |size: usize| format!("\tfield: char data;\toffset:16;\tsize:{size};\tsigned:0;\n");
    assert_eq!(page_size(&of(4080)), 4096);
    assert_eq!(page_size(&of(65520)), 65536);
    assert_eq!(page_size("what?"), 4096);
}

/// Threads of processes that ran before are no processes when they end.
#[test]
fn the_whole_system_is_seen() {
    if !root() {
        return;
    }
    let all = Options {
        whole_system: true,
        ..options(Reader::Raw)
    };
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let _asked = stopped.recv();
        // SAFETY: takes nothing.
        unsafe { libc::gettid() }.cast_unsigned()
    });
    runtime().block_on(async {
        let mut source = FtraceSource::open(&all).unwrap();
        drop(stop);
        let tid = thread.join().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let mut out = Vec::new();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        let ended = |out: &[(u64, Event)]| {
            let is = |e: &Event, of: u32| matches!(e, Event::Exit(x) if x.tid == of);
            [tid, pid].map(|of| out.iter().any(|(_, e)| is(e, of)))
        };
        while ended(&out) != [true; 2] {
            assert!(std::time::Instant::now() < deadline);
            source.drain(&mut out);
        }
        for (_, event) in &out {
            if let Event::Exit(e) = event {
                assert!(
                    e.tid != tid || (e.thread && e.id.pid == std::process::id()),
                    "{e:?}"
                );
                assert!(e.tid != pid || (!e.thread && e.parent.is_some()), "{e:?}");
            }
        }
    });
}
