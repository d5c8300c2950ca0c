//! The line of a tool's error output that tells most.

use std::{fs, path::Path};

const TELLING: [&str; 8] = [
    "error",
    "fail",
    "denied",
    "permitted",
    "cannot",
    "can't",
    "unable",
    "exception",
];
/// bpftrace says this and works.
const HARMLESS: &str = "RLIMIT_MEMLOCK";

pub fn of(stderr: &Path) -> Option<String> {
    let text = fs::read(stderr).ok()?;
    pick(&String::from_utf8_lossy(&text))
}

fn pick(text: &str) -> Option<String> {
    let lines = || {
        text.lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.contains(HARMLESS))
    };
    let tells = |line: &&str| {
        let line = line.to_lowercase();
        TELLING.iter().any(|word| line.contains(word))
    };
    let line = lines().find(tells).or_else(|| lines().next())?;
    Some(line.chars().filter(|c| !c.is_control()).take(160).collect())
}

#[cfg(test)]
mod tests {
    use super::pick;

    #[test]
    fn the_telling_line_is_picked() {
        let text = "If you see RLIMIT_MEMLOCK failed\nstarting\nopen: Permission denied\n";
        assert_eq!(pick(text).as_deref(), Some("open: Permission denied"));
        assert_eq!(pick("one\ntwo\n").as_deref(), Some("one"));
        assert_eq!(pick(" \n"), None);
    }
}
