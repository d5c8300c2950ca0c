use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

use super::*;

fn args(list: &[&str]) -> Vec<OsString> {
    list.iter().map(OsString::from).collect()
}

fn run(list: &[&str]) -> Result<u8, LaunchError> {
    let held = Command::resolve(&args(list), None)?
        .hold()
        .map_err(LaunchError::Start)?;
    Ok(held.release()?.wait().unwrap().exit_code())
}

fn code(list: &[&str]) -> u8 {
    run(list).unwrap_or_else(|e| e.exit_code())
}

fn file(dir: &Path, name: &str, mode: u32, text: &str) -> String {
    let (draft, path) = (dir.join("draft"), dir.join(name));
    fs::write(&draft, text).unwrap();
    // By another process: what other tests fork meanwhile has the files that are open
    // for writing here, and the script would be busy.
    let copied = process::Command::new("cp").args([&draft, &path]).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn exit_codes_are_those_of_env() {
    let dir = tempfile::tempdir().unwrap();
    let plain = file(dir.path(), "plain", 0o644, "exit 1");
    let interpreter = file(dir.path(), "interpreter", 0o755, "#!/no/such/interpreter\n");
    let script = file(dir.path(), "script", 0o755, "exit 5\n");
    let directory = dir.path().to_str().unwrap();
    let beyond = format!("{plain}/beyond");
    for command in [
        &["true"][..],
        &["false"],
        &["sh", "-c", "exit 77"],
        &["no-such-program-anywhere"],
        &["/no/such/file"],
        &[""],
        &[&plain],
        &[&interpreter],
        &[&script],
        &[directory],
        &[&beyond],
    ] {
        let truth = process::Command::new("env")
            .args(command)
            .stderr(process::Stdio::null())
            .status()
            .unwrap();
        if command != [""] {
            assert_eq!(Some(i32::from(code(command))), truth.code(), "{command:?}");
        }
    }
    assert_eq!(code(&[""]), 127);
    assert_eq!(code(&["sh", "-c", "kill -9 $$"]), 137);
    assert!(matches!(
        Command::resolve(&[], None),
        Err(LaunchError::NoCommand)
    ));
    assert_eq!(
        Command::resolve(&args(&["true", "a\0b"]), None)
            .unwrap_err()
            .exit_code(),
        125
    );
}

#[test]
fn a_script_without_an_interpreter_is_given_to_sh() {
    let dir = tempfile::tempdir().unwrap();
    let script = file(
        dir.path(),
        "script",
        0o755,
        "test \"$*\" = 'a b c' && exit 9\n",
    );
    assert_eq!(code(&[&script, "a b", "c"]), 9);
}

#[test]
fn path_is_searched_as_execvp_does() {
    let dir = tempfile::tempdir().unwrap();
    let sub = |name: &str| {
        let d = dir.path().join(name);
        fs::create_dir(&d).unwrap();
        d
    };
    let (a, b) = (sub("a"), sub("b"));
    file(&a, "prog", 0o644, "");
    let path = std::env::join_paths([Path::new("/no/such"), &a, &b]).unwrap();
    let find = || find::programs(OsStr::new("prog"), Some(&path));
    assert_eq!(
        find().unwrap_err().exit_code(),
        126,
        "found, not executable"
    );
    let good = file(&b, "prog", 0o755, "");
    assert_eq!(find().unwrap(), [CString::new(good).unwrap()]);
    let none = find::programs(OsStr::new("prog"), Some(OsStr::new("/no/such")));
    assert_eq!(none.unwrap_err().exit_code(), 127);
    let sh = find::programs(OsStr::new("sh"), None).unwrap();
    assert_eq!(sh[0], *c"/bin/sh");
}

#[test]
fn nothing_runs_before_the_release() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let command = Command::resolve(&args(&["touch", mark.to_str().unwrap()]), None).unwrap();
    let held = command.hold().unwrap();
    let link = fs::read_link(format!("/proc/{}/exe", held.pid())).unwrap();
    assert_eq!(
        link,
        std::env::current_exe().unwrap(),
        "still tracer's image"
    );
    let pid = held.child.pid().cast_signed();
    drop(held);
    // As after tracer's death: the gate is closed.
    let mut status = 0;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(libc::WEXITSTATUS(status), ABANDONED);
    assert!(!mark.exists());
    assert_eq!(
        command
            .hold()
            .unwrap()
            .release()
            .unwrap()
            .wait()
            .unwrap()
            .exit_code(),
        0
    );
    assert!(mark.exists());
}

#[test]
fn a_child_that_is_not_wanted_ends_whoever_has_its_gate() {
    let command = Command::resolve(&args(&["true"]), None).unwrap();
    let held = command.hold().unwrap();
    let mut child = Child::adopt(held.pid().cast_signed()).unwrap();
    // As a child has it that another thread forks at that time, and holds.
    let copy = held.gate.0.try_clone().unwrap();
    drop(held);
    let deadline = Instant::now() + Duration::from_secs(20);
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        assert!(Instant::now() < deadline, "it waits still");
        std::thread::yield_now();
    };
    assert_eq!(i32::from(ended.exit_code()), ABANDONED);
    drop(copy);
}

#[test]
fn a_signal_ends_the_held_child_as_it_would_the_command() {
    let held = Command::resolve(&args(&["true"]), None)
        .unwrap()
        .hold()
        .unwrap();
    held.child.signal(libc::SIGTERM).unwrap();
    let mut child = held.release().unwrap();
    let status = child.wait().unwrap();
    // Before the gate, or after it by the disposition of the command.
    assert_eq!(status.exit_code(), 128 + 15);
    assert_eq!(
        child.try_wait().unwrap().unwrap().status,
        status.status,
        "asked again"
    );
    child.signal(libc::SIGKILL).unwrap();
}

#[test]
fn tokio_can_wait() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let mut child = Command::resolve(&args(&["sh", "-c", "sleep 0.05; exit 3"]), None)
        .unwrap()
        .hold()
        .unwrap()
        .release()
        .unwrap();
    assert_eq!(runtime.block_on(child.wait_async()).unwrap().exit_code(), 3);
}

const VARIABLE: &str = "TRACER_TEST_LAUNCH";

/// Not a test of its own: what `compare` runs as tracer.
#[test]
fn as_tracer() {
    if let Some(command) = std::env::var_os(VARIABLE) {
        let user = std::env::var("TRACER_TEST_USER")
            .ok()
            .map(|u| User::find(&u).unwrap());
        let argv: Vec<_> = command
            .to_str()
            .unwrap()
            .split(' ')
            .map(OsString::from)
            .collect();
        let child = Command::resolve(&argv, user)
            .unwrap()
            .hold()
            .unwrap()
            .release();
        process::exit(child.unwrap().wait().unwrap().exit_code().into());
    }
}

/// Runs `command` below `prefix`, once directly and once through the launcher;
/// the lines of output that `keep` lets pass must be equal. Returns them.
fn compare(prefix: &str, command: &str, keep: impl Fn(&str) -> bool) -> Vec<String> {
    let own = std::env::current_exe().unwrap();
    let through = format!(
        "{} --exact launch::tests::as_tracer --nocapture",
        own.display()
    );
    let [direct, launched] = [command, &through].map(|what| {
        let out = process::Command::new("sh")
            .args(["-c", &format!("{prefix} \"$@\""), "sh"])
            .args(what.split(' '))
            .env(VARIABLE, command)
            .output()
            .unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        text.lines()
            .filter(|l| keep(l))
            .map(String::from)
            .collect::<Vec<_>>()
    });
    assert_eq!(direct, launched, "{prefix} {command}");
    assert!(!direct.is_empty(), "{command}");
    direct
}

#[test]
fn the_command_inherits_what_tracer_got() {
    let signals = "grep -E ^Sig(Blk|Ign|Cgt)|^Umask|^NoNewPrivs|^Seccomp: /proc/self/status";
    let is_status = |l: &str| l.contains(":\t");
    // The test's own environment first, whatever that ignores.
    compare("exec", signals, is_status);
    for ignored in ["PIPE", "INT", "QUIT", "HUP", "CHLD"] {
        compare(
            &format!("exec env --ignore-signal={ignored}"),
            signals,
            is_status,
        );
        compare(
            &format!("exec env --default-signal --block-signal={ignored}"),
            signals,
            is_status,
        );
    }
    let set = compare(
        "exec env --ignore-signal=PIPE --block-signal=USR1",
        signals,
        is_status,
    );
    assert!(
        set.iter()
            .any(|l| l.starts_with("SigIgn") && !l.ends_with("0000")),
        "{set:?}"
    );
    compare("exec", "cat /proc/self/limits", |l| l.starts_with("Max"));
    compare(
        "exec nice -n 5",
        "cat /proc/self/oom_score_adj /proc/self/timerslack_ns",
        |l| l.parse::<u64>().is_ok(),
    );
}

#[test]
fn the_command_gets_no_descriptor_more_and_none_less() {
    let number = |l: &str| l.trim().parse::<u32>().is_ok();
    compare("exec", "ls /proc/self/fd", number);
    compare("exec 7</dev/null; exec", "ls /proc/self/fd", number);
    compare("exec 0<&-; exec", "ls /proc/self/fd", number);
}

#[test]
fn another_user_is_that_user_wholly() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        let error = Command::resolve(&args(&["true"]), Some(User::find("0").unwrap())).unwrap_err();
        assert!(matches!(error, LaunchError::NotRoot));
        eprintln!("skipped: changing the user needs root");
        return;
    }
    let Some(user) = ["nobody", "daemon"].iter().find_map(|u| User::find(u).ok()) else {
        eprintln!("skipped: no user to become");
        return;
    };
    let name = user.name.to_str().unwrap().to_owned();
    let own = std::env::current_exe().unwrap();
    let output = |command: &str| {
        let out = process::Command::new(&own)
            .args(["--exact", "launch::tests::as_tracer", "--nocapture"])
            .env(VARIABLE, command)
            .env("TRACER_TEST_USER", &name)
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let id = process::Command::new("id").arg(&name).output().unwrap();
    let id = String::from_utf8(id.stdout).unwrap();
    assert!(output("id").contains(&id), "{id}");
    let env = output("env");
    for line in [
        format!("USER={name}"),
        format!("LOGNAME={name}"),
        format!("HOME={}", user.home.display()),
    ] {
        assert!(env.lines().any(|l| l == line), "{line} in {env}");
    }
    let caps = output("grep Cap /proc/self/status");
    assert!(caps.contains("CapEff:\t0000000000000000"), "{caps}");
}
