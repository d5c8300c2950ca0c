//! Saved text often has another clock than ours; how far it is from it.

use rustc_hash::FxHashMap;

use super::kind::Kind;
use super::side::Side;

/// What is nearer is no other clock, ns.
const OTHER_CLOCK_NS: u64 = 1_000_000;

/// Integers that are nearer than this to the other side's times are ns, too.
const SAME_CLOCK_NS: u64 = 1_000_000_000;

/// Times that cannot be compared.
#[derive(Debug, thiserror::Error)]
#[error(
    "{name}: its time stamps count no seconds; record it again with a clock that does: \
     echo boot > trace_clock (trace-cmd record -C mono)"
)]
pub struct NoSeconds {
    name: String,
}

/// Whether the times of both sides are in seconds.
///
/// # Errors
/// Those of one are integers, and not the ns of boot time, which trace-cmd prints so.
pub fn check(a: &Side, b: &Side) -> Result<(), NoSeconds> {
    let Some(odd) = [a, b].into_iter().find(|side| side.integers) else {
        return Ok(());
    };
    match ahead(a, b) {
        Some(ahead) if ahead.unsigned_abs() < SAME_CLOCK_NS => Ok(()),
        _ => Err(NoSeconds {
            name: odd.name.clone(),
        }),
    }
}

/// Shifts the times of a side that is saved text so that they fit those of the
/// other side; says by how much.
pub fn agree(a: &mut Side, b: &mut Side) -> Option<String> {
    let ahead = ahead(a, b)?;
    if ahead.unsigned_abs() < OTHER_CLOCK_NS || !(a.saved_text || b.saved_text) {
        return None;
    }
    let (side, by) = if b.saved_text {
        (b, ahead.saturating_neg())
    } else {
        (a, ahead)
    };
    side.shift(by);
    Some(format!(
        "{}: its clock is not boot time; {} ns were added to all of its times",
        side.name, by
    ))
}

/// By how much the times of `b` are ahead: the median over the numbers of processes
/// that each side uses once.
fn ahead(a: &Side, b: &Side) -> Option<i64> {
    let (of_a, of_b) = (once(a), once(b));
    let mut ahead: Vec<i64> = of_a
        .iter()
        .filter_map(|(key, x)| {
            let y = of_b.get(key)?.as_ref()?;
            i64::try_from(i128::from(*y) - i128::from(x.as_ref().copied()?)).ok()
        })
        .collect();
    ahead.sort_unstable();
    ahead.get(ahead.len() / 2).copied()
}

fn once(side: &Side) -> FxHashMap<(Kind, u32), Option<u64>> {
    let mut times: FxHashMap<(Kind, u32), Option<u64>> = FxHashMap::default();
    for entry in &side.entries {
        if matches!(entry.kind, Kind::Fork | Kind::Exec | Kind::Exit)
            && let Some(life) = side.lives.get(entry.life as usize)
        {
            times
                .entry((entry.kind, life.id.pid))
                .and_modify(|t| *t = None)
                .or_insert(Some(entry.ts));
        }
    }
    times
}
