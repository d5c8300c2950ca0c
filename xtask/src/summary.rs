//! The test runner's closing lines, added up.

use std::{fmt, ops::AddAssign};

/// How many tests did what.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
}

impl Summary {
    /// Takes in a line such as `test result: ok. 5 passed; 0 failed; 1 ignored; …`; other lines are passed over.
    pub fn add_line(&mut self, line: &str) {
        let Some((_, counts)) = line.split_once("test result: ") else {
            return;
        };
        let count = |what: &str| {
            let before = counts
                .split(';')
                .find_map(|part| part.trim().strip_suffix(what))?;
            before.trim().rsplit(' ').next()?.parse::<u64>().ok()
        };
        self.passed += count("passed").unwrap_or(0);
        self.failed += count("failed").unwrap_or(0);
        self.ignored += count("ignored").unwrap_or(0);
    }
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.ignored
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_added_up() {
        let mut summary = Summary::default();
        summary.add_line("running 3 tests");
        summary.add_line("test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        summary.add_line("test result: \u{1b}[31mFAILED\u{1b}[0m. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(summary.to_string(), "7 passed, 3 failed, 1 skipped");
    }
}
