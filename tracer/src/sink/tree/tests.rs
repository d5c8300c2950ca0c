//! Golden trees.

mod shapes;

use super::super::output::Destination;
use super::super::samples::{end, forked, lost, meta, pid, process, signal};
use super::*;
use crate::model::{SignalBy, Status, Usage};

fn draw_with(
    options: TreeOptions,
    meta: &Meta,
    events: &[Event],
    records: &[Process],
    end: &End,
) -> String {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("tree.txt");
    let mut tree = Tree::new(
        Output::open(&Destination::File(path.clone()), false).expect("open"),
        options,
    );
    tree.begin(meta).expect("begin");
    for e in events {
        tree.event(e, None).expect("event");
    }
    for p in records {
        tree.process(p).expect("process");
    }
    tree.end(end).expect("end");
    std::fs::read_to_string(path).expect("UTF-8")
}

fn draw(options: TreeOptions, records: &[Process]) -> String {
    draw_with(options, &meta(), &[], records, &end())
}

/// Only the tree, without the summary.
fn lines(options: TreeOptions, records: &[Process]) -> Vec<String> {
    lines_of(&draw(options, records))
}

/// The same where a fork was lost.
fn lines_with_loss(options: TreeOptions, records: &[Process]) -> Vec<String> {
    let lost = Event::Lost(lost(LossPlace::Ring, LossKind::Fork, 1));
    lines_of(&draw_with(options, &meta(), &[lost], records, &end()))
}

fn lines_of(text: &str) -> Vec<String> {
    let (tree, _) = text.split_once("\n\n").expect("a summary");
    tree.lines().map(str::to_owned).collect()
}

const FULL: TreeOptions = TreeOptions {
    full: true,
    style: Style { color: false },
    filtered: false,
    width: None,
};
const FOLDED: TreeOptions = TreeOptions {
    full: false,
    ..FULL
};

fn build() -> Vec<Process> {
    let root = pid(100, 0);
    let sh = pid(101, 1);
    let mut records = vec![process(
        sh,
        Some(root),
        &["sh", "-c", "cc1 a.c; false"],
        900,
    )];
    for i in 0..3 {
        records.push(process(
            pid(110 + i, 10 + u64::from(i)),
            Some(sh),
            &["/usr/lib/cc1", "a.c"],
            50,
        ));
    }
    records.push(Process {
        status: Some(Status::from_wait(0x100)),
        ..process(pid(120, 70), Some(sh), &["false"], 1)
    });
    records.push(process(pid(121, 80), Some(sh), &["true"], 1));
    records.push(Process {
        status: Some(Status::from_wait(0x200)),
        root: true,
        threads: Some(51),
        ..process(root, None, &["make", "-j8"], 3_200)
    });
    records
}

#[test]
fn folded() {
    assert_eq!(
        draw(FOLDED, &build()),
        "\
100 make -j8  3.2s  cpu 5.1ms  max-rss 61M  51 threads  exit 2
└─ 101 sh -c 'cc1 a.c; false'  900.0ms  cpu 5.1ms  max-rss 61M
   ├─ cc1 ×3  cpu 15.3ms  max-rss 61M
   ├─ 120 false  1.0ms  cpu 5.1ms  max-rss 61M  exit 1
   └─ 121 true  1.0ms  cpu 5.1ms  max-rss 61M

7 processes, 8 execs, at most 5 at a time, 3 levels deep
wall 3.2s, cpu 35.7ms, 0.01 CPUs busy on average
most cpu: cc1 ×3 15.3ms, false 5.1ms, make 5.1ms, sh 5.1ms, true 5.1ms
2 failed: false exit 1, make exit 2
0 events lost
"
    );
}

#[test]
fn unfolded() {
    let tree = lines(FULL, &build());
    assert_eq!(tree.len(), 7);
    assert_eq!(
        tree[2],
        "   ├─ 110 /usr/lib/cc1 a.c  50.0ms  cpu 5.1ms  max-rss 61M"
    );
    assert_eq!(
        tree[4],
        "   ├─ 112 /usr/lib/cc1 a.c  50.0ms  cpu 5.1ms  max-rss 61M"
    );
}

#[test]
fn unequal_leaves_and_those_with_children_stay_apart() {
    let root = pid(100, 0);
    let mut records = build();
    records.push(process(pid(130, 100), Some(root), &["sh"], 1));
    records.push(Process {
        end: None,
        status: None,
        ..process(pid(131, 101), Some(root), &["sh"], 1)
    });
    records.push(Process {
        status: Some(Status::from_wait(9)),
        killed_by: Some(Box::new(signal())),
        ..process(pid(132, 102), Some(root), &["sh"], 1)
    });
    records.push(Process {
        status: Some(Status::from_wait(9)),
        killed_by: Some(Box::new(crate::model::Signal {
            by: SignalBy::Oom,
            ..signal()
        })),
        ..process(pid(133, 103), Some(root), &["sh"], 1)
    });
    records.push(Process {
        status: Some(Status::from_wait(0x8b)),
        ..process(pid(134, 104), Some(root), &["sh"], 1)
    });
    let tree = lines(FOLDED, &records).split_off(5);
    let tails: Vec<_> = tree
        .iter()
        .map(|l| l.rsplit("61M").next().expect("rest"))
        .collect();
    assert_eq!(
        tails,
        [
            "",
            "  running",
            "  SIGKILL by 98 sh",
            "  SIGKILL by the OOM killer",
            "  SIGSEGV (core dumped)"
        ]
    );
    assert!(draw(FOLDED, &records).contains(", 1 still running\n"));
}

#[test]
fn orphans_hang_under_their_first_parent() {
    let (root, middle) = (pid(100, 0), pid(101, 1));
    let records = [
        Process {
            root: true,
            ..process(root, None, &["sh"], 100)
        },
        forked(middle, Some(root), "sh", 2),
        Process {
            parent: Some(pid(1, 0)),
            ..process(pid(102, 2), Some(middle), &["sleep", "9"], 90)
        },
        Process {
            fork_seen: false,
            ..process(pid(103, 3), Some(root), &["ls"], 1)
        },
        process(pid(104, 4), Some(pid(777, 0)), &["lost", "parent"], 1),
        // The pid of `middle`, reused.
        process(pid(101, 50), Some(root), &["ls"], 1),
    ];
    let tree: Vec<_> = lines_with_loss(FOLDED, &records)
        .iter()
        .map(|l| l.replace("  cpu 5.1ms  max-rss 61M", ""))
        .collect();
    assert_eq!(
        tree,
        [
            "100 sh  100.0ms",
            "├─ 101 sh  2.0ms",
            "│  └─ 102 sleep 9  90.0ms  (re-parented to 1)",
            "├─ 103 ls  1.0ms  (fork lost)",
            "└─ 101 ls  1.0ms",
            "(parent unknown)",
            "└─ 104 lost parent  1.0ms",
        ]
    );
}

#[test]
fn a_lost_root_still_heads_its_tree() {
    let records = [process(pid(101, 1), Some(pid(100, 0)), &["ls"], 1)];
    let tree = lines(FOLDED, &records);
    assert_eq!(tree[0], "100 make -j8  (filtered out)");
    let tree = lines_with_loss(FOLDED, &records);
    assert_eq!(
        tree,
        [
            "100 make -j8  (its record is missing)",
            "└─ 101 ls  1.0ms  cpu 5.1ms  max-rss 61M"
        ]
    );
}

#[test]
fn without_a_root_every_top_heads_a_tree() {
    let records = [
        process(pid(1, 0), None, &["init"], 9),
        process(pid(2, 1), Some(pid(1, 0)), &["sh"], 1),
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
    assert!(text.starts_with("1 init  9.0ms"), "{text}");
    assert!(text.contains("\n└─ 2 sh"), "{text}");
    assert!(text.contains("\nwall 3.2s, "), "the capture's own: {text}");
}

#[test]
fn what_is_not_known_is_left_out_and_said() {
    let bare = |p: Process| Process {
        usage: Usage::default(),
        status: None,
        threads: None,
        ..p
    };
    let records = [
        bare(Process {
            root: true,
            ..process(pid(100, 0), None, &["make"], 10)
        }),
        bare(process(pid(101, 1), Some(pid(100, 0)), &["cc1"], 1)),
        bare(process(pid(102, 2), Some(pid(100, 0)), &["cc1"], 1)),
    ];
    let text = draw(FOLDED, &records);
    assert!(text.starts_with("100 make  10.0ms\n└─ cc1 ×2\n"), "{text}");
    assert!(
        text.contains("\nwall 10.0ms, cpu - (totals of 3 of 3 are not final)\n"),
        "{text}"
    );
    assert!(text.contains("\nmost cpu: not known"), "{text}");
    assert!(
        text.contains("\nfailures: exit status is not known"),
        "{text}"
    );
}

#[test]
fn partial_totals_are_marked() {
    let mut records = build();
    records[1].usage.cpu_ns = None;
    records[1].usage.utime_ns = None;
    records[2].usage.is_final = false;
    records[3].usage.max_rss_bytes = None;
    records[3].usage.max_rss_upper_bytes = Some(90 << 20);
    let text = draw(FOLDED, &records);
    assert!(
        text.contains("cc1 ×3  cpu ≥10.2ms  max-rss ≤90M\n"),
        "{text}"
    );
    assert!(
        text.contains("cpu ≥30.6ms, ≥0.01 CPUs busy on average (totals of 2 of 7 are not final)"),
        "{text}"
    );
}

#[test]
fn losses_are_a_warning_with_a_remedy() {
    let events = [
        Event::Lost(lost(LossPlace::Ring, LossKind::Fork, 100)),
        Event::Lost(lost(LossPlace::Ring, LossKind::Fork, 8)),
        Event::Lost(lost(LossPlace::Ring, LossKind::Exec, 3)),
        Event::Lost(lost(LossPlace::Table, LossKind::Any, 1)),
    ];
    let text = draw_with(
        FOLDED,
        &meta(),
        &events,
        &build(),
        &End { lost: 112, ..end() },
    );
    let last = text.lines().last().expect("a line");
    assert_eq!(
        last,
        "112 events LOST, the tree is incomplete: 108 fork (ring), 3 exec (ring), 1 any (table); \
         a larger --ring-size helps; too many processes at once: narrow the trace with a filter"
    );
}

#[test]
fn a_loss_says_what_it_makes_incomplete() {
    let last = |kinds: &[LossKind]| {
        let events: Vec<Event> = kinds
            .iter()
            .map(|kind| Event::Lost(lost(LossPlace::Ring, *kind, 2)))
            .collect();
        let lost = 2 * kinds.len() as u64;
        let text = draw_with(FOLDED, &meta(), &events, &build(), &End { lost, ..end() });
        text.lines().last().expect("a line").to_owned()
    };
    let totals = "2 events LOST, totals are incomplete: 2 final (ring); a larger --ring-size helps";
    assert_eq!(last(&[LossKind::Final]), totals);
    let both = last(&[LossKind::Final, LossKind::Signal]);
    assert!(both.contains(" LOST, totals are incomplete: "), "{both}");
    let more = last(&[LossKind::Final, LossKind::Exit]);
    assert!(more.contains(" LOST, the tree is incomplete: "), "{more}");
    let less = last(&[LossKind::Signal]);
    assert!(less.contains(" LOST, the tree is complete: "), "{less}");
}
