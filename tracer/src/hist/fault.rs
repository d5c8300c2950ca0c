//! What is wrong with a text, and where: the text, a caret under the fault, and
//! what would be accepted, as the kernel's `error_log` has it and a bit more.

use std::fmt;

use crate::sink::escape::{columns, escaped};

/// Names that are suggested at most.
pub const SUGGESTIONS: usize = 3;
/// Names that are listed at most where nothing resembles what was written.
const LISTED: usize = 24;

/// A text that is refused. `Display` takes several lines, without a line break
/// at the end; control bytes in the text are escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    message: String,
    text: String,
    at: usize,
    help: Vec<String>,
}

impl Fault {
    /// `at` is an offset in bytes into `text`; beyond it means its end.
    pub fn new(text: &str, at: usize, message: impl Into<String>) -> Self {
        let mut at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        Self {
            message: message.into(),
            text: text.to_owned(),
            at,
            help: Vec::new(),
        }
    }

    /// Adds a line that says what to do.
    #[must_use]
    pub fn help(mut self, line: impl Into<String>) -> Self {
        self.help.push(line.into());
        self
    }

    /// Suggests those of `known` that resemble `wanted`, or else lists them.
    #[must_use]
    pub(super) fn near<'a>(
        self,
        what: &str,
        wanted: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        match suggest(wanted, known.iter().copied()) {
            near if !near.is_empty() => self.help(format!("did you mean {}?", one_of(&near))),
            _ if known.is_empty() => self,
            _ => {
                let shown = known.iter().take(LISTED).copied().collect::<Vec<_>>();
                let more = if known.len() > LISTED { ", …" } else { "" };
                self.help(format!("{what}: {}{more}", shown.join(", ")))
            }
        }
    }

    /// The same fault in a text of which this one's is the part that begins at `start`.
    #[must_use]
    pub(super) fn within(mut self, whole: &str, start: usize) -> Self {
        self.at += start;
        self.text = whole.to_owned();
        self
    }

    /// One line, without the text.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where in [`Self::text`] the fault lies, in bytes.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |text: &str| escaped(text.as_bytes());
        let parts = self.text.split_at_checked(self.at);
        let (before, rest) = parts.unwrap_or((&self.text, ""));
        let (message, before, rest) = (escaped(&self.message), escaped(before), escaped(rest));
        let column = columns(&before);
        write!(f, "{message}\n  {before}{rest}\n  {:column$}^", "")?;
        let mut help = self.help.iter();
        help.try_for_each(|h| write!(f, "\n  {}", escaped(h)))
    }
}

impl std::error::Error for Fault {}

/// Names like `wanted`, the nearest first.
pub fn suggest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|name| {
            let distance = strsim::damerau_levenshtein(wanted, name);
            let limit = (wanted.chars().count().max(3) / 3).min(3);
            let close = distance <= limit;
            let part = wanted.len() >= 3 && (name.contains(wanted) || wanted.ends_with(name));
            (close || part).then_some((distance, name))
        })
        .collect();
    near.sort();
    near.dedup();
    near.into_iter().take(SUGGESTIONS).map(|n| n.1).collect()
}

/// `a`, `b` or `c`
pub fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_fault() {
        let fault = Fault::new("hist:keys=nofield", 10, "Couldn't find field").near(
            "fields",
            "comn",
            ["comm", "pid", "prio"],
        );
        assert_eq!(
            fault.to_string(),
            "Couldn't find field\n  hist:keys=nofield\n            ^\n  did you mean `comm`?"
        );
    }

    #[test]
    fn control_bytes_do_not_reach_the_terminal_and_the_caret_stays() {
        let fault = Fault::new("a\x1bü:b", 4, "no").to_string();
        assert_eq!(fault, "no\n  a\\x1bü:b\n        ^");
        // A character of two columns; what was written is in the message, too.
        let fault = Fault::new("日本\tx", 7, "no `\x1b`").to_string();
        assert_eq!(fault, "no `\\x1b`\n  日本\\tx\n        ^");
        // Within a character or beyond the end.
        assert_eq!(Fault::new("ü", 1, "x").at(), 0);
        assert_eq!(Fault::new("ü", 9, "x").at(), 2);
    }

    #[test]
    fn names_that_resemble_come_first() {
        let known = ["common_pid", "pid", "prio", "bytes_req", "bytes_alloc"];
        assert_eq!(suggest("bytes_rq", known), ["bytes_req"]);
        assert_eq!(suggest("bytes", known), ["bytes_req", "bytes_alloc"]);
        assert!(suggest("zzzzzz", known).is_empty());
    }
}
