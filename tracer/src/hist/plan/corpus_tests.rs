//! Triggers that 6.12 has judged.

use super::super::samples::{self, Guest};
use super::*;

/// One of them.
struct Judged<'a> {
    line: &'a str,
    accepted: bool,
    event: &'a str,
    text: String,
    /// Of one that was accepted its line in the `trigger` file, where that is known;
    /// else what the error log had.
    said: String,
}

impl Judged<'_> {
    /// What is wrong with our judgement.
    fn check(&self) -> Option<String> {
        let trigger = Trigger::parse(&self.text);
        let format = samples::format(self.event);
        let plan = trigger.clone();
        let plan = plan.and_then(|t| Plan::resolve(&t, &format, &Guest));
        // These two need one that is there.
        let exists = self.said.starts_with("Can't clear or continue");
        match &plan {
            Err(fault) if fault.message().contains("not part of") => None,
            Err(fault) if self.accepted || exists => {
                Some(format!("{fault}\n  kernel: {}", self.line))
            }
            Ok(plan) if !self.accepted && !exists && plan.extensions().is_empty() => {
                Some(format!("accepted, kernel: {}", self.line))
            }
            Ok(plan) if self.accepted && self.said.starts_with("hist:") => {
                let state = match trigger.is_ok_and(|t| t.pause) {
                    true => "paused",
                    false => "active",
                };
                let ours = format!("{} [{state}]", plan.info());
                (ours != self.said).then(|| format!("ours   {ours}\n  kernel {}", self.said))
            }
            _ => None,
        }
    }
}

#[test]
fn what_6_12_accepts_is_accepted_and_what_it_rejects_is_rejected() {
    let mut judged = Vec::new();
    for line in samples::CORPUS.lines() {
        let mut parts = line.splitn(3, '|');
        let (verdict, event, rest) = (parts.next().unwrap(), parts.next().unwrap(), parts.next());
        let Some(rest) = rest else {
            continue;
        };
        // Filters have bars in them too, what the kernel said never has one in an error.
        let (text, said) = match verdict {
            "ok" => match rest.rsplit_once("|hist:") {
                Some((text, said)) => (text, format!("hist:{said}")),
                None => (rest.trim_end_matches('|'), String::new()),
            },
            "no" => {
                let (text, said) = rest.rsplit_once('|').unwrap();
                (text, said.to_owned())
            }
            // The rest of a filter with a line break.
            _ => continue,
        };
        let text = text.replace("\\n", "\n").replace("\\t", "\t");
        judged.push(Judged {
            line,
            accepted: verdict == "ok",
            event,
            said: if text.contains('\n') {
                String::new()
            } else {
                said
            },
            text,
        });
    }
    check(&judged, 1300);
}

#[test]
fn what_6_12_says_of_odd_ones_is_said() {
    let mut judged = Vec::new();
    for line in samples::CORPUS_MORE.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let [verdict, event, text, said] = parts.as_slice() else {
            panic!("{line}");
        };
        judged.push(Judged {
            line,
            accepted: *verdict == "ok",
            event,
            text: unescape(text),
            said: unescape(said),
        });
    }
    check(&judged, 2000);
}

#[test]
fn what_6_12_lets_share_a_table_shares_one() {
    for line in samples::PAIRS.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let [verdict, first, first_text, second, second_text] = parts.as_slice() else {
            panic!("{line}");
        };
        let plan = |event: &str, text: &str| {
            let trigger = Trigger::parse(text)?;
            Plan::resolve(&trigger, &samples::format(event), &Guest)
        };
        let first = plan(first, first_text).unwrap();
        let accepted = plan(second, second_text).is_ok_and(|mut second| {
            if second.name.is_some() && second.name == first.name {
                let shared = second.share(&first).is_ok();
                assert!(!shared || second.size == first.size);
                return shared && !second.is_like(&first);
            }
            !second.is_like(&first)
        });
        assert_eq!(accepted, *verdict == "ok", "{line}");
    }
}

fn check(judged: &[Judged<'_>], at_least: usize) {
    assert!(judged.len() > at_least, "{}", judged.len());
    let wrong: Vec<String> = judged.iter().filter_map(Judged::check).collect();
    assert!(
        wrong.is_empty(),
        "{}\n{} of {}",
        wrong.join("\n"),
        wrong.len(),
        judged.len()
    );
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next().unwrap() {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                '0' => '\0',
                'x' => {
                    let digits: String = chars.by_ref().take(2).collect();
                    char::from(u8::from_str_radix(&digits, 16).unwrap())
                }
                other => other,
            },
            c => c,
        });
    }
    out
}
