//! Whether a process that has ended has left its CPU.

use std::fs;
use std::time::Duration;

use crate::source::ptrace::proc::Proc;

#[test]
fn one_that_stays_on_its_cpu_is_not_waited_for_without_end() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("7")).unwrap();
    let mut proc = Proc::new(root.path()).unwrap();
    let mut settles = |text: Option<&str>| {
        if let Some(text) = text {
            fs::write(root.path().join("7/syscall"), text).unwrap();
        }
        proc.settles(7, Duration::from_millis(1))
    };
    // Where it cannot be known, it is not.
    assert!(!settles(None));
    assert!(!settles(Some("running\n")));
    assert!(settles(Some("-1 0x0 0x0\n")));
}
