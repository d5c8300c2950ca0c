//! Processes whose programs have names that imitate trace records.

use std::collections::BTreeMap;

/// Lines by process.
#[derive(Debug, Default)]
pub struct Forgers(BTreeMap<u32, u64>);

impl Forgers {
    /// Notes that a name given by process `pid` holds lines that look like records.
    pub(super) fn note(&mut self, pid: u32, lines: u64) {
        *self.0.entry(pid).or_default() += lines;
    }

    /// Processes and how many such lines they made.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.iter().map(|(pid, lines)| (*pid, *lines))
    }

    /// What to tell users, a remark for each process.
    pub(super) fn remarks(&self) -> impl Iterator<Item = String> {
        self.iter().map(|(pid, lines)| {
            format!(
                "process {pid} ran a program whose name imitates trace records ({lines} lines); \
                 what the name says is not taken for events"
            )
        })
    }
}
