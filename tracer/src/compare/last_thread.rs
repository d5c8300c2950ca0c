//! Processes of which the two sides name another thread as the last one.
//!
//! Before Linux 6.16 the exit tracepoint does not say whether a thread is the last
//! of its process. It comes after the count of living threads has gone down, so that
//! of threads that end at once each can see 0: eBPF takes the first of them for the
//! last, ftrace the last that it reads. A ptracer in turn is told of a leader's end
//! when the last thread has gone, on any kernel. Either is right, and but for a leader
//! under ptrace all ends are on both sides.

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::kind::Kind;
use super::side::{Entry, Side};

/// Why they disagree.
const LAST_OF_SEVERAL: &str = "which of the threads that ended at once was the last: before Linux 6.16 the \
                                   kernel does not say";

/// The same where ptrace is one of them.
const LEADER: &str =
    "leaders that ended before their threads: ptrace learns of their end with that of the process";

/// The two threads by process.
#[derive(Debug, Default)]
pub struct LastThreads {
    pairs: FxHashMap<u32, [Last; 2]>,
    ptrace: bool,
}

/// A thread that was the last on one side.
#[derive(Clone, Debug)]
struct Last {
    tid: u32,
    /// Its name, as the other side says it at its end.
    comm: Option<Value>,
}

impl LastThreads {
    /// Finds them. Where the kernel does not say which one was the last, either side has
    /// the end of that thread which the other one took for it, and all four ends are not
    /// further apart than `tolerance`, ns.
    pub fn find(
        a: &Side,
        b: &Side,
        class_a: &impl Fn(u32) -> u32,
        class_b: &impl Fn(u32) -> u32,
        tolerance: u64,
    ) -> Self {
        let ptrace = [a, b].iter().any(|side| side.backend == "ptrace");
        if !ptrace && [a, b].iter().any(|side| tells_last(side)) {
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
            return Self {
                ptrace,
                ..Self::default()
            };
        }
        let (ends_a, ends_b) = (thread_ends(a, class_a), thread_ends(b, class_b));
        let found = pairs.into_iter().filter_map(|(class, x, y)| {
            let other_on_a = ends_a.get(&(class, y.tid)).copied();
            let other_on_b = ends_b.get(&(class, x.tid)).copied();
            if !ptrace {
                let times = [x.ts, y.ts, other_on_a?.ts, other_on_b?.ts];
                let (first, last) = (times.iter().min()?, times.iter().max()?);
                if last - first > tolerance {
                    return None;
                }
            }
            let last = |tid, side: &Side, end: Option<&Entry>| Last {
                tid,
                comm: end.map(|e| side.object(e).get("comm").cloned().unwrap_or(Value::Null)),
            };
            Some((
                class,
                [last(x.tid, b, other_on_b), last(y.tid, a, other_on_a)],
            ))
        });
        Self {
            pairs: found.collect(),
            ptrace,
        }
    }

    /// Why the end of this thread is a process's end, or none of its own, on the other side.
    pub fn why_alone(&self, class: u32, tid: u32, leader: bool) -> Option<&'static str> {
        let pair = self.pairs.get(&class);
        let one = pair.is_some_and(|pair| pair.iter().any(|last| last.tid == tid));
        (one || self.ptrace && leader).then(|| self.reason())
    }

    /// Why the ends (or rows) of a process disagree on this member, if it is for no other reason.
    pub fn why(
        &self,
        class: u32,
        kind: Kind,
        member: &str,
        a: &Value,
        b: &Value,
    ) -> Option<&'static str> {
        let [last_a, last_b] = self.pairs.get(&class)?;
        let same = match (kind, member) {
            (Kind::Exit, "tid") => true,
            // A thread may have a name of its own.
            (Kind::Exit | Kind::Process, "comm") => {
                Some(a) == last_a.comm.as_ref() && Some(b) == last_b.comm.as_ref()
            }
            _ => false,
        };
        same.then(|| self.reason())
    }

    const fn reason(&self) -> &'static str {
        if self.ptrace { LEADER } else { LAST_OF_SEVERAL }
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
