//! What tracer itself has to say, on stderr.

use std::fmt::Arguments;
use std::io::Write;

/// Prints a line on stderr. Where nobody can read it (a full disk, a reader
/// that has gone) it is dropped: there is no place left to complain to, and the
/// exit status still tells.
pub fn say(message: Arguments<'_>) {
    let _unheard = writeln!(std::io::stderr(), "{message}");
}

/// In place of the standard library's, which panics where stderr cannot be written.
macro_rules! eprintln {
    ($($message:tt)*) => {
        $crate::say::say(format_args!($($message)*))
    };
}
