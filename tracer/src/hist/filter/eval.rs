//! A predicate on a record that is in our own memory: what a program in the
//! kernel has to answer too.

use super::pred::cut;
use super::{Number, Op, Pattern, Predicate, Test, Text};

/// `TASK_COMM_LEN`
const COMM_LEN: usize = 16;

/// A record and what is known beside it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// From `common_type` on.
    pub bytes: &'a [u8],
    pub cpu: i32,
    /// The running task's name.
    pub comm: &'a [u8],
}

impl Predicate {
    /// Whether it holds. What lies beyond the record is read as 0; texts that are
    /// elsewhere in memory cannot be read, and match nothing.
    pub fn holds(&self, record: Record<'_>) -> bool {
        match self {
            Self::All(list) => list.iter().all(|p| p.holds(record)),
            Self::Any(list) => list.iter().any(|p| p.holds(record)),
            Self::Not(inner) => !inner.holds(record),
            Self::Test(test) => test.holds(record),
        }
    }
}

impl Test {
    /// Whether it holds; see [`Predicate::holds`].
    pub fn holds(&self, record: Record<'_>) -> bool {
        match self {
            Self::Never => false,
            Self::Number { from, op, value } => {
                let left = from.read(record);
                let order = if from.is_signed() {
                    left.cast_signed().cmp(&value.cast_signed())
                } else {
                    left.cmp(value)
                };
                match op {
                    Op::Eq => order.is_eq(),
                    Op::Ne => order.is_ne(),
                    Op::Lt => order.is_lt(),
                    Op::Le => order.is_le(),
                    Op::Gt => order.is_gt(),
                    Op::Ge => order.is_ge(),
                    Op::And => left & value != 0,
                }
            }
            Self::Bit { from, base, bits } => {
                let bit = from.read(record).wrapping_sub(*base);
                bit < 64 && bits >> bit & 1 != 0
            }
            Self::Text {
                from,
                pattern,
                negate,
            } => match from.read(record) {
                Some(text) => pattern.matches(&text) != *negate,
                None => false,
            },
        }
    }
}

/// `size` bytes at `offset`, those beyond the record 0.
fn bytes(record: &[u8], offset: usize, size: usize) -> Vec<u8> {
    let there = record.get(offset.min(record.len())..).unwrap_or_default();
    let mut out: Vec<u8> = there.iter().take(size).copied().collect();
    out.resize(size, 0);
    out
}

fn number(record: &[u8], offset: u32, size: u32) -> u64 {
    let mut eight = [0; 8];
    let read = bytes(record, offset as usize, size.min(8) as usize);
    // Little-endian machines only are supported by the programs in the kernel; here both are.
    let start = if cfg!(target_endian = "big") {
        8 - read.len()
    } else {
        0
    };
    eight
        .iter_mut()
        .skip(start)
        .zip(read)
        .for_each(|(e, b)| *e = b);
    u64::from_ne_bytes(eight)
}

impl Number {
    fn read(self, record: Record<'_>) -> u64 {
        match self {
            Self::Field {
                offset,
                size,
                signed,
            } => cut(number(record.bytes, offset, size), size, signed),
            Self::Located { offset, at } => {
                let place = (number(record.bytes, offset, 4) & 0xffff) as u32;
                number(record.bytes, place.saturating_add(at), 8)
            }
            Self::Cpu => i64::from(record.cpu).cast_unsigned(),
        }
    }
}

impl Text {
    /// The bytes that are compared, NULs among them.
    fn read(self, record: Record<'_>) -> Option<Vec<u8>> {
        match self {
            Self::Static { offset, size } => {
                Some(bytes(record.bytes, offset as usize, size as usize))
            }
            Self::Dyn { offset, relative } => {
                let word = number(record.bytes, offset, 4) as usize;
                let base = if relative { offset as usize + 4 } else { 0 };
                Some(bytes(record.bytes, base + (word & 0xffff), word >> 16))
            }
            Self::Pointer { .. } => None,
            Self::Comm => Some(bytes(record.comm, 0, COMM_LEN)),
        }
    }
}

impl Pattern {
    /// Whether it matches these bytes, which may have a NUL in them.
    pub fn matches(&self, text: &[u8]) -> bool {
        let until_nul = || text.split(|b| *b == 0).next().unwrap_or_default();
        match self {
            Self::Full(wanted) => {
                let whole = until_nul();
                // Of an array that is full, no more than it holds is compared.
                let full = whole.len() == text.len() && !text.is_empty();
                whole == wanted || full && wanted.starts_with(whole)
            }
            Self::Front(wanted) => text.starts_with(wanted),
            Self::End(wanted) => text
                .split_last()
                .is_some_and(|(_, before)| before.ends_with(wanted)),
            Self::Middle(wanted) => {
                wanted.is_empty() || text.windows(wanted.len()).any(|w| w == wanted)
            }
            Self::Glob(wanted) => glob(wanted, until_nul()),
        }
    }
}

/// `glob_match` of the kernel's `lib/glob.c`.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on if this fails: behind the last `*`, one byte of the text later.
    let mut again: Option<(usize, usize)> = None;
    loop {
        let matched = match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                if p == pattern.len() {
                    return true;
                }
                again = Some((p, t));
                continue;
            }
            None if t == text.len() => return true,
            None => None,
            Some(first) => text.get(t).and_then(|c| match first {
                b'?' => Some(p + 1),
                b'[' => match class(pattern.get(p + 1..).unwrap_or_default(), *c) {
                    Some((true, length)) => Some(p + 1 + length),
                    Some((false, _)) => None,
                    // Never closed: the bracket itself.
                    None => (*c == b'[').then_some(p + 1),
                },
                b'\\' => (pattern.get(p + 1) == Some(c)).then_some(p + 2),
                literal => (literal == c).then_some(p + 1),
            }),
        };
        match (matched, again) {
            (Some(next), _) => {
                p = next;
                t += 1;
            }
            // A backslash at the very end is the end of the text.
            (None, _) if t == text.len() => {
                return pattern.get(p..) == Some(b"\\".as_slice());
            }
            (None, Some((back_p, back_t))) => {
                again = Some((back_p, back_t + 1));
                (p, t) = (back_p, back_t + 1);
            }
            (None, None) => return false,
        }
    }
}

/// Whether `c` is in the class that `rest` begins with, and how long that is with
/// its bracket; `None` if it does not end.
fn class(rest: &[u8], c: u8) -> Option<(bool, usize)> {
    let inverted = rest.first() == Some(&b'!');
    let mut at = usize::from(inverted);
    let mut found = false;
    let mut first = true;
    loop {
        let low = *rest.get(at)?;
        if low == b']' && !first {
            return Some((found != inverted, at + 1));
        }
        first = false;
        at += 1;
        let mut high = low;
        if rest.get(at) == Some(&b'-') && rest.get(at + 1) != Some(&b']') {
            high = *rest.get(at + 1)?;
            at += 2;
        }
        found |= (low..=high).contains(&c);
    }
}
