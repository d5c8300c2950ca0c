//! Programs for the tests: this test binary, started again, plays them. Each
//! forks first, as the test harness has threads of its own.

use super::{Options, Run, run_env};

const NAME: &str = "TRACER_PTRACE_FIXTURE";

/// Runs the fixture `name` under the tracer. The process that matters is the
/// only child of the root.
pub fn trace(options: Options, name: &str) -> Run {
    let exe = std::env::current_exe().unwrap();
    let argv = [
        exe.to_str().unwrap(),
        "source::ptrace::tests::fixture::entry",
        "--exact",
        "--nocapture",
    ];
    run_env(options, &argv, &[&format!("{NAME}={name}")])
}

#[test]
fn entry() {
    let Ok(name) = std::env::var(NAME) else {
        return;
    };
    let body: fn() = match name.as_str() {
        "threads" => threads,
        "leader_first" => leader_first,
        "thread_execs" => thread_execs,
        "memory" => memory,
        "vfork" => vfork,
        "untraced" => untraced,
        "children" => children,
        "no_wait" => no_wait,
        _ => return,
    };
    // SAFETY: the child uses the heap, which glibc makes usable after a fork.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        body();
        exit(0);
    }
    let mut status = 0;
    // SAFETY: `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    // The harness would print a result, which whoever adds them up would count as a test's.
    exit(0);
}

fn exit(code: i32) -> ! {
    // SAFETY: no preconditions.
    unsafe { libc::_exit(code) }
}

/// Ends the calling thread only.
fn exit_thread(code: i32) -> ! {
    // SAFETY: the thread ends here; nothing of it is used by others.
    unsafe { libc::syscall(libc::SYS_exit, code) };
    unreachable!()
}

/// Uses so much CPU in this thread, however long that takes on a busy machine.
fn burn(ms: i64) {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    while used.tv_sec * 1000 + used.tv_nsec / 1_000_000 < ms {
        // SAFETY: `used` is writable.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut used) };
    }
}

/// 50 threads besides the first, each of which uses some CPU.
fn threads() {
    let list: Vec<_> = (0..50).map(|_| std::thread::spawn(|| burn(2))).collect();
    list.into_iter().for_each(|t| t.join().unwrap());
}

fn leader_first() {
    // SAFETY: no preconditions.
    let leader = unsafe { libc::getpid() };
    std::thread::spawn(move || {
        let stat = format!("/proc/self/task/{leader}/stat");
        while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        exit(7);
    });
    exit_thread(0);
}

fn thread_execs() {
    std::thread::spawn(std::thread::park);
    std::thread::spawn(|| {
        let argv = [
            c"sh".as_ptr(),
            c"-c".as_ptr(),
            c"exit 5".as_ptr(),
            std::ptr::null(),
        ];
        // SAFETY: the strings end with a NUL, the vector with a null pointer.
        unsafe { libc::execv(c"/bin/sh".as_ptr(), argv.as_ptr()) };
        exit(99);
    });
    loop {
        std::thread::park();
    }
}

/// Touches 64 MB, gives it back and ends.
fn memory() {
    let mut v = vec![0_u8; 64 << 20];
    v.iter_mut().step_by(4096).for_each(|b| *b = 1);
    drop(std::hint::black_box(v));
}

/// posix_spawn of something that is there, and of something that is not.
fn vfork() {
    for path in [c"/bin/true", c"/no/such/program"] {
        let argv = [path.as_ptr().cast_mut(), std::ptr::null_mut()];
        let mut pid = 0;
        // SAFETY: the strings end with a NUL, the vectors with a null pointer.
        unsafe {
            libc::posix_spawn(
                &raw mut pid,
                path.as_ptr(),
                std::ptr::null(),
                std::ptr::null(),
                argv.as_ptr(),
                [std::ptr::null_mut()].as_ptr(),
            );
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
    }
}

/// One child that hides from tracers.
fn untraced() {
    let flags = libc::CLONE_UNTRACED | libc::SIGCHLD;
    // SAFETY: without CLONE_VM this is a fork.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == 0 {
        exit(0);
    }
    // SAFETY: a null pointer is allowed.
    unsafe {
        libc::waitpid(
            i32::try_from(pid).unwrap(),
            std::ptr::null_mut(),
            libc::__WALL,
        )
    };
}

/// A child that the kernel reaps by itself.
fn no_wait() {
    // SAFETY: SIG_IGN is a valid disposition; the child ends at once.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        if libc::fork() == 0 {
            exit(0);
        }
        // Returns when the last child is gone.
        libc::waitpid(-1, std::ptr::null_mut(), 0);
    }
}

/// 2,000 children, many at the same time.
fn children() {
    for round in 0..40 {
        let pids: Vec<i32> = (0..50)
            .map(|_| {
                // SAFETY: the child ends at once.
                match unsafe { libc::fork() } {
                    0 => exit(round % 3),
                    pid => pid,
                }
            })
            .collect();
        for pid in pids {
            // SAFETY: a null pointer is allowed.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        }
    }
}
