use std::path::Path;
use std::process::Command;

use tracer_common::hist::{Config, Item, TABLE_WORDS, from};

use super::*;
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
    for r in &rows {
        let text: Vec<u8> = r.key.iter().flat_map(|w| w.to_le_bytes()).collect();
        println!("{} {:?}", String::from_utf8_lossy(&text), r.rows);
    }
    assert!(!rows.is_empty());
    counter.clear().unwrap();
    assert!(counter.rows().unwrap().is_empty());
    assert!(TABLE_WORDS.contains(&2));
}
