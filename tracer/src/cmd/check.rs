//! `tracer check`: what works on this machine.

use std::io::{self, Write};

use crate::check::facts::Facts;
use crate::check::{self, Report};
use crate::cli::{Check, FAILURE};

/// Writes the report to `out`. Returns the exit status: 0 if at least one
/// source works (with `--offsets`: if BTF could be read), else 125.
pub fn run(args: &Check, out: &mut dyn Write) -> io::Result<u8> {
    let facts = Facts::gather();
    let report = check::report(&facts);
    if args.json {
        json(args, &facts, &report, out)?;
    } else if args.offsets {
        match &facts.btf {
            Ok(types) => out.write_all(check::offsets_text(types).as_bytes())?,
            Err(error) => {
                writeln!(out, "no offsets: {error}; `tracer check` says what to do")?;
                return Ok(FAILURE);
            }
        }
        return Ok(0);
    } else {
        out.write_all(check::text(&report).as_bytes())?;
    }
    Ok(if report.auto.is_some() { 0 } else { FAILURE })
}

fn json(args: &Check, facts: &Facts, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut value = serde_json::to_value(report)?;
    if args.offsets
        && let Some(object) = value.as_object_mut()
    {
        let offsets = facts.btf.as_ref().ok().map(|types| &types.offsets);
        object.insert("offsets".to_owned(), serde_json::to_value(offsets)?);
    }
    serde_json::to_writer_pretty(&mut *out, &value)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(json: bool, offsets: bool) -> (u8, String) {
        let mut out = Vec::new();
        let code = run(&Check { json, offsets }, &mut out).unwrap();
        (code, String::from_utf8(out).unwrap())
    }

    #[test]
    fn this_machine_can_be_checked() {
        let (code, text) = output(false, false);
        for source in ["ebpf", "ftrace", "ptrace"] {
            assert!(text.contains(source), "{text}");
        }
        let (json_code, json) = output(true, true);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(code, json_code);
        assert_eq!(code == 0, value["auto"].is_string());
        let (code, table) = output(false, true);
        match value["offsets"]["task_tgid"].as_u64() {
            Some(offset) => {
                let line = table.lines().find(|l| l.starts_with("task_tgid ")).unwrap();
                assert!(line.ends_with(&format!(" {offset}")), "{line}");
                assert_eq!(code, 0);
            }
            None => assert_eq!(code, FAILURE, "{table}"),
        }
    }
}
