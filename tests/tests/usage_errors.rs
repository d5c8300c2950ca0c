//! What cannot work is refused with a remedy, before the command has begun.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use tracer_tests::{Outcome, Trace, copy_program, fixture, require};

/// A command that would leave a file behind had it been started.
struct Witness {
    dir: tempfile::TempDir,
}

impl Witness {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // Whoever runs the command could leave the file.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777))
            .expect("our own directory");
        Self { dir }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn trace(&self) -> Trace {
        let script = format!(": >'{}'", self.path("started").display());
        Trace::shell(&script).without_capture()
    }

    /// Refused: 125, a message with each of `words`, and nothing was started.
    #[track_caller]
    fn assert_refused(&self, outcome: Outcome, words: &[&str]) {
        let outcome = outcome.expect_code(125);
        assert!(
            !self.path("started").exists(),
            "the command was started\n{outcome}"
        );
        assert_eq!(outcome.stdout(), "", "{outcome}");
        let message = outcome.stderr();
        for word in words {
            assert!(
                message.contains(word),
                "no {word:?} in the message\n{outcome}"
            );
        }
        assert!(!message.contains("panicked"), "{outcome}");
    }
}

#[test]
fn the_witness_speaks_when_it_is_started() {
    require!(source);
    let witness = Witness::new();
    witness.trace().run().expect_code(0);
    assert!(witness.path("started").exists());
}

#[test]
fn an_unknown_option() {
    let witness = Witness::new();
    witness.assert_refused(
        witness.trace().option("--no-such-option").run(),
        &["--no-such-option", "--help"],
    );
}

#[test]
fn no_command() {
    let witness = Witness::new();
    witness.assert_refused(Trace::bare().run(), &["--"]);
    witness.assert_refused(Trace::bare().options(["ls", "-l"]).run(), &["tracer -- ls"]);
}

#[test]
fn too_small_a_stack() {
    let witness = Witness::new();
    let trace = witness.trace().setup(|c| {
        // SAFETY: setrlimit is async-signal-safe, and takes a limit that is there.
        unsafe {
            c.pre_exec(|| {
                let limit = libc::rlimit {
                    rlim_cur: 64 << 10,
                    rlim_max: 64 << 10,
                };
                libc::setrlimit(libc::RLIMIT_STACK, &limit);
                Ok(())
            });
        }
    });
    witness.assert_refused(trace.run(), &["stack", "ulimit -s"]);
}

#[test]
fn a_ring_that_cannot_be() {
    let sizes = [
        ("0", "the smallest is one page, 4KiB"),
        ("3KiB", "4KiB"),
        ("5000", "power of two"),
        ("-1", "not a size"),
        ("many", "not a size"),
    ];
    for (size, remedy) in sizes {
        let witness = Witness::new();
        let option = format!("--ring-size={size}");
        witness.assert_refused(witness.trace().option(option).run(), &["ring-size", remedy]);
    }
}

#[test]
fn an_argv_cap_beyond_two_mebibytes() {
    let witness = Witness::new();
    witness.assert_refused(
        witness.trace().option("--max-argv=3MiB").run(),
        &["max-argv", "2"],
    );
}

#[test]
fn an_output_in_a_missing_directory() {
    let witness = Witness::new();
    let file = witness.path("no/such/directory/out.jsonl");
    let outcome = witness
        .trace()
        .options(["-o".into(), file.into_os_string()])
        .run();
    witness.assert_refused(outcome, &["no/such/directory", "No such file or directory"]);
}

#[test]
fn an_output_that_is_a_directory() {
    let witness = Witness::new();
    let file = witness.path("out.jsonl");
    fs::create_dir(&file).expect("our own directory");
    witness.assert_refused(
        witness
            .trace()
            .options(["-o".into(), file.into_os_string()])
            .run(),
        &["out.jsonl"],
    );
}

#[test]
fn an_output_of_unknown_format() {
    let witness = Witness::new();
    let file = witness.path("out.unknown");
    let outcome = witness
        .trace()
        .options(["-o".into(), file.clone().into_os_string()])
        .run();
    witness.assert_refused(outcome, &["out.unknown", "--format"]);
    assert!(!file.exists());
}

/// A second file that cannot be written leaves no command started either.
#[test]
fn one_bad_output_among_good_ones() {
    let witness = Witness::new();
    let [good, bad] = [witness.path("good.jsonl"), witness.path("missing/bad.csv")];
    let options: [OsString; 4] = [
        "-o".into(),
        good.into_os_string(),
        "-o".into(),
        bad.into_os_string(),
    ];
    witness.assert_refused(witness.trace().options(options).run(), &["bad.csv"]);
}

#[test]
fn an_output_that_may_not_be_written() {
    require!(root);
    // Root may write anywhere but where nobody can.
    let witness = Witness::new();
    let file = "/proc/sys/kernel/osrelease.jsonl";
    witness.assert_refused(witness.trace().options(["-o", file]).run(), &[file]);
}

#[test]
fn a_user_that_does_not_exist() {
    let witness = Witness::new();
    for option in ["--uid", "--uid-filter"] {
        witness.assert_refused(
            witness.trace().options([option, "no-such-user"]).run(),
            &["no-such-user"],
        );
    }
}

#[test]
fn a_timeout_that_is_none() {
    let witness = Witness::new();
    witness.assert_refused(
        witness.trace().options(["--timeout", "soon"]).run(),
        &["timeout", "soon"],
    );
}

/// A copy of tracer and of a workload where everybody can run them.
fn for_everybody(dir: &Path) -> (OsString, OsString) {
    let copy = |from: &Path, name: &str| {
        let to = dir.join(name);
        copy_program(from, &to);
        to.into_os_string()
    };
    (
        copy(&tracer_tests::host::tracer(), "tracer"),
        copy(&fixture("jail"), "jail"),
    )
}

#[test]
fn not_root_with_ebpf() {
    require!(bpf);
    let witness = Witness::new();
    let (tracer, jail) = for_everybody(witness.dir.path());
    let launcher: [OsString; 4] = [jail, "-u".into(), "65534".into(), "--".into()];
    let outcome = witness
        .trace()
        .backend(Some("ebpf"))
        .binary(tracer)
        .through(launcher)
        .run();
    witness.assert_refused(outcome, &["root"]);
}

#[test]
fn no_btf_with_ebpf() {
    require!(bpf);
    let witness = Witness::new();
    let jail = fixture("jail").into_os_string();
    let outcome = witness
        .trace()
        .backend(Some("ebpf"))
        .through([jail, "-s".into(), "--".into()])
        .run();
    witness.assert_refused(outcome, &["BTF"]);
}

#[test]
fn no_btf_with_auto_takes_another_source_and_says_why() {
    require!(bpf);
    let witness = Witness::new();
    let jail = fixture("jail").into_os_string();
    let outcome = witness
        .trace()
        .backend(Some("auto"))
        .through([jail, "-s".into(), "--".into()])
        .run();
    // Where no other source is there yet, it is refused with the reason.
    if outcome.code() == 125 {
        witness.assert_refused(outcome, &["BTF"]);
    } else {
        assert!(outcome.stderr().contains("BTF"), "{outcome}");
        assert!(witness.path("started").exists());
    }
}

/// What cannot be executed leaves no doubt, and no capture of a run that never was claims otherwise.
#[test]
fn a_missing_command() {
    require!(source);
    let outcome = Trace::command("/no/such/program", [""; 0])
        .run()
        .expect_code(127);
    assert!(outcome.stderr().contains("No such file"), "{outcome}");
}

#[test]
fn help_and_version_are_no_errors() {
    for option in ["--help", "--version"] {
        let outcome = Trace::bare().option(option).run().expect_code(0);
        assert!(outcome.stdout().contains("tracer"), "{outcome}");
        assert_eq!(outcome.stderr(), "");
    }
}

#[test]
fn one_file_for_two_outputs() {
    let witness = Witness::new();
    let (file, other) = (witness.path("out.jsonl"), witness.path("link.csv"));
    std::os::unix::fs::symlink("out.jsonl", &other).expect("our own directory");
    for second in [&file, &other] {
        let outcome = witness
            .trace()
            .options([
                "-o".as_ref(),
                file.as_os_str(),
                "-o".as_ref(),
                second.as_os_str(),
            ])
            .run();
        witness.assert_refused(outcome, &["give -o each file once"]);
    }
    let outcome = witness.trace().options(["-o", "-", "-o", "-"]).run();
    witness.assert_refused(outcome, &["stdout", "give -o each file once"]);
}

#[test]
fn stdout_for_output_though_it_is_closed() {
    let witness = Witness::new();
    let outcome = witness
        .trace()
        .options(["-o", "-"])
        .through(["sh", "-c", "exec \"$@\" >&-", "sh"])
        .run();
    witness.assert_refused(outcome, &["stdout", "closed"]);
}
