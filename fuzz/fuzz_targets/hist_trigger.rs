//! Any text as a hist trigger, resolved for an event and shown with one row.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracer::hist::filter::{Bare, Next, Record};
use tracer::hist::resolve::NoNames;
use tracer::hist::{EventFormat, KeyValue, Plan, Predicate, Row, Table, Trigger, View};

const SAMPLE: &str = include_str!("../../tracer/tests/data/hist/formats-6.12.txt");

/// The first `format` file of the sample.
fn format() -> Option<EventFormat> {
    let (_, text) = SAMPLE.split_once("## sched/sched_process_exit/format\n")?;
    let text = text.split("\n## ").next()?;
    EventFormat::parse("sched", "sched_process_exit", text).ok()
}

/// A filter as the kernel side evaluates it: forward only.
fn by_steps(filter: &Predicate, record: Record<'_>) -> bool {
    let steps = filter.steps();
    let mut at = 0;
    loop {
        let step = &steps[at];
        let next = match step.test.holds(record) {
            true => step.on_true,
            false => step.on_false,
        };
        match next {
            Next::Step(next) => {
                assert!(next > at);
                at = next;
            }
            Next::Accept => return true,
            Next::Reject => return false,
        }
    }
}

fuzz_target!(init: drop(format().expect("the sample is whole")), |text: &str| {
    let Some(format) = format() else {
        return;
    };
    let plan = Trigger::parse(text).and_then(|t| Plan::resolve(&t, &format, &Bare { cpus: 70 }));
    let plan = match plan {
        Ok(plan) => plan,
        Err(fault) => {
            assert!(fault.at() <= fault.text().len());
            assert!(fault.to_string().contains('^'));
            return;
        }
    };
    if let Some(filter) = &plan.filter {
        let record = Record {
            bytes: b"\x05\0\0\0\x07\0\0\0comm of sixteen \x07\0\0\0\x78\0\0\0",
            cpu: 1,
            comm: b"bash",
        };
        assert_eq!(filter.holds(record), by_steps(filter, record));
    }
    let mut table = Table {
        rows: vec![Row {
            keys: plan.keys.iter().map(|_| KeyValue::Number(u64::MAX)).collect(),
            hitcount: 1,
            values: plan.values.iter().map(|_| u64::MAX).collect(),
            ..Row::default()
        }],
        ..Table::default()
    };
    table.sort(&plan);
    let view = View {
        plan: &plan,
        table: &table,
        names: &NoNames,
        paused: false,
    };
    assert!(view.text().starts_with(b"# event histogram\n"));
    let _shown = (view.json(), view.csv(), view.plot(80), view.svg());
});
