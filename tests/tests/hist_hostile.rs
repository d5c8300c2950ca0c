//! `tracer hist` as a hostile user has it: odd names and texts, full tables, full disks, readers
//! that leave, kills.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tracer_tests::hist::{ENDS, count_of, counting, hist, json, rows, run};
use tracer_tests::host::{alone, tracer};
use tracer_tests::pty::Pty;
use tracer_tests::tmpfs::Tmpfs;
use tracer_tests::truth::number_after;
use tracer_tests::{Trace, fixture, require};

#[test]
fn no_text_of_a_trigger_reaches_the_terminal_or_is_taken_for_another() {
    require!(bpf);
    let keys = format!("hist:keys={}comm", "comm,".repeat(99));
    let long = format!("hist:keys=comm if comm == \"{}\"", "x".repeat(5000));
    let deep = format!("hist:keys=comm if {}pid == 1", "(".repeat(3000));
    let closed = format!("hist:keys=comm if pid == 1{}", ")".repeat(3000));
    let nots = format!("hist:keys=comm if {}", "!".repeat(3000));
    let many = format!("hist:keys=comm if pid == 1{}", " || pid == 2".repeat(200));
    let texts = [
        "",
        " ",
        "hist",
        "hist:",
        "hist:keys=",
        "hist:keys=,",
        "hist:keys=\x1b[31mcomm",
        "\x1b]0;title\x07hist:keys=comm",
        "hist:keys=comm if comm ~ \"open",
        "hist:keys=comm if comm ~ \"日本\" && \x1b[2J == 1",
        "hist:keys=comm\u{202e}",
        "hist:keys=comm:size=99999999999999999999",
        "hist:keys=comm:sort=\x07",
        "hist:keys=comm if pid == \x1b",
        &keys,
        &long,
        &deep,
        &closed,
        &nots,
        &many,
    ];
    let refused = |event: &str, text: &str| {
        let outcome = run([event, text, "--duration", "30s"]).expect_code(125);
        assert_eq!(outcome.stdout(), "");
        let said = outcome.stderr();
        let harmless = said
            .chars()
            .all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}'));
        assert!(harmless && said.starts_with("tracer: "), "{said:?}");
        said
    };
    for text in texts {
        refused(ENDS[0], text);
    }
    for event in [
        "",
        ":",
        "/",
        "sched:",
        ":sched_process_exit",
        "sched:../sched/sched_process_exit",
        "sched:\x1b[31m",
        "\x1b[31m",
        "..:x",
        "ftrace:print",
    ] {
        refused(event, ENDS[1]);
    }
    // The caret's column, where characters have two.
    let said = refused(ENDS[0], "hist:keys=comm if comm ~ \"日本\"\t&& nix == 1");
    let lines: Vec<&str> = said.lines().collect();
    let caret = lines.iter().position(|l| l.trim() == "^").expect("a caret");
    let (before, _) = lines[caret - 1].split_once("nix").expect("the text");
    let columns = before.chars().count() + before.chars().filter(|c| !c.is_ascii()).count();
    assert_eq!(lines[caret].find('^'), Some(columns), "{said}");
}

const NAMES: [&[u8]; 6] = [
    b"a) b",
    b"a\nb",
    b"\"q\",x;",
    b"\xff\xfe\x1b[31m",
    b"<a>&'\"",
    b"=1+1",
];

/// Shell words that run a process, and its child, of each of these names.
fn with_odd_names() -> String {
    let renamed = fixture("renamed").display().to_string();
    let octal = |name: &[u8]| -> String { name.iter().map(|b| format!("\\{b:03o}")).collect() };
    let runs = NAMES.map(|name| format!("{renamed} \"$(printf '{}')\" >/dev/null", octal(name)));
    runs.join("; ")
}

#[test]
fn odd_names_are_whole_in_every_form() {
    require!(bpf);
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let files = ["t.json", "t.csv", "t.svg", "t.txt"].map(file);
    let outputs = files.iter().flat_map(|f| ["-o", f.as_str()]);
    let trace = Trace::bare().without_capture().option("hist");
    let trace = trace.options(ENDS).options(outputs);
    trace
        .options(["--", "sh", "-c", &with_odd_names()])
        .run()
        .expect_code(0);
    let table: Value = serde_json::from_slice(&fs::read(&files[0]).expect("a file")).expect("JSON");
    let of_json: Vec<Vec<u8>> = rows(&table)
        .iter()
        .map(|row| {
            use base64::Engine as _;
            let bytes = row["key"]["comm_b64"].as_str();
            let bytes = bytes.map(|b| base64::engine::general_purpose::STANDARD.decode(b));
            let text = || row["key"]["comm"].as_str().expect("a name").into();
            bytes.map_or_else(text, |b| b.expect("base64"))
        })
        .collect();
    let mut reader = csv::Reader::from_path(&files[1]).expect("CSV");
    let of_csv: Vec<Vec<u8>> = reader
        .byte_records()
        .map(|record| record.expect("a row")[0].to_vec())
        .collect();
    let text = fs::read(&files[3]).expect("a file");
    for name in NAMES {
        assert!(of_json.iter().any(|n| n == name), "{table}");
        assert!(of_csv.iter().any(|n| n == name), "{of_csv:?}");
        let row = [b"{ comm: ".as_slice(), name, b" "].concat();
        assert!(text.windows(row.len()).any(|w| w == row), "{text:?}");
    }
    let parse =
        "import sys, xml.etree.ElementTree as e; print(len(e.parse(sys.argv[1]).findall('.//*')))";
    match Command::new("python3")
        .args(["-c", parse, &files[2]])
        .output()
    {
        Ok(out) => assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        ),
        Err(error) => tracer_tests::host::skipped(&format!("python3: {error}")),
    }
}

#[test]
fn a_terminal_is_shown_rows_of_one_line() {
    require!(bpf);
    let _alone = alone();
    let terminal = Pty::open();
    let mut command = Command::new(tracer());
    command
        .arg("hist")
        .args(ENDS)
        .args(["--watch", "0.05", "--"]);
    command.args(["sh", "-c", &with_odd_names()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(terminal.slave_copy());
    let status = command.status().expect("it can be started");
    drop(command);
    assert_eq!(status.code(), Some(0));
    let written = String::from_utf8(terminal.written()).expect("UTF-8");
    let last = written.rsplit("\x1b[H\x1b[J").next().expect("a table");
    assert_ne!(last, written, "it was not shown in place");
    assert!(!last.contains('\x1b'), "{last:?}");
    for name in ["a\\nb", "\\xff\\xfe\\x1b[31m"] {
        assert_eq!(count_of(last, name), 2, "{last}");
    }
}

#[test]
fn a_full_table_drops_exactly_what_did_not_fit() {
    require!(bpf);
    let _alone = alone();
    for (workers, keys, size) in [("1", 1000_u64, 128), ("4", 1000, 256), ("4", 256, 256)] {
        let trigger = format!("hist:keys=fd:size={size} if fd >= 1000000");
        let outcome = hist(
            ["syscalls:sys_enter_close", &trigger, "--json"],
            &["hammer", workers, "32000", &keys.to_string()],
        )
        .expect_code(0);
        let table = json(&outcome);
        let number = |name: &str| table[name].as_u64().expect("a number");
        let closes = number_after(&outcome.stdout(), "CLOSES");
        assert_eq!(number("hits") + number("dropped"), closes, "{table}");
        assert_eq!(number("entries"), keys.min(size), "{table}");
        assert_eq!(number("dropped") > 0, keys > size);
        // Whoever is in is counted in full.
        for row in rows(&table) {
            assert_eq!(row["hitcount"].as_u64(), Some(closes / keys), "{row}");
        }
    }
}

#[test]
fn a_reader_that_leaves_ends_it() {
    require!(bpf);
    // Nothing else would end it.
    let options = ["--watch", "0.05"];
    for form in ["--json", "--csv", "--plot"] {
        let mut child = Command::new(tracer())
            .arg("hist")
            .args(ENDS)
            .args(options)
            .arg(form)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let mut out = child.stdout.take().expect("a pipe");
        let mut some = [0; 1];
        out.read_exact(&mut some).expect("a table");
        drop(out);
        let begin = Instant::now();
        let end = loop {
            match child.try_wait().expect("a child") {
                Some(end) => break end,
                None if begin.elapsed() < Duration::from_secs(300) => {
                    sleep(Duration::from_millis(5))
                }
                None => {
                    let _ = child.kill();
                    panic!("{form}: it goes on");
                }
            }
        };
        assert_eq!(end.code(), Some(0), "{form}");
    }
}

#[test]
fn a_table_each_so_often_goes_into_a_pipe_as_it_is() {
    require!(bpf);
    let _alone = alone();
    let mut running = counting(ENDS.into_iter().chain(["--json", "--watch", "0.05"]));
    running.await_condition("three tables", |r| r.stdout().lines().count() >= 3);
    running.signal(libc::SIGTERM);
    let outcome = running.finish().expect_code(0);
    let text = outcome.stdout();
    for line in text.lines() {
        let table: Value = serde_json::from_str(line).expect("an object in each line");
        assert_eq!(table["event"], ENDS[0]);
    }
}

#[test]
fn a_full_disk_costs_neither_the_command_nor_the_other_outputs() {
    require!(bpf);
    let small = Tmpfs::mount(4096);
    let full = small.path().join("full.txt");
    fs::write(small.path().join("all"), [0; 8192]).expect_err("it is full");
    let dir = tempfile::tempdir().expect("a directory");
    let good = dir.path().join("good.csv");
    let done = dir.path().join("done");
    let trace = Trace::bare().without_capture().option("hist").options(ENDS);
    let trace = trace.options(["--watch", "0.05", "-o"]).option(&full);
    let trace = trace.option("-o").option(&good);
    let script = format!("sleep 0.5; touch {}", done.display());
    let outcome = trace.options(["--", "sh", "-c", &script]).run();
    assert_eq!(outcome.code(), 125);
    let said = outcome.stderr();
    assert!(
        said.contains("full.txt cannot be written") && said.contains("No space left"),
        "{said}"
    );
    assert!(done.exists());
    let good = fs::read_to_string(good).expect("a file");
    assert!(good.contains("touch,1\n"), "{good}");
    // Where nothing else is to be done it ends at once.
    let device = fs::OpenOptions::new().write(true).open("/dev/full");
    let device = device.expect("a device");
    let trace = Trace::bare().without_capture().option("hist").options(ENDS);
    let trace = trace.options(["--watch", "0.05", "--duration", "60s"]);
    let outcome = trace.setup(move |c| {
        c.stdout(device);
    });
    let outcome = outcome.run();
    assert_eq!(outcome.code(), 125);
    assert!(outcome.stderr().contains("No space left"));
}

#[test]
fn a_table_without_room_in_memory_is_refused() {
    require!(bpf);
    let group = match tracer_tests::cgroup::Cgroup::with_memory(40 << 20) {
        Ok(group) => group,
        Err(reason) => return tracer_tests::host::skipped(&reason),
    };
    let script = format!("{}; exec \"$0\" \"$@\"", group.enter());
    let trace = Trace::bare().without_capture();
    let trace = trace.through(["sh", "-c", &script]);
    let trigger = "hist:keys=common_stacktrace,pid,prio:size=131072";
    let outcome = trace
        .options(["hist", ENDS[0], trigger, "--", "echo", "ran"])
        .run();
    let said = outcome.stderr();
    assert_eq!(outcome.code(), 125, "{said}");
    assert!(
        said.contains("131072 rows") && said.contains("size="),
        "{said}"
    );
    assert_eq!(outcome.stdout(), "");
}
