//! Text of strangers (names, arguments, paths) made harmless for a terminal,
//! and quoted so that a shell takes it back.

use std::fmt::Write;

use super::json::is_deceptive;

/// Appends `bytes` so that a terminal shows them and does nothing else: control
/// bytes (C0, DEL, C1), what is not UTF-8, and characters that reorder or hide
/// text become `\n`, `\t`, `\r` or `\xNN`.
pub fn escape(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_harmless(c) {
                out.push(c)
            } else {
                hex(out, c.encode_utf8(&mut [0; 4]).as_bytes())
            }
        }
        hex(out, chunk.invalid());
    }
}

/// [`escape`]d by itself.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    escape(&mut out, bytes);
    out
}

/// Each line of a text [`escape`]d; what ends it stays.
pub fn escaped_lines(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, line) in text.split(|b| *b == b'\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        escape(&mut out, line);
    }
    out
}

fn is_harmless(c: char) -> bool {
    !c.is_control() && !is_deceptive(c)
}

fn hex(out: &mut String, bytes: &[u8]) {
    for b in bytes {
        match b {
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            // Writing to a String does not fail.
            b => drop(write!(out, "\\x{b:02x}")),
        }
    }
}

/// Appends one word of a command as a POSIX shell reads it; control bytes and
/// what is not UTF-8 need `$'…'` (bash, zsh, ksh, POSIX 2024).
pub fn quote(out: &mut String, word: &[u8]) {
    let text = std::str::from_utf8(word)
        .ok()
        .filter(|s| s.chars().all(is_harmless));
    match text {
        None => ansi_c(out, word),
        Some(s) if !s.is_empty() && s.chars().all(is_plain) => out.push_str(s),
        Some(s) => {
            out.push('\'');
            out.push_str(&s.replace('\'', "'\\''"));
            out.push('\'');
        }
    }
}

/// Has no meaning to a shell, anywhere in a word but the first of a command.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c) || c.is_alphanumeric()
}

fn ansi_c(out: &mut String, word: &[u8]) {
    out.push_str("$'");
    for chunk in word.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '\\' => out.extend(['\\', c]),
                c if is_harmless(c) => out.push(c),
                c => hex(out, c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        hex(out, chunk.invalid());
    }
    out.push('\'');
}

/// Appends a command that can be pasted. Stops after the word that takes it
/// beyond `limit` bytes and marks that, and a vector that is `cut` already, with `…`.
pub fn command<'a>(
    out: &mut String,
    words: impl Iterator<Item = &'a [u8]>,
    limit: usize,
    cut: bool,
) {
    let begin = out.len();
    for (i, word) in words.enumerate() {
        if i > 0 {
            out.push(' ');
        }
        if out.len() - begin >= limit {
            out.push('…');
            return;
        }
        // Quoting at most doubles to quadruples a word: no more than the limit is looked at.
        let shown = cut_at(word, limit);
        if i == 0 && word.contains(&b'=') {
            // A shell would take the first word for an assignment.
            assignment(out, shown);
        } else {
            quote(out, shown);
        }
        if shown.len() < word.len() {
            out.push('…');
            return;
        }
    }
    if cut {
        out.push('…');
    }
}

/// At most `limit` bytes, without half a character at their end.
fn cut_at(word: &[u8], limit: usize) -> &[u8] {
    let continues = |at: &usize| word.get(*at).is_some_and(|b| b & 0xc0 == 0x80);
    let end = (limit.saturating_sub(3)..=limit)
        .rev()
        .find(|at| !continues(at))
        .unwrap_or(limit);
    word.get(..end).unwrap_or(word)
}

fn assignment(out: &mut String, word: &[u8]) {
    let begin = out.len();
    quote(out, word);
    if !out[begin..].contains('\'') {
        out.insert(begin, '\'');
        out.push('\'');
    }
}

/// Columns that a terminal gives to harmless text: two for the wide scripts.
pub fn columns(s: &str) -> usize {
    s.chars().map(width).sum()
}

fn width(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f => {
            2
        }
        0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// The text, or as much of it as fits into `room` columns with `…` after it.
pub fn shorten(out: &mut String, s: &str, room: usize) {
    if columns(s) <= room {
        return out.push_str(s);
    }
    let mut used = 1;
    for c in s.chars() {
        used += width(c);
        if used > room {
            break;
        }
        out.push(c);
    }
    out.push('…');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quoted(b: &[u8]) -> String {
        let mut s = String::new();
        quote(&mut s, b);
        s
    }

    fn shown(words: &[&[u8]], limit: usize, cut: bool) -> String {
        let mut s = String::new();
        command(&mut s, words.iter().copied(), limit, cut);
        s
    }

    #[test]
    fn nothing_reaches_the_terminal() {
        assert_eq!(
            escaped(b"a\x1b[31mb\x07\x7f\n\t\r\0"),
            "a\\x1b[31mb\\x07\\x7f\\n\\t\\r\\x00"
        );
        assert_eq!(escaped("é 日本".as_bytes()), "é 日本");
        assert_eq!(escaped("\u{9b}31m".as_bytes()), "\\xc2\\x9b31m");
        assert_eq!(escaped(b"\xff\xc3"), "\\xff\\xc3");
        for c in [
            "\u{202a}", "\u{202e}", "\u{2066}", "\u{2069}", "\u{200f}", "\u{2028}",
        ] {
            assert!(escaped(c.as_bytes()).is_ascii(), "{c:?}");
        }
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(
            escaped_lines(b"a\x1b[31m:\n  b\r\n"),
            "a\\x1b[31m:\n  b\\r\n"
        );
        assert_eq!(escaped_lines(b""), "");
    }

    #[test]
    fn words_are_quoted_where_they_must() {
        assert_eq!(quoted(b"-DX=1,2"), "-DX=1,2");
        assert_eq!(quoted(b""), "''");
        assert_eq!(quoted(b"a b"), "'a b'");
        assert_eq!(quoted(b"it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(b"~"), "'~'");
        assert_eq!(quoted(b"\x1b'\\"), r"$'\x1b\'\\'");
        assert_eq!(shown(&[b"A=1", b"B=2"], 100, false), "'A=1' B=2");
    }

    #[test]
    fn long_commands_are_cut() {
        assert_eq!(shown(&[b"cc", b"-c", b"x.c"], 4, false), "cc -c …");
        assert_eq!(shown(&[b"cc", b"0123456789"], 4, false), "cc 0123…");
        assert_eq!(shown(&[b"cc", b"-c"], 100, true), "cc -c…");
        assert_eq!(shown(&["日本".as_bytes()], 5, false), "日…");
        let mut s = String::new();
        shorten(&mut s, "日本語", 4);
        assert_eq!(s, "日…");
    }

    proptest! {
        /// The shell is the judge.
        #[test]
        fn a_shell_reads_the_words_back(words in prop::collection::vec(prop::collection::vec(1..=255u8, 0..20), 1..5)) {
            let mut text = String::from("printf '%s\\0' ");
            command(&mut text, words.iter().map(Vec::as_slice), usize::MAX, false);
            prop_assert!(text.chars().all(is_harmless));
            let out = std::process::Command::new("bash").arg("-c").arg(&text).env("LC_ALL", "C.UTF-8").output();
            let Ok(out) = out else { return Ok(()) }; // no bash here
            let back: Vec<_> = out.stdout.split_inclusive(|b| *b == 0).map(|w| w[..w.len() - 1].to_vec()).collect();
            prop_assert_eq!(back, words);
        }
    }
}
