//! What works on this machine, what does not, why, and how to mend it.
//!
//! [`facts`] looks at the machine; everything after that is a pure function of
//! what it found, so that machines nobody has at hand can be tested.

mod ebpf;
pub mod facts;
mod ftrace;
mod ptrace;
mod show;

use serde::Serialize;

pub use facts::Facts;
pub use show::{offsets_text, text};

/// Whether one need of a source is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ok,
    /// The source works, but knows or does less.
    Limited,
    /// The source does not work.
    Missing,
}

/// One need of a source. The names are stable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub name: &'static str,
    pub state: State,
    /// What was found.
    pub found: String,
    /// What follows from it; empty where all is well.
    pub follows: String,
    /// A command, or what else mends it.
    pub remedy: Option<String>,
}

impl Finding {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Ok,
            found: found.into(),
            follows: String::new(),
            remedy: None,
        }
    }

    fn limited(
        name: &'static str,
        found: impl Into<String>,
        follows: &str,
        remedy: Option<String>,
    ) -> Self {
        Self {
            name,
            state: State::Limited,
            found: found.into(),
            follows: follows.to_owned(),
            remedy,
        }
    }

    fn missing(
        name: &'static str,
        found: impl Into<String>,
        follows: &str,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = Some(remedy.into());
        Self {
            name,
            state: State::Missing,
            found: found.into(),
            follows: follows.to_owned(),
            remedy,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    pub source: &'static str,
    pub works: bool,
    pub findings: Vec<Finding>,
}

impl Source {
    fn new(source: &'static str, findings: Vec<Finding>) -> Self {
        let works = findings.iter().all(|f| f.state != State::Missing);
        Self {
            source,
            works,
            findings,
        }
    }

    /// Why it does not work, in one line.
    pub fn obstacle(&self) -> Option<&Finding> {
        self.findings.iter().find(|f| f.state == State::Missing)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    pub schema: u32,
    pub tracer: &'static str,
    pub kernel: String,
    /// The source that `--backend auto` would take.
    pub auto: Option<&'static str>,
    /// Best first.
    pub sources: Vec<Source>,
}

/// What follows from `facts`.
pub fn report(facts: &Facts) -> Report {
    let sources = vec![
        Source::new("ebpf", ebpf::findings(facts)),
        Source::new("ftrace", ftrace::findings(facts)),
        Source::new("ptrace", ptrace::findings(facts)),
    ];
    Report {
        schema: 1,
        tracer: env!("CARGO_PKG_VERSION"),
        kernel: facts.kernel.clone(),
        auto: sources.iter().find(|s| s.works).map(|s| s.source),
        sources,
    }
}

/// How to get a system call back that was refused although nothing else
/// forbids it.
fn unblock(facts: &Facts, call: &str) -> String {
    if facts.seccomp {
        format!(
            "a seccomp filter forbids {call}, as container runtimes set it; run tracer on the host, \
             or start the container with --security-opt seccomp=unconfined"
        )
    } else {
        format!("a security module may forbid {call}; see: dmesg | tail; journalctl -k -g denied")
    }
}

#[cfg(test)]
mod tests;
