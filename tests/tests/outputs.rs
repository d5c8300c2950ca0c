//! Files, formats, and what the terminal shows.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tracer_tests::host::scaled;
use tracer_tests::knows::extras;
use tracer_tests::{Capture, Outcome, Record, Trace, fixture, require};

fn storm(n: u64) -> Trace {
    Trace::fixture(
        "execstorm",
        [fixture("tiny").into_os_string(), n.to_string().into()],
    )
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        .permissions()
        .mode()
        & 0o7777
}

/// `-o DIR/NAME` for each name, in the run's own directory.
fn with_files(trace: Trace, names: &[&str]) -> Trace {
    let options: Vec<OsString> = names
        .iter()
        .flat_map(|n| ["-o".into(), trace.path(n).into_os_string()])
        .collect();
    trace.options(options)
}

fn text(outcome: &Outcome, name: &str) -> String {
    fs::read_to_string(outcome.path(name)).unwrap_or_else(|e| panic!("{name}: {e}\n{outcome}"))
}

#[test]
fn several_files_at_once_for_their_owner_alone() {
    require!(source);
    let names = ["a.jsonl", "a.csv", "a.txt"];
    let trace = with_files(storm(20), &names).setup(|c| {
        // An open umask must not open the files.
        // SAFETY: between fork and exec only umask is called, which is async-signal-safe.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(c, || {
                libc::umask(0);
                Ok(())
            });
        }
    });
    let outcome = trace.run().expect_code(0);
    let truth = outcome.truth();
    for name in names {
        assert_eq!(mode(&outcome.path(name)), 0o600, "{name}");
    }
    Capture::parse(&text(&outcome, "a.jsonl")).assert_exact(&truth);
    outcome.capture().assert_exact(&truth);
    assert!(text(&outcome, "a.txt").contains("tiny"));
    let csv = text(&outcome, "a.csv");
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let head = reader.headers().expect("a head").clone();
    for column in ["pid", "start", "comm", "exit_code", "utime_ns"] {
        assert!(head.iter().any(|h| h == column), "no {column} in {head:?}");
    }
    let rows: Vec<csv::StringRecord> = reader
        .records()
        .map(|r| r.expect("as many fields as the head"))
        .collect();
    assert_eq!(rows.len() as u64, truth.exits + 1);
}

#[test]
fn csv_quotes_what_needs_it() {
    require!(source);
    let odd = "comma, \"quote\"\nand newline";
    let outcome = with_files(
        Trace::fixture("tiny", [odd, "=1+1", "\u{1b}[31m"]),
        &["a.csv"],
    )
    .run()
    .expect_code(3);
    let csv = text(&outcome, "a.csv");
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let head = reader.headers().expect("a head").clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(|r| r.expect("it parses")).collect();
    assert_eq!(rows.len(), 1);
    let column = |name: &str| {
        let at = head
            .iter()
            .position(|h| h == name)
            .unwrap_or_else(|| panic!("no {name} in {head:?}"));
        rows[0][at].to_owned()
    };
    assert_eq!(column("comm"), "tiny");
    let capture = outcome.capture();
    if !capture.leaves_out(capture.root(), "argv") {
        assert!(column("argv").contains("comma, "), "{csv:?}");
    }
    // No cell that a spreadsheet takes for a formula.
    for cell in &rows[0] {
        assert!(!cell.starts_with(['=', '+', '@']), "{cell:?}");
    }
}

#[test]
fn a_dash_is_stdout() {
    require!(source);
    let outcome = Trace::fixture("tiny", [""; 0])
        .options(["--format", "jsonl", "-o", "-"])
        .without_capture();
    let outcome = outcome.run().expect_code(0);
    let capture = Capture::parse(&outcome.stdout());
    capture.expect_code(capture.root(), "0");
}

#[test]
fn compressed_streams() {
    require!(source);
    let outcome = with_files(storm(50), &["a.jsonl.zst", "a.csv.zst"])
        .run()
        .expect_code(0);
    let unpack = |name: &str| {
        assert_eq!(mode(&outcome.path(name)), 0o600, "{name}");
        let file = fs::File::open(outcome.path(name)).expect("it was written");
        String::from_utf8(zstd::decode_all(file).expect("a whole stream")).expect("text")
    };
    Capture::parse(&unpack("a.jsonl.zst")).assert_exact(&outcome.truth());
    assert_eq!(
        unpack("a.csv.zst").lines().count() as u64,
        outcome.truth().exits + 2
    );
}

#[test]
fn a_file_for_each_process() {
    require!(source);
    let outcome = with_files(storm(10), &["each.jsonl"])
        .option("-ff")
        .without_capture()
        .run()
        .expect_code(0);
    let prefix = "each.jsonl.";
    let mut pids = Vec::new();
    for entry in fs::read_dir(outcome.path("")).expect("our own directory") {
        let name = entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("our own names");
        let Some(pid) = name.strip_prefix(prefix) else {
            continue;
        };
        let pid: u64 = pid.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(mode(&outcome.path(&name)), 0o600, "{name}");
        let records: Vec<serde_json::Value> = text(&outcome, &name)
            .lines()
            .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{name}: {e}: {l}")))
            .collect();
        let row: Vec<_> = records.iter().filter(|r| r.kind() == "process").collect();
        assert_eq!(row.len(), 1, "{name}");
        assert_eq!(row[0].num("pid"), pid);
        pids.push(pid);
    }
    assert_eq!(pids.len() as u64, outcome.truth().exits + 1);
}

#[test]
fn the_folded_tree_counts_equal_siblings() {
    require!(source);
    let n = scaled(80);
    let outcome = storm(n).run().expect_code(0);
    let tree = outcome.stderr();
    assert!(
        tree.lines().any(|l| l.contains("tiny") && l.contains('×')),
        "no folded line\n{outcome}"
    );
    assert!(
        tree.lines().count() < 20,
        "folded into few lines\n{outcome}"
    );
    assert!(tree.contains("execstorm"));
}

#[test]
fn the_full_tree_shows_each_process() {
    require!(source);
    let n = scaled(40);
    let outcome = storm(n).option("--tree=full").run().expect_code(0);
    let lines = outcome
        .stderr()
        .lines()
        .filter(|l| l.contains("─ ") && l.contains("/tiny"))
        .count();
    assert_eq!(lines as u64, n, "{outcome}");
}

#[test]
fn no_tree_where_none_is_wanted() {
    require!(source);
    let outcome = storm(4).option("--quiet").run().expect_code(0);
    assert_eq!(outcome.stderr(), "");
    outcome.capture().assert_exact(&outcome.truth());
}

#[test]
fn the_log_has_a_line_for_each_event() {
    require!(source);
    let n = scaled(20);
    let outcome = storm(n)
        .options(["--log", "--tree=none"])
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    let lines = outcome
        .stderr()
        .lines()
        .filter(|l| l.contains("tiny"))
        .count() as u64;
    assert!(
        lines >= 2 * n,
        "an exec and an exit for each of {n}\n{outcome}"
    );
    let events = capture.of("fork").count() + capture.of("exec").count() + capture.ends().count();
    let all = outcome.stderr().lines().count();
    assert!(all >= events, "{all} lines for {events} events\n{outcome}");
}

#[test]
fn colours_only_where_they_are_wanted() {
    require!(source);
    let escapes = |when: &str| {
        let outcome = storm(4).options(["--color", when]).run().expect_code(0);
        outcome.stderr_bytes().contains(&0x1b)
    };
    assert!(!escapes("auto"), "stderr is a file");
    assert!(!escapes("never"));
    assert!(escapes("always"));
}

/// Every line of every kind is as the published schema says.
#[test]
fn the_schema_describes_every_line() {
    require!(source);
    let schema = include_str!("../../docs/events.schema.json");
    let schema = serde_json::from_str(schema).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    let trace = Trace::bare();
    let dir = trace.dir().to_owned();
    let [killer, fail, pidns, tiny] =
        ["killer", "failexec", "pidns", "tiny"].map(|f| fixture(f).display().to_string());
    let script = format!(
        "{killer}; {fail} {}; {pidns}; {tiny} \"$(printf '\\377')\"; sleep 0.5 & true",
        dir.display()
    );
    let extras = extras(&tracer_tests::host::backend());
    let all = extras.iter().map(|(option, _)| *option);
    let captures = [
        Trace::shell(&script).options(all.clone()).run().capture(),
        Trace::fixture("threads", ["3"])
            .options(all)
            .run()
            .capture(),
        storm(scaled(2000))
            .options(["--ring-size", "4096"])
            .run()
            .capture(),
    ];
    for line in captures.iter().flat_map(|c| &c.lines) {
        let faults: Vec<String> = validator
            .iter_errors(line)
            .map(|e| format!("{} at {}", e, e.instance_path))
            .collect();
        assert!(faults.is_empty(), "{faults:#?}\nin {line}");
    }
    let kinds: std::collections::BTreeSet<&str> = captures
        .iter()
        .flat_map(|c| &c.lines)
        .map(Record::kind)
        .collect();
    let always = ["meta", "exit", "process", "end"];
    for kind in extras.iter().map(|(_, kind)| *kind).chain(always) {
        assert!(
            kinds.contains(kind),
            "the runs were to have a line of each kind, found {kinds:?}"
        );
    }
}

/// A reader that goes away is no reason to disturb the command.
#[test]
fn a_full_or_closed_output_ends_the_output_only() {
    require!(source);
    if !Path::new("/dev/full").exists() {
        tracer_tests::host::skipped("no /dev/full here");
        return;
    }
    let trace =
        storm(scaled(2000))
            .without_capture()
            .options(["--format", "jsonl", "-o", "/dev/full"]);
    let outcome = trace.run();
    assert_eq!(
        outcome.truth().forks,
        scaled(2000),
        "the command ran to its end"
    );
    assert!(
        outcome.stderr().contains("/dev/full"),
        "it is said which output failed\n{outcome}"
    );
}

#[test]
fn meta_says_where_and_when() {
    require!(source);
    let capture = Trace::fixture("tiny", ["two words", "\u{fc}"])
        .run()
        .expect_code(2)
        .capture();
    let meta = capture.meta();
    assert_eq!(meta.num("schema"), 1);
    assert_eq!(meta.text("backend"), tracer_tests::host::backend());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("it exists");
    assert!(meta.text("kernel").contains(release.trim()), "{meta}");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("it exists");
    assert_eq!(
        meta.text("boot_id").replace('-', ""),
        boot.trim().replace('-', "")
    );
    assert_eq!(
        meta.list("command")[1..],
        [b"two words".to_vec(), "\u{fc}".into()]
    );
    let ts = capture.of("exec").next().expect("its own").num("ts");
    assert!(meta.num("boot_start") <= ts);
}

#[test]
fn a_limit_of_file_size_is_reported_and_not_tracers_death() {
    require!(source);
    // 8 blocks of 512 bytes.
    let outcome = with_files(storm(50), &["a.csv"])
        .without_capture()
        .option("-q")
        .through(["sh", "-c", "ulimit -f 8; exec \"$@\"", "sh"])
        .run()
        .expect_code(125);
    assert!(outcome.stderr().contains("File too large"), "{outcome}");
    assert_eq!(outcome.truth().exits, 50, "the command went on");
}

#[test]
fn a_stderr_that_cannot_be_written_is_no_panic() {
    let full = ["sh", "-c", "exec \"$@\" 2>/dev/full", "sh"];
    let missing = Trace::command("/nonexistent", [""; 0]).without_capture();
    missing.through(full).run().expect_code(127);
    require!(source);
    Trace::shell("exit 3").through(full).run().expect_code(3);
}

#[test]
fn a_completion_script_that_cannot_be_written_is_no_panic() {
    let outcome = Trace::bare()
        .options(["completions", "bash"])
        .through(["sh", "-c", "exec \"$@\" >/dev/full", "sh"])
        .run()
        .expect_code(125);
    assert!(outcome.stderr().contains("No space left"), "{outcome}");
}
