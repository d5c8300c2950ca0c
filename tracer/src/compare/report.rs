//! What a comparison found, as `--json` prints it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::explain::Explained;
use super::fields::Disagreement;
use super::kind::Kind;
use super::side::{Losses, Side};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Equal,
    /// Nothing differs but records that a side itself reports as lost.
    EqualButForLosses,
    Different,
}

impl Verdict {
    /// 0 or 1. What was lost was not compared, so that it is not equal.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Equal => 0,
            Self::EqualButForLosses | Self::Different => 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    OnlyA,
    OnlyB,
    /// It equals another record of the same side.
    TwiceInA,
    TwiceInB,
    Differs,
}

#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    pub what: What,
    pub kind: Kind,
    pub pid: Option<u32>,
    /// Boot ns.
    pub ts: Option<u64>,
    /// Numbers of the lines in the files, where those are captures.
    pub line_a: Option<u32>,
    pub line_b: Option<u32>,
    pub members: Vec<Disagreement>,
    /// It is within what the other side reports as lost.
    pub lost: bool,
    /// Its place among the rows.
    #[serde(skip)]
    pub row: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// On both sides, whether they agree or not.
    pub matched: u64,
    pub differ: u64,
    /// Missing in B, and extra in B: without what is explained or lost.
    pub only_a: u64,
    pub only_b: u64,
    pub twice_a: u64,
    pub twice_b: u64,
    /// On one side only, and no fault.
    pub explained: u64,
    /// On one side only, as the other one lost it.
    pub lost: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct SideReport {
    pub name: String,
    pub backend: String,
    pub records: u64,
    pub lost: Losses,
    /// It has no end: its writer was killed.
    pub cut: bool,
}

impl From<&Side> for SideReport {
    fn from(side: &Side) -> Self {
        let of_processes = side.entries.iter().filter(|e| !e.kind.is_of_capture());
        Self {
            name: side.name.clone(),
            backend: side.backend.clone(),
            records: of_processes.count() as u64,
            lost: side.lost.clone(),
            cut: side.cut,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct TreeReport {
    pub equal: bool,
    /// Processes on both sides.
    pub processes: u64,
    /// Pids of those with another parent, or on one side only without explanation.
    pub other_parent: Vec<u32>,
    pub only_a: Vec<u32>,
    pub only_b: Vec<u32>,
}

/// B's time less A's, ns, over the matched records of processes.
#[derive(Clone, Debug, Serialize)]
pub struct Skew {
    pub pairs: u64,
    pub median: i64,
    /// Of the absolute values.
    pub p99: u64,
    pub max: u64,
}

impl Skew {
    pub fn of(mut skews: Vec<i64>) -> Option<Self> {
        if skews.is_empty() {
            return None;
        }
        skews.sort_unstable();
        let median = *skews.get(skews.len() / 2)?;
        let mut sizes: Vec<u64> = skews.iter().map(|s| s.unsigned_abs()).collect();
        sizes.sort_unstable();
        let p99 = (sizes.len() * 99).div_ceil(100).saturating_sub(1);
        Some(Self {
            pairs: sizes.len() as u64,
            median,
            p99: *sizes.get(p99)?,
            max: *sizes.last()?,
        })
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub verdict: Verdict,
    pub a: SideReport,
    pub b: SideReport,
    /// Two copies of one capture: every member was compared, and nothing explained.
    pub copies: bool,
    pub kinds: BTreeMap<Kind, Counts>,
    pub tree: TreeReport,
    /// How often the sides disagree on a member.
    pub members: BTreeMap<String, u64>,
    pub skew_ns: Option<Skew>,
    pub explained: Explained,
    pub notes: Vec<String>,
    pub differences: Vec<Difference>,
}
