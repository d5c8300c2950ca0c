//! Writes JSON objects into a byte buffer: no allocation, no intermediate tree.
//!
//! Besides what JSON demands, everything that could act on a terminal or end a
//! line for some reader (DEL, C1, U+2028, bidirectional controls) is escaped too.

use std::io::Write;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;

use super::decimal::{self, Integer};
use crate::model::{Args, Bytes, Field};

/// What to do with a byte inside a string: 0 copies it, `u` writes `\u00XX`,
/// `C` and `E` look at the UTF-8 sequence that it begins, anything else is the
/// letter after a backslash.
const ACTION: [u8; 256] = {
    let mut t = [0; 256];
    let mut i = 0;
    while i < 0x20 {
        t[i] = b'u';
        i += 1;
    }
    t[0x08] = b'b';
    t[0x09] = b't';
    t[0x0a] = b'n';
    t[0x0c] = b'f';
    t[0x0d] = b'r';
    t[b'"' as usize] = b'"';
    t[b'\\' as usize] = b'\\';
    t[0x7f] = b'u';
    t[0xc2] = b'C';
    t[0xd8] = b'E';
    t[0xe2] = b'E';
    t[0xef] = b'E';
    t
};

/// Whether a character may reorder, hide or break the text around it.
pub(crate) const fn is_deceptive(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn unicode_escape(out: &mut Vec<u8>, code: u32) {
    out.extend_from_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.push(HEX[(code >> shift & 0xf) as usize]);
    }
}

/// Whether all of eight bytes are ASCII that is copied as it is.
const fn is_plain(eight: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    // Sets the high bit of a byte that is 0. The borrow may set others above it too, never any without one.
    const fn zeros(x: u64) -> u64 {
        x.wrapping_sub(ONES) & !x & HIGH
    }
    let quote = zeros(eight ^ (b'"' as u64 * ONES));
    let backslash = zeros(eight ^ (b'\\' as u64 * ONES));
    let del = zeros(eight ^ (0x7f * ONES));
    let control = eight.wrapping_sub(0x20 * ONES) & !eight & HIGH;
    (eight & HIGH) | quote | backslash | del | control == 0
}

/// Whether all of it is ASCII that is copied as it is; `false` where that is not
/// seen at once.
#[inline]
fn all_plain(bytes: &[u8]) -> bool {
    let eight = |chunk: &[u8; 8]| is_plain(u64::from_ne_bytes(*chunk));
    let (chunks, _) = bytes.as_chunks();
    match bytes.last_chunk() {
        // The last eight overlap those before.
        Some(last) => chunks.iter().all(eight) && eight(last),
        None => {
            let mut padded = [b' '; 8];
            for (to, from) in padded.iter_mut().zip(bytes) {
                *to = *from;
            }
            eight(&padded)
        }
    }
}

/// Appends the contents of a JSON string, without its quotes.
fn escape(out: &mut Vec<u8>, s: &str) {
    let bytes = s.as_bytes();
    let mut copied = 0;
    let mut i = 0;
    while let Some(&b) = bytes.get(i) {
        if let Some(eight) = bytes.get(i..).and_then(<[u8]>::first_chunk)
            && is_plain(u64::from_ne_bytes(*eight))
        {
            i += 8;
            continue;
        }
        let action = ACTION[usize::from(b)];
        if action == 0 {
            i += 1;
            continue;
        }
        let mut end = i + 1;
        let mut code = u32::from(b);
        if action == b'C' || action == b'E' {
            // A lead byte: `i` lies on a character boundary.
            let Some(c) = s.get(i..).and_then(|s| s.chars().next()) else {
                break;
            };
            end = i + c.len_utf8();
            if !(c.is_control() || is_deceptive(c)) {
                i = end;
                continue;
            }
            code = u32::from(c);
        }
        out.extend_from_slice(&bytes[copied..i]);
        match action {
            b'u' | b'C' | b'E' => unicode_escape(out, code),
            letter => out.extend_from_slice(&[b'\\', letter]),
        }
        i = end;
        copied = end;
    }
    out.extend_from_slice(&bytes[copied.min(bytes.len())..]);
}

/// Appends a JSON string of which [`all_plain`] is true.
#[inline]
fn plain(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(bytes);
    out.push(b'"');
}

fn quoted(out: &mut Vec<u8>, s: &str) {
    out.push(b'"');
    escape(out, s);
    out.push(b'"');
}

/// Appends a JSON string; what is not UTF-8 becomes U+FFFD.
fn lossy(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        escape(out, chunk.valid());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    // Writing to a Vec does not fail.
    let _ = write!(out, "\"{}\"", Base64Display::new(bytes, &STANDARD));
}

/// Name of a member, with the comma and the punctuation around it, so that it
/// is one copy of a length that the compiler knows. Made by `key!`.
#[derive(Clone, Copy)]
pub struct Key(&'static str);

impl Key {
    /// `text` is `,"NAME":`.
    pub const fn new(text: &'static str) -> Self {
        Self(text)
    }
}

/// The [`Key`] of a literal name.
macro_rules! key {
    ($name:literal) => {
        $crate::sink::json::Key::new(concat!(",\"", $name, "\":"))
    };
}
pub(super) use key;

/// An object under construction. Member names are literals of this crate and
/// need no escaping; the caller gives each once.
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Object<'a> {
    /// Begins a line with its `type`.
    #[inline]
    pub fn line(out: &'a mut Vec<u8>, kind: &'static str) -> Self {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.push(b'"');
        Self { out }
    }

    pub fn end_line(self) {
        self.out.extend_from_slice(b"}\n");
    }

    #[inline]
    fn key(&mut self, key: Key) {
        self.out.extend_from_slice(key.0.as_bytes());
    }

    /// `key` with `suffix` at the end of its name.
    fn suffixed_key(&mut self, key: Key, suffix: &str) {
        let name = key.0.strip_suffix("\":").unwrap_or(key.0);
        for part in [name, suffix, "\":"] {
            self.out.extend_from_slice(part.as_bytes());
        }
    }

    #[inline]
    pub fn null(&mut self, key: Key) {
        self.key(key);
        self.out.extend_from_slice(b"null");
    }

    #[inline]
    pub fn num(&mut self, key: Key, n: impl Integer) {
        self.key(key);
        decimal::append(self.out, n);
    }

    #[inline]
    pub fn opt(&mut self, key: Key, n: Option<impl Integer>) {
        match n {
            Some(n) => self.num(key, n),
            None => self.null(key),
        }
    }

    #[inline]
    pub fn bool(&mut self, key: Key, b: bool) {
        self.key(key);
        self.out
            .extend_from_slice(if b { b"true" } else { b"false" });
    }

    pub fn opt_bool(&mut self, key: Key, b: Option<bool>) {
        match b {
            Some(b) => self.bool(key, b),
            None => self.null(key),
        }
    }

    /// A string that is UTF-8 for certain.
    #[inline]
    pub fn str(&mut self, key: Key, s: &str) {
        self.key(key);
        quoted(self.out, s);
    }

    pub fn opt_str(&mut self, key: Key, s: Option<&str>) {
        match s {
            Some(s) => self.str(key, s),
            None => self.null(key),
        }
    }

    /// Bytes; where they are not UTF-8, `KEY_b64` beside them is lossless.
    pub fn bytes(&mut self, key: Key, bytes: &[u8]) {
        if all_plain(bytes) {
            self.key(key);
            return plain(self.out, bytes);
        }
        if let Ok(s) = std::str::from_utf8(bytes) {
            return self.str(key, s);
        }
        self.key(key);
        lossy(self.out, bytes);
        self.suffixed_key(key, "_b64");
        base64(self.out, bytes);
    }

    pub fn opt_bytes(&mut self, key: Key, bytes: Option<&[u8]>) {
        match bytes {
            Some(b) => self.bytes(key, b),
            None => self.null(key),
        }
    }

    /// `KEY`; where it is not whole, also `KEY_state` and why (`KEY_reason`).
    pub fn field(&mut self, key: Key, field: &Field<Bytes>) {
        self.opt_bytes(key, field.value().map(Bytes::as_slice));
        if !matches!(field, Field::Full(_)) {
            self.state(key, field.state(), field.reason());
        }
    }

    pub fn state(&mut self, key: Key, state: &str, reason: Option<&str>) {
        for (suffix, text) in [("_state", Some(state)), ("_reason", reason)] {
            if let Some(text) = text {
                self.suffixed_key(key, suffix);
                plain(self.out, text.as_bytes());
            }
        }
    }

    /// An array of strings; where any is not UTF-8, `KEY_b64` holds them all.
    pub fn strings<'s, I>(&mut self, key: Key, strings: I)
    where
        I: Iterator<Item = &'s [u8]> + Clone,
    {
        self.key(key);
        let mut valid = true;
        self.array(strings.clone(), |out, bytes| {
            if all_plain(bytes) {
                return plain(out, bytes);
            }
            match std::str::from_utf8(bytes) {
                Ok(s) => quoted(out, s),
                Err(_) => {
                    valid = false;
                    lossy(out, bytes);
                }
            }
        });
        if !valid {
            self.suffixed_key(key, "_b64");
            self.array(strings, base64);
        }
    }

    fn array<'s>(
        &mut self,
        strings: impl Iterator<Item = &'s [u8]>,
        mut write: impl FnMut(&mut Vec<u8>, &[u8]),
    ) {
        self.out.push(b'[');
        for (i, s) in strings.enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            write(self.out, s);
        }
        self.out.push(b']');
    }

    /// `KEY` and, always, `KEY_state`.
    pub fn args(&mut self, key: Key, field: &Field<Args>) {
        match field.value() {
            Some(args) => self.strings(key, args.iter()),
            None => self.null(key),
        }
        self.state(key, field.state(), field.reason());
    }

    pub fn object(&mut self, key: Key, fill: impl FnOnce(&mut Object<'_>)) {
        self.key(key);
        let begin = self.out.len();
        fill(&mut Object {
            out: &mut *self.out,
        });
        // The first member's comma is where the brace goes.
        match self.out.get_mut(begin) {
            Some(comma) => *comma = b'{',
            None => self.out.push(b'{'),
        }
        self.out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn eight_at_a_time_agrees_with_the_table(bytes: [u8; 8], text in "[ -~]{8}") {
            for bytes in [bytes, text.as_bytes().try_into().expect("8 bytes")] {
                let plain = bytes.iter().all(|b| b.is_ascii() && ACTION[usize::from(*b)] == 0);
                prop_assert_eq!(is_plain(u64::from_ne_bytes(bytes)), plain);
            }
        }
    }

    #[test]
    fn every_single_byte_agrees_with_the_table() {
        for b in 0..=255u8 {
            let plain = b.is_ascii() && ACTION[usize::from(b)] == 0;
            for at in 0..8 {
                let mut bytes = *b"abcdefgh";
                bytes[at] = b;
                assert_eq!(is_plain(u64::from_ne_bytes(bytes)), plain, "{b:#x}");
            }
        }
    }

    #[test]
    fn an_empty_object_is_one() {
        let mut out = Vec::new();
        let mut o = Object::line(&mut out, "x");
        o.object(key!("none"), |_| {});
        o.object(key!("one"), |o| o.num(key!("n"), 1));
        o.end_line();
        assert_eq!(out, b"{\"type\":\"x\",\"none\":{},\"one\":{\"n\":1}}\n");
    }
}
