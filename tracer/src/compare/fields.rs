//! What two records of one event say differently.

use serde::Serialize;
use serde_json::{Map, Value};

use super::kind::Kind;
use super::lives::{Lives, NONE};
use super::side::Side;
use crate::decode::jsonl::member_id;
use crate::model::{Precision, ProcId};

/// A member on which the sides disagree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disagreement {
    pub member: String,
    pub a: Value,
    pub b: Value,
}

/// Members that are an identity together: pid, start, precision of the start.
const IDENTITIES: [[&str; 3]; 6] = [
    ["pid", "start", "start_precision"],
    ["ppid", "parent_start", "parent_start_precision"],
    [
        "orig_ppid",
        "orig_parent_start",
        "orig_parent_start_precision",
    ],
    ["child_pid", "child_start", "child_start_precision"],
    ["sender_pid", "sender_start", "sender_start_precision"],
    ["root_pid", "root_start", "root_start_precision"],
];

/// Where and when a record was made, and what follows from that: another recording
/// of the same event says otherwise without being wrong.
const OF_THE_RECORDING: [&str; 14] = [
    "type",
    "ts",
    "cpu",
    "end",
    "exec_ts",
    "wall_ns",
    "thread_start",
    "usage",
    "killed_by",
    "fork_seen",
    "seeded",
    "running",
    "root",
    "by_kernel",
];

/// Compares two records member by member. What one of them does not know is
/// no disagreement.
pub struct Fields<'a> {
    pub a: &'a Side,
    pub b: &'a Side,
    pub lives: &'a Lives,
    /// Two copies of one capture: everything must be the same.
    pub copies: bool,
}

impl Fields<'_> {
    pub fn disagreements(
        &self,
        kind: Kind,
        a: &Map<String, Value>,
        b: &Map<String, Value>,
    ) -> Vec<Disagreement> {
        let mut out = Vec::new();
        if self.copies {
            let names = a.keys().chain(b.keys().filter(|k| !a.contains_key(*k)));
            for name in names {
                let (x, y) = (value(a, name), value(b, name));
                if x != y {
                    out.push(disagreement(name, x, y));
                }
            }
            return out;
        }
        for names in IDENTITIES {
            self.identity(names, a, b, &mut out);
        }
        let plain = a.iter().filter(|(name, x)| {
            !x.is_null()
                && !OF_THE_RECORDING.contains(&name.as_str())
                && !IDENTITIES.iter().flatten().any(|i| i == name)
                && !name.ends_with("_state")
                && !name.ends_with("_reason")
        });
        for (name, x) in plain {
            let y = value(b, name);
            if !y.is_null() && *x != y && !is_cut_of(name, a, x, b, &y) {
                out.push(disagreement(name, x.clone(), y));
            }
        }
        // The thread that ended last is another matter than the process.
        out.retain(|d| kind != Kind::Process || d.member != "tid");
        out
    }

    fn identity(
        &self,
        names: [&str; 3],
        a: &Map<String, Value>,
        b: &Map<String, Value>,
        out: &mut Vec<Disagreement>,
    ) {
        let (Some(x), Some(y)) = (member_id(a, names), member_id(b, names)) else {
            return;
        };
        let [pid, start, _] = names;
        if x.pid != y.pid {
            out.push(disagreement(pid, x.pid.into(), y.pid.into()));
        } else if !self.is_same(&x, &y) {
            out.push(disagreement(start, x.start.into(), y.start.into()));
        }
    }

    /// Of two with the same pid.
    fn is_same(&self, a: &ProcId, b: &ProcId) -> bool {
        let class_a = self.a.find(a).map_or(NONE, |l| self.lives.of_a(l));
        let class_b = self.b.find(b).map_or(NONE, |l| self.lives.of_b(l));
        if class_a != NONE && class_b != NONE {
            return class_a == class_b;
        }
        // One that no record is about.
        let vague = [a, b].iter().any(|id| id.precision == Precision::Inferred);
        vague || a.matches(b)
    }
}

fn value(object: &Map<String, Value>, name: &str) -> Value {
    object.get(name).cloned().unwrap_or(Value::Null)
}

fn disagreement(member: &str, a: Value, b: Value) -> Disagreement {
    Disagreement {
        member: member.to_owned(),
        a,
        b,
    }
}

/// Whether they differ only because one was cut.
fn is_cut_of(
    name: &str,
    a: &Map<String, Value>,
    x: &Value,
    b: &Map<String, Value>,
    y: &Value,
) -> bool {
    let state = format!("{name}_state");
    let cut = |o: &Map<String, Value>| o.get(&state).and_then(Value::as_str) == Some("truncated");
    let (short, long) = match (cut(a), cut(b)) {
        (false, false) => return false,
        (true, false) => (x, y),
        (false, true) => (y, x),
        (true, true) if length(x) <= length(y) => (x, y),
        (true, true) => (y, x),
    };
    match (short, long) {
        // What is cut of a working directory is its upper end.
        (Value::String(short), Value::String(long)) if name == "cwd" => {
            let upper = long.strip_suffix(short.as_str());
            upper.is_some_and(|upper| upper.ends_with('/'))
        }
        (Value::String(short), Value::String(long)) => long.starts_with(short.as_str()),
        (Value::Array(short), Value::Array(long)) => {
            let Some((last, before)) = short.split_last() else {
                return true;
            };
            let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
            long.starts_with(before)
                && long
                    .get(before.len())
                    .is_some_and(|l| text(l).starts_with(&text(last)))
        }
        _ => false,
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(s) => s.len(),
        Value::Array(v) => v.iter().map(|s| s.as_str().map_or(0, str::len) + 1).sum(),
        _ => 0,
    }
}
