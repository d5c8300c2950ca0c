//! Processes of which the two sides name another thread as the last one.
//!
//! Before Linux 6.16 the exit tracepoint does not say whether a thread is the last
//! of its process. It comes after the count of living threads has gone down, so that
//! of threads that end at once each can see 0: eBPF takes the first of them for the
//! last, ftrace the last that it reads. Either is right, and all ends are on both sides.

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::kind::Kind;
use super::side::{Entry, Side};

/// Why they disagree.
pub const LAST_OF_SEVERAL: &str = "which of the threads that ended at once was the last: before Linux 6.16 the \
                                   kernel does not say";

/// The two threads by process.
#[derive(Debug, Default)]
pub struct LastThreads(FxHashMap<u32, (Last, Last)>);

/// A thread that was the last on one side.
#[derive(Clone, Debug)]
struct Last {
    tid: u32,
    /// Its name, as the other side says it at its end.
    comm: Value,
}

impl LastThreads {
    /// Finds them: either side has the end of that thread which the other one took
    /// for the last, and all four ends are not further apart than `tolerance`, ns.
    pub fn find(
        a: &Side,
        b: &Side,
        class_a: &impl Fn(u32) -> u32,
        class_b: &impl Fn(u32) -> u32,
        tolerance: u64,
    ) -> Self {
        if [a, b].iter().any(|side| tells_last(side)) {
            return Self::default();
        }
        let of_b = exits(b, class_b);
        let mut pairs: Vec<(u32, &Entry, &Entry)> = exits(a, class_a)
            .into_iter()
            .filter_map(|(class, x)| Some((class, x, *of_b.get(&class)?)))
            .filter(|(_, x, y)| x.tid != y.tid && x.tid != 0 && y.tid != 0)
            .collect();
        pairs.sort_unstable_by_key(|(class, ..)| *class);
        if pairs.is_empty() {
            return Self::default();
        }
        let (ends_a, ends_b) = (thread_ends(a, class_a), thread_ends(b, class_b));
        let found = pairs.into_iter().filter_map(|(class, x, y)| {
            let other_on_a = *ends_a.get(&(class, y.tid))?;
            let other_on_b = *ends_b.get(&(class, x.tid))?;
            let times = [x.ts, y.ts, other_on_a.ts, other_on_b.ts];
            let (first, last) = (times.iter().min()?, times.iter().max()?);
            let comm = |side: &Side, end| {
                let object = side.object(end);
                object.get("comm").cloned().unwrap_or(Value::Null)
            };
            let of_a = Last {
                tid: x.tid,
                comm: comm(b, other_on_b),
            };
            let of_b = Last {
                tid: y.tid,
                comm: comm(a, other_on_a),
            };
            (last - first <= tolerance).then_some((class, (of_a, of_b)))
        });
        Self(found.collect())
    }

    /// Whether the end of this thread is a process's end on the other side.
    pub fn is_one(&self, class: u32, tid: u32) -> bool {
        let pair = self.0.get(&class);
        pair.is_some_and(|(a, b)| [a.tid, b.tid].contains(&tid))
    }

    /// Whether the ends (or rows) of a process disagree on this member for no other reason.
    pub fn explains(&self, class: u32, kind: Kind, member: &str, a: &Value, b: &Value) -> bool {
        let Some((last_a, last_b)) = self.0.get(&class) else {
            return false;
        };
        match (kind, member) {
            (Kind::Exit, "tid") => true,
            // A thread may have a name of its own.
            (Kind::Exit | Kind::Process, "comm") => *a == last_a.comm && *b == last_b.comm,
            _ => false,
        }
    }
}

/// Whether the kernel that a side was recorded on says which thread is the last.
fn tells_last(side: &Side) -> bool {
    side.meta.as_ref().is_some_and(is_since_6_16)
}

pub(super) fn is_since_6_16(meta: &Map<String, Value>) -> bool {
    let release = meta.get("kernel").and_then(Value::as_str);
    let mut numbers = release
        .unwrap_or_default()
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse::<u32>().unwrap_or_default());
    (numbers.next(), numbers.next()) >= (Some(6), Some(16))
}

/// The end of each process that has one end.
fn exits<'a>(side: &'a Side, class: &impl Fn(u32) -> u32) -> FxHashMap<u32, &'a Entry> {
    let exits = side.entries.iter().filter(|e| e.kind == Kind::Exit);
    exits.map(|e| (class(e.life), e)).collect()
}

fn thread_ends<'a>(
    side: &'a Side,
    class: &impl Fn(u32) -> u32,
) -> FxHashMap<(u32, u32), &'a Entry> {
    let ends = side.entries.iter().filter(|e| e.kind == Kind::ThreadExit);
    ends.map(|e| ((class(e.life), e.sub), e)).collect()
}
