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

/// `tracer hist ARGS`
pub fn run<'a>(args: impl IntoIterator<Item = &'a str>) -> Outcome {
    let trace = Trace::bare().without_capture().option("hist");
    trace.options(args).run()
}

/// An event that every process makes once, and a trigger for it.
pub const ENDS: [&str; 2] = ["sched:sched_process_exit", "hist:keys=comm"];

/// A hundred closes of ten descriptors that are none, by a trigger's text.
pub fn closes(trigger: &str) -> Outcome {
    let args = ["syscalls:sys_enter_close", trigger, "--json"];
    hist(args, &["hammer", "1", "100", "10"])
}

/// The table that it printed.
pub fn json(outcome: &Outcome) -> Value {
    let mut tables = tables(outcome);
    assert!(!tables.is_empty(), "no table in {:?}", outcome.stderr());
    tables.remove(0)
}

/// All tables that it printed.
pub fn tables(outcome: &Outcome) -> Vec<Value> {
    let text = outcome.stderr();
    let lines = text.lines().filter(|l| l.starts_with('{'));
    lines
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect()
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
