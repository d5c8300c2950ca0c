//! What a workload counted of itself.

use anyhow::{Context as _, Result};

/// Events of a workload's descendants, as its `TRUTH` line has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    pub forks: u64,
    pub threads: u64,
    pub execs: u64,
    pub exits: u64,
}

impl Truth {
    /// The last `TRUTH` line of an output.
    pub fn find(output: &str) -> Result<Option<Self>> {
        let Some(line) = output.lines().rev().find_map(|l| l.strip_prefix("TRUTH ")) else {
            return Ok(None);
        };
        let number = |key: &str| -> Result<u64> {
            line.split(' ')
                .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
                .and_then(|value| value.parse().ok())
                .with_context(|| format!("no {key} in the workload's line {line:?}"))
        };
        Ok(Some(Self {
            forks: number("forks")?,
            threads: number("threads")?,
            execs: number("execs")?,
            exits: number("exits")?,
        }))
    }

    /// The same with the workload itself, which the root of the measured run forks and waits for.
    pub const fn with_workload(self) -> Self {
        Self {
            forks: self.forks + 1,
            threads: self.threads,
            execs: self.execs + 1,
            exits: self.exits + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts() {
        let output = "noise\nTRUTH forks=1 threads=2 execs=3 exits=4 codes=0:4\nmore\n";
        let truth = Truth {
            forks: 1,
            threads: 2,
            execs: 3,
            exits: 4,
        };
        assert_eq!(Truth::find(output).unwrap(), Some(truth));
        assert_eq!(Truth::find("nothing").unwrap(), None);
        assert!(Truth::find("TRUTH forks=1\n").is_err());
    }
}
