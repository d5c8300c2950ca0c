//! A report as text.

use std::fmt::Write;

use tracer_common::offsets::Offsets;

use super::facts::Types;
use super::{Finding, Report, State};

/// For a person at a terminal.
pub fn text(report: &Report) -> String {
    let mut out = format!("tracer {} on Linux {}\n", report.tracer, report.kernel);
    for source in &report.sources {
        let verdict = if source.works { "✓" } else { "✗" };
        let word = match (source.works, report.auto == Some(source.source)) {
            (true, true) => "works, and is what --backend auto takes",
            (true, false) => "works",
            (false, _) => "does not work here",
        };
        push(
            &mut out,
            format_args!("\n{verdict} {} {word}\n", source.source),
        );
        for finding in &source.findings {
            show(&mut out, finding);
        }
    }
    if report.auto.is_none() {
        out.push_str("\nNothing can be traced here until one of the lines marked ✗ is mended.\n");
    }
    out
}

fn show(out: &mut String, finding: &Finding) {
    let mark = match finding.state {
        State::Ok => "✓",
        State::Limited => "!",
        State::Missing => "✗",
    };
    push(
        out,
        format_args!(
            "  {mark} {:<17} {}\n",
            finding.name.replace('_', " "),
            finding.found
        ),
    );
    if !finding.follows.is_empty() {
        push(out, format_args!("{:22}so: {}\n", "", finding.follows));
    }
    if let Some(remedy) = &finding.remedy {
        push(out, format_args!("{:22}do: {remedy}\n", ""));
    }
}

/// The table of offsets: name, place, byte offset.
pub fn offsets_text(types: &Types) -> String {
    let mut out = String::new();
    for (field, structure, member, required) in Offsets::TABLE {
        let place = format!("{structure}.{member}");
        let value = match types.offsets.get(field) {
            Some(Some(offset)) => offset.to_string(),
            _ if *required => "missing, and required".to_owned(),
            _ => "-".to_owned(),
        };
        push(&mut out, format_args!("{field:<26} {place:<40} {value}\n"));
    }
    out
}

/// Writing to a String cannot fail.
fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(args);
}
