//! Which source is taken when privileges are really missing.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tracer_tests::host::{bpf, find_program, scaled};
use tracer_tests::{Outcome, Record, Trace, Truth, copy_program, fixture, require};

const NOBODY: u32 = 65534;

/// A place of nobody's own, with copies of what it may need: the directory of
/// the build may be closed to others.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("our own");
        chown(dir.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
        let place = Self { dir };
        copy_program(&tracer_tests::host::tracer(), &place.path("tracer"));
        for name in ["jail", "tiny", "execstorm", "suid", "nospawn", "forkstorm"] {
            copy_program(&fixture(name), &place.path(name));
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A run of tracer under `jail` with these options.
    fn run(&self, jail: &[&str], backend: &str, command: &[&str]) -> Trace {
        let mut launcher = vec![self.path("jail").into_os_string()];
        launcher.extend(jail.iter().map(OsString::from));
        launcher.push("--".into());
        let program = self.path(command[0]);
        let program = if program.exists() {
            program
        } else {
            find_program(command[0]).expect("a program")
        };
        Trace::command(program, &command[1..])
            .binary(self.path("tracer").into_os_string())
            .through(launcher)
            .backend(Some(backend))
            .without_capture()
            .options([OsString::from("-o"), self.path("out.jsonl").into()])
            .in_dir(self.dir.path())
    }

    fn capture(&self) -> tracer_tests::Capture {
        let text = fs::read_to_string(self.path("out.jsonl")).expect("a capture");
        tracer_tests::Capture::parse(&text)
    }

    fn backend(&self) -> String {
        self.capture().meta().text("backend").to_owned()
    }
}

/// An ordinary user without any privilege.
const ORDINARY: [&str; 2] = ["-u", "65534"];

/// The line that says which source was taken.
fn choice(outcome: &Outcome) -> Option<String> {
    let stderr = outcome.stderr();
    let mut lines = stderr.lines().filter(|l| l.contains("tracing with"));
    let line = lines.next().map(Into::into);
    assert_eq!(lines.next(), None, "said once\n{outcome}");
    line
}

#[test]
fn the_best_source_is_taken_without_a_word() {
    require!(bpf);
    let place = Place::new();
    for backend in ["auto", "ebpf"] {
        let outcome = place.run(&[], backend, &["tiny"]).run().expect_code(0);
        assert_eq!(place.backend(), "ebpf");
        assert_eq!(choice(&outcome), None, "{outcome}");
    }
    let outcome = Trace::fixture("tiny", [""; 0])
        .backend(None)
        .run()
        .expect_code(0);
    assert_eq!(outcome.capture().meta().text("backend"), "ebpf");
}

#[test]
fn an_ordinary_user_gets_ptrace_and_the_reason() {
    require!(root);
    let place = Place::new();
    let tiny = place.path("tiny").display().to_string();
    let n = scaled(400);
    for option in [None, Some("-q")] {
        let command = ["execstorm", &tiny, &n.to_string()];
        let outcome = place
            .run(&ORDINARY, "auto", &command)
            .options(option)
            .run()
            .expect_code(0);
        let line = choice(&outcome).expect("it is not the best source");
        assert!(
            line.contains("with ptrace") && line.contains("not with ebpf"),
            "{line}"
        );
        assert!(line.contains("root"), "the remedy: {line}");
        assert_eq!(place.backend(), "ptrace");
        place.capture().assert_exact(&Truth::of(&outcome.stdout()));
        let uid = u64::from(NOBODY);
        for row in place.capture().of("process") {
            assert_eq!(row.num("uid"), uid, "{row}");
        }
    }
}

#[test]
fn an_ordinary_user_builds() {
    require!(root, make);
    let place = Place::new();
    let project = place.path("project");
    let made = Command::new(fixture("gen_build.sh"))
        .arg(&project)
        .arg("12")
        .status();
    assert!(made.expect("the generator runs").success());
    give(&project);
    let outcome = place
        .run(&ORDINARY, "auto", &["make", "-s", "-j8"])
        .in_dir(&project)
        .run()
        .expect_code(0);
    assert_eq!(place.backend(), "ptrace", "{outcome}");
    let capture = place.capture();
    // 12 units, and the program that tests them.
    let compiled = capture.of("exec").filter(|e| e.text("comm") == "cc1");
    assert!(compiled.count() >= 12, "{}", capture.outline());
    assert_eq!(capture.lost_at_all(), 0);
    assert_eq!(capture.root().text("comm"), "make");
    for row in capture.of("process") {
        assert_eq!(row.code(), "0", "{row}");
    }
}

/// To nobody, with all that is in it.
fn give(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("our own") {
            give(&entry.expect("our own").path());
        }
    }
}

#[test]
fn root_without_capabilities_gets_no_ebpf() {
    require!(root);
    let place = Place::new();
    let outcome = place
        .run(&["-c"], "auto", &["tiny", "1"])
        .run()
        .expect_code(1);
    // Where somebody has mounted tracefs its files are still root's.
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("our mounts");
    let expected = match mounts.contains(" - tracefs ") {
        true => "ftrace",
        false => "ptrace",
    };
    assert_eq!(place.backend(), expected, "{outcome}");
    assert!(choice(&outcome).is_some(), "{outcome}");
}

#[test]
fn a_seccomp_filter_against_bpf_leaves_the_other_sources() {
    require!(root);
    let place = Place::new();
    let outcome = place
        .run(&["-b"], "auto", &["tiny", "1"])
        .run()
        .expect_code(1);
    let line = choice(&outcome).expect("it is not the best source");
    assert!(
        line.contains("not with ebpf") && line.contains("bpf()"),
        "{line}"
    );
    assert_ne!(place.backend(), "ebpf");
    assert_eq!(place.capture().root().num("execs"), 1);
}

/// It is opened where that is allowed; nobody has to mount it.
#[test]
fn tracefs_that_is_mounted_nowhere() {
    require!(root);
    let place = Place::new();
    let hidden = ["-s", "-b", "-c"];
    let forced = place.run(&hidden, "ftrace", &["suid"]);
    refused(&place, forced, &["tracefs", "root"]);
    let outcome = place.run(&hidden, "auto", &["tiny", "1"]).run();
    let line = choice(&outcome.expect_code(1)).expect("it is not the best source");
    assert!(
        line.contains("with ptrace") && line.contains("not with ftrace: tracefs"),
        "{line}"
    );
    assert_eq!(place.backend(), "ptrace");
    let outcome = place.run(&["-s", "-b"], "auto", &["tiny", "1"]).run();
    let line = choice(&outcome.expect_code(1)).expect("it is not the best source");
    assert!(line.contains("with ftrace"), "{line}");
    assert_eq!(place.backend(), "ftrace");
}

/// 125, no command, and the words that help.
fn refused(place: &Place, trace: Trace, words: &[&str]) {
    let outcome = trace.run().expect_code(125);
    for word in words {
        assert!(outcome.stderr().contains(word), "{word}\n{outcome}");
    }
    assert!(!outcome.stderr().contains("panicked"), "{outcome}");
    assert_eq!(outcome.stdout(), "", "the command did not run");
    let text = fs::read_to_string(place.path("out.jsonl")).unwrap_or_default();
    assert!(!text.contains("\"exec\""), "{text}");
}

#[test]
fn without_any_source_each_has_its_reason() {
    require!(root);
    let place = Place::new();
    let jail = ["-b", "-p", "-u", "65534"];
    let auto = place.run(&jail, "auto", &["suid"]);
    refused(
        &place,
        auto,
        &["ebpf", "bpf()", "ptrace was refused", "SYS_PTRACE"],
    );
    let ptrace = place.run(&jail, "ptrace", &["suid"]);
    refused(&place, ptrace, &["ptrace was refused", "seccomp"]);
    let ebpf = place.run(&jail, "ebpf", &["suid"]);
    refused(&place, ebpf, &["bpf()", "root"]);
}

#[test]
fn a_source_that_is_named_is_not_replaced() {
    require!(root);
    let place = Place::new();
    refused(
        &place,
        place.run(&ORDINARY, "ebpf", &["suid"]),
        &["root", "sudo"],
    );
    refused(&place, place.run(&["-b"], "ebpf", &["suid"]), &["bpf()"]);
    refused(
        &place,
        place.run(&ORDINARY, "ftrace", &["suid"]),
        &["ftrace"],
    );
    let outcome = place
        .run(&[], "ptrace", &["tiny", "1"])
        .run()
        .expect_code(1);
    assert_eq!(place.backend(), "ptrace");
    assert_eq!(choice(&outcome), None, "as it was asked for\n{outcome}");
}

/// What ptrace cannot do is not left out silently.
#[test]
fn an_option_beyond_the_source_is_refused() {
    require!(root);
    let place = Place::new();
    for option in ["--failed-execs", "--kthreads", "--debug-bpf"] {
        for backend in ["ptrace", "auto"] {
            let trace = place.run(&ORDINARY, backend, &["suid"]).option(option);
            refused(&place, trace, &[option, "leave it out"]);
        }
    }
    let trace = place.run(&[], "ptrace", &["tiny"]);
    let outcome = trace.options(["--ring-size", "64KiB"]).run().expect_code(0);
    assert!(
        outcome.stderr().contains("--ring-size has no effect"),
        "{outcome}"
    );
}

#[test]
fn auto_keeps_to_a_source_that_can_do_what_was_asked() {
    require!(root);
    if bpf().is_err() {
        return println!("skipped: eBPF does not work here");
    }
    let place = Place::new();
    let trace = place.run(&[], "auto", &["nospawn", "/no/such/program"]);
    trace.option("--failed-execs").run().expect_code(0);
    assert_eq!(place.capture().of("exec_failed").count(), 1);
}

/// The kernel takes its privileges away; the user must hear of it.
#[test]
fn a_setuid_program_of_an_ordinary_user_is_named() {
    require!(root);
    let place = Place::new();
    fs::set_permissions(place.path("suid"), fs::Permissions::from_mode(0o4755)).expect("our own");
    let outcome = place
        .run(&ORDINARY, "ptrace", &["suid"])
        .run()
        .expect_code(0);
    assert_eq!(outcome.stdout(), "UID 65534 EUID 65534\n");
    assert!(outcome.stderr().contains("without its setuid"), "{outcome}");
    // A tracer with the capability takes nothing away.
    let suid = place.path("suid").display().to_string();
    let command = ["jail", "-u", "65534", "--", &suid];
    let outcome = place.run(&[], "ptrace", &command).run().expect_code(0);
    assert_eq!(outcome.stdout(), "UID 65534 EUID 0\n");
    assert!(!outcome.stderr().contains("setuid"), "{outcome}");
}

#[test]
fn a_command_that_cannot_run_is_told_alike_by_each_source() {
    require!(root);
    let place = Place::new();
    fs::write(place.path("text"), "#!/no/such/interpreter\n").expect("our own");
    copy_program(&place.path("text"), &place.path("script"));
    fs::set_permissions(place.path("script"), fs::Permissions::from_mode(0o755)).expect("our own");
    for backend in ["ptrace", "auto"] {
        let outcome = place.run(&[], backend, &["script"]).run().expect_code(127);
        assert!(outcome.stderr().contains("cannot run"), "{outcome}");
        assert_eq!(place.capture().of("exec").count(), 0);
    }
}
