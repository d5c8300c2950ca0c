//! Processes whose programs have names that imitate trace records.

use std::collections::BTreeMap;

/// So many are told of as they are found; after that they are only counted.
const TOLD: usize = 8;

/// Lines by process.
#[derive(Debug, Default)]
pub struct Forgers(BTreeMap<u32, u64>);

impl Forgers {
    /// Notes, and says at the first time, that a name given by process `pid`
    /// holds lines that look like records.
    pub(super) fn tell(&mut self, pid: u32, lines: u64) {
        let known = self.0.len();
        let count = self.0.entry(pid).or_default();
        if *count == 0 && known < TOLD {
            eprintln!(
                "tracer: process {pid} runs a program whose name imitates trace records; \
                 what the name says is not taken for events"
            );
        }
        *count += lines;
    }

    /// Processes and how many such lines they made.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.iter().map(|(pid, lines)| (*pid, *lines))
    }
}
