//! Tests of the JSON Lines writer, with serde_json as the judge.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::model::{Args, Field};
use crate::sink::output::Destination;
use crate::sink::samples;

fn parse(buf: &[u8]) -> Value {
    let line = buf.strip_suffix(b"\n").expect("a line ends with a newline");
    assert!(!line.contains(&b'\n'), "one line only");
    serde_json::from_slice(line).unwrap_or_else(|e| panic!("{e}: {}", line.escape_ascii()))
}

fn line(fill: impl FnOnce(&mut Vec<u8>)) -> Value {
    let mut buf = Vec::new();
    fill(&mut buf);
    parse(&buf)
}

/// Every kind of line, in every shape of the samples.
fn every_line() -> Vec<Value> {
    let mut lines = vec![line(|b| meta(b, &samples::meta()))];
    let shapes = samples::every_process();
    for e in samples::every_event() {
        for p in [None, shapes.get(1)] {
            let mut buf = Vec::new();
            event(&mut buf, &e, p);
            if !buf.is_empty() {
                lines.push(parse(&buf));
            }
        }
    }
    lines.extend(shapes.iter().map(|p| line(|b| process(b, p))));
    let oddly_called = Meta {
        command: vec![b"\xff".to_vec()],
        root: None,
        ..samples::meta()
    };
    lines.push(line(|b| meta(b, &oddly_called)));
    lines.push(line(|b| end(b, &samples::end())));
    let second_part = Meta {
        part: Some(2),
        ..samples::meta()
    };
    lines.push(line(|b| meta(b, &second_part)));
    let end_of_part = End {
        continued: true,
        ..samples::end()
    };
    lines.push(line(|b| end(b, &end_of_part)));
    lines
}

#[test]
fn members_are_those_of_the_contract() {
    let contract = [
        (
            "meta",
            "schema tracer backend kernel host boot_id cpus wall_start boot_start command root_pid",
        ),
        (
            "fork",
            "ts cpu pid tid start comm child_pid child_tid child_start thread",
        ),
        (
            "exec",
            "ts cpu pid tid start ppid parent_start comm filename argv argv_state cwd uid euid gid loginuid sid pgid \
             tty cgroup old_tid",
        ),
        (
            "exec_failed",
            "ts cpu pid tid start comm filename argv argv_state errno errno_name",
        ),
        (
            "signal",
            "ts cpu signal signal_name by sender_pid sender_start sender_comm pid start",
        ),
        (
            "seed",
            "ts pid start start_precision ppid parent_start comm exe argv argv_state uid cgroup",
        ),
        (
            "exit",
            "ts cpu pid tid start ppid parent_start orig_ppid orig_parent_start comm exe process exit_code signal \
             core_dumped wall_ns threads usage",
        ),
        (
            "process",
            "pid start end ppid parent_start orig_ppid orig_parent_start comm filename exe argv argv_state cwd uid \
             euid gid loginuid sid pgid tty cgroup exit_code signal core_dumped wall_ns threads usage",
        ),
        ("lost", "ts cpu where kind count"),
        ("end", "ts events lost exit_code"),
    ];
    let mut seen = BTreeSet::new();
    for l in every_line() {
        let kind = l["type"].as_str().expect("type").to_owned();
        let (_, members) = contract
            .iter()
            .find(|(k, _)| *k == kind)
            .expect("a kind of the contract");
        for member in members.split_whitespace() {
            assert!(l.get(member).is_some(), "{kind} lacks {member}: {l}");
        }
        seen.insert(kind);
    }
    assert_eq!(seen.len(), contract.len());
}

#[test]
fn a_fork_is_written_like_this() {
    let mut buf = Vec::new();
    fork(
        &mut buf,
        &samples::fork(samples::pid(100, 0), samples::pid(101, 1)),
    );
    let text = String::from_utf8(buf).expect("UTF-8");
    assert_eq!(
        text,
        "{\"type\":\"fork\",\"ts\":100001000000,\"cpu\":0,\"pid\":100,\"start\":100000000000,\"tid\":100,\
         \"comm\":\"sh\",\"child_pid\":101,\"child_start\":100001000000,\"child_tid\":101,\"child_ns_pid\":3,\
         \"thread\":false,\"kthread\":false}\n"
    );
}

#[test]
fn what_is_not_known_is_null() {
    let e = Exit {
        status: None,
        usage: Usage::default(),
        threads: None,
        ..samples::exit(samples::pid(1, 0))
    };
    let l = line(|b| exit(b, &e, None));
    for member in [
        "exit_code",
        "signal",
        "signal_name",
        "core_dumped",
        "threads",
        "exe",
    ] {
        assert_eq!(l[member], Value::Null, "{member}");
    }
    let usage = l["usage"].as_object().expect("usage");
    assert!(
        usage.iter().all(|(k, v)| k == "final" || v.is_null()),
        "{usage:?}"
    );
    assert_eq!(usage.len(), 19);
}

#[test]
fn an_end_by_signal_has_no_exit_code() {
    let e = Exit {
        status: Some(Status::from_wait(0x8b)),
        ..samples::exit(samples::pid(1, 0))
    };
    let l = line(|b| exit(b, &e, None));
    assert_eq!(l["exit_code"], Value::Null);
    assert_eq!(
        (&l["signal"], &l["signal_name"], &l["core_dumped"]),
        (&json!(11), &json!("SIGSEGV"), &json!(true))
    );
}

#[test]
fn the_oom_killer_accuses_nobody() {
    let e = Signal {
        by: SignalBy::Oom,
        ..samples::signal()
    };
    let l = line(|b| signal(b, &e));
    assert_eq!(
        (&l["by"], &l["sender_pid"], &l["sender_comm"]),
        (&json!("oom"), &Value::Null, &Value::Null)
    );
}

#[test]
fn wall_start_is_rfc_3339_with_ns() {
    let l = line(|b| meta(b, &samples::meta()));
    assert_eq!(l["wall_start"], "2023-11-14T22:13:20.123456789Z");
}

#[test]
fn nothing_in_a_line_acts_on_a_terminal() {
    let text = "\u{1}\u{7f}\u{85}\u{2028}\u{202e}\u{2066}\u{200f}\u{feff}é€😀\"\\/\t";
    let mut e = samples::exec(samples::pid(1, 0), &[text]);
    e.comm = Comm::new(b"\x1b]0;x\x07");
    let mut buf = Vec::new();
    exec(&mut buf, &e);
    let raw = String::from_utf8(buf.clone()).expect("UTF-8");
    assert!(
        raw.trim_end()
            .chars()
            .all(|c| !c.is_control() && !crate::sink::json::is_deceptive(c)),
        "{raw}"
    );
    assert!(raw.contains("é€😀"), "what is harmless stays as it is");
    assert_eq!(parse(&buf)["argv"], json!([text]));
}

#[test]
fn a_file_holds_the_lines() {
    let dir = tempfile::tempdir().expect("tempdir");
    for (name, zstd) in [("t.jsonl", false), ("t.jsonl.zst", true)] {
        let path = dir.path().join(name);
        let mut sink =
            Jsonl::new(Output::open(&Destination::File(path.clone()), zstd).expect("open"));
        sink.begin(&samples::meta()).expect("begin");
        for e in samples::every_event() {
            sink.event(&e, None).expect("event");
        }
        sink.flush().expect("flush");
        sink.end(&samples::end()).expect("end");
        let mut bytes = std::fs::read(&path).expect("read");
        if zstd {
            bytes = zstd::decode_all(bytes.as_slice()).expect("a whole frame");
        }
        let lines: Vec<Value> = bytes.split_inclusive(|b| *b == b'\n').map(parse).collect();
        assert_eq!(lines.first().expect("first")["type"], "meta");
        assert_eq!(lines.last().expect("last")["type"], "end");
        assert_eq!(lines.len(), samples::every_event().len());
    }
}

/// The bytes that a member stands for.
fn bytes_of(text: &Value, b64: Option<&Value>) -> Vec<u8> {
    let text = text.as_str().expect("a string");
    match b64 {
        Some(b64) => {
            let bytes = STANDARD
                .decode(b64.as_str().expect("base64"))
                .expect("base64");
            assert!(
                std::str::from_utf8(&bytes).is_err(),
                "only where the text is lossy"
            );
            assert_eq!(String::from_utf8_lossy(&bytes), text);
            bytes
        }
        None => text.as_bytes().to_vec(),
    }
}

fn without_nul(max: usize) -> impl Strategy<Value = Vec<u8>> {
    let text = "\\PC{0,8}".prop_map(String::into_bytes);
    let raw = prop::collection::vec(1..=255u8, 0..max);
    prop_oneof![text, raw].prop_map(move |mut v| {
        v.retain(|b| *b != 0);
        v
    })
}

proptest! {
    #[test]
    fn any_bytes_come_back(
        comm in without_nul(15),
        file in without_nul(64),
        argv in prop::collection::vec(without_nul(32), 0..6),
        truncated: bool,
    ) {
        let comm = Comm::new(&comm);
        let args = Args::from_strings(&argv);
        let e = Exec {
            comm,
            filename: Field::Full(file.clone().into()),
            argv: if truncated { Field::Truncated(args) } else { Field::Full(args) },
            ..samples::exec(samples::pid(1, 0), &[])
        };
        let l = line(|b| event(b, &Event::Exec(Arc::new(e)), None));
        prop_assert_eq!(bytes_of(&l["comm"], l.get("comm_b64")), comm.as_slice());
        prop_assert_eq!(bytes_of(&l["filename"], l.get("filename_b64")), file);
        prop_assert_eq!(&l["argv_state"], if truncated { "truncated" } else { "full" });
        let lossy: Vec<_> = argv.iter().map(|a| String::from_utf8_lossy(a).into_owned()).collect();
        prop_assert_eq!(&l["argv"], &json!(lossy));
        match l.get("argv_b64") {
            Some(b64) => prop_assert_eq!(b64, &json!(argv.iter().map(|a| STANDARD.encode(a)).collect::<Vec<_>>())),
            None => prop_assert!(argv.iter().all(|a| std::str::from_utf8(a).is_ok())),
        }
    }
}

mod schema {
    //! The published schema against what is written.

    use super::*;

    fn schema() -> Value {
        serde_json::from_str(include_str!("../../../../docs/events.schema.json"))
            .expect("the schema is JSON")
    }

    #[test]
    fn every_line_satisfies_it() {
        let schema = schema();
        let validator = jsonschema::draft202012::new(&schema).expect("a valid schema");
        for l in every_line() {
            let errors: Vec<_> = validator
                .iter_errors(&l)
                .map(|e| format!("{}: {e}", e.instance_path))
                .collect();
            assert!(errors.is_empty(), "{errors:?}\n{l}");
        }
    }

    #[test]
    fn every_member_is_described() {
        let schema = schema();
        for l in every_line() {
            let kind = l["type"].as_str().expect("type");
            let described = schema["$defs"][kind]["properties"]
                .as_object()
                .expect("properties");
            for member in l.as_object().expect("object").keys() {
                assert!(described.contains_key(member), "{kind}.{member}");
            }
        }
        let usage = schema["$defs"]["usage"]["properties"]
            .as_object()
            .expect("properties")
            .len();
        assert_eq!(usage, 19);
    }

    #[test]
    fn wrong_lines_are_refused() {
        let schema = schema();
        let validator = jsonschema::draft202012::new(&schema).expect("a valid schema");
        let change = |l: &Value, member: &str, to: Option<Value>| {
            let mut l = l.clone();
            match to {
                Some(to) => l[member] = to,
                None => drop(l.as_object_mut().and_then(|o| o.remove(member))),
            }
            l
        };
        for l in every_line() {
            assert!(!validator.is_valid(&change(&l, "type", Some(json!("other")))));
            assert!(!validator.is_valid(&change(&l, "type", None)));
            let required = &schema["$defs"][l["type"].as_str().expect("type")]["required"];
            for member in required.as_array().expect("required") {
                let member = member.as_str().expect("name");
                assert!(
                    !validator.is_valid(&change(&l, member, None)),
                    "without {member}: {l}"
                );
                let wrong = if member == "type" {
                    json!(1)
                } else {
                    json!({"wrong": true})
                };
                assert!(
                    !validator.is_valid(&change(&l, member, Some(wrong))),
                    "{member} is an object: {l}"
                );
            }
        }
        let exit = line(|b| exit(b, &samples::exit(samples::pid(1, 0)), None));
        for (member, to) in [
            ("pid", json!(-1)),
            ("exit_code", json!(256)),
            ("exit_code", json!("0")),
            ("signal_name", json!("KILL")),
            ("ts", json!(1.5)),
        ] {
            assert!(
                !validator.is_valid(&change(&exit, member, Some(to.clone()))),
                "{member} = {to}"
            );
        }
    }
}
