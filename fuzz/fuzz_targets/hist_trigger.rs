//! Any text as a hist trigger, resolved for an event and shown with one row.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracer::hist::resolve::NoNames;
use tracer::hist::{EventFormat, KeyValue, Plan, Row, Table, Trigger, View};

const SAMPLE: &str = include_str!("../../tracer/tests/data/hist/formats-6.12.txt");

/// The first `format` file of the sample.
fn format() -> Option<EventFormat> {
    let (_, text) = SAMPLE.split_once("## sched/sched_process_exit/format\n")?;
    let text = text.split("\n## ").next()?;
    EventFormat::parse("sched", "sched_process_exit", text).ok()
}

fuzz_target!(init: drop(format().expect("the sample is whole")), |text: &str| {
    let Some(format) = format() else {
        return;
    };
    let plan = match Trigger::parse(text).and_then(|t| Plan::resolve(&t, &format)) {
        Ok(plan) => plan,
        Err(fault) => {
            assert!(fault.at() <= fault.text().len());
            assert!(fault.to_string().contains('^'));
            return;
        }
    };
    if let Some(filter) = &plan.filter {
        assert!(!filter.steps().is_empty());
    }
    let mut table = Table {
        rows: vec![Row {
            keys: plan.keys.iter().map(|_| KeyValue::Number(u64::MAX)).collect(),
            hitcount: 1,
            values: plan.values.iter().map(|_| u64::MAX).collect(),
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
