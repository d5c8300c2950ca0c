//! Text of three kernels and of perf, and forged names.

use std::fs;
use std::path::Path;

use super::{Body, Item, Record, Text};
use crate::model::Comm;

/// An item that outlives its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Record(Record<Vec<u8>>),
    Lost(Option<u32>, Option<u64>),
    Entries(u64, u64),
    Forged(u32, u64),
    Unreadable(u32),
    Other,
}

fn next(text: &mut Text, complete: bool) -> Option<Got> {
    Some(match text.next(complete)? {
        Item::Record(r) => Got::Record(r.map_name(<[u8]>::to_vec)),
        Item::Lost { cpu, count } => Got::Lost(cpu, count),
        Item::Entries { kept, written } => Got::Entries(kept, written),
        Item::Forged { tid, lines, .. } => Got::Forged(tid, lines),
        Item::Unreadable { tid, .. } => Got::Unreadable(tid),
        Item::Other => Got::Other,
    })
}

pub(super) fn read(bytes: &[u8]) -> (Vec<Got>, Text) {
    let mut text = Text::new();
    text.push(bytes);
    let all = std::iter::from_fn(|| next(&mut text, true)).collect();
    (all, text)
}

fn records(bytes: &[u8]) -> Vec<Record<Vec<u8>>> {
    let only = |got| match got {
        Got::Record(r) => Some(r),
        _ => None,
    };
    read(bytes).0.into_iter().filter_map(only).collect()
}

pub(super) fn data(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ftrace");
    fs::read(dir.join(name)).unwrap()
}

/// The part of a sample file under the title that begins with `title`. Some
/// parts were written by `cat -A`.
pub(super) fn part(file: &[u8], title: &str) -> Vec<u8> {
    let title = format!("\n## {title}");
    let from = memchr::memmem::find(file, title.as_bytes()).unwrap() + 1;
    let rest = &file[from..];
    let to = memchr::memmem::find(rest, b"\n## ").map_or(rest.len(), |n| n + 1);
    let part: Vec<u8> = rest[..to].to_vec();
    let lines = part.split_inclusive(|b| *b == b'\n');
    if !part.ends_with(b"$\n") {
        return part;
    }
    // Lines without the mark are what the recording shell said in between.
    let text: Vec<u8> = lines
        .filter_map(|l| Some([l.strip_suffix(b"$\n")?, b"\n"].concat()))
        .flatten()
        .collect();
    String::from_utf8(text)
        .unwrap()
        .replace("^[", "\x1b")
        .into()
}

const KERNELS: [&str; 3] = ["ftrace-6.1.txt", "ftrace-6.12.txt", "ftrace-6.18.txt"];

pub(super) fn exec(tid: u32, filename: &str) -> Body<Vec<u8>> {
    let (filename, old_tid) = (filename.into(), tid);
    Body::Exec { filename, old_tid }
}

#[test]
fn every_record_of_every_form_is_read() {
    let ours = |line: &&[u8]| {
        [": sched_process_", ": task_newtask"]
            .iter()
            .any(|e| memchr::memmem::find(line, e.as_bytes()).is_some())
    };
    for name in KERNELS {
        let file = data(name);
        for title in ["default options", "record-tgid=1", "irq-info=0", "clocks"] {
            let mut part = part(&file, title);
            if title == "clocks" {
                // Each line has the clock's name before it.
                part = part
                    .split_inclusive(|b| *b == b'\n')
                    .filter_map(|l| Some(&l[memchr::memmem::find(l, b": ")? + 2..]))
                    .flatten()
                    .copied()
                    .collect();
            }
            let expected = part.split(|b| *b == b'\n').filter(ours).count();
            let (got, text) = read(&part);
            let found = got.iter().filter(|g| matches!(g, Got::Record(_))).count();
            assert!(expected > 4, "{name} {title}");
            assert_eq!(found, expected, "{name} {title}: {got:?}");
            assert_eq!(text.integer_clock(), title == "clocks", "{name} {title}");
            assert!(
                !got.iter()
                    .any(|g| matches!(g, Got::Forged(..) | Got::Unreadable(_)))
            );
        }
    }
}

#[test]
fn the_members_are_what_the_line_says() {
    let got = records(&part(&data(KERNELS[2]), "default options"));
    let newtask = Body::NewTask {
        child: 14791,
        comm: Comm::new(b"bash"),
        clone_flags: 0x120_0000,
    };
    assert_eq!(
        got[0],
        Record {
            ts: 1_706_297_514_000,
            cpu: 0,
            tid: 14782,
            body: newtask
        }
    );
    let fork = Body::Fork {
        comm: Comm::new(b"bash"),
        child: 14791,
    };
    assert_eq!(got[1].body, fork);
    assert_eq!(got[2].body, exec(14791, "/usr/bin/sh"));
    let exits = |name| {
        let all = records(&part(&data(name), "default options"));
        let dead = |r: Record<Vec<u8>>| match r.body {
            Body::Exit { group_dead, .. } => Some(group_dead),
            _ => None,
        };
        all.into_iter().filter_map(dead).collect::<Vec<_>>()
    };
    let dead = |d: [bool; 5]| d.map(Some).to_vec();
    assert_eq!(exits(KERNELS[2]), dead([true, false, false, true, true]));
    assert_eq!(exits(KERNELS[0]), [None; 5]);
}

#[test]
fn names_of_any_kind_keep_their_record_whole() {
    for name in KERNELS {
        let file = data(name);
        let got = records(&part(&file, "comm tricks"));
        let mut ended: Vec<Vec<u8>> = Vec::new();
        for record in &got {
            if let Body::Exit { comm, .. } = &record.body {
                ended.push(comm.as_slice().to_vec());
            }
        }
        for comm in [
            "a b",
            "x]y [0]",
            "a-12 [001]",
            "n1",
            "x\n<e>-9 [000] ",
            "=> pid=1",
        ] {
            let count = ended.iter().filter(|c| *c == comm.as_bytes()).count();
            assert_eq!(count, 2, "{name}: {comm:?} of {ended:?}");
        }
    }
}

#[test]
fn a_file_name_makes_no_record() {
    for name in KERNELS {
        let (got, _) = read(&part(&data(name), "filename tricks"));
        let ended_init = got.iter().any(|g| match g {
            Got::Record(r) => r.tid == 1,
            _ => false,
        });
        assert!(!ended_init, "{name}: {got:?}");
        let warned: Vec<_> = got
            .iter()
            .filter(|g| matches!(g, Got::Forged(..)))
            .collect();
        assert_eq!(warned.len(), 1, "{name}");
        let tricky = |g: &&Got| match g {
            Got::Record(Record {
                body: Body::Exec { filename, .. },
                ..
            }) => filename.ends_with(b"p pid=1 old_pid=1\x1b[31m"),
            _ => false,
        };
        assert_eq!(got.iter().filter(tricky).count(), 1, "{name}");
    }
    // With the trace option `fields`.
    let forged = data("ftrace-lost-and-forged-6.18.txt");
    let (got, _) = read(&part(&[b"\n", &forged[..]].concat(), "fields=1"));
    let name = "/t/evil x\n           <...>-1       [000] .....     1.000000: \
        sched_process_exit: comm=init pid=1 prio=120\nz";
    let bodies: Vec<_> = got
        .iter()
        .filter_map(|g| match g {
            Got::Record(r) => Some((r.tid, r.body.clone())),
            _ => None,
        })
        .collect();
    let comm = Comm::new(b"a");
    let end = Body::Exit {
        comm,
        group_dead: Some(true),
    };
    let fork = Body::Fork { comm, child: 17459 };
    assert_eq!(
        bodies,
        [
            (17458, exec(17458, name)),
            (17458, fork),
            (17459, end.clone()),
            (17458, end)
        ]
    );
    assert!(got.contains(&Got::Forged(17458, 1)));
}

pub(super) fn line(tid: u32, event: &str, body: &str) -> String {
    format!(
        "{:>16}-{tid:<7} [001] .....     1.000000: {event}: {body}\n",
        "x"
    )
}

/// The name closes its own record, then goes on.
#[test]
fn a_name_that_knows_its_number_is_found_out_by_its_rest() {
    let false_end = line(
        1,
        "sched_process_exit",
        "comm=init pid=1 prio=120 group_dead=true",
    );
    let name = format!("/t/e pid=77 old_pid=77\n{false_end}z");
    let text = line(
        77,
        "sched_process_exec",
        &format!("filename={name} pid=77 old_pid=77"),
    ) + &line(78, "sched_process_exit", "comm=ok pid=78 prio=120");
    let (got, _) = read(text.as_bytes());
    assert_eq!(got.len(), 3, "{got:?}");
    assert!(matches!(&got[0], Got::Record(r) if r.body == exec(77, &name)));
    assert_eq!(got[1], Got::Forged(77, 1));
    assert!(matches!(&got[2], Got::Record(r) if r.tid == 78));
    // A file that was cut there shows nothing of it.
    let (got, _) = read(&text.as_bytes()[..text.find("\nz").unwrap() + 1]);
    assert!(matches!(got[0], Got::Record(_)));
    let cut = text.find(" pid=77").unwrap();
    let (got, _) = read(&text.as_bytes()[..cut]);
    assert_eq!(got, [Got::Unreadable(77)]);
}

/// What no line can tell, the header's count does.
#[test]
fn a_whole_exec_inside_of_a_name_shows_in_the_count() {
    let exec = line(7, "sched_process_exec", "filename=/a pid=7 old_pid=7");
    let text = format!("# entries-in-buffer/entries-written: 1/1   #P:2\n{exec}{exec}");
    let (got, text) = read(text.as_bytes());
    assert_eq!(got[0], Got::Entries(1, 1));
    assert_eq!((text.records(), text.surplus()), (2, 1));
}

#[test]
fn numbers_that_disagree_make_no_record() {
    for (event, body) in [
        ("sched_process_exit", "comm=a pid=8 prio=120"),
        (
            "sched_process_fork",
            "comm=a pid=8 child_comm=a child_pid=9",
        ),
        ("sched_process_exec", "filename=/a pid=8 old_pid=8"),
        ("task_newtask", "pid=9 comm=a"),
        (
            "sched_process_exit",
            "comm=longer than any name is pid=7 prio=1",
        ),
        (
            "sched_process_exit",
            "comm=a pid=7 prio=120 pid=9 old_pid=9",
        ),
    ] {
        let (got, _) = read(line(7, event, body).as_bytes());
        assert_eq!(got, [Got::Unreadable(7)], "{event} {body}");
    }
}

#[test]
fn losses_and_headers() {
    let sample = data("ftrace-lost-and-forged-6.18.txt");
    let (got, _) = read(&sample);
    assert!(got.contains(&Got::Lost(Some(1), Some(108))));
    assert!(got.contains(&Got::Lost(Some(0), Some(105))));
    assert!(got.contains(&Got::Entries(259, 367)));
    for (text, expected) in [
        ("CPU:3 [LOST EVENTS]\n", Got::Lost(Some(3), None)),
        ("CPU:3 [12 EVENTS DROPPED]\n", Got::Lost(Some(3), Some(12))),
        ("CPU:3 [LOST many EVENTS]\n", Got::Other),
        ("CPU 0 is empty\n", Got::Other),
        ("cpus=2\n", Got::Other),
        ("#\n", Got::Other),
    ] {
        assert_eq!(read(text.as_bytes()).0, [expected], "{text}");
    }
}

#[test]
fn other_programs_print_the_same_records() {
    let perf = data("perf-6.18.txt");
    let (got, _) = read(&perf);
    let count = |f: fn(&Body<Vec<u8>>) -> bool| {
        let is = |g: &&Got| matches!(g, Got::Record(r) if f(&r.body));
        got.iter().filter(is).count()
    };
    let text = String::from_utf8(perf).unwrap();
    let lines = |event: &str| text.matches(event).count();
    assert_eq!(
        count(|b| matches!(b, Body::Fork { .. })),
        lines(": sched:sched_process_fork: ")
    );
    assert_eq!(
        count(|b| matches!(b, Body::Exec { .. })),
        lines(": sched:sched_process_exec: ")
    );
    assert_eq!(
        count(|b| matches!(b, Body::Exit { .. })),
        lines(": sched:sched_process_exit: ")
    );
    assert_eq!(
        count(|b| matches!(b, Body::NewTask { .. })),
        lines("task:task_newtask: ")
    );
    let named = |g: &Got| {
        matches!(g, Got::Record(Record { body: Body::Exec { filename, .. }, .. })
            if filename == b"./a b\nc")
    };
    assert!(got.iter().any(named));

    let report = "cpus=2\n              sh-105   [000]     3.601814: \
        sched_process_fork:   comm=sh pid=105 child_comm=sh child_pid=114\n              \
        sh-114   [001] d..2.     3.607309000: sched_process_exec:   \
        filename=/bin/sh pid=114 old_pid=114\n";
    let got = records(report.as_bytes());
    assert_eq!(got.len(), 2);
    assert_eq!((got[0].ts, got[1].ts), (3_601_814_000, 3_607_309_000));
    let free = "sh 105/106 [000] 3.5: sched:sched_process_exit: comm=sh pid=106 prio=-1\n";
    assert_eq!(records(free.as_bytes())[0].tid, 106);
}

#[test]
fn pieces_of_any_size_give_what_the_whole_gives() {
    for name in KERNELS
        .into_iter()
        .chain(["ftrace-lost-and-forged-6.18.txt", "perf-6.18.txt"])
    {
        let whole = data(name);
        let (expected, _) = read(&whole);
        for size in [1, 7, 100, 4096] {
            let mut text = Text::new();
            let mut got = Vec::new();
            for piece in whole.chunks(size) {
                text.push(piece);
                got.extend(std::iter::from_fn(|| next(&mut text, false)));
            }
            got.extend(std::iter::from_fn(|| next(&mut text, true)));
            assert_eq!(got, expected, "{name} by {size}");
        }
    }
}
