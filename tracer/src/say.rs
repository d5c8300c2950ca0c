//! What tracer itself has to say, on stderr.

use std::fmt::Arguments;
use std::io::Write;

use crate::sink::escape::escape;

/// Prints a line on stderr, with what a terminal would obey made harmless: commands
/// and files have names that strangers may have chosen. Where nobody can read it (a full disk, a reader
/// that has gone) it is dropped: there is no place left to complain to, and the
/// exit status still tells.
pub fn say(message: Arguments<'_>) {
    let _unheard = writeln!(std::io::stderr(), "{}", harmless(&message.to_string()));
}

/// Some messages have several lines.
fn harmless(message: &str) -> String {
    let mut shown = String::with_capacity(message.len());
    for (i, line) in message.split('\n').enumerate() {
        if i > 0 {
            shown.push('\n');
        }
        escape(&mut shown, line.as_bytes());
    }
    shown
}

/// In place of the standard library's, which panics where stderr cannot be written.
macro_rules! eprintln {
    ($($message:tt)*) => {
        $crate::say::say(format_args!($($message)*))
    };
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn a_terminal_obeys_no_message() {
        assert_eq!(
            harmless("tracer: a\x1b[31m: é\n  b"),
            "tracer: a\\x1b[31m: é\n  b"
        );
    }
}
