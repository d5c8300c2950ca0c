//! Byte strings of the kernel: they need not be UTF-8.

use std::fmt;
use std::sync::Arc;

/// Bytes without a NUL inside (a path, a name). Cheap to clone: a program's
/// path is shared by every process that runs it.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Bytes(pub Arc<[u8]>);

impl Bytes {
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Bytes {
    fn from(b: &[u8]) -> Self {
        Self(b.into())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(b: Vec<u8>) -> Self {
        Self(b.into())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// `task_struct::comm`: at most 15 bytes and a NUL.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// The first 15 bytes of `b`, up to its first NUL.
    pub fn new(b: &[u8]) -> Self {
        let mut c = [0; 16];
        for (to, from) in c[..15].iter_mut().zip(b.iter().take_while(|b| **b != 0)) {
            *to = *from;
        }
        Self(c)
    }

    pub fn as_slice(&self) -> &[u8] {
        let n = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        &self.0[..n]
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_slice().escape_ascii())
    }
}

/// An argument or environment vector as it lies in the process's memory: each
/// string followed by a NUL; a last one without a NUL was cut.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Args(pub Box<[u8]>);

impl Args {
    /// The strings, without their NULs. Empty strings count.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let whole = self.0.strip_suffix(b"\0").unwrap_or(&self.0);
        let end = (!self.0.is_empty()).then_some(whole.len());
        memchr::memchr_iter(0, whole)
            .chain(end)
            .scan(0, |begin, end| {
                let string = whole.get(*begin..end);
                *begin = end + 1;
                string
            })
    }

    pub fn from_strings<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> Self {
        let mut v = Vec::new();
        for s in strings {
            v.extend_from_slice(s.as_ref());
            v.push(0);
        }
        Self(v.into())
    }
}

impl fmt::Debug for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|a| a.escape_ascii().to_string()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn args_keep_empty_strings() {
        let strings = |b: &[u8]| {
            Args(b.into())
                .iter()
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>()
        };
        assert_eq!(strings(b""), Vec::<Vec<u8>>::new());
        assert_eq!(strings(b"\0"), [b"".to_vec()]);
        assert_eq!(
            strings(b"a\0\0b\0"),
            [b"a".to_vec(), b"".to_vec(), b"b".to_vec()]
        );
        assert_eq!(strings(b"a\0cut"), [b"a".to_vec(), b"cut".to_vec()]);
        assert_eq!(
            Args::from_strings(["a", "", "b"]),
            Args((*b"a\0\0b\0").into())
        );
    }

    #[test]
    fn comm_ends_at_nul_and_at_15() {
        assert_eq!(Comm::new(b"sh\0junk").as_slice(), b"sh");
        assert_eq!(Comm::new(&[b'x'; 40]).as_slice(), [b'x'; 15]);
    }
}
