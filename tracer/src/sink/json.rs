//! Writes JSON objects into a byte buffer: no allocation, no intermediate tree.
//!
//! Besides what JSON demands, everything that could act on a terminal or end a
//! line for some reader (DEL, C1, U+2028, bidirectional controls) is escaped too.

use std::io::Write;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;

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
pub(super) const fn is_deceptive(c: char) -> bool {
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

/// Appends the contents of a JSON string, without its quotes.
fn escape(out: &mut Vec<u8>, s: &str) {
    let bytes = s.as_bytes();
    let mut copied = 0;
    let mut i = 0;
    while let Some(&b) = bytes.get(i) {
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

/// Appends a JSON string; what is not UTF-8 becomes U+FFFD.
fn string(out: &mut Vec<u8>, bytes: &[u8]) {
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

/// An object under construction. Member names are literals of this crate and
/// need no escaping; the caller gives each once.
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Object<'a> {
    /// Begins a line with its `type`.
    pub fn line(out: &'a mut Vec<u8>, kind: &'static str) -> Self {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.push(b'"');
        Self { out }
    }

    pub fn end_line(self) {
        self.out.extend_from_slice(b"}\n");
    }

    fn key(&mut self, key: &str, suffix: &str) {
        let out = &mut *self.out;
        out.reserve(key.len() + suffix.len() + 4);
        out.extend_from_slice(if out.last() == Some(&b'{') {
            b"\""
        } else {
            b",\""
        });
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(suffix.as_bytes());
        out.extend_from_slice(b"\":");
    }

    pub fn null(&mut self, key: &'static str) {
        self.key(key, "");
        self.out.extend_from_slice(b"null");
    }

    pub fn num<N: itoa::Integer>(&mut self, key: &'static str, n: N) {
        self.key(key, "");
        self.out
            .extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    }

    pub fn opt<N: itoa::Integer>(&mut self, key: &'static str, n: Option<N>) {
        match n {
            Some(n) => self.num(key, n),
            None => self.null(key),
        }
    }

    pub fn bool(&mut self, key: &'static str, b: bool) {
        self.key(key, "");
        self.out
            .extend_from_slice(if b { b"true" } else { b"false" });
    }

    pub fn opt_bool(&mut self, key: &'static str, b: Option<bool>) {
        match b {
            Some(b) => self.bool(key, b),
            None => self.null(key),
        }
    }

    /// A string that is UTF-8 for certain.
    pub fn str(&mut self, key: &'static str, s: &str) {
        self.suffixed(key, "", s);
    }

    fn suffixed(&mut self, key: &'static str, suffix: &str, s: &str) {
        self.key(key, suffix);
        self.out.push(b'"');
        escape(self.out, s);
        self.out.push(b'"');
    }

    pub fn opt_str(&mut self, key: &'static str, s: Option<&str>) {
        match s {
            Some(s) => self.str(key, s),
            None => self.null(key),
        }
    }

    /// Bytes; where they are not UTF-8, `KEY_b64` beside them is lossless.
    pub fn bytes(&mut self, key: &'static str, bytes: &[u8]) {
        if let Ok(s) = std::str::from_utf8(bytes) {
            return self.str(key, s);
        }
        self.key(key, "");
        string(self.out, bytes);
        self.key(key, "_b64");
        base64(self.out, bytes);
    }

    pub fn opt_bytes(&mut self, key: &'static str, bytes: Option<&[u8]>) {
        match bytes {
            Some(b) => self.bytes(key, b),
            None => self.null(key),
        }
    }

    /// `KEY`; where it is not whole, also `KEY_state` and why (`KEY_reason`).
    pub fn field(&mut self, key: &'static str, field: &Field<Bytes>) {
        self.opt_bytes(key, field.value().map(Bytes::as_slice));
        if !matches!(field, Field::Full(_)) {
            self.state(key, field.state(), field.reason());
        }
    }

    pub fn state(&mut self, key: &'static str, state: &str, reason: Option<&str>) {
        self.suffixed(key, "_state", state);
        if let Some(reason) = reason {
            self.suffixed(key, "_reason", reason);
        }
    }

    /// An array of strings; where any is not UTF-8, `KEY_b64` holds them all.
    pub fn strings<'s, I>(&mut self, key: &'static str, strings: I)
    where
        I: Iterator<Item = &'s [u8]> + Clone,
    {
        self.key(key, "");
        let mut valid = true;
        self.array(strings.clone(), |out, s| {
            valid &= std::str::from_utf8(s).is_ok();
            string(out, s);
        });
        if !valid {
            self.key(key, "_b64");
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
    pub fn args(&mut self, key: &'static str, field: &Field<Args>) {
        match field.value() {
            Some(args) => self.strings(key, args.iter()),
            None => self.null(key),
        }
        self.state(key, field.state(), field.reason());
    }

    pub fn object(&mut self, key: &'static str, fill: impl FnOnce(&mut Object<'_>)) {
        self.key(key, "");
        self.out.push(b'{');
        fill(&mut Object {
            out: &mut *self.out,
        });
        self.out.push(b'}');
    }
}
