//! Filters whose meaning depends on the machine.

use super::super::samples;
use super::tests::by_steps;
use super::*;

#[test]
fn cpus_are_numbers_or_bits() {
    let large = Bare { cpus: 130 };
    let waking = samples::format("sched/sched_waking");
    let holds = |filter: &str, cpu: i32| {
        let predicate = Predicate::parse(filter, &waking, &large).unwrap();
        let mut bytes = vec![0; 36];
        bytes[32..].copy_from_slice(&cpu.to_ne_bytes());
        let record = Record {
            bytes: &bytes,
            cpu,
            comm: b"",
        };
        assert_eq!(by_steps(&predicate, record), predicate.holds(record));
        predicate.holds(record)
    };
    for (list, has, lacks) in [
        ("0", &[0][..], &[1, 64, -1][..]),
        ("5,70-72", &[5, 70, 72], &[4, 69, 73, -1]),
        ("all", &[0, 129], &[130, -1]),
        ("N", &[129], &[0, 130]),
        ("0-9:2/5", &[0, 1, 5, 6], &[2, 4, 7, 9]),
        ("0-130:1/2", &[], &[]),
    ] {
        let filter = |field: &str| format!("{field} & CPUS{{{list}}}");
        if has.is_empty() {
            Predicate::parse(&filter("cpu"), &waking, &large).unwrap_err();
            continue;
        }
        for field in ["cpu", "target_cpu"] {
            assert!(has.iter().all(|cpu| holds(&filter(field), *cpu)), "{list}");
            assert!(
                !lacks.iter().any(|cpu| holds(&filter(field), *cpu)),
                "{list}"
            );
        }
    }
    // One number is never equal to several, and differs from them if it is a CPU's.
    assert!(!holds("target_cpu == CPUS{0-1}", 0) && holds("target_cpu != CPUS{0-1}", 0));
    assert!(!holds("target_cpu != CPUS{0-1}", 130) && holds("cpu != CPUS{0-1}", 0));
    assert!(holds("target_cpu != CPUS{1}", 0) && holds("target_cpu == CPUS{1}", 1));
    assert!(!holds("target_cpu & CPUS{ }", 0) && !holds("target_cpu == CPUS{ }", 0));
}

#[test]
fn masks_are_compared_word_by_word() {
    let ipi = samples::format("ipi/ipi_send_cpumask");
    let holds = |filter: &str, mask: u64| {
        let mut bytes = vec![0; 40];
        bytes[8..12].copy_from_slice(&(8_u32 << 16 | 32).to_ne_bytes());
        bytes[32..].copy_from_slice(&mask.to_ne_bytes());
        let record = Record {
            bytes: &bytes,
            cpu: 0,
            comm: b"",
        };
        let predicate = Predicate::parse(filter, &ipi, &samples::Guest).unwrap();
        assert_eq!(by_steps(&predicate, record), predicate.holds(record));
        predicate.holds(record)
    };
    for (filter, expected) in [
        ("cpumask & CPUS{0}", [false, true, false, true]),
        ("cpumask & CPUS{0-1}", [false, true, true, true]),
        ("cpumask == CPUS{1}", [false, false, true, false]),
        ("cpumask != CPUS{1}", [true, true, false, true]),
        ("cpumask == CPUS{all}", [false, false, false, true]),
        ("cpumask != CPUS{all}", [true, true, true, false]),
        ("cpumask == CPUS{ }", [true, false, false, false]),
        ("cpumask & CPUS{ }", [false, false, false, false]),
    ] {
        assert_eq!([0, 1, 2, 3].map(|m| holds(filter, m)), expected, "{filter}");
    }
}

#[test]
fn functions_are_ranges_of_addresses() {
    let kmalloc = samples::format("kmem/kmalloc");
    let holds = |filter: &str, address: u64| {
        let mut bytes = vec![0; 52];
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        let record = Record {
            bytes: &bytes,
            cpu: 0,
            comm: b"",
        };
        let predicate = Predicate::parse(filter, &kmalloc, &samples::Guest).unwrap();
        predicate.holds(record)
    };
    let inside = |filter: &str| {
        [0x813c_5c1f, 0x813c_5c20, 0x813c_5f8f, 0x813c_5f90]
            .map(|low: u64| holds(filter, 0xffff_ffff_0000_0000 + low))
    };
    for filter in [
        "call_site.function == kfree",
        "call_site.function == 0xffffffff813c5c21",
    ] {
        assert_eq!(inside(filter), [false, true, true, false], "{filter}");
        let differs = filter.replace("==", "!=");
        assert_eq!(inside(&differs), [true, false, false, true], "{filter}");
    }
}
