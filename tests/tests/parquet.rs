//! Parquet files, as other people's readers see them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tracer_tests::host::{self, scaled};
use tracer_tests::tmpfs::Tmpfs;
use tracer_tests::{Capture, Outcome, Record, Trace, fixture, require};

/// What the script prints, run in `dir` by the Python that has the databases.
fn python(dir: &Path, script: &str) -> Value {
    let python = host::extra("python").expect("it was required");
    let out = Command::new(python)
        .current_dir(dir)
        .args(["-c", script])
        .output()
        .expect("python runs");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{script}\n{stderr}");
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {stderr}"))
}

const DUCKDB: &str = "import duckdb, json
def query(sql): return [list(row) for row in duckdb.sql(sql).fetchall()]
";
const CHDB: &str = "import chdb, json
def query(sql): return json.loads(str(chdb.query(sql, 'JSONCompact')))['data']
";

fn traced(trace: Trace, options: &[&str], code: i32) -> Outcome {
    let file = trace.path("run.parquet").into_os_string();
    trace
        .options(["-o".into(), file])
        .options(options)
        .run()
        .expect_code(code)
}

/// The capture that goes with rotated files.
fn capture(outcome: &Outcome) -> Capture {
    let dir = fs::read_dir(outcome.path("")).expect("a directory");
    let name = dir
        .map(|e| e.expect("an entry").path())
        .find(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("capture-") && name.ends_with(".jsonl")
        })
        .expect("a capture");
    Capture::parse(&fs::read_to_string(name).expect("UTF-8"))
}

#[test]
fn rows_are_those_of_jsonl() {
    require!(source, databases);
    let storm = Trace::fixture(
        "execstorm",
        [
            fixture("tiny").into_os_string(),
            scaled(400).to_string().into(),
        ],
    );
    let outcome = traced(storm, &["--signals"], 0);
    let (truth, capture) = (outcome.truth(), outcome.capture());
    capture.assert_exact(&truth);
    let columns = "pid, start, \"end\", ppid, exit_code, cpu_ns, max_rss_bytes, comm, argv_state, usage_final";
    let rows = python(
        &outcome.path(""),
        &format!("{DUCKDB}print(json.dumps(query('select {columns} from \"run.parquet\"')))"),
    );
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.len() as u64, truth.exits + 1);
    let from_jsonl: Vec<Value> = capture
        .of("process")
        .map(|p| {
            let usage = &p["usage"];
            serde_json::json!([
                p["pid"],
                p["start"],
                p["end"],
                p["ppid"],
                p["exit_code"],
                usage["cpu_ns"],
                usage["max_rss_bytes"],
                p["comm"],
                p["argv_state"],
                usage["final"]
            ])
        })
        .collect();
    assert_eq!(rows, &from_jsonl);
    let kinds = python(
        &outcome.path(""),
        &format!(
            "{DUCKDB}print(json.dumps(dict(query('select type, count(*) from \"run.events.parquet\" group by type'))))"
        ),
    );
    for kind in ["fork", "exec", "exit"] {
        assert_eq!(kinds.num(kind), capture.of(kind).count() as u64, "{kind}");
    }
}

#[test]
fn types_and_nulls_and_what_is_not_utf8() {
    require!(source, databases);
    let odd = std::os::unix::ffi::OsStringExt::from_vec(b"\xff\xfe".to_vec());
    let outcome = traced(
        Trace::fixture("tiny", [odd, std::ffi::OsString::new()]),
        &["--env"],
        // It says how many arguments it has.
        2,
    );
    let capture = outcome.capture();
    let found = python(
        &outcome.path(""),
        "import json, pyarrow.parquet as pq
t = pq.read_table('run.parquet')
r = t.to_pylist()[0]
print(json.dumps({
    'types': {f.name: str(f.type) for f in t.schema},
    'argv': r['argv'], 'argv_bytes': [b.hex() for b in r['argv_bytes']],
    'env': r['env'], 'nulls': [k for k, v in r.items() if v is None],
    'start_time': t['start_time'].cast('int64')[0].as_py(), 'start': r['start'],
    'meta': json.loads(pq.read_metadata('run.parquet').metadata[b'tracer.meta']),
}))",
    );
    for (column, kind) in [
        ("pid", "int32"),
        ("start", "int64"),
        ("start_time", "timestamp[ns, tz=UTC]"),
        ("comm", "string"),
        ("comm_bytes", "binary"),
        ("argv", "list<element: string not null>"),
        ("argv_bytes", "list<element: binary not null>"),
        ("running", "bool"),
        ("uid", "int64"),
    ] {
        assert_eq!(found["types"].text(column), kind, "{column}");
    }
    let root = capture.root();
    assert_eq!(found["argv"], root["argv"], "lossy as in JSONL");
    let bytes: Vec<String> = root
        .list("argv")
        .iter()
        .map(|arg| arg.iter().map(|b| format!("{b:02x}")).collect())
        .collect();
    assert_eq!(found["argv_bytes"], serde_json::json!(bytes));
    assert_eq!(found["env"], root["env"]);
    for column in [
        "signal",
        "signal_name",
        "killed_by",
        "ns_pid",
        "comm_bytes",
        "exe_bytes",
    ] {
        let nulls = found["nulls"].as_array().expect("names");
        assert!(nulls.iter().any(|n| n == column), "{column}: {nulls:?}");
    }
    assert_eq!(
        found["meta"].text("boot_id"),
        capture.meta().text("boot_id")
    );
    let (boot, wall) = (found.num("start"), found.num("start_time"));
    // Wall less boot time is what this machine's clocks say, give or take a step of the clock.
    let uptime: f64 = fs::read_to_string("/proc/uptime")
        .ok()
        .and_then(|t| t.split(' ').next()?.parse().ok())
        .expect("the uptime");
    let now = std::time::UNIX_EPOCH
        .elapsed()
        .expect("after 1970")
        .as_secs_f64();
    let offset = (wall - boot) as f64 / 1e9;
    assert!((offset - (now - uptime)).abs() < 5.0, "{offset}");
}

/// Blocks of SQL in a section of the documentation.
fn queries(section: &str) -> Vec<String> {
    let text = include_str!("../../docs/fleet.md");
    let (_, text) = text.split_once(section).expect("the section");
    let text = text.split("\n### ").next().unwrap_or_default();
    text.split("```sql\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn the_documented_queries_answer() {
    require!(source, databases);
    let script = "sh -c '/bin/true; kill -9 $$'; for i in 1 2 3; do /bin/true; done; \
                  sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'";
    let outcome = traced(
        Trace::shell(script),
        &["--signals", "--rotate-every", "5m"],
        0,
    );
    let capture = capture(&outcome);
    let root = capture.root_pid();
    let processes = capture.of("process").count();
    for (section, prelude) in [("### DuckDB", DUCKDB), ("### chDB", CHDB)] {
        let queries = queries(section);
        assert_eq!(queries.len(), 3, "{section}");
        let answer = |sql: &str| {
            let sql = sql.replace("pid = 3642", &format!("pid = {root}"));
            let script = format!("{prelude}print(json.dumps(query({})))", Value::from(sql));
            let answer = python(&outcome.path(""), &script);
            answer.as_array().expect("rows").clone()
        };
        // 64 bits are text in ClickHouse's JSON.
        let number = |v: &Value| {
            v.as_u64()
                .or_else(|| v.as_str()?.parse().ok())
                .expect("a number")
        };
        let top = answer(&queries[0]);
        assert_eq!(top[0][0], "sh", "{top:?}");
        let all: u64 = top.iter().map(|row| number(&row[1])).sum();
        assert_eq!(all, processes as u64, "{section}");
        let killed = answer(&queries[1]);
        assert_eq!(killed.len(), 1, "{section}: {killed:?}");
        assert!(
            killed[0]
                .as_array()
                .expect("a row")
                .contains(&"SIGKILL".into()),
            "{killed:?}"
        );
        let tree = answer(&queries[2]);
        assert_eq!(tree.len(), processes, "{section}: {tree:?}");
        assert_eq!(tree[0][0], format!("{root} sh"));
        let mut depths: Vec<usize> = tree
            .iter()
            .map(|row| row[0].as_str().expect("text"))
            .map(|text| text.len() - text.trim_start().len())
            .collect();
        depths.sort_unstable();
        assert_eq!(depths.iter().filter(|d| **d == 0).count(), 1, "one root");
        assert_eq!(depths.last(), Some(&6), "two levels below it");
    }
}

#[test]
fn a_full_disk_delays_files_and_breaks_none() {
    require!(source, databases, root);
    let disk = Tmpfs::mount(4 << 20);
    let ballast = disk.path().join("ballast");
    let room = 16 << 10;
    fs::write(&ballast, vec![0; (4 << 20) - room]).expect("it fits");
    let trace = Trace::shell("i=0; while [ $i -lt 60 ]; do /bin/true; i=$((i+1)); sleep 0.1; done")
        .options(["-o".into(), disk.path().join("x.parquet").into_os_string()])
        .options(["--rotate-every", "1s"]);
    let mut running = trace.start();
    let stderr = running.path("stderr");
    let says = |text: &str| {
        let all = fs::read_to_string(&stderr).unwrap_or_default();
        all.matches(text).count()
    };
    running.await_condition("a message that the disk is full", |_| {
        says("cannot write") > 0
    });
    fs::remove_file(&ballast).expect("it can be removed");
    running.await_condition("a message that it goes on", |_| says("goes on") > 0);
    let outcome = running.finish().expect_code(0);
    let capture = capture_parts(&outcome);
    let count = |kind: &str| capture.iter().filter(|l| l.kind() == kind).count() as u64;
    let found = python(
        disk.path(),
        &format!(
            "{DUCKDB}print(json.dumps({{t: query('select count(*) from \"' + f + '\"')[0][0]
    for t, f in (('process', 'x-*.parquet'), ('event', 'x.events-*.parquet'))}}))"
        ),
    );
    assert_eq!(found.num("process"), count("process"));
    assert_eq!(
        found.num("event"),
        count("fork") + count("exec") + count("exit")
    );
}

/// All lines of a rotated capture.
fn capture_parts(outcome: &Outcome) -> Vec<Value> {
    let dir = fs::read_dir(outcome.path("")).expect("a directory");
    let parts = dir.map(|e| e.expect("an entry").path()).filter(|p| {
        let name = p.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("capture-") && name.ends_with(".jsonl")
    });
    parts
        .flat_map(|p| Capture::parse(&fs::read_to_string(p).expect("UTF-8")).lines)
        .collect()
}
