//! What tracer itself has to say, on stderr.

use std::fmt::Arguments;
use std::io::Write;

use crate::sink::escape::escaped_lines;

/// Prints a message on stderr, with what a terminal would obey made harmless:
/// commands and files have names that strangers may have chosen. Where nobody can
/// read it (a full disk, a reader that has gone) it is dropped: there is no place
/// left to complain to, and the exit status still tells.
pub fn say(message: Arguments<'_>) {
    let message = message.to_string();
    let _unheard = writeln!(std::io::stderr(), "{}", escaped_lines(message.as_bytes()));
}

/// In place of the standard library's, which panics where stderr cannot be written.
macro_rules! eprintln {
    ($($message:tt)*) => {
        $crate::say::say(format_args!($($message)*))
    };
}
