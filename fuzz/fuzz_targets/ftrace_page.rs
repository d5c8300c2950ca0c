//! Any bytes as a page of the ring buffer, by the formats of a real kernel.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracer::decode::ftrace::format::Formats;
use tracer::decode::ftrace::page::Page;

const SAMPLE: &str = include_str!("../../tracer/tests/data/ftrace/ftrace-6.18.txt");

/// The `format` files lie at the beginning of the sample, each under a title.
fn formats() -> Option<Formats> {
    let file = |event: &str| {
        let (_, rest) = SAMPLE.split_once(&format!("## {event}/format\n"))?;
        rest.split("\n## ").next()
    };
    let texts = [
        file("task/task_newtask")?,
        file("sched/sched_process_fork")?,
        file("sched/sched_process_exec")?,
        file("sched/sched_process_exit")?,
    ];
    Formats::parse(texts).ok()
}

fuzz_target!(init: drop(formats().expect("the sample is whole")), |data: &[u8]| {
    let Some(formats) = formats() else {
        return;
    };
    let Some(mut page) = Page::new(data) else {
        return;
    };
    let mut records = 0;
    for (_, record) in &mut page {
        records += 1;
        let _decoded = formats.decode(record);
    }
    // An entry has four bytes at least.
    assert!(records <= data.len() / 4);
});
