//! What each source can answer: the one place that knows.
//!
//! A source that cannot know something leaves it out (`null`) and does not guess.
//! Tests say the truth once; what is asserted of a capture is the truth where its
//! source knows it, and that it is left out where it cannot.

use serde_json::Value;

use crate::{Capture, Record};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Always,
    /// Where the source was fast enough; else the record says that it is missing.
    Sometimes,
    Never,
}

/// What [`Record::code`] says of an end of which the source does not know how it came.
pub const UNKNOWN: &str = "unknown";

/// What source `backend` says in `member` of its records.
pub fn answer(backend: &str, member: &str) -> Answer {
    let of_usage = member.ends_with("_ns") && member != "wall_ns"
        || member.ends_with("_bytes")
        || matches!(
            member,
            "minflt" | "majflt" | "nvcsw" | "nivcsw" | "inblock" | "oublock"
        );
    match (backend, member) {
        // The records of the kernel's tracepoints have no more than pids, names and
        // times; the rest is looked up in /proc while the process is still there.
        ("ftrace", "exit_code" | "signal" | "signal_name" | "core_dumped" | "killed_by") => {
            Answer::Never
        }
        ("ftrace", _) if of_usage => Answer::Never,
        (
            "ftrace",
            "argv" | "cwd" | "cgroup" | "uid" | "euid" | "gid" | "egid" | "sid" | "pgid" | "ppid"
            | "parent_start",
        ) => Answer::Sometimes,
        ("ftrace", "tty" | "ns_pid" | "loginuid" | "env") => Answer::Never,
        // There are no stops at the CPU's side of things.
        ("ptrace", "cpu" | "blkio_delay_ns") => Answer::Never,
        _ => Answer::Always,
    }
}

/// Options that ask for more than the usual, and the kinds of lines that come of them.
pub const EXTRAS: [(&str, &str); 4] = [
    ("--threads", "fork"),
    ("--env", "exec"),
    ("--signals", "signal"),
    ("--failed-execs", "exec_failed"),
];

/// Those of [`EXTRAS`] that source `backend` offers.
pub fn extras(backend: &str) -> &'static [(&'static str, &'static str)] {
    let count = match backend {
        "ftrace" => 1,
        "ptrace" => 3,
        _ => EXTRAS.len(),
    };
    &EXTRAS[..count]
}

impl Capture {
    pub fn backend(&self) -> &str {
        self.meta().text("backend")
    }

    /// What `record` has to say of `member`, of which `truth` is true: that, or
    /// nothing where the source does not know.
    #[track_caller]
    pub fn expect(&self, record: &Value, member: &str, truth: impl Into<Value>) {
        if !self.leaves_out(record, member) {
            assert_eq!(record[member], truth.into(), "{member} in {record}");
        }
    }

    /// The same for a list of strings, from its `skip`th on.
    #[track_caller]
    pub fn expect_list<B: AsRef<[u8]>>(
        &self,
        record: &Value,
        member: &str,
        skip: usize,
        truth: &[B],
    ) {
        if !self.leaves_out(record, member) {
            let truth: Vec<Vec<u8>> = truth.iter().map(|b| b.as_ref().to_vec()).collect();
            assert_eq!(record.text(&format!("{member}_state")), "full", "{record}");
            assert_eq!(record.list(member)[skip..], truth, "{member} in {record}");
        }
    }

    /// Asserts how the process of `record` ended (`3`, `s15`).
    #[track_caller]
    pub fn expect_code(&self, record: &Value, truth: &str) {
        assert_eq!(record.code(), self.code(truth), "{record}");
    }

    /// The same of the command itself.
    #[track_caller]
    pub fn expect_root(&self, truth: &str) {
        self.expect_code(self.root(), truth);
    }

    /// What [`Record::code`] is to say of an end that is known to have come by `truth`.
    pub fn code(&self, truth: &str) -> String {
        match answer(self.backend(), "exit_code") {
            Answer::Always => truth.to_owned(),
            _ => UNKNOWN.to_owned(),
        }
    }

    /// Asserts that `record` leaves out what its source cannot know.
    #[track_caller]
    pub fn assert_no_guess(&self, record: &Value) {
        for (member, value) in record.as_object().into_iter().flatten() {
            let known = answer(self.backend(), member) != Answer::Never;
            assert!(known || value.is_null(), "{member} is a guess: {record}");
        }
        if record.get("final").is_some_and(|f| f == true) {
            let any = record.as_object().into_iter().flatten();
            let any = any.filter(|(m, v)| *m != "final" && !v.is_null()).count();
            assert!(any > 0, "nothing is said to be final: {record}");
        }
    }

    /// Whether `record` leaves `member` out, as its source may or must; panics where
    /// it is to be there, or is there and must not, or is missing without a word.
    #[track_caller]
    pub fn leaves_out(&self, record: &Value, member: &str) -> bool {
        let value = record
            .get(member)
            .unwrap_or_else(|| panic!("no {member} in {record}"));
        let backend = self.backend();
        match answer(backend, member) {
            Answer::Always => assert!(!value.is_null(), "{backend} knows {member}: {record}"),
            Answer::Never => assert!(value.is_null(), "{backend} guesses {member}: {record}"),
            Answer::Sometimes => {}
        }
        if value.is_null()
            && let Some(state) = record.get(format!("{member}_state"))
        {
            assert_eq!(state, "missing", "{record}");
            assert!(record[format!("{member}_reason")].is_string(), "{record}");
        }
        value.is_null()
    }
}
