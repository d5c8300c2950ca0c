//! What holds for any text, and for any name.

use proptest::prelude::*;

use super::Text;
use super::text_tests::{Got, exec, line, read};

/// Text that nearly looks like a trace.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        Just(b"            bash-7       [000] .....  1706.297514: ".to_vec()),
        Just(b"sched_process_exec: filename=/a".to_vec()),
        Just(b" pid=7 old_pid=7\n".to_vec()),
        Just(b"sched_process_exit: comm=a pid=7 prio=120\n".to_vec()),
        Just(b"sched_process_fork: comm=a pid=7 child_comm=a child_pid=8\n".to_vec()),
        Just(b"task_newtask: pid=8 comm=a clone_flags=1 oom_score_adj=0\n".to_vec()),
        Just(b"CPU:1 [LOST 108 EVENTS]\n".to_vec()),
        Just(b"0x7 (7)".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..20),
        "[ 0-9()\\[\\]:.=\n-]{0,20}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(fragment, 0..60).prop_map(|f| f.concat())
}

proptest! {
    #[test]
    fn nothing_makes_it_panic_or_stay(bytes in fragments(), size in 1_usize..300) {
        let mut text = Text::new();
        let mut items = 0;
        for piece in bytes.chunks(size) {
            text.push(piece);
            while text.next(false).is_some() { items += 1; }
        }
        while text.next(true).is_some() { items += 1; }
        prop_assert!(items <= 2 * bytes.len());
    }

    /// Whatever a name holds that does not end as an exec of that very process
    /// does: one record, and nothing that the name said.
    #[test]
    fn no_name_makes_a_record(
        before in "[a-z/ ]{1,40}",
        tid in 2_u32..99_999,
        forged in proptest::collection::vec((1_u32..99_999, 0_usize..4), 1..6),
        closes in any::<bool>(),
    ) {
        let mut name = before;
        if closes {
            name += &format!(" pid={tid} old_pid={tid}");
        }
        name.push('\n');
        for (other, kind) in forged {
            name += &match kind {
                0 => line(other, "sched_process_exit", &format!("comm=a pid={other} prio=120")),
                1 => line(other, "sched_process_exec", &format!("filename=/x pid={other} old_pid={other}")),
                2 => line(other, "sched_process_fork", &format!("comm=a pid={other} child_comm=b child_pid=1")),
                _ => "CPU:1 [LOST 108 EVENTS]\n".to_owned(),
            };
        }
        name.push('z');
        let text = line(tid, "sched_process_exec", &format!("filename={name} pid={tid} old_pid={tid}"));
        let (got, _) = read(text.as_bytes());
        let all: Vec<_> = got.iter().filter(|g| !matches!(g, Got::Forged(..))).collect();
        prop_assert_eq!(all.len(), 1, "{:?}", all);
        prop_assert!(matches!(all[0], Got::Record(r) if r.body == exec(tid, &name)));
    }
}
