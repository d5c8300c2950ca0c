//! The service: unit, package files, configuration, sandbox, readiness and watchdog.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tracer_tests::{Record, Trace, host, require};

/// Compiled in, as the tests also run where the sources are not.
const UNIT: &str = include_str!("../../dist/tracer.service");
const CONFIGURATION: &str = include_str!("../../dist/tracer.toml");

fn dist(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../dist")
        .join(name)
}

fn output(command: &mut Command) -> String {
    let Output { stdout, stderr, .. } = command.output().expect("it starts");
    String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned()
}

fn analyze(args: &[&str]) -> String {
    output(Command::new("systemd-analyze").arg("--no-pager").args(args))
}

/// Values of a setting of the unit.
fn settings(name: &str) -> Vec<String> {
    let lines = UNIT
        .lines()
        .filter_map(|l| l.strip_prefix(name)?.strip_prefix('='));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_unit_is_little_exposed() {
    require!(systemd_analyze);
    let unit = dist("tracer.service");
    let text = analyze(&["security", "--offline=true", &unit.to_string_lossy()]);
    let line = text
        .lines()
        .find(|l| l.contains("Overall exposure level"))
        .expect("a verdict");
    let level = line
        .split(':')
        .nth(1)
        .and_then(|r| r.split_whitespace().next());
    let level: f64 = level.and_then(|l| l.parse().ok()).expect("a number");
    assert!(level <= 3.0, "{line}");
}

#[test]
fn the_unit_is_without_faults() {
    require!(systemd_analyze);
    // The program and the pages are where the package has them.
    let root = tempfile::tempdir().expect("a directory");
    let unit = UNIT;
    let program = root.path().join("tracer");
    fs::write(&program, "#!/bin/true\n").expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("changed");
    let unit = unit.replace("/usr/bin/tracer", &program.to_string_lossy());
    let path = root.path().join("tracer.service");
    fs::write(&path, unit).expect("written");
    let text = analyze(&["verify", "--man=no", &path.to_string_lossy()]);
    assert_eq!(text, "", "systemd-analyze verify");
}

#[test]
fn the_configuration_that_comes_with_it_is_understood() {
    require!(bpf);
    let text = CONFIGURATION;
    let run = |text: &str| {
        let trace = Trace::bare();
        let logs = trace.path("logs");
        fs::create_dir(&logs).expect("made");
        let text = text
            .replace("/var/log/tracer", &logs.to_string_lossy())
            .replace("9435", "0");
        fs::write(trace.path("tracer.toml"), text).expect("written");
        let path = trace.path("tracer.toml");
        let options = ["record".into(), "--config".into(), path.into_os_string()];
        let outcome = trace
            .options(options)
            .options(["--duration", "1s"])
            .run()
            .expect_code(0);
        assert!(logs_of(&logs) > 0);
        outcome
    };
    run(text);
    // What is commented out is no fault either, but for the receiver that is not there.
    let all: String = text
        .lines()
        .map(|l| match l.strip_prefix('#') {
            Some(l) if !l.starts_with(' ') && !l.starts_with("otlp") => format!("{l}\n"),
            _ => format!("{l}\n"),
        })
        .collect();
    assert_ne!(all, text);
    run(&all);
}

/// Bytes of the files there.
fn logs_of(dir: &Path) -> u64 {
    let files = fs::read_dir(dir)
        .expect("readable")
        .map(|f| f.expect("readable"));
    files.map(|f| f.metadata().expect("readable").len()).sum()
}

/// setpriv with the capabilities that the unit leaves.
fn bounded() -> Vec<String> {
    let set = settings("CapabilityBoundingSet").pop().expect("a set");
    let names = set
        .split_whitespace()
        .map(|c| c.trim_start_matches("CAP_").to_lowercase());
    let bounding: String = names.map(|n| format!(",+{n}")).collect();
    let args = [
        "setpriv",
        "--bounding-set",
        &format!("-all{bounding}"),
        "--inh-caps",
        "-all",
        "--no-new-privs",
    ];
    args.map(str::to_owned).into()
}

#[test]
fn the_capabilities_of_the_unit_are_enough_and_most_go() {
    require!(bpf, setpriv, full_system);
    let mut running = Trace::record(["-a", "--signals", "--metrics", "0"])
        .backend(Some("ebpf"))
        .through(bounded())
        .start();
    running.await_recording();
    let permitted = |task: &Path| {
        let status = fs::read_to_string(task.join("status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name));
            line.map(|l| l.trim().to_owned()).unwrap_or_default()
        };
        (
            field("Name:"),
            u64::from_str_radix(&field("CapPrm:"), 16).unwrap_or(u64::MAX),
        )
    };
    let of_thread = |pid: i32, name: &str| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let mut tasks = tasks.map(|t| permitted(&t.expect("a task").path()));
        tasks.find(|(n, _)| n == name).map(|(_, caps)| caps)
    };
    // BPF, SYS_PTRACE, DAC_READ_SEARCH: of PERFMON nothing is left.
    const EVENTS: u64 = 1 << 39 | 1 << 19 | 1 << 2;
    running.await_condition("the end of privileges", |r| {
        of_thread(r.pid(), "tracer") == Some(EVENTS) && of_thread(r.pid(), "metrics") == Some(0)
    });
    let done = Command::new("/bin/sh")
        .args(["-c", "/bin/true; kill -9 $$"])
        .status();
    assert!(!done.expect("a shell").success());
    running.await_condition("the signal", |r| r.so_far().contains("\"SIGKILL\""));
    running.signal(libc::SIGTERM);
    let capture = running.finish().expect_code(0).capture();
    assert!(
        capture.of("seed").count() > 1,
        "/proc and the iterator can be read"
    );
    let own = capture
        .of("seed")
        .find(|s| s.num("pid") == u64::from(std::process::id()));
    assert!(!own.expect("this test").list("argv").is_empty());
}

#[test]
fn the_file_systems_of_the_unit_are_enough() {
    require!(bpf, setpriv, unshare, full_system);
    let trace = Trace::record(["-a"]).backend(Some("ebpf"));
    let dir = trace.dir().to_string_lossy().into_owned();
    // As ProtectSystem=strict, ProtectKernelTunables=yes and ProtectControlGroups=yes have it.
    let script = format!(
        "set -e; mount --bind '{dir}' '{dir}'; mount -o remount,bind,ro /; mount --rbind /sys /sys; \
         mount -o remount,bind,ro /sys; mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys; \
         exec \"$@\""
    );
    let mut launcher: Vec<String> = ["unshare", "--mount", "/bin/sh", "-c", &script, "sh"]
        .map(str::to_owned)
        .into();
    launcher.extend(bounded());
    let mut running = trace.through(launcher).start();
    running.await_recording();
    Command::new("/bin/true").status().expect("it starts");
    running.await_condition("an exec", |r| r.so_far().contains("\"/bin/true\""));
    running.signal(libc::SIGTERM);
    running.finish().expect_code(0);
}

/// System calls that the unit allows.
fn allowed() -> BTreeSet<String> {
    let members = |set: &str| -> BTreeSet<String> {
        let text = analyze(&["syscall-filter", set]);
        let names = text
            .lines()
            .skip(1)
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with('#'));
        names.map(str::to_owned).collect()
    };
    fn expand(name: &str, members: &dyn Fn(&str) -> BTreeSet<String>) -> BTreeSet<String> {
        if !name.starts_with('@') {
            return [name.to_owned()].into();
        }
        members(name)
            .iter()
            .flat_map(|n| expand(n, members))
            .collect()
    }
    let mut allowed = BTreeSet::new();
    for setting in settings("SystemCallFilter") {
        let (take, names) = match setting.strip_prefix('~') {
            Some(names) => (false, names),
            None => (true, setting.as_str()),
        };
        for call in names.split_whitespace().flat_map(|n| expand(n, &members)) {
            if take {
                allowed.insert(call);
            } else {
                allowed.remove(&call);
            }
        }
    }
    allowed
}

#[test]
fn the_system_calls_of_the_unit_are_enough() {
    require!(bpf, systemd_analyze, strace);
    let allowed = allowed();
    assert!(allowed.contains("read") && !allowed.contains("reboot"));
    let trace = Trace::record(["-a", "--metrics", "0", "--duration", "2s"]).backend(Some("ebpf"));
    let log = trace.path("calls");
    let strace = ["strace", "-f", "-qq", "-e", "signal=none", "-o"].map(Into::into);
    let launcher = strace.into_iter().chain([log.clone().into_os_string()]);
    let outcome = trace
        .through(launcher.collect::<Vec<_>>())
        .run()
        .expect_code(0);
    let text = fs::read_to_string(outcome.path("calls")).expect("strace's log");
    let mut refused = BTreeSet::new();
    for line in text.lines() {
        let call = line
            .split_once(' ')
            .and_then(|(_, rest)| rest.trim_start().split_once('('));
        if let Some((name, _)) = call.filter(|(n, _)| {
            n.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        }) && !allowed.contains(name)
        {
            refused.insert(name);
        }
    }
    // The quick way to load (a root directory without BTF) is done without where it is refused.
    refused.remove("chroot");
    assert_eq!(refused, BTreeSet::new());
}

#[test]
fn the_manager_hears_of_the_beginning_the_going_on_and_the_end() {
    require!(bpf);
    let trace = Trace::record(["-p", &std::process::id().to_string()]).backend(Some("ebpf"));
    let socket = trace.path("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    manager
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("set");
    let hear = || {
        let mut text = [0; 4096];
        let n = manager.recv(&mut text).expect("a message in time");
        String::from_utf8_lossy(&text[..n]).into_owned()
    };
    let mut running = trace
        .setup(move |c| {
            c.env("NOTIFY_SOCKET", socket)
                .env("WATCHDOG_USEC", "400000");
        })
        .start();
    assert!(hear().contains("READY=1"));
    // What was told the outputs before that is on its way.
    running.await_recording();
    for _ in 0..3 {
        assert!(hear().contains("WATCHDOG=1"));
    }
    running.signal(libc::SIGTERM);
    loop {
        let message = hear();
        if message.contains("STOPPING=1") {
            break;
        }
        assert!(message.contains("WATCHDOG=1"), "{message}");
    }
    running.finish().expect_code(0);
}

#[test]
fn pages_and_completions_name_the_options() {
    let dir = tempfile::tempdir().expect("a directory");
    let tracer = host::tracer();
    assert_eq!(output(Command::new(&tracer).arg("man").arg(dir.path())), "");
    for (page, words) in [
        ("tracer.1", "failed"),
        ("tracer-record.1", "config"),
        ("tracer-compare.1", "A"),
    ] {
        let text = fs::read_to_string(dir.path().join(page)).expect(page);
        assert!(text.starts_with(".ie") || text.contains(".TH"), "{page}");
        assert!(text.contains(words), "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = output(Command::new(&tracer).args(["completions", shell]));
        for word in ["record", "metrics", "config", "max-argv"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        // The shell itself takes it, where there is one.
        if host::program(shell).is_ok() {
            let path = dir.path().join(shell);
            fs::write(&path, script).expect("written");
            assert_eq!(output(Command::new(shell).arg("-n").arg(path)), "");
        }
    }
}
