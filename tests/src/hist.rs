//! Runs `tracer hist` and reads its table.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::run::Running;
use crate::truth::number_after;
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

/// Starts `tracer hist ARGS` without a command, and waits until it counts.
pub fn counting<'a>(args: impl IntoIterator<Item = &'a str>) -> Running {
    let trace = Trace::bare().without_capture().option("hist");
    await_counting(trace.options(args).start())
}

/// Waits until a `tracer hist` counts: it listens from then on.
pub fn await_counting(mut running: Running) -> Running {
    let socket = socket(running.pid());
    running.await_condition("beginning of the counting", |_| socket.exists());
    running
}

/// Where a running one listens.
pub fn socket(pid: i32) -> PathBuf {
    format!("/run/tracer/hist-{pid}.sock").into()
}

/// `hitcount` of the row with this key, 0 without one, in the text of a table.
pub fn count_of(text: &str, comm: &str) -> u64 {
    let begin = format!("{{ comm: {comm} ");
    let row = text.lines().find(|line| line.starts_with(&begin));
    row.map_or(0, |row| number_after(row, "hitcount:"))
}
