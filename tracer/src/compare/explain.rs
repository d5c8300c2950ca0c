//! Differences that are properties of a source, of the moment when a recording
//! began or ended, or of what it was asked for: no faults.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;
use serde_json::{Map, Value};

use super::fields::Disagreement;
use super::kind::Kind;
use super::last_thread::LastThreads;
use super::lives::NONE;
use super::side::{Entry, Losses, Side};
use super::tree::{Parents, descendants};

/// A thread that was killed before it could tell of what it had created.
const CREATOR: &str = "threads that were killed while they created a process: ptrace is not told which of their process it was";

/// A parent that ended while its child did.
const PARENT: &str =
    "parents that ended while their child did: ptrace looks a moment before the end of the child";

/// A thread that ended while its process did.
const CODE: &str =
    "threads that ended while their process did: ptrace is told the code of the process";

/// A parent that ended after one of the recordings did.
const RAN_ON: &str =
    "parents of processes that ran on after the end of one side: each says who it was then";

/// A path in another root directory.
const ROOT: &str = "working directories of processes with another root directory (chroot): ptrace shows them as they are in tracer's";

/// Why records are on one side only.
pub struct Absence<'a> {
    /// The side that has them, and the one that does not.
    pub here: &'a Side,
    pub there: &'a Side,
    /// Processes of `here` that `there` would follow; all of them if absent.
    followed: Option<FxHashSet<u32>>,
    known_there: FxHashSet<u32>,
    root_there: u32,
    kinds_there: FxHashSet<Kind>,
    kthreads_there: bool,
    /// When the command ended, and the processes that had ended there by the end: what
    /// the command leaves behind is followed for a moment only.
    command_end: Option<u64>,
    ended_there: FxHashSet<u32>,
    /// Threads whose creation has a record here.
    created: FxHashSet<(u32, u32)>,
    last_threads: &'a LastThreads,
}

impl<'a> Absence<'a> {
    pub fn new(
        here: &'a Side,
        there: &'a Side,
        parents_here: &Parents,
        class_here: &impl Fn(u32) -> u32,
        class_there: &impl Fn(u32) -> u32,
        last_threads: &'a LastThreads,
    ) -> Self {
        let root = |side: &Side, class: &dyn Fn(u32) -> u32| {
            let life = side.root.and_then(|id| side.find(&id));
            life.map_or(NONE, class)
        };
        let root_there = root(there, class_there);
        let root_here = root(here, class_here);
        let narrower = there.root.is_some() && root_there != root_here;
        let threads = here.entries.iter().filter(|e| e.kind == Kind::Thread);
        let mut exits = here.entries.iter().filter(|e| e.kind == Kind::Exit);
        let command_end = exits.find(|e| root_here != NONE && class_here(e.life) == root_here);
        let exits = there.entries.iter().filter(|e| e.kind == Kind::Exit);
        Self {
            here,
            there,
            followed: narrower.then(|| descendants(parents_here, root_there)),
            known_there: there.entries.iter().map(|e| class_there(e.life)).collect(),
            root_there,
            kinds_there: there.entries.iter().map(|e| e.kind).collect(),
            kthreads_there: there.lives.iter().any(|l| l.kthread),
            command_end: command_end.map(|e| e.ts),
            ended_there: exits.map(|e| class_there(e.life)).collect(),
            created: threads.map(|e| (class_here(e.life), e.sub)).collect(),
            last_threads,
        }
    }

    /// Whether the side that lacks the record has another one of process number `class`.
    pub fn knows(&self, class: u32) -> bool {
        self.known_there.contains(&class)
    }

    /// The reason why the record of process number `class` is here only, if it is no fault.
    pub fn why(&self, entry: &Entry, class: u32) -> Option<String> {
        let there = &self.there.name;
        let life = self.here.lives.get(entry.life as usize)?;
        if !self.kinds_there.contains(&entry.kind) {
            match entry.kind {
                Kind::Thread | Kind::ThreadExit => {
                    return Some(format!("threads: {there} does not list them"));
                }
                Kind::ExecFailed | Kind::Signal | Kind::Seed | Kind::Process => {
                    let kind = entry.kind.name();
                    return Some(format!("{kind} records: {there} has none of them"));
                }
                _ => {}
            }
        }
        if entry.kind == Kind::Fork && class == self.root_there {
            return Some(format!(
                "the fork of the command is tracer's own: {there} does not show it"
            ));
        }
        if life.kthread && !self.kthreads_there {
            return Some(format!("kernel threads: {there} leaves them out"));
        }
        let followed = self.followed.as_ref().is_none_or(|f| f.contains(&class));
        if !followed && !self.known_there.contains(&class) {
            return Some(format!(
                "processes outside of the command that {there} follows"
            ));
        }
        let (begin, end) = self.there.span;
        let ts = if entry.ts == u64::MAX {
            life.last
        } else {
            entry.ts
        };
        if ts < begin {
            return Some(format!("before {there} began"));
        }
        let left_behind = self.command_end.is_some_and(|end| ts > end);
        if ts > end || left_behind && !self.ended_there.contains(&class) {
            return Some(format!("after the end of {there}"));
        }
        let leader = entry.sub == life.id.pid;
        if entry.kind == Kind::ThreadExit
            && let Some(why) = self.last_threads.why_alone(class, entry.sub, leader)
        {
            return Some(why.to_owned());
        }
        if entry.kind == Kind::ThreadExit && !leader && !self.created.contains(&(class, entry.sub))
        {
            return Some(
                "ends of threads that the kernel made for itself (io_uring): their creation has no fork record"
                    .to_owned(),
            );
        }
        None
    }
}

/// Takes one record of this kind from what was lost.
pub fn take_lost(losses: &mut Losses, kind: Kind) -> bool {
    for name in [kind.lost_as(), "any"] {
        if let Some(left) = losses.get_mut(name).filter(|n| **n > 0) {
            *left -= 1;
            return true;
        }
    }
    false
}

/// Why two records disagree on a member, if it is no fault.
pub struct Opinion<'a> {
    pub a: &'a Side,
    pub b: &'a Side,
    /// Threads without a record of their creation are among the process's.
    pub odd_threads: bool,
    /// The parent at its fork had ended by then.
    pub orphan: bool,
    /// The process's number.
    pub class: u32,
    /// The end of the process, as [`code`] gives it.
    pub code: Option<&'a [Value; 2]>,
    pub last_threads: &'a LastThreads,
}

impl Opinion<'_> {
    pub fn why(
        &self,
        kind: Kind,
        member: &Disagreement,
        a: &Map<String, Value>,
        b: &Map<String, Value>,
    ) -> Option<&'static str> {
        let runs_on =
            |record: &Map<String, Value>| record.get("running") == Some(&Value::Bool(true));
        if matches!(member.member.as_str(), "ppid" | "parent_start")
            && kind == Kind::Process
            && self.orphan
            && runs_on(a) != runs_on(b)
        {
            return Some(RAN_ON);
        }
        let sides = [(self.a, a, b, &member.a), (self.b, b, a, &member.b)];
        let ptrace = sides.iter().filter(|s| s.0.backend == "ptrace");
        for (_, own, other, value) in ptrace {
            match (kind, member.member.as_str()) {
                (Kind::Fork, "tid") if Some(*value) == own.get("pid") => return Some(CREATOR),
                (Kind::Exit | Kind::Process, "ppid" | "parent_start")
                    if self.orphan && is_orphan(other) && !is_orphan(own) =>
                {
                    return Some(PARENT);
                }
                (Kind::ThreadExit, "exit_code" | "signal" | "signal_name" | "core_dumped")
                    if Some(&code(own)) == self.code =>
                {
                    return Some(CODE);
                }
                (Kind::Exec | Kind::Process, "cwd") if is_below(value, other.get("cwd")) => {
                    return Some(ROOT);
                }
                _ => {}
            }
        }
        let last = self.last_threads;
        let why = last.why(self.class, kind, &member.member, &member.a, &member.b);
        if why.is_some() {
            return why;
        }
        let ftrace = sides.iter().filter(|s| s.0.backend == "ftrace");
        for (_, own, other, value) in ftrace {
            let same = |mine: &str, theirs: &str| {
                own.get(mine)
                    .is_some_and(|v| !v.is_null() && Some(v) == other.get(theirs))
            };
            match member.member.as_str() {
                "ppid" | "parent_start"
                    if self.orphan && (kind == Kind::Exec || same("ppid", "orig_ppid")) =>
                {
                    return Some("parents after re-parenting: ftrace has no record of it");
                }
                "comm" if matches!(kind, Kind::Exec | Kind::Process) && !is_name_of(own, value) => {
                    return Some(
                        "names after an exec: ftrace does not record them, they were read a moment later",
                    );
                }
                "comm" if matches!(kind, Kind::Exec) && is_fd(own) => {
                    return Some(
                        "names of programs run by descriptor: ftrace does not record them",
                    );
                }
                "cwd" if matches!(kind, Kind::Exec | Kind::Process) => {
                    return Some(
                        "working directories: ftrace does not record them, they were read a moment after the exec",
                    );
                }
                "threads" if self.odd_threads => {
                    return Some(
                        "numbers of threads with those that the kernel made for itself (io_uring)",
                    );
                }
                _ => {}
            }
        }
        None
    }
}

/// Exit code and signal of a record.
pub fn code(record: &Map<String, Value>) -> [Value; 2] {
    ["exit_code", "signal"].map(|m| record.get(m).cloned().unwrap_or(Value::Null))
}

/// Whether the parent in a record is not the first one.
fn is_orphan(record: &Map<String, Value>) -> bool {
    let [now, first] = ["ppid", "orig_ppid"].map(|m| record.get(m));
    now.is_some() && first.is_some() && now != first
}

/// Whether `path` is `inner` within a directory.
fn is_below(path: &Value, inner: Option<&Value>) -> bool {
    let inner = inner.and_then(Value::as_str);
    let (Some(path), Some(inner)) = (path.as_str(), inner) else {
        return false;
    };
    let root = if inner == "/" {
        Some(path)
    } else {
        path.strip_suffix(inner)
    };
    inner.starts_with('/') && root.is_some_and(|r| r.starts_with('/'))
}

/// Whether a name is what exec makes of the record's file name.
fn is_name_of(record: &Map<String, Value>, comm: &Value) -> bool {
    let filename = record.get("filename").and_then(Value::as_str);
    let last = filename.and_then(|f| f.rsplit('/').next());
    match (last, comm.as_str()) {
        (Some(last), Some(comm)) => last.bytes().take(15).eq(comm.bytes()),
        _ => false,
    }
}

fn is_fd(record: &Map<String, Value>) -> bool {
    let filename = record.get("filename").and_then(Value::as_str);
    filename.is_some_and(|f| f.starts_with("/dev/fd/"))
}

/// What was explained, and how often.
pub type Explained = BTreeMap<String, u64>;
