use super::super::samples;
use super::*;

/// What the kernel accepts and is not part of this.
fn is_left_out(trigger: &str) -> bool {
    let words = [
        // Variables.
        "bogus=pid",
        ":value=pid",
        "nohitcount=1",
        "ts0=pid",
        "x=common_timestamp",
        "x=pid,y=prio",
        "pause=1",
        // Expressions.
        "1+1",
        "pid-prio",
        "pid+prio",
        "pid*2",
        "pid/2",
        // Of filters.
        "CPUS{",
        ".function ",
    ];
    words.iter().any(|w| trigger.contains(w))
}

#[test]
fn what_6_12_accepts_is_accepted_and_what_it_rejects_is_rejected() {
    let mut accepted = 0;
    let mut wrong = Vec::new();
    for line in samples::CORPUS
        .split("\nok|")
        .flat_map(|l| l.split("\nno|"))
    {
        let _ = line;
    }
    for line in samples::CORPUS.lines() {
        let mut parts = line.splitn(3, '|');
        let (verdict, event, rest) = (parts.next().unwrap(), parts.next().unwrap(), parts.next());
        let Some(rest) = rest else {
            continue;
        };
        // Filters have bars in them too, what the kernel said never has one in an error.
        let (trigger, said) = match verdict {
            "ok" => match rest.rsplit_once("|hist:") {
                Some((trigger, said)) => (trigger, format!("hist:{said}")),
                None => (rest.trim_end_matches('|'), String::new()),
            },
            "no" => {
                let (trigger, said) = rest.rsplit_once('|').unwrap();
                (trigger, said.to_owned())
            }
            // The rest of a filter with a line break.
            _ => continue,
        };
        let text = trigger.replace("\\n", "\n").replace("\\t", "\t");
        let format = samples::format(event);
        let trigger = Trigger::parse(&text);
        let plan = trigger.clone().and_then(|t| Plan::resolve(&t, &format));
        // These two need one that is there.
        let exists = said.starts_with("Can't clear or continue");
        let extended = plan.as_ref().is_ok_and(|p| !p.extensions().is_empty());
        let expected = verdict == "ok" && !is_left_out(&text) || exists || extended;
        match &plan {
            Ok(_) if !expected => wrong.push(format!("accepted, kernel: {line}")),
            Err(fault) if expected => wrong.push(format!("{fault}\n  kernel: {line}")),
            Ok(plan) if verdict == "ok" && !said.is_empty() && !text.contains('\n') => {
                let state = if trigger.unwrap().pause {
                    "paused"
                } else {
                    "active"
                };
                let ours = format!("{} [{state}]", plan.info());
                if ours != said {
                    wrong.push(format!("{text}\n  ours   {ours}\n  kernel {said}"));
                }
                accepted += 1;
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(accepted > 700, "{accepted}");
}

#[test]
fn log2_is_the_kernels() {
    for (value, exponent) in [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 2),
        (4, 2),
        (5, 3),
        (1 << 63, 63),
        ((1 << 63) + 1, 64),
        (u64::MAX, 64),
    ] {
        assert_eq!(log2(value), exponent, "{value}");
    }
}
