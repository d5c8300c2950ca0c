use std::os::unix::fs::OpenOptionsExt;
use std::sync::mpsc::{self, TryRecvError};

use super::*;

/// A directory in place of tracefs.
fn elsewhere() -> (tempfile::TempDir, Tracefs) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("instances")).unwrap();
    let root = dir.path().to_path_buf();
    (dir, Tracefs { root, _own: None })
}

#[test]
fn an_instance_ends_with_its_value() {
    let (dir, tracefs) = elsewhere();
    let instance = tracefs.instance(&Proc::default()).unwrap();
    let path = instance.path().to_path_buf();
    assert!(path.starts_with(dir.path()) && path.is_dir());
    drop(instance);
    assert!(!path.exists());
}

#[test]
fn only_what_a_dead_tracer_left_is_stale() {
    let (dir, tracefs) = elsewhere();
    let proc = Proc::default();
    let us = Owner::of_us(&proc).unwrap();
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    let gone = Owner {
        pid: ended.id(),
        ..us
    };
    ended.wait().unwrap();
    let reused = Owner { start: 1, ..us };
    let elsewhere = Owner {
        namespace: 1,
        ..gone
    };
    let name = |owner: Owner| format!("{owner}-0");
    let keep = [
        name(us),
        name(elsewhere),
        "tracer-1".into(),
        format!("{gone}-0-1"),
        format!("{gone}-x"),
        "somebody".into(),
    ];
    let stale = [name(gone), name(reused)];
    for name in keep.iter().chain(&stale) {
        fs::create_dir(dir.path().join("instances").join(name)).unwrap();
    }
    let mut removed = tracefs.remove_stale(&proc).unwrap();
    removed.sort();
    let mut expected = stale.map(|n| dir.path().join("instances").join(n));
    expected.sort();
    assert_eq!(removed, expected);
    assert_eq!(
        fs::read_dir(tracefs.instances()).unwrap().count(),
        keep.len()
    );
    assert!(tracefs.stale(&proc).unwrap().is_empty());
}

#[test]
fn it_is_opened_where_nobody_mounted_it() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: not root");
        return;
    }
    let fd = mount_unseen(c"tracefs").unwrap();
    let events = format!("/proc/self/fd/{}/events", fd.as_raw_fd());
    assert!(Path::new(&events).is_dir());
    // By its number: others may mount something meanwhile.
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).unwrap();
    let ours = info.lines().find_map(|l| l.strip_prefix("mnt_id:"));
    let ours = ours.unwrap().trim();
    let seen = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut numbers = seen.lines().filter_map(|l| l.split(' ').next());
    assert!(numbers.all(|number| number != ours), "{ours} in {seen}");
    assert!(mount_unseen(c"no such file system").is_err());
}

/// The kernel's figures fit together while records are written and read.
#[test]
fn figures_of_a_busy_buffer_are_whole() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: not root");
        return;
    }
    let proc = Proc::default();
    let tracefs = Tracefs::open(proc.root()).unwrap();
    let instance = tracefs.instance(&proc).unwrap();
    let path = instance.path().to_path_buf();
    let (tell, told) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let busy = std::thread::spawn(move || {
        // SAFETY: takes nothing.
        let cpu = unsafe { libc::sched_getcpu() };
        let cpu = usize::try_from(cpu).unwrap();
        // SAFETY: a set of CPUs is bits, for which zeros are valid.
        let mut only: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel gave the number.
        unsafe { libc::CPU_SET(cpu, &mut only) };
        // SAFETY: the set is as large as is said.
        let pinned = unsafe { libc::sched_setaffinity(0, size_of_val(&only), &raw const only) };
        assert_eq!(pinned, 0);
        let mut marker = OpenOptions::new()
            .write(true)
            .open(path.join("trace_marker"))
            .unwrap();
        let mut pipe = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw")))
            .unwrap();
        tell.send(cpu).unwrap();
        let (mut written, mut page) = (0_u64, [0; 4096]);
        while matches!(stopped.try_recv(), Err(TryRecvError::Empty)) {
            marker.write_all(b"x").unwrap();
            written += 1;
            assert!(pipe.read(&mut page).unwrap() > 0);
        }
        written
    });
    let cpu = u32::try_from(told.recv().unwrap()).unwrap();
    let mut read = 0;
    while read < 2000 {
        let stats = instance.cpu_stats(cpu).unwrap();
        assert!(stats.read >= read, "{} after {read}", stats.read);
        assert_eq!((stats.overrun, stats.dropped), (0, 0));
        read = stats.read;
    }
    drop(stop);
    let written = busy.join().unwrap();
    assert_eq!(instance.cpu_stats(cpu).unwrap().read, written);
}
