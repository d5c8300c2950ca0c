use std::path::Path;
use std::process::Command;

use tracer_common::hist::{Config, Item, NEAR_TEXTS, from, op};

use super::*;
use crate::hist::filter::Bare;
use crate::hist::{EventFormat, Plan, Trigger};
use crate::own_process::in_own_process;
use crate::sys::tracefs::Tracefs;

fn event(name: &str) -> Option<u64> {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: not root");
        return None;
    }
    let tracefs = Tracefs::open(Path::new("/proc")).unwrap();
    let id = tracefs.root().join("events").join(name).join("id");
    Some(std::fs::read_to_string(id).unwrap().trim().parse().unwrap())
}

fn compiled(config: Config) -> Compiled {
    Compiled {
        config,
        patterns: pattern::Patterns::default(),
        entries: 2048,
    }
}

#[test]
fn comm_of_each_end() {
    let Some(id) = event("sched/sched_process_exit") else {
        return;
    };
    // It counts until its last descriptor is closed.
    if !in_own_process(concat!(module_path!(), "::comm_of_each_end")) {
        return;
    }
    let mut config = Config::NONE;
    config.keys[0] = Item {
        from: from::TEXT8,
        offset: 8,
        size: 16,
        ..Item::NONE
    };
    config.key_words = 2;
    config.table_words = 2;
    let mut counter = Counter::load(&compiled(config), id, None).unwrap();
    counter.attach().unwrap();
    for _ in 0..5 {
        Command::new("true").status().unwrap();
    }
    counter.detach();
    grace_period();
    let rows = counter.rows().unwrap();
    let name = *b"true\0\0\0\0\0\0\0\0\0\0\0\0";
    let named = rows
        .iter()
        .find(|r| r.key.iter().flat_map(|w| w.to_ne_bytes()).eq(name));
    // Others may run it, too.
    let hits: u64 = named.unwrap().rows.iter().map(|r| r.hits).sum();
    assert!(hits >= 5, "{rows:?}");
    counter.clear().unwrap();
    assert!(counter.rows().unwrap().is_empty());
}

/// What a filter on an event with a text becomes.
fn of_filter(filter: &str) -> Result<Compiled, Unsupported> {
    const FORMAT: &str = "ID: 1
format:
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;
";
    let format = EventFormat::parse("group", "event", FORMAT).unwrap();
    let trigger = Trigger::parse(&format!("hist:keys=common_timestamp if {filter}")).unwrap();
    let plan = Plan::resolve(&trigger, &format, &Bare { cpus: 200 }).unwrap();
    Compiled::new(&plan, &format)
}

fn many(count: usize, condition: impl Fn(usize) -> String) -> String {
    (0..count).map(condition).collect::<Vec<_>>().join(" && ")
}

#[test]
fn texts_that_the_verifier_could_not_follow_are_scanned() {
    let compiled = of_filter(&many(20, |i| format!("name == \"{i}\""))).unwrap();
    let ops = compiled.config.tests.iter().take(20).map(|t| t.op);
    let near = (NEAR_TEXTS / 256) as usize;
    let expected = (0..20).map(|i| match i < near {
        true => op::MATCHES,
        false => op::SCAN_MATCHES,
    });
    assert!(ops.eq(expected));
    // A long one is always.
    let compiled = of_filter(&format!("name != \"{}\"", "x".repeat(100))).unwrap();
    assert_eq!(compiled.config.tests[0].op, op::SCAN_DIFFERS);
}

#[test]
fn what_a_program_has_no_room_for_is_named() {
    let refused = |filter: &str| of_filter(filter).unwrap_err();
    assert!(of_filter(&many(128, |i| format!("common_pid != {i}"))).is_ok());
    let tests = refused(&many(129, |i| format!("common_pid != {i}")));
    assert_eq!(tests, Unsupported::Tests(129));
    assert!(of_filter(&many(32, |i| format!("name != \"{i}\""))).is_ok());
    let texts = refused(&many(33, |i| format!("name != \"{i}\"")));
    assert_eq!(texts, Unsupported::Patterns);
    let long = many(5, |i| format!("name != \"{i}{}\"", "x".repeat(100)));
    assert_eq!(refused(&long), Unsupported::Patterns);
    // Words of CPUs.
    let compiled = of_filter("cpu & CPUS{0,70,199}").unwrap();
    assert_eq!(compiled.config.n_tests, 3);
    assert_eq!(compiled.config.tests[1].item.arg, 64);
    assert_eq!(compiled.config.tests[1].value, 1 << 6);
}
