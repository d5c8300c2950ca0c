//! The part of a line before the event's own text: who, where, when, which event.
//!
//! ```text
//!             bash-14782   [000] .....  1706.297514: sched_process_fork: comm=…      trace, trace_pipe
//!             bash-14782   (  14782) [000] .....  1706.317508: task_newtask: pid=…   … with record-tgid
//!             bash-14782   [001]   1706.349526: task_newtask: pid=…                  … without irq-info
//!             bash-14782 [000]  1706.297514: sched_process_fork:   comm=…            trace-cmd report
//!             bash 14782 [000]  1706.297514: sched:sched_process_fork: comm=…        perf script
//! ```
//!
//! All print the name in a column of 16 bytes, which no name fills; so the `-`,
//! or perf's space, lies where nobody can move it, whatever the name holds, a
//! newline included.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub tid: u32,
    pub cpu: u32,
    pub ts: u64,
    /// The clock has no seconds (`counter`, `uptime`, `x86-tsc`).
    pub integer_clock: bool,
    /// Name of the event, without its group.
    pub event: &'a [u8],
    /// Where the event's own text begins.
    pub body: usize,
}

/// Width of the column for the name.
const NAME: usize = 16;
/// A `[` that opens the CPU's number lies before this.
const CPU_BEFORE: usize = 64;
/// Longest name of an event, its group included.
const EVENT_MAX: usize = 128;

/// Reads a head at the beginning of `text`.
pub(super) fn head(text: &[u8]) -> Option<Head<'_>> {
    column(text).or_else(|| free(text))
}

/// The name has its column.
fn column(text: &[u8]) -> Option<Head<'_>> {
    let at = match text.get(NAME)? {
        b'-' => NAME + 1,
        b' ' => spaces(text, NAME),
        _ => return None,
    };
    let (tid, at) = number(text, at)?;
    let mut at = spaces(text, at);
    if text.get(at) == Some(&b'(') {
        // `(  14782)`, or `(-------)` where the process is not known.
        let inside = text.get(at..at + CPU_BEFORE.min(text.len() - at))?;
        at = spaces(text, at + memchr::memchr(b')', inside)? + 1);
    }
    rest(text, u32::try_from(tid).ok()?, at)
}

/// perf's form with options of its own: the columns have no fixed place.
fn free(text: &[u8]) -> Option<Head<'_>> {
    let begin = text.get(..CPU_BEFORE).unwrap_or(text);
    memchr::memchr_iter(b'[', begin).find_map(|open| {
        let before = begin.get(..open)?.trim_ascii_end();
        let name = before.trim_ascii_end_digits();
        let digits = before.get(name.len()..)?;
        // `pid/tid` with `-F pid,tid`.
        let name = match name.strip_suffix(b"/") {
            Some(pid) => pid.trim_ascii_end_digits(),
            None => name,
        };
        // Its columns never touch: a name, a space, a number.
        let comm = name.strip_suffix(b" ")?.trim_ascii();
        if comm.is_empty() || comm.len() > NAME || comm.contains(&b'\n') {
            return None;
        }
        let (tid, end) = number(digits, 0)?;
        if end != digits.len() {
            return None;
        }
        rest(text, u32::try_from(tid).ok()?, open)
    })
}

trait TrimDigits {
    fn trim_ascii_end_digits(&self) -> &[u8];
}

impl TrimDigits for [u8] {
    fn trim_ascii_end_digits(&self) -> &[u8] {
        let digits = self.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        &self[..self.len() - digits]
    }
}

/// From the CPU's `[` on.
fn rest(text: &[u8], tid: u32, at: usize) -> Option<Head<'_>> {
    let (cpu, at) = number(text, expect(text, at, b'[')?)?;
    let at = spaces(text, expect(text, at, b']')?);
    let (ts, integer_clock, at) = match stamp(text, at) {
        Some(found) => found,
        // `d..2.`: interrupts off, need to reschedule, ...
        None => stamp(text, spaces(text, flags(text, at)?))?,
    };
    let from = spaces(text, at);
    let name = text.get(from..)?;
    let name = name.get(..EVENT_MAX).unwrap_or(name);
    let length = name
        .iter()
        .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'-' | b'.')))
        .unwrap_or(name.len());
    let name = name.get(..length)?.strip_suffix(b":")?;
    let event = name.rsplit(|b| *b == b':').next()?;
    Some(Head {
        tid,
        cpu: u32::try_from(cpu).ok()?,
        ts,
        integer_clock,
        event,
        body: spaces(text, from + length),
    })
    .filter(|head| !head.event.is_empty())
}

fn flags(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let length = rest.iter().take(12).position(|b| *b == b' ')?;
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'#');
    (length > 0 && rest.get(..length)?.iter().all(plain)).then_some(at + length)
}

/// `SECONDS.FRACTION:` in ns, or an integer as it is.
fn stamp(text: &[u8], at: usize) -> Option<(u64, bool, usize)> {
    let (whole, at) = number(text, at)?;
    if text.get(at) == Some(&b':') {
        return Some((whole, true, at + 1));
    }
    let from = expect(text, at, b'.')?;
    let (fraction, at) = number(text, from)?;
    let digits = u32::try_from(at - from).ok()?;
    let scale = 10_u64.pow(9_u32.checked_sub(digits)?);
    let ns = whole
        .checked_mul(1_000_000_000)?
        .checked_add(fraction * scale)?;
    Some((ns, false, expect(text, at, b':')?))
}

pub(super) fn expect(text: &[u8], at: usize, byte: u8) -> Option<usize> {
    (*text.get(at)? == byte).then_some(at + 1)
}

pub(super) fn spaces(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| **b == b' ').count()
}

/// A decimal number and where it ends.
pub(super) fn number(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    let mut end = at;
    while let Some(digit) = text.get(end).filter(|b| b.is_ascii_digit()) {
        value = value
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
        end += 1;
    }
    (end > at).then_some((value, end))
}
