//! The service as systemd runs it, in a guest that systemd has booted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use tracer_tests::{Record, host, parts, require};

/// Compiled in, as the tests run where the sources are not.
const UNIT: &str = include_str!("../../dist/tracer.service");
const CONFIGURATION: &str = include_str!("../../dist/tracer.toml");
const LOGS: &str = "/var/log/tracer";

fn systemctl(args: &[&str]) -> Output {
    let mut command = Command::new("systemctl");
    let output = command.args(args).output();
    output.expect("systemctl starts")
}

fn show(property: &str) -> String {
    let output = systemctl(&["show", "--value", "-p", property, "tracer"]);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn main_pid() -> String {
    let pid = show("MainPID");
    assert_ne!(pid, "0");
    pid
}

fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    // systemd tells of a change to those who ask.
    for _ in 0..1200 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("{what}: {}", status());
}

fn status() -> String {
    let output = systemctl(&["status", "--no-pager", "-l", "tracer"]);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Puts everything where the package has it, with changes to the unit.
fn install(configuration: &str, changes: &str) {
    systemctl(&["stop", "tracer"]);
    systemctl(&["reset-failed", "tracer"]);
    let _none = fs::remove_dir_all(LOGS);
    let write = |path: &str, text: &str| {
        let path = Path::new(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    };
    if !Path::new("/usr/bin/tracer").exists() {
        fs::copy(host::tracer(), "/usr/bin/tracer").expect("copied");
    }
    write("/lib/systemd/system/tracer.service", UNIT);
    write("/etc/tracer/tracer.toml", configuration);
    let changes = format!("[Service]\n{changes}\n");
    write("/etc/systemd/system/tracer.service.d/test.conf", &changes);
    assert!(systemctl(&["daemon-reload"]).status.success());
}

fn start() {
    let output = systemctl(&["start", "tracer"]);
    assert!(output.status.success(), "{output:?} {}", status());
    assert_eq!(show("ActiveState"), "active");
    assert_eq!(show("StatusText"), "recording");
}

fn stop() {
    assert!(systemctl(&["stop", "tracer"]).status.success());
    assert_eq!(
        (show("Result"), show("ExecMainStatus")),
        ("success".into(), "0".into())
    );
}

fn files() -> Vec<PathBuf> {
    parts::parts(Path::new(LOGS), "tracer", ".jsonl.zst")
}

/// Runs programs that end with a code of their own each; their numbers and codes.
fn run_programs() -> BTreeMap<u64, u64> {
    let run = |code: u64| {
        let mut command = Command::new("sh");
        let mut child = command.arg("-c").arg(format!("exit {code}")).spawn().ok()?;
        let pid = child.id();
        child.wait().ok()?;
        Some((u64::from(pid), code))
    };
    (0..20).map(|code| run(code).expect("it runs")).collect()
}

#[test]
fn the_service_records_turns_its_files_and_ends() {
    require!(systemd, bpf);
    let _alone = host::alone();
    install(CONFIGURATION, "");
    start();
    let status = fs::read_to_string(format!("/proc/{}/status", main_pid())).expect("status");
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:\t"));
    // DAC_READ_SEARCH, SYS_PTRACE, BPF; PERFMON was dropped.
    let kept = 1_u64 << 2 | 1 << 19 | 1 << 39;
    let effective = u64::from_str_radix(effective.expect("a set"), 16);
    assert_eq!(effective.expect("hexadecimal") & !kept, 0, "{status}");

    let mut truth = run_programs();
    assert!(systemctl(&["reload", "tracer"]).status.success());
    await_that("a second file", || files().len() == 2);
    truth.extend(run_programs());
    stop();

    let files = files();
    assert_eq!(files.len(), 2, "{files:?}");
    let capture = parts::joined(&files);
    assert_eq!(capture.end().num("lost"), 0);
    let mut recorded = BTreeMap::new();
    for process in capture.of("process") {
        let pid = process.num("pid");
        if truth.contains_key(&pid) {
            assert_eq!(process["unit"], "tests.service", "{process}");
            let twice = recorded.insert(pid, process.num("exit_code"));
            assert_eq!(twice, None, "{process}");
        }
    }
    assert_eq!(recorded, truth);
}

#[test]
fn a_service_that_hangs_or_is_killed_is_started_again() {
    require!(systemd, bpf);
    let _alone = host::alone();
    install(CONFIGURATION, "WatchdogSec=10s\nRestartSec=100ms");
    start();
    let restarts = || show("NRestarts").parse::<u64>().expect("a number");
    for signal in ["STOP", "KILL"] {
        let (pid, before, files_before) = (main_pid(), restarts(), files().len());
        let mut kill = Command::new("kill");
        let killed = kill.arg(format!("-{signal}")).arg(&pid).status();
        assert!(killed.expect("kill starts").success());
        await_that("it is started again", || {
            restarts() > before && show("ActiveState") == "active"
        });
        assert_ne!(main_pid(), pid);
        await_that("a file of the new one", || files().len() > files_before);
    }
    let truth = run_programs();
    stop();
    let last = files().pop().expect("a file");
    let last = parts::joined(&[last]);
    let pids: Vec<u64> = last.of("process").map(|p| p.num("pid")).collect();
    for pid in truth.keys() {
        assert_eq!(pids.iter().filter(|p| *p == pid).count(), 1, "{pid}");
    }
}

#[test]
fn a_fault_of_the_configuration_fails_the_start() {
    require!(systemd, bpf);
    let _alone = host::alone();
    let faulty = format!("{CONFIGURATION}\nrotate-sise = \"1MiB\"\n");
    install(&faulty, "StandardError=truncate:/run/message\nRestart=no");
    assert!(!systemctl(&["start", "tracer"]).status.success());
    assert_eq!(show("ExecMainStatus"), "125");
    let message = fs::read_to_string("/run/message").expect("a message");
    assert!(message.contains("rotate-sise"), "{message}");
    assert!(message.contains("/etc/tracer/tracer.toml"), "{message}");
    systemctl(&["reset-failed", "tracer"]);
}
