//! What a workload counted of its own run.

use std::collections::BTreeMap;

/// The `TRUTH` line (see `fixtures/tally.h`): what the descendants of the
/// workload did, without its own first exec and its own end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    pub forks: u64,
    pub threads: u64,
    pub execs: u64,
    pub exits: u64,
    /// Ends by exit code (`3`) or signal (`s15`).
    pub codes: BTreeMap<String, u64>,
}

impl Truth {
    /// Reads the last `TRUTH` line of `output`.
    pub fn of(output: &str) -> Self {
        let line = output
            .lines()
            .rev()
            .find_map(|l| l.strip_prefix("TRUTH "))
            .unwrap_or_else(|| panic!("the workload printed no TRUTH line: {output:?}"));
        let mut truth = Self::default();
        for word in line.split_whitespace() {
            let (key, value) = word
                .split_once('=')
                .unwrap_or_else(|| panic!("not KEY=VALUE: {word:?}"));
            let number = || value.parse().unwrap_or_else(|e| panic!("{word:?}: {e}"));
            match key {
                "forks" => truth.forks = number(),
                "threads" => truth.threads = number(),
                "execs" => truth.execs = number(),
                "exits" => truth.exits = number(),
                "codes" => {
                    for pair in value.split(',').filter(|p| !p.is_empty()) {
                        let (code, count) = pair
                            .split_once(':')
                            .unwrap_or_else(|| panic!("no count: {pair:?}"));
                        truth.codes.insert(
                            code.into(),
                            count.parse().unwrap_or_else(|e| panic!("{pair:?}: {e}")),
                        );
                    }
                }
                _ => panic!("unknown member {key} in {line:?}"),
            }
        }
        truth
    }
}

/// The number after `key` in an output such as `SELF 12 CHILD 13`.
pub fn number_after(output: &str, key: &str) -> u64 {
    let mut words = output.split_whitespace();
    words
        .by_ref()
        .find(|w| *w == key)
        .and_then(|_| words.next())
        .and_then(|w| w.parse().ok())
        .unwrap_or_else(|| panic!("no {key} NUMBER in {output:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_line_of_a_workload() {
        let t = Truth::of("noise\nTRUTH forks=2 threads=1 execs=0 exits=2 codes=0:1,s15:1\n");
        assert_eq!((t.forks, t.threads, t.execs, t.exits), (2, 1, 0, 2));
        assert_eq!(t.codes, [("0".into(), 1), ("s15".into(), 1)].into());
        assert_eq!(
            Truth::of("TRUTH forks=0 threads=0 execs=0 exits=0 codes="),
            Truth::default()
        );
        assert_eq!(number_after("SELF 12 CHILD 13\n", "CHILD"), 13);
    }
}
