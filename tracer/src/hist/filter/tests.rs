use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::samples;
use super::*;

/// A record of `sched_process_exit` on 6.12.
fn exit(comm: &[u8]) -> Vec<u8> {
    let format = samples::format("sched/sched_process_exit");
    let mut record = vec![0; 40];
    let mut put = |name: &str, bytes: &[u8]| {
        let at = format.find(name).unwrap().offset as usize;
        record[at..at + bytes.len()].copy_from_slice(bytes);
    };
    put("common_type", &315_u16.to_ne_bytes());
    put("common_pid", &700_i32.to_ne_bytes());
    put("comm", &comm[..comm.len().min(15)]);
    put("pid", &700_i32.to_ne_bytes());
    put("prio", &120_i32.to_ne_bytes());
    record
}

/// The same by the list of steps.
pub(super) fn by_steps(predicate: &Predicate, record: Record<'_>) -> bool {
    let steps = predicate.steps();
    let mut at = 0;
    loop {
        let step = steps[at];
        match if step.test.holds(record) {
            step.on_true
        } else {
            step.on_false
        } {
            Next::Step(next) => {
                assert!(next > at, "forward only");
                at = next;
            }
            Next::Accept => return true,
            Next::Reject => return false,
        }
    }
}

/// Ran on 6.12: each filter over the ends of eleven programs, and the names that were counted.
#[test]
fn what_the_kernel_counted_is_what_holds() {
    const RECORDED: &str = include_str!("../../../tests/data/hist/filters-6.12.txt");
    const NAMES: [&str; 11] = [
        "0x1",
        "[b",
        "a",
        "a*b",
        "ab",
        "axb",
        "b",
        "bash",
        "exactly15charsx",
        "longer_than_fifteen_bytes",
        "true",
    ];
    let format = samples::format("sched/sched_process_exit");
    let mut lines = RECORDED.lines().peekable();
    let mut count = 0;
    while let Some(filter) = lines.next() {
        let mut counted = BTreeSet::new();
        while let Some(name) = lines.next_if(|l| l.starts_with("  ")) {
            counted.insert(name.trim());
        }
        let predicate = Predicate::parse(filter, &format, &samples::Guest);
        if counted.contains("REFUSED") {
            assert!(predicate.is_err(), "{filter}");
            continue;
        }
        // Which CPU it was is not recorded.
        if filter == "cpu == 4294967296" || filter == "cpu & 1" {
            continue;
        }
        let predicate = predicate.unwrap();
        let holds = |name: &&str| {
            let bytes = exit(name.as_bytes());
            let comm = &name.as_bytes()[..name.len().min(15)];
            let record = Record {
                bytes: &bytes,
                cpu: 0,
                comm,
            };
            let holds = predicate.holds(record);
            assert_eq!(by_steps(&predicate, record), holds, "{filter}");
            holds
        };
        let ours: BTreeSet<&str> = NAMES
            .into_iter()
            .filter(holds)
            .map(|n| &n[..n.len().min(15)])
            .collect();
        assert_eq!(ours, counted, "{filter}");
        count += 1;
    }
    assert_eq!(count, 79);
}

#[test]
fn a_filter_becomes_typed_tests() {
    let format = samples::format("sched/sched_process_exit");
    let parse = |text| Predicate::parse(text, &format, &samples::Guest).unwrap();
    let prio = |op, value| {
        Predicate::Test(Test::Number {
            from: Number::Field {
                offset: 28,
                size: 4,
                signed: true,
            },
            op,
            value,
        })
    };
    let comm = Predicate::Test(Test::Text {
        from: Text::Static {
            offset: 8,
            size: 16,
        },
        pattern: Pattern::Front(b"cc".to_vec()),
        negate: false,
    });
    let both = Predicate::All(vec![prio(Op::Lt, 100), comm.clone()]);
    assert_eq!(parse("prio < 100 && comm ~ \"cc*\""), both);
    assert_eq!(parse("((prio<0x64) &&comm~'cc*')"), both);
    assert_eq!(
        parse("!(prio < 100 && comm ~ \"cc*\") || prio == -1"),
        Predicate::Any(vec![Predicate::Not(Box::new(both)), prio(Op::Eq, u64::MAX)])
    );
    assert_eq!(parse("!!(!(!comm ~ \"cc*\"))"), comm);
    // Cut to the field, as the kernel's types do.
    assert_eq!(parse("prio == 4294967295"), prio(Op::Eq, u64::MAX));
}

#[test]
fn texts_are_found_where_the_record_says() {
    let exec = samples::format("sched/sched_process_exec");
    let at = exec.find("filename").unwrap().offset as usize;
    let mut record = vec![0; 32];
    record.extend_from_slice(b"/bin/true\0");
    let word: u32 = 10 << 16 | 32;
    record[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    let record = Record {
        bytes: &record,
        cpu: 0,
        comm: b"",
    };
    for (filter, expected) in [
        ("filename == \"/bin/true\"", true),
        ("filename ~ \"*true\"", true),
        ("filename ~ \"*tru\"", false),
        ("filename ~ \"/bin/*\"", true),
        ("filename ~ \"*bin*\"", true),
        ("filename ~ \"/b*/t*e\"", true),
        ("filename != \"/bin/true\"", false),
    ] {
        let predicate = Predicate::parse(filter, &exec, &samples::Guest).unwrap();
        assert_eq!(predicate.holds(record), expected, "{filter}");
    }
    let relative = Test::Text {
        from: Text::Dyn {
            offset: 0,
            relative: true,
        },
        pattern: Pattern::Full(b"x".to_vec()),
        negate: false,
    };
    let word = (2_u32 << 16 | 1).to_ne_bytes();
    let bytes = [word.as_slice(), b"-x\0"].concat();
    assert!(relative.holds(Record {
        bytes: &bytes,
        cpu: 0,
        comm: b""
    }));
    // Addresses are not followed here, and lead nowhere in a negation either.
    let openat = samples::format("syscalls/sys_enter_openat");
    let predicate =
        Predicate::parse("filename.ustring != \"x\"", &openat, &samples::Guest).unwrap();
    assert!(!predicate.holds(record));
}

#[test]
fn faults_point_at_the_place() {
    let format = samples::format("sched/sched_process_exit");
    for (text, at, message) in [
        ("prio < 100 && comn ~ \"cc*\"", 14, "Field not found"),
        ("prio << 100", 6, "Invalid value"),
        ("prio 100", 5, "Invalid operator"),
        ("comm == 5", 8, "Expecting string field"),
        ("prio == \"5\"", 8, "Expecting numeric field"),
        ("prio == 08", 8, "Illegal integer value"),
        ("(prio > 1", 0, "Too many '('"),
        ("prio > 1)", 8, "Too few '('"),
        ("comm == \"x", 8, "Missing matching quote"),
        ("prio > 1 &&", 9, "Meaningless filter expression"),
        ("prio > 1 prio > 2", 9, "A condition is complete"),
        ("", 0, "No filter found"),
        ("prio.function == 1", 17, "Illegal operation"),
        ("cpu == CPUS{5}", 12, "Invalid cpulist"),
        ("cpu == CPUS 0", 11, "Missing '{'"),
        ("cpu == CPUS{0", 13, "Missing '}'"),
        ("cpu < CPUS{0}", 6, "Illegal operation"),
        ("comm == CPUS{0}", 8, "Illegal operation"),
    ] {
        let fault = Predicate::parse(text, &format, &samples::Guest).unwrap_err();
        assert_eq!(fault.at(), at, "{fault}");
        assert!(fault.message().starts_with(message), "{fault}");
    }
    let fault = Predicate::parse("comn == \"x\"", &format, &samples::Guest).unwrap_err();
    assert!(
        fault.to_string().ends_with("did you mean `comm`?"),
        "{fault}"
    );
}

#[test]
fn depth_and_length_are_no_trouble() {
    let format = samples::format("sched/sched_process_exit");
    let deep = format!("{}pid>1{}", "!(".repeat(1000), ")".repeat(1000));
    assert_eq!(
        Predicate::parse(&deep, &format, &samples::Guest)
            .unwrap()
            .steps()
            .len(),
        1
    );
    let nested = format!(
        "{}pid>1{}",
        "pid>1&&(pid>2||(".repeat(250),
        "))".repeat(250)
    );
    assert_eq!(
        Predicate::parse(&nested, &format, &samples::Guest)
            .unwrap()
            .steps()
            .len(),
        501
    );
}

fn fragments() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "pid",
        "comm",
        "cpu",
        "prio",
        "(",
        ")",
        "!",
        "&&",
        "||",
        "==",
        "!=",
        "~",
        "<",
        "&",
        " ",
        "1",
        "-1",
        "\"a*\"",
        "'",
        "\"",
        "CPUS{",
        "}",
        "CPUS{0-1}",
        "-",
        ":",
        "/",
        "N",
        "all",
        ".function",
        "kfree",
        ".ustring",
        "é",
        "0x",
    ]);
    prop::collection::vec(word, 0..24).prop_map(|w| w.concat())
}

proptest! {
    #[test]
    fn no_text_panics_and_steps_say_the_same(text in fragments(), any in ".{0,40}", comm in "[ab]{0,16}") {
        let format = samples::format("sched/sched_process_exit");
        let _fault = Predicate::parse(&any, &format, &samples::Guest);
        if let Ok(predicate) = Predicate::parse(&text, &format, &samples::Guest) {
            let bytes = exit(comm.as_bytes());
            let record = Record { bytes: &bytes, cpu: 1, comm: comm.as_bytes() };
            prop_assert_eq!(predicate.holds(record), by_steps(&predicate, record));
        }
    }

    /// Against a plain recursive matcher.
    #[test]
    fn globs_match_what_they_should(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
        fn plain(p: &[u8], t: &[u8]) -> bool {
            match (p.split_first(), t.split_first()) {
                (None, None) => true,
                (Some((b'*', rest)), _) => plain(rest, t) || t.split_first().is_some_and(|(_, t)| plain(p, t)),
                (Some((b'?', p)), Some((_, t))) => plain(p, t),
                (Some((a, p)), Some((b, t))) => a == b && plain(p, t),
                _ => false,
            }
        }
        let glob = Pattern::Glob(pattern.clone().into_bytes());
        prop_assert_eq!(glob.matches(text.as_bytes()), plain(pattern.as_bytes(), text.as_bytes()));
    }
}
