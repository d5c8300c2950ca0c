//! Pages of the kernel's trace ring buffer, as `trace_pipe_raw` gives them
//! (kernel/trace/ring_buffer.c, `ring_buffer_read_page`).
//!
//! A page: time stamp (8 bytes), commit (a word: length of the data, and flags
//! for missed records), data; behind the data the number of missed records,
//! where there was room. An entry: a word with type or length (5 bits) and time
//! since the entry before (27 bits), then the data.

/// Room before a page's data. The kernel's `local_t` is a word of its own size;
/// 64-bit kernels only.
const HEADER: usize = 16;
/// Records were missed before this page.
const MISSED: u64 = 1 << 31;
/// How many, follows the data.
const MISSED_STORED: u64 = 1 << 30;

const DELTA_BITS: u32 = 27;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// A time stamp entry has 59 bits; the rest is as in the stamp before.
const STAMP_MASK: u64 = (1 << 59) - 1;

/// A page's entries, in order.
pub struct Page<'a> {
    /// What is left of the data.
    rest: &'a [u8],
    ts: u64,
    missed: Missed,
    damaged: bool,
}

/// Records that were overwritten before this page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    None,
    Some(u64),
    /// The page had no room for the number.
    Unknown,
}

impl<'a> Page<'a> {
    /// `None`: fewer bytes than the page says it has.
    pub fn new(page: &'a [u8]) -> Option<Self> {
        let ts = word(page, 0)?;
        // The flag in bit 31 is a negative number to the kernel: it fills the upper half.
        let commit = word(page, 8)? & u64::from(u32::MAX);
        let length = usize::try_from(commit & !(MISSED | MISSED_STORED)).ok()?;
        let end = HEADER.checked_add(length)?;
        let rest = page.get(HEADER..end)?;
        let missed = match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
            (false, _) => Missed::None,
            (true, true) => Missed::Some(word(page, end)?),
            (true, false) => Missed::Unknown,
        };
        Some(Self {
            rest,
            ts,
            missed,
            damaged: false,
        })
    }

    /// Time of what was read last; at first, of the page's beginning.
    pub const fn ts(&self) -> u64 {
        self.ts
    }

    pub const fn missed(&self) -> Missed {
        self.missed
    }

    /// An entry was longer than what is left of the page.
    pub const fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// One entry: its data, if it is a record. `None`: it goes beyond the page.
    fn entry(&mut self) -> Option<Option<&'a [u8]>> {
        let head = half(self.rest, 0)?;
        let (kind, delta) = (head & 0x1f, u64::from(head >> 5));
        let (data, length) = match kind {
            PADDING if delta == 0 => (None, self.rest.len()),
            PADDING => (None, 4 + half(self.rest, 4)? as usize),
            TIME_EXTEND | TIME_STAMP => {
                let value = (u64::from(half(self.rest, 4)?) << DELTA_BITS) + delta;
                self.ts = if kind == TIME_STAMP {
                    (self.ts & !STAMP_MASK) | (value & STAMP_MASK)
                } else {
                    self.ts.wrapping_add(value)
                };
                (None, 8)
            }
            // The length is a word of its own and counts itself.
            0 => {
                let length = 4 + half(self.rest, 4)? as usize;
                (Some(self.rest.get(8..length)?), length)
            }
            words => {
                let length = 4 + 4 * words as usize;
                (Some(self.rest.get(4..length)?), length)
            }
        };
        if kind <= PADDING {
            self.ts = self.ts.wrapping_add(delta);
        }
        // Entries begin at multiples of four.
        let length = length.checked_next_multiple_of(4)?.max(4);
        self.rest = self.rest.get(length..).unwrap_or_default();
        Some(data)
    }
}

impl<'a> Iterator for Page<'a> {
    /// Time and bytes of a record.
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let Some(data) = self.entry() else {
                self.damaged = true;
                self.rest = &[];
                return None;
            };
            if let Some(data) = data {
                return Some((self.ts, data));
            }
        }
        None
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}
