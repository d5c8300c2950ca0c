//! Whether all processes of a set have ended, while they may still fork.

use std::hash::Hash;

use rustc_hash::FxHashSet;

/// `look` goes through the set, in which a process is from its fork until some time after
/// its end: all that it finds, or nothing where one of them lives.
///
/// One look is not enough. While it is under way a process may fork, into a place that has
/// been passed, and end before its own turn. So there are two, and the second must find
/// nobody new: whoever lived in between had not ended at the first, hence was not found by
/// it, and is found by the second. (Unless all who did are freed again before their turn,
/// which takes a grace period after they are waited for.)
pub fn all_over<K: Eq + Hash>(mut look: impl FnMut() -> Option<FxHashSet<K>>) -> bool {
    let Some(first) = look() else {
        return false;
    };
    look().is_some_and(|second| second.is_subset(&first))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What looks find one after the other, of whom each says whether they have ended.
    fn over(looks: &[&[(u32, bool)]]) -> bool {
        let mut looks = looks.iter();
        all_over(|| {
            let found = looks.next().expect("two looks at most").iter();
            found.map(|(pid, ended)| ended.then_some(*pid)).collect()
        })
    }

    #[test]
    fn who_was_forked_during_a_look_is_not_overlooked() {
        // 1 forked 2 and ended, before its own turn and after that of 2.
        assert!(!over(&[&[(1, true)], &[(2, false), (1, true)]]));
        // And 2 forked 3, in the same way.
        assert!(!over(&[&[(1, true)], &[(1, true), (2, true)]]));
    }

    #[test]
    fn all_have_ended() {
        assert!(over(&[&[(1, true), (2, true)], &[(2, true)]]));
        assert!(over(&[&[], &[]]));
        assert!(!over(&[&[(1, true), (2, false)]]));
    }
}
