//! Runs `tracer hist` and reads its table.

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use crate::{Outcome, Trace, fixture};

/// `tracer hist ARGS -- FIXTURE ARGS`
pub fn hist<'a>(args: impl IntoIterator<Item = &'a str>, command: &[&str]) -> Outcome {
    let mut command = command.iter();
    let name = command.next().expect("a command");
    let path = fixture(name).into_os_string();
    let command: Vec<OsString> = command.map(|a| (*a).into()).collect();
    let all = ["hist".into()]
        .into_iter()
        .chain(args.into_iter().map(OsString::from))
        .chain(["--".into(), path])
        .chain(command);
    Trace::bare().without_capture().options(all).run()
}

/// The table that it printed.
pub fn json(outcome: &Outcome) -> Value {
    let text = outcome.stderr();
    let line = text.lines().find(|l| l.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no table in {text:?}"));
    serde_json::from_str(line).expect("JSON")
}

pub fn rows(table: &Value) -> &[Value] {
    table["rows"].as_array().expect("rows")
}

/// Whether the kernel has hist triggers itself.
pub fn has_triggers() -> Result<(), String> {
    let file = "/sys/kernel/tracing/events/sched/sched_process_exit/hist";
    match Path::new(file).exists() {
        true => Ok(()),
        false => Err("this kernel has no hist triggers".to_owned()),
    }
}
