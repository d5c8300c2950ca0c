//! Forks, execs and ends.

use std::io::Write as _;

use super::fixture;
use super::{Options, run, run_env, sh};
use crate::model::{Bytes, Event, Field, Precision};

#[test]
fn one_command() {
    let run = run(&["/bin/sh", "-c", "exit 3", "a b", ""]);
    assert_eq!(run.end.status.exit_code, Some(3));
    assert_eq!(run.forks().len(), 0, "the command's own fork is not shown");
    let [exec] = run.execs()[..] else {
        panic!("{:?}", run.execs())
    };
    assert_eq!(exec.id, run.root);
    assert_eq!(exec.id.precision, Precision::Tick);
    assert_eq!(exec.filename, Field::Full(Bytes::from(&b"/bin/sh"[..])));
    let argv: Vec<&[u8]> = exec.argv.value().unwrap().iter().collect();
    assert_eq!(argv, [&b"/bin/sh"[..], b"-c", b"exit 3", b"a b", b""]);
    assert_eq!(exec.comm.as_slice(), b"sh");
    let cwd = std::env::current_dir().unwrap();
    assert_eq!(
        exec.cwd,
        Field::Full(Bytes::from(cwd.to_str().unwrap().as_bytes()))
    );
    // SAFETY: no preconditions.
    assert_eq!(exec.uid, Some(unsafe { libc::getuid() }));
    assert_eq!(exec.parent.unwrap().pid, std::process::id());
    let exit = run.root_exit();
    assert_eq!(exit.status.unwrap().exit_code, Some(3));
    assert_eq!((exit.threads, exit.comm.as_slice()), (Some(1), &b"sh"[..]));
}

#[test]
fn environment_and_caps() {
    let options = Options {
        env: true,
        max_argv: 6,
        ..Options::default()
    };
    let run = run_env(options, &["/bin/true", "0123456789"], &["ZZ=1"]);
    let exec = run.execs()[0];
    assert!(
        matches!(&exec.argv, Field::Truncated(a) if &*a.0 == b"/bin/t"),
        "{:?}",
        exec.argv
    );
    assert!(matches!(&exec.env, Some(Field::Truncated(e)) if e.0.len() == 6));
    assert_eq!(
        exec.filename,
        Field::Full(Bytes::from(&b"/bin/true"[..])),
        "it lies behind what was cut"
    );

    let options = Options {
        env: true,
        max_argv: 2 << 20,
        ..Options::default()
    };
    let long = "x".repeat(100_000);
    let run = run_env(options, &["/bin/true", &long, "end"], &["ZZ=1"]);
    let exec = run.execs()[0];
    let argv: Vec<&[u8]> = exec.argv.value().unwrap().iter().collect();
    assert_eq!(argv, [&b"/bin/true"[..], long.as_bytes(), b"end"]);
    assert!(matches!(exec.argv, Field::Full(_)));
    let Some(Field::Full(env)) = &exec.env else {
        panic!("{:?}", exec.env)
    };
    assert!(env.iter().any(|e| e == b"ZZ=1"));
}

#[test]
fn a_small_tree() {
    let run = sh("sh -c 'exit 4'; (sh -c 'true & wait'; :); exit 0");
    let mut codes: Vec<_> = run
        .exits()
        .iter()
        .map(|x| x.status.unwrap().exit_code.unwrap())
        .collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 0, 0, 0, 4]);
    assert_eq!(run.forks().len(), 4);
    for exit in run.exits() {
        assert_eq!(exit.parent, exit.orig_parent, "nobody was re-parented");
        assert!(exit.usage.is_final);
    }
}

#[test]
fn a_killed_child() {
    let run = sh("sh -c 'kill -KILL $$'; sh -c 'ulimit -c 0; kill -SEGV $$'; kill -TERM $$");
    let signals: Vec<_> = run
        .exits()
        .iter()
        .map(|x| x.status.unwrap().signal)
        .collect();
    assert_eq!(signals, [Some(9), Some(11), Some(15)]);
    assert_eq!(run.end.status.signal, Some(15));
}

#[test]
fn two_thousand_children() {
    let run = fixture::trace(Options::default(), "children");
    assert_eq!(run.forks().iter().filter(|f| !f.thread).count(), 2001);
    let exits = run.exits();
    assert_eq!(exits.len(), 2002);
    let parent = run
        .forks()
        .iter()
        .find(|f| f.parent == run.root)
        .unwrap()
        .child;
    let of = |code| {
        let good = |x: &&&crate::model::Exit| {
            x.orig_parent == Some(parent) && x.status.unwrap().exit_code == Some(code)
        };
        exits.iter().filter(good).count()
    };
    assert_eq!([of(0), of(1), of(2)], [700, 650, 650]);
    assert!(exits.iter().all(|x| x.usage.is_final));
}

#[test]
fn vfork_and_a_program_that_is_not_there() {
    let run = fixture::trace(Options::default(), "vfork");
    let parent = run
        .forks()
        .iter()
        .find(|f| f.parent == run.root && !f.thread)
        .unwrap()
        .child;
    let children: Vec<_> = run
        .forks()
        .iter()
        .filter(|f| f.parent == parent)
        .map(|f| f.child)
        .collect();
    let [there, missing] = children[..] else {
        panic!("{children:?}")
    };
    assert_eq!(run.exit_of(there).status.unwrap().exit_code, Some(0));
    assert_eq!(run.exit_of(missing).status.unwrap().exit_code, Some(127));
    let execs: Vec<_> = run.execs().iter().map(|e| e.id).collect();
    assert!(execs.contains(&there) && !execs.contains(&missing));
}

#[test]
fn an_orphan_is_left_running() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let path = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
    // SAFETY: the path ends with a NUL.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    // Held open for reading, too: opening does not wait, and the orphan ends with this test.
    let mut writer = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&fifo)
        .unwrap();
    let answer = dir.path().join("answer");
    let script = format!(
        "(read x < {}; echo $x > {}) & exit 0",
        fifo.display(),
        answer.display()
    );
    let run = sh(&script);
    let child = run.forks()[0].child;
    assert!(
        run.exits().iter().all(|x| x.id != child),
        "it has not ended"
    );
    // The kernel lets go of it when the tracing thread is gone.
    let status = format!("/proc/{}/status", child.pid);
    while !std::fs::read_to_string(&status)
        .unwrap()
        .contains("TracerPid:\t0\n")
    {
        std::thread::yield_now();
    }
    // It still works.
    writer.write_all(b"alive\n").unwrap();
    while std::fs::read_to_string(&answer).unwrap_or_default() != "alive\n" {
        std::thread::yield_now();
    }
}

#[test]
fn wait_all_waits_and_tells_of_the_new_parent() {
    let options = Options {
        wait_all: true,
        ..Options::default()
    };
    // The orphan ends only after its parent has.
    let script = "p=$$; (while kill -0 $p 2>/dev/null; do :; done; exit 6) & exit 0";
    let run = run_env(options, &["/bin/sh", "-c", script], &[]);
    let orphan = run.exit_of(run.forks()[0].child);
    assert_eq!(orphan.status.unwrap().exit_code, Some(6));
    assert_eq!(orphan.orig_parent, Some(run.root));
    assert_ne!(orphan.parent, orphan.orig_parent);
    assert_eq!(run.events.last().map(Event::ts), Some(orphan.ts));
}

#[test]
fn a_script_is_named_not_its_interpreter() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("s p");
    let draft = dir.path().join("draft");
    std::fs::write(&draft, "#!/bin/sh -e\nexit 2\n").unwrap();
    // By another process: what other tests fork meanwhile has the files that are open
    // for writing here, and the script would be busy.
    let copied = std::process::Command::new("cp")
        .args([&draft, &script])
        .status();
    assert!(copied.unwrap().success());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let name = script.to_str().unwrap();
    let run = run(&[name, "x"]);
    let exec = run.execs()[0];
    assert_eq!(exec.filename, Field::Full(Bytes::from(name.as_bytes())));
    let argv: Vec<&[u8]> = exec.argv.value().unwrap().iter().collect();
    assert_eq!(argv, [b"/bin/sh", &b"-e"[..], name.as_bytes(), b"x"]);
    assert_eq!(exec.comm.as_slice(), b"s p");
}

#[test]
fn children_that_hide_are_a_loss() {
    let run = fixture::trace(Options::default(), "untraced");
    // The parent waited for one more than was seen.
    let parent = run
        .forks()
        .iter()
        .find(|f| f.parent == run.root && !f.thread)
        .unwrap()
        .child;
    assert_eq!(run.forks().iter().filter(|f| f.parent == parent).count(), 0);
    assert!(run.exit_of(parent).status.unwrap().is_success());
    assert_eq!(run.notes, [super::super::Note::Untraced { parent }]);
    assert!(
        run.events
            .iter()
            .any(|e| matches!(e, Event::Lost(l) if l.count == 1))
    );
}
