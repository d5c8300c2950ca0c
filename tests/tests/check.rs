//! `tracer check`: what works here, what does not, and the remedy.

use serde_json::Value;
use tracer_tests::{Record, Trace, fixture, require};

fn check(options: &[&str]) -> Trace {
    Trace::bare()
        .option("check")
        .options(options.iter().copied())
}

#[test]
fn ebpf_works_where_it_is_tested() {
    require!(bpf);
    let outcome = check(&[]).run().expect_code(0);
    let text = outcome.stdout();
    for source in ["ebpf", "ftrace", "ptrace"] {
        assert!(text.contains(source), "{outcome}");
    }
}

#[test]
fn json_for_programs() {
    require!(bpf);
    let outcome = check(&["--json"]).run().expect_code(0);
    let json: Value =
        serde_json::from_str(&outcome.stdout()).unwrap_or_else(|e| panic!("{e}\n{outcome}"));
    assert!(json.is_object(), "{json}");
    assert!(outcome.stdout().contains("ebpf"));
}

#[test]
fn offsets_are_those_of_this_kernel() {
    require!(bpf);
    let text = check(&["--offsets"]).run().expect_code(0).stdout();
    for member in [
        "task_struct.tgid",
        "signal_struct.live",
        "mm_struct.arg_start",
    ] {
        let line = text
            .lines()
            .find(|l| l.contains(member))
            .unwrap_or_else(|| panic!("no {member} in {text}"));
        assert!(
            line.split(|c: char| !c.is_ascii_digit())
                .any(|n| n.parse::<u32>().is_ok()),
            "{line}"
        );
    }
}

#[test]
fn what_is_missing_has_a_remedy() {
    require!(bpf);
    let hidden = [fixture("jail").into_os_string(), "-s".into(), "--".into()];
    let outcome = check(&[]).through(hidden).run();
    let text = outcome.stdout();
    assert!(text.contains("BTF"), "{outcome}");
    assert!(!outcome.stderr().contains("panicked"), "{outcome}");
}

#[test]
fn the_json_of_a_machine_without_btf_is_still_json() {
    require!(bpf);
    let hidden = [fixture("jail").into_os_string(), "-s".into(), "--".into()];
    let outcome = check(&["--json"]).through(hidden).run();
    let json: Value =
        serde_json::from_str(&outcome.stdout()).unwrap_or_else(|e| panic!("{e}\n{outcome}"));
    let sources = json["sources"].as_array().expect("a list of sources");
    let mut findings = sources
        .iter()
        .filter_map(|s| s["findings"].as_array())
        .flatten();
    let btf = findings
        .find(|f| f.text("name") == "btf")
        .expect("a finding about BTF");
    assert_eq!(btf.text("state"), "missing");
    assert!(
        btf.text("remedy").contains("CONFIG_DEBUG_INFO_BTF"),
        "{btf}"
    );
    assert_ne!(json.text("auto"), "ebpf");
}
