//! Tests of the CSV writer, with a reader as the judge.

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::model::Usage;
use crate::sink::output::Destination;
use crate::sink::samples::{end, every_process, exec, meta, pid, process};

fn rows(records: &[Process]) -> Vec<HashMap<String, String>> {
    rows_and_end(records, &end())
}

fn rows_and_end(records: &[Process], end: &End) -> Vec<HashMap<String, String>> {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("p.csv");
    let mut sink = Csv::new(Output::open(&Destination::File(path.clone()), false).expect("open"));
    sink.begin(&meta()).expect("begin");
    for p in records {
        sink.process(p).expect("process");
    }
    sink.flush().expect("flush");
    sink.end(end).expect("end");
    let mut reader = csv::Reader::from_path(path).expect("read");
    reader
        .deserialize()
        .map(|row| row.expect("a row"))
        .collect()
}

#[test]
fn a_row_for_each_process() {
    let rows = rows(&every_process());
    assert_eq!(rows.len(), every_process().len());
    let whole = &rows[1];
    for (name, value) in [
        ("pid", "101"),
        ("exe", "/bin/ls"),
        ("argv", "/bin/ls -l =1+1"),
        ("exit_code", "0"),
        ("signal", ""),
        ("cpu_ns", "5100000"),
        ("blkio_delay_ns", ""),
        ("running", "false"),
    ] {
        assert_eq!(whole[name], value, "{name}");
    }
    let running = &rows[3];
    for name in [
        "end",
        "exit_code",
        "core_dumped",
        "wall_ns",
        "cpu_ns",
        "threads",
        "ppid",
    ] {
        assert_eq!(running[name], "", "{name}");
    }
    assert_eq!(
        (
            rows[5]["signal_name"].as_str(),
            rows[5]["killed_by_comm"].as_str()
        ),
        ("SIGKILL", "sh")
    );
}

#[test]
fn losses_are_a_last_row() {
    let records = &every_process()[..1];
    let rows = rows_and_end(records, &End { lost: 7, ..end() });
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (rows[0]["pid"].as_str(), rows[0]["lost"].as_str()),
        ("100", "")
    );
    assert_eq!(
        (rows[1]["pid"].as_str(), rows[1]["lost"].as_str()),
        ("", "7")
    );
}

#[test]
fn names_are_unique() {
    let names: Vec<_> = columns().map(|(name, _)| name).collect();
    let unique: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(names.len(), unique.len());
}

#[test]
fn every_member_of_the_json_record_is_a_column() {
    let mut line = Vec::new();
    crate::sink::jsonl::process(&mut line, &every_process()[5]);
    let line: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
    for member in line
        .as_object()
        .expect("object")
        .keys()
        .filter(|m| !["type", "usage"].contains(&m.as_str()))
    {
        assert!(columns().any(|(name, _)| name == member), "{member}");
    }
    for member in line["usage"]
        .as_object()
        .expect("object")
        .keys()
        .filter(|m| *m != "final")
    {
        assert!(columns().any(|(name, _)| name == member), "{member}");
    }
}

#[test]
fn spreadsheets_run_nothing() {
    for (file, cell) in [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "\\t=1"),
        ("'=1", "''=1"),
        ("a,\"b\"", "a,\"b\""),
        ("two\nlines\x1b", "two\\nlines\\x1b"),
    ] {
        let mut e = exec(pid(1, 0), &["x"]);
        e.filename = crate::sink::samples::full(file);
        e.argv = Field::Full(Args::from_strings(["-rf"]));
        let rows = rows(&[Process {
            exec: Some(Arc::new(e)),
            ..process(pid(1, 0), None, &["x"], 1)
        }]);
        assert_eq!(rows[0]["filename"], cell);
        assert_eq!(rows[0]["argv"], "'-rf");
    }
}

#[test]
fn every_counter_is_a_column() {
    // A new counter must not be forgotten: this fails to compile then.
    let Usage {
        is_final: _,
        utime_ns: _,
        stime_ns: _,
        cpu_ns: _,
        max_rss_bytes: _,
        max_rss_upper_bytes: _,
        minflt: _,
        majflt: _,
        nvcsw: _,
        nivcsw: _,
        inblock: _,
        oublock: _,
        read_bytes: _,
        write_bytes: _,
        cancelled_write_bytes: _,
        rchar: _,
        wchar: _,
        run_delay_ns: _,
        blkio_delay_ns: _,
    } = Usage::default();
    assert_eq!(USAGE.len(), 18);
}
