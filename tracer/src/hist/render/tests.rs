use proptest::prelude::*;

use super::super::plan::Plan;
use super::super::resolve::NoNames;
use super::super::samples::{self, HIST_6_1, HIST_6_12, Sample};
use super::super::table::KeyValue;
use super::super::trigger::Trigger;
use super::*;

fn plan(sample: &Sample<'_>) -> Plan {
    let trigger = Trigger::parse(sample.trigger).unwrap();
    Plan::resolve(&trigger, &samples::format(sample.event), &samples::Guest).unwrap()
}

fn sorted_lines(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text).into_owned();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Reads what a kernel has shown, and shows it again.
fn shown_again(sample: &Sample<'_>, plan: &Plan) {
    let expected = sample.text.unwrap().trim_end_matches('\n');
    let (table, names) = samples::read(plan, sample.text.unwrap());
    let mut sorted = table.clone();
    sorted.sort_stable(plan);
    let view = |table| View {
        plan,
        table,
        names: &names,
        paused: sample.info().ends_with("[paused]"),
    };
    let text = view(&sorted).text();
    assert_eq!(
        String::from_utf8_lossy(&text).trim_end_matches('\n'),
        expected,
        "{}: {}",
        sample.event,
        sample.trigger
    );
    // Our own order differs in ties only.
    let mut ours = sorted.clone();
    ours.rows.reverse();
    ours.sort(plan);
    assert_eq!(sorted_lines(&view(&ours).text()), sorted_lines(&text));
    let sorted = &ours;
    let mut again = sorted.clone();
    again.sort_stable(plan);
    assert_eq!(again, *sorted);
    // No form of it fails.
    let json: serde_json::Value = serde_json::from_str(&view(sorted).json()).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), sorted.rows.len());
    let csv = view(sorted).csv();
    let mut reader = ::csv::Reader::from_reader(csv.as_slice());
    assert_eq!(
        reader.byte_records().map(Result::unwrap).count(),
        sorted.rows.len()
    );
    view(sorted).svg();
    view(sorted).plot(80);
}

fn all_shown_again(file: &str) -> usize {
    let mut count = 0;
    for sample in samples::samples(file) {
        if sample.text.is_some() {
            let plan = plan(&sample);
            assert!(
                sample.info().starts_with(&format!("{} [", plan.info())),
                "{}",
                plan.info()
            );
            shown_again(&sample, &plan);
            count += 1;
        } else {
            let trigger = Trigger::parse(sample.trigger);
            let plan = trigger
                .and_then(|t| Plan::resolve(&t, &samples::format(sample.event), &samples::Guest));
            assert!(plan.is_err(), "{}", sample.trigger);
        }
    }
    count
}

#[test]
fn what_6_12_shows_is_shown_the_same() {
    assert_eq!(all_shown_again(HIST_6_12), 31);
    assert_eq!(all_shown_again(samples::HIST_MORE), 31);
}

#[test]
fn what_6_1_shows_is_shown_the_same() {
    let mut count = 0;
    for sample in samples::samples(HIST_6_1) {
        // What it refuses it may refuse because it is older.
        if sample.text.is_some() {
            let plan = plan(&sample).in_words_of_6_1();
            assert!(sample.info().starts_with(&plan.info()), "{}", plan.info());
            shown_again(&sample, &plan);
            count += 1;
        }
    }
    assert_eq!(count, 28);
}

/// A table of its own, by a trigger of `kmem/kmalloc`.
fn shown(trigger: &str, table: &Table, show: impl Fn(&View<'_>) -> String) -> String {
    let trigger = Trigger::parse(trigger).unwrap();
    let plan = Plan::resolve(&trigger, &samples::format("kmem/kmalloc"), &samples::Guest).unwrap();
    let mut table = table.clone();
    table.sort(&plan);
    show(&View {
        plan: &plan,
        table: &table,
        names: &NoNames,
        paused: false,
    })
}

fn row(keys: Vec<KeyValue>, hitcount: u64, values: &[u64]) -> Row {
    Row {
        keys,
        hitcount,
        values: values.to_vec(),
        ..Row::default()
    }
}

fn task(comm: &[u8]) -> KeyValue {
    KeyValue::Task {
        number: 7,
        comm: comm.to_vec(),
    }
}

#[test]
fn steps_become_bars_with_the_empty_ones_between() {
    let table = Table {
        rows: vec![
            row(vec![KeyValue::Number(6)], 5, &[]),
            row(vec![KeyValue::Number(3)], 10, &[]),
            row(vec![KeyValue::Number(0)], 1, &[]),
        ],
        hits: 16,
        ..Table::default()
    };
    let plot = shown("hist:keys=bytes_req.log2", &table, |v| v.plot(40));
    assert_eq!(
        plot,
        "  bytes_req  hitcount
        0-1         1 |#               |
        2-2         0 |                |
        3-4         0 |                |
        5-8        10 |################|
       9-16         0 |                |
      17-32         0 |                |
      33-64         5 |########        |

Hits: 16  Entries: 3  Dropped: 0
"
    );
    let svg = shown("hist:keys=bytes_req.log2", &table, |v| v.svg());
    assert_eq!(svg.matches("<rect").count(), 8);
    let csv = shown("hist:keys=bytes_req.log2", &table, |v| {
        String::from_utf8(v.csv()).unwrap()
    });
    assert_eq!(
        csv,
        "bytes_req_from,bytes_req_to,hitcount\n0,1,1\n33,64,5\n5,8,10\n"
    );
    let json = shown("hist:keys=bytes_req.buckets=10", &table, |v| v.json());
    assert!(
        json.contains(
            r#"{"hitcount":10,"key":{"bytes_req.buckets=10":{"from":3,"to":12}},"values":{}}"#
        ),
        "{json}"
    );
}

#[test]
fn no_stranger_writes_to_the_terminal_or_into_the_markup() {
    let table = Table {
        rows: vec![row(
            vec![task(b"<a>&\"\x1b]0;x\x07\xff"), KeyValue::Number(64)],
            3,
            &[],
        )],
        ..Table::default()
    };
    let trigger = "hist:keys=common_pid.execname,bytes_req.buckets=64";
    let plot = shown(trigger, &table, |v| v.plot(80));
    assert!(
        plot.starts_with("common_pid <a>&\"\\x1b]0;x\\x07"),
        "{plot}"
    );
    let svg = shown(trigger, &table, |v| v.svg());
    assert!(
        svg.contains("common_pid &lt;a&gt;&amp;&quot;\u{fffd}]0;x\u{fffd}\u{fffd} [7]<"),
        "{svg}"
    );
    let json = shown(trigger, &table, |v| v.json());
    assert!(!json.trim_end().contains(char::is_control));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let pid = &json["rows"][0]["key"]["common_pid.execname"];
    assert_eq!(pid["pid"], 7);
    assert_eq!(pid["comm_b64"], "PGE+JiIbXTA7eAf/");
}

#[test]
fn our_own_aggregates_are_shown_by_their_names() {
    let minus_three = (-3_i64).cast_unsigned();
    let table = Table {
        rows: vec![row(vec![KeyValue::Number(1)], 2, &[9, minus_three])],
        hits: 2,
        ..Table::default()
    };
    let trigger = "hist:keys=bytes_req:vals=bytes_alloc.avg,node.min";
    let text = shown(trigger, &table, |v| String::from_utf8(v.text()).unwrap());
    assert!(text.contains("{ bytes_req:          1 } hitcount:          2  bytes_alloc (avg):          4  node (min):         -3\n"), "{text}");
    let json = shown(trigger, &table, |v| v.json());
    assert!(
        json.contains(r#""values":{"bytes_alloc.avg":4,"node.min":-3}"#),
        "{json}"
    );
    let table = Table {
        rows: vec![
            row(vec![KeyValue::Number(1)], 2, &[minus_three]),
            row(vec![KeyValue::Number(2)], 2, &[4]),
        ],
        ..Table::default()
    };
    let plot = shown(
        "hist:keys=bytes_req:vals=node.min:nohitcount",
        &table,
        |v| v.plot(36),
    );
    assert!(
        plot.starts_with(
            "  bytes_req  node.min\n          1        -3 |            |\n          2         4 |############|\n"
        ),
        "{plot}"
    );
}

proptest! {
    /// Any table, in every form: no panic, and as many rows as there are.
    #[test]
    fn any_table_can_be_shown(
        numbers in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..8),
        kind in 0_usize..8,
        columns in 0_usize..200,
    ) {
        const TRIGGERS: [&str; 8] = [
            "hist:keys=bytes_req.log2:vals=bytes_alloc.percent,bytes_alloc.graph",
            "hist:keys=bytes_req.buckets=18446744073709551615:vals=bytes_alloc.avg,node.avg",
            "hist:keys=call_site.sym,ptr.sym-offset:vals=bytes_alloc.hex,node.max:sort=node.descending",
            "hist:keys=common_pid.execname:vals=bytes_alloc.graph,node.percent:nohitcount",
            "hist:keys=node,bytes_req.buckets=1:vals=bytes_alloc,node:sort=node",
            "hist:keys=common_stacktrace:vals=bytes_alloc,node.min",
            "hist:keys=bytes_req.syscall,common_cpu.hex:vals=node.max,node",
            "hist:keys=hitcount.log2,5:vals=5,hitcount",
        ];
        let rows = numbers.iter().map(|(a, b, c)| {
            let keys = match kind {
                3 => vec![KeyValue::Task { number: *a, comm: b.to_string().into_bytes() }],
                5 => vec![KeyValue::Stack(vec![*a, *b])],
                _ => vec![KeyValue::Number(*a), KeyValue::Number(*b)],
            };
            row(keys, *c, &[*b, *a])
        });
        let table = Table { rows: rows.collect(), ..Table::default() };
        let lines = shown(TRIGGERS[kind], &table, |v| {
            assert!(v.plot(columns).ends_with('\n'));
            assert!(v.svg().ends_with("</svg>\n"));
            serde_json::from_str::<serde_json::Value>(&v.json()).unwrap();
            let csv = v.csv();
            let mut reader = ::csv::Reader::from_reader(csv.as_slice());
            assert_eq!(reader.byte_records().map(Result::unwrap).count(), v.table.rows.len());
            String::from_utf8_lossy(&v.text()).into_owned()
        });
        prop_assert_eq!(lines.matches("\n{ ").count(), numbers.len());
    }
}
