//! Behaviour against real commands; the truth is the shell's, or the kernel's.

mod fixture;
mod process;
mod settle;
mod signals;
mod threads;
mod totals;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use super::{Options, PtraceSource, RootEnd};
use crate::model::{Event, Exec, Exit, Fork, ProcId};

/// A forked child that waits for a byte before it runs its program.
struct Held {
    go: OwnedFd,
}

impl Held {
    fn release(self) {
        // SAFETY: the byte is readable, the pipe open.
        let n = unsafe { libc::write(self.go.as_raw_fd(), b"g".as_ptr().cast(), 1) };
        assert_eq!(n, 1);
    }
}

fn strings(list: &[String]) -> Vec<CString> {
    list.iter()
        .map(|s| CString::new(s.as_str()).unwrap())
        .collect()
}

fn pointers(list: &[CString]) -> Vec<*const libc::c_char> {
    list.iter()
        .map(|s| s.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

fn hold(argv: &[String], extra_env: &[String]) -> io::Result<(u32, Held)> {
    let env: Vec<String> = std::env::vars()
        .map(|(k, v)| format!("{k}={v}"))
        .chain(extra_env.to_vec())
        .collect();
    let (argv, env) = (strings(argv), strings(&env));
    let (argv_ptr, env_ptr) = (pointers(&argv), pointers(&env));
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: both were just opened and belong to nobody else.
    let (wait, go) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
    // SAFETY: the child calls async-signal-safe functions only.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let mut byte = 0_u8;
        // SAFETY: the descriptors are open, the vectors end with a null pointer
        // and outlive the call.
        unsafe {
            libc::close(go.as_raw_fd());
            if libc::read(wait.as_raw_fd(), (&raw mut byte).cast(), 1) == 1 {
                libc::execve(argv_ptr[0], argv_ptr.as_ptr(), env_ptr.as_ptr());
            }
            libc::_exit(127)
        }
    }
    Ok((
        u32::try_from(pid).map_err(|_| io::Error::last_os_error())?,
        Held { go },
    ))
}

/// What a traced command did.
struct Run {
    root: ProcId,
    events: Vec<Event>,
    end: RootEnd,
    notes: Vec<super::Note>,
}

fn run_env(options: Options, argv: &[&str], env: &[&str]) -> Run {
    let own = |l: &[&str]| l.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let (argv, env) = (own(argv), own(env));
    let (mut source, held) = PtraceSource::start(options, move || hold(&argv, &env)).unwrap();
    held.release();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let mut events = Vec::new();
    runtime.block_on(async {
        while let Some(batch) = source.recv().await {
            events.extend(batch);
        }
    });
    let run = Run {
        root: source.root(),
        events,
        end: source.root_end().unwrap(),
        notes: source.take_notes(),
    };
    run.check();
    run
}

fn run(argv: &[&str]) -> Run {
    run_env(Options::default(), argv, &[])
}

fn sh(script: &str) -> Run {
    run(&["/bin/sh", "-c", script])
}

impl Run {
    /// What holds for every run.
    fn check(&self) {
        assert!(self.events.is_sorted_by_key(Event::ts), "order of time");
        let mut known = vec![self.root];
        for event in &self.events {
            match event {
                Event::Fork(f) => {
                    assert!(known.contains(&f.parent), "{f:?}: parent not known");
                    if !f.thread {
                        assert!(!known.contains(&f.child), "{f:?}: forked twice");
                        known.push(f.child);
                    }
                }
                Event::Exec(e) => assert!(known.contains(&e.id), "{e:?}: not forked"),
                Event::Exit(e) if !e.thread => {
                    let at = known
                        .iter()
                        .position(|k| *k == e.id)
                        .expect("ended twice, or not forked");
                    known.swap_remove(at);
                }
                _ => {}
            }
        }
        assert!(!known.contains(&self.root), "the command's end is missing");
    }

    fn forks(&self) -> Vec<&Fork> {
        self.events
            .iter()
            .filter_map(|e| {
                if let Event::Fork(f) = e {
                    Some(f)
                } else {
                    None
                }
            })
            .collect()
    }

    fn execs(&self) -> Vec<&Arc<Exec>> {
        self.events
            .iter()
            .filter_map(|e| {
                if let Event::Exec(x) = e {
                    Some(x)
                } else {
                    None
                }
            })
            .collect()
    }

    /// Ends of processes.
    fn exits(&self) -> Vec<&Exit> {
        self.all_exits().into_iter().filter(|x| !x.thread).collect()
    }

    fn all_exits(&self) -> Vec<&Exit> {
        self.events
            .iter()
            .filter_map(|e| {
                if let Event::Exit(x) = e {
                    Some(&**x)
                } else {
                    None
                }
            })
            .collect()
    }

    fn exit_of(&self, id: ProcId) -> &Exit {
        self.exits()
            .into_iter()
            .find(|x| x.id == id)
            .expect("its end")
    }

    fn root_exit(&self) -> &Exit {
        self.exit_of(self.root)
    }
}
