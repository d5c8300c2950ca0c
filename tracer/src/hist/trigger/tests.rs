use proptest::prelude::*;

use super::*;

#[test]
fn a_trigger_is_taken_apart() {
    let trigger = Trigger::parse(
        " hist:name=foo:keys=comm,common_pid.execname:vals=hitcount,x.y.pid.hex,prio.max:sort=pid.descending,comm:size=100:pause if prio < 100 ",
    )
    .unwrap();
    assert_eq!(trigger.name.unwrap().text, "foo");
    let terms = |terms: &[Term]| -> Vec<(String, Option<Modifier>)> {
        terms.iter().map(|t| (t.name().text, t.modifier)).collect()
    };
    assert_eq!(
        terms(&trigger.keys),
        [
            ("comm".into(), None),
            ("common_pid".into(), Some(Modifier::ExecName))
        ]
    );
    assert_eq!(
        terms(&trigger.values),
        [
            ("pid".into(), Some(Modifier::Hex)),
            ("prio".into(), Some(Modifier::Max))
        ]
    );
    let sort: Vec<_> = trigger
        .sort
        .iter()
        .map(|s| (s.field.text.as_str(), s.descending))
        .collect();
    assert_eq!(sort, [("pid", true), ("comm", false)]);
    assert_eq!(trigger.size, 128);
    assert!(trigger.pause && !trigger.cont && !trigger.clear && !trigger.remove);
    let filter = trigger.filter.unwrap();
    assert_eq!(filter.text, "prio < 100");
    assert!(trigger.text[filter.at..].starts_with("prio"));
}

#[test]
fn faults_point_at_the_place() {
    for (text, at, message) in [
        ("hust:keys=comm", 0, "`hust` is no hist trigger"),
        ("hist", 4, "Keys are missing"),
        ("hist:vals=pid", 13, "Keys are missing"),
        ("hist:keys=", 5, "Nothing follows"),
        ("hist:keys=comm:bogus", 15, "`bogus` is no attribute"),
        (
            "hist:keys=comm:ts0=pid",
            15,
            "`ts0` is no attribute, and variables are not part",
        ),
        (
            "hist:keys=comm:onmax($x).save(pid)",
            15,
            "Actions such as onmax are not part",
        ),
        ("hist:keys=pid-prio", 13, "Expressions are not part"),
        ("hist:keys=$x", 10, "Variables are not part"),
        ("hist:keys=pid.bogus", 14, "Invalid field modifier"),
        ("hist:keys=pid.buckets=0", 22, "Invalid field modifier"),
        ("hist:keys=pid.percent", 14, "Invalid field modifier"),
        ("hist:keys=pid.execname", 14, "Invalid field modifier"),
        ("hist:keys=comm:vals=pid.log2", 24, "Invalid field modifier"),
        ("hist:keys=a,b,c,d", 16, "Too many keys"),
        ("hist:keys=a:vals=b,c,d", 21, "Too many values"),
        ("hist:keys=a:sort=a,b,c", 21, "Too many sort fields"),
        ("hist:keys=a:sort=a,", 19, "Empty sort field"),
        ("hist:keys=a:sort=a.up", 19, "Invalid sort modifier"),
        ("hist:keys=a:size=12", 17, "Invalid size"),
        ("hist:keys=1x", 10, "Expecting numeric literal"),
        ("hist:keys=a:nohitcount", 5, "Non-hitcount value"),
        ("hist:keys=a if", 14, "The filter is missing"),
    ] {
        let fault = Trigger::parse(text).unwrap_err();
        assert_eq!(fault.at(), at, "{fault}");
        assert!(fault.message().starts_with(message), "{fault}");
    }
    let fault = Trigger::parse("hist:keys=pid.lgo2").unwrap_err();
    assert_eq!(
        fault.to_string(),
        "Invalid field modifier `lgo2`\n  hist:keys=pid.lgo2\n                ^\n  did you mean `log2`?"
    );
    let fault = Trigger::parse("hist:kyes=pid").unwrap_err().to_string();
    assert!(fault.contains("did you mean `keys=`"), "{fault}");
    Trigger::parse(&format!("hist:keys=comm:name={}", "x".repeat(4075))).unwrap();
    Trigger::parse(&format!("hist:keys=comm:name={}", "x".repeat(4076))).unwrap_err();
}

fn fragments() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "hist",
        ":",
        "keys=",
        "vals=",
        "sort=",
        "size=",
        "name=",
        "clock=",
        ",",
        ".",
        "comm",
        "pid",
        "hitcount",
        "stacktrace",
        "common_timestamp",
        "log2",
        "buckets=",
        "sym-offset",
        "percent",
        "max",
        "7",
        "200",
        " if ",
        "pause",
        "nohitcount",
        "descending",
        "!",
        "é",
        "\u{a0}",
        "=",
        "-",
        "$x",
    ]);
    prop::collection::vec(word, 0..24).prop_map(|w| format!("hist:keys={}", w.concat()))
}

proptest! {
    #[test]
    fn no_text_panics(text in fragments(), any in ".{0,60}") {
        let _fault = Trigger::parse(&any);
        let format = crate::hist::samples::format("sched/sched_process_exit");
        match Trigger::parse(&text).and_then(|t| crate::hist::Plan::resolve(&t, &format, &crate::hist::samples::Guest)) {
            Ok(plan) => {
                // The kernel's words are a trigger too, and mean the same.
                if plan.extensions().is_empty() && !plan.info().contains("keys=.") && !plan.info().contains(",.") {
                    let again = Trigger::parse(&plan.info()).and_then(|t| crate::hist::Plan::resolve(&t, &format, &crate::hist::samples::Guest));
                    match again {
                        Ok(again) => prop_assert_eq!(again.info(), plan.info()),
                        Err(fault) => prop_assert!(plan.info().contains(".buckets=-") || plan.info().contains("common_cpu") || plan.info().contains("sort="), "{}", fault),
                    }
                }
            }
            Err(fault) => prop_assert!(fault.to_string().contains('^')),
        }
    }
}
