//! Hostile text, narrow terminals, and the shapes that break recursive or
//! quadratic code.

use std::time::Instant;

use super::*;
use crate::model::{Args, Comm, Field, ProcId};
use crate::sink::samples::{MS, T0, exec};

#[test]
fn nothing_of_a_stranger_reaches_the_terminal() {
    let mut e = exec(pid(100, 0), &["/bin/a\u{202e}b"]);
    e.argv = Field::Full(Args::from_strings([b"x\x1b[2J\n".as_slice(), b"\xff"]));
    let nasty = Process {
        root: true,
        exec: Some(Arc::new(e)),
        comm: Comm::new(b"a) b\n"),
        killed_by: Some(Box::new(crate::model::Signal {
            sender_comm: Some(Comm::new(b"\x1bc")),
            ..signal()
        })),
        status: Some(Status::from_wait(9)),
        ..process(pid(100, 0), None, &["x"], 1)
    };
    for options in [FULL, FOLDED] {
        let text = draw(options, std::slice::from_ref(&nasty));
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
        assert!(
            text.starts_with("100 $'x\\x1b[2J\\n' $'\\xff'  "),
            "{text:?}"
        );
    }
}

#[test]
fn lines_fit_the_terminal() {
    let long = [
        "cc",
        "-c",
        "日本語日本語日本語日本語日本語日本語日本語日本語",
        "-o",
        "0123456789012345678901234567890",
    ];
    let mut records = build();
    records.push(process(pid(140, 200), Some(pid(100, 0)), &long, 1));
    let narrow = TreeOptions {
        width: Some(72),
        ..FULL
    };
    for line in lines(narrow, &records) {
        assert!(crate::sink::escape::columns(&line) <= 72, "{line}");
    }
    let wide = lines(FULL, &records).pop().expect("a line");
    assert!(
        wide.contains("0123456789012345678901234567890  1.0ms"),
        "whole without a terminal: {wide}"
    );
}

#[test]
fn colours_only_where_wanted() {
    let color = TreeOptions {
        style: Style { color: true },
        ..FOLDED
    };
    assert!(!draw(FOLDED, &build()).contains('\x1b'));
    let text = draw(color, &build());
    assert!(text.contains("\x1b[1;31mexit 2\x1b[0m"), "{text:?}");
    let mut plain = text;
    for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[1;31m"] {
        plain = plain.replace(code, "");
    }
    assert_eq!(plain, draw(FOLDED, &build()));
}

#[test]
fn a_chain_of_5000() {
    let mut records = vec![Process {
        root: true,
        ..process(pid(1, 0), None, &["sh"], 9_000)
    }];
    for i in 1..5_000u32 {
        let parent = pid(i, u64::from(i) - 1);
        records.push(process(
            pid(i + 1, u64::from(i)),
            Some(parent),
            &["sh"],
            9_000,
        ));
    }
    let text = draw_with(
        FOLDED,
        &Meta {
            root: Some(pid(1, 0)),
            ..meta()
        },
        &[],
        &records,
        &end(),
    );
    assert!(text.contains(", at most 5000 at a time, 5000 levels deep\n"));
    assert!(text.contains("[5000] 5000 sh"));
    assert!(
        text.len() < 5_000 * 400,
        "indentation is capped: {}",
        text.len()
    );
}

#[test]
fn a_family_of_100_000() {
    let root = pid(1, 0);
    let mut records = vec![Process {
        root: true,
        ..process(root, None, &["sh"], 200_000)
    }];
    let child = process(pid(2, 1), Some(root), &["true"], 0);
    for i in 0..100_000u32 {
        records.push(Process {
            id: pid(i + 2, u64::from(i)),
            end: Some(T0 + u64::from(i) * MS),
            ..child.clone()
        });
    }
    let begin = Instant::now();
    let m = Meta {
        root: Some(root),
        ..meta()
    };
    let folded = draw_with(FOLDED, &m, &[], &records, &end());
    assert!(
        folded.contains("\n└─ true ×100000  cpu 8m30s  max-rss 61M\n"),
        "{folded}"
    );
    let full = draw_with(FULL, &m, &[], &records, &end());
    assert_eq!(full.lines().count(), 100_001 + 6);
    // Quadratic code takes minutes; the bound leaves room for a loaded machine.
    assert!(begin.elapsed().as_secs() < 60);
}

#[test]
fn damaged_parents_neither_hang_nor_hide() {
    let records = [
        process(pid(5, 0), Some(pid(6, 0)), &["a"], 1),
        process(pid(6, 0), Some(pid(7, 0)), &["b"], 1),
        process(pid(7, 0), Some(pid(5, 0)), &["c"], 1),
        process(pid(8, 0), Some(pid(8, 0)), &["d"], 1),
        process(pid(9, 0), Some(pid(5, 0)), &["e"], 1),
    ];
    let text = draw_with(
        FULL,
        &Meta {
            root: None,
            ..meta()
        },
        &[],
        &records,
        &end(),
    );
    for name in ["5 a", "6 b", "7 c", "8 d", "9 e"] {
        assert_eq!(
            text.matches(&format!("{name}  1.0ms")).count(),
            1,
            "{name}: {text}"
        );
    }
}

#[test]
fn parents_are_found_at_the_coarser_precision() {
    let tick = ProcId {
        precision: crate::model::Precision::Tick,
        ..pid(1, 0)
    };
    let near = ProcId {
        start: tick.start + 9 * MS,
        ..ProcId::exact(1, 0)
    };
    let records = [
        process(tick, None, &["init"], 9),
        process(pid(20, 12), Some(near), &["sh"], 1),
    ];
    let text = draw_with(
        FULL,
        &Meta {
            root: None,
            ..meta()
        },
        &[],
        &records,
        &end(),
    );
    assert!(text.contains("\n└─ 20 sh"), "{text}");
}
