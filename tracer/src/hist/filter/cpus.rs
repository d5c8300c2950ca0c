//! `FIELD & CPUS{0-3,8}`: CPUs by their numbers, in the kernel's lists
//! (`bitmap_parselist`).

use super::super::format::{Class, Field};
use super::super::trigger::is_space;
use super::machine::Machine;
use super::pred::{Cursor, Operator};
use super::{Fault, Number, Op, Predicate, Test};

/// CPUs, 64 a word.
struct Cpus {
    words: Vec<u64>,
    /// How many CPUs there could be.
    limit: u32,
}

/// `first-last:used/group`
struct Region {
    first: u32,
    last: u32,
    used: u32,
    group: u32,
}

/// What stands behind the operator.
pub(super) fn parse(
    cursor: &mut Cursor<'_>,
    field: &Field,
    operator: Operator,
    machine: &dyn Machine,
) -> Result<Predicate, Fault> {
    if !matches!(field.class, Class::CpuMask | Class::Cpu | Class::Other) {
        return Err(cursor
            .fault("Illegal operation for field type")
            .help(format!("`{}` is no number of a CPU", field.name)));
    }
    let Operator::Number(op @ (Op::Eq | Op::Ne | Op::And)) = operator else {
        return Err(cursor
            .fault("Illegal operation for field type")
            .help("CPUs are compared by == != &"));
    };
    cursor.eat("CPUS");
    if !cursor.eat("{") {
        return Err(cursor.fault("Missing '{'").help("as in `CPUS{0-3,8}`"));
    }
    let start = cursor.at;
    let list = cursor.take_while(|c| c != '}');
    if !cursor.eat("}") {
        return Err(cursor.fault("Missing '}'").help("as in `CPUS{0-3,8}`"));
    }
    let limit = machine.cpus();
    let cpus = Some(list).filter(|list| !list.is_empty());
    let cpus = cpus
        .and_then(|list| Cpus::parse(list, limit))
        .ok_or_else(|| {
            let fault = Fault::new(cursor.text, start, "Invalid cpulist");
            fault.help(format!(
                "numbers and ranges from 0 to {}, as in `CPUS{{0-3,8}}`",
                limit.saturating_sub(1)
            ))
        })?;
    Ok(match field.class {
        Class::CpuMask => cpus.against_mask(field.offset, op),
        Class::Cpu => cpus.against(Number::Cpu, op),
        _ if !field.is_number_sized() => Predicate::Test(Test::Never),
        _ => {
            // The kernel takes more than one for an unsigned int, of whatever size it is.
            let size = match cpus.single() {
                Some(_) => field.size,
                None => field.size.min(4),
            };
            let from = Number::Field {
                offset: field.offset,
                size,
                signed: false,
            };
            cpus.against(from, op)
        }
    })
}

impl Cpus {
    /// `None`: no such list, or not on a machine with so many.
    fn parse(list: &str, limit: u32) -> Option<Self> {
        let mut cpus = Self {
            words: vec![0; limit.div_ceil(64) as usize],
            limit,
        };
        let mut rest = list.as_bytes();
        while let Some(from) = rest.iter().position(|b| !is_between(*b)) {
            rest = rest.get(from..)?;
            let (region, after) = region(rest, limit.checked_sub(1)?)?;
            cpus.set(&region);
            match after {
                Some(after) => rest = after,
                None => break,
            }
        }
        Some(cpus)
    }

    fn set(&mut self, region: &Region) {
        let mut group = region.first;
        while group <= region.last {
            let end = group.saturating_add(region.used);
            for cpu in group..end.min(region.last.saturating_add(1)) {
                if let Some(word) = self.words.get_mut(cpu as usize / 64) {
                    *word |= 1 << (cpu % 64);
                }
            }
            group = group.saturating_add(region.group);
        }
    }

    /// The only one.
    fn single(&self) -> Option<u32> {
        let count: u32 = self.words.iter().map(|w| w.count_ones()).sum();
        let at = self.words.iter().position(|w| *w != 0)?;
        let bit = self.words.get(at)?.trailing_zeros();
        (count == 1).then(|| 64 * at as u32 + bit)
    }

    /// Words with their places.
    fn words(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (0..).zip(self.words.iter().copied())
    }

    /// A number is one of a few, is that of the only one, or differs.
    fn against(&self, from: Number, op: Op) -> Predicate {
        let number = |op, value| Predicate::Test(Test::Number { from, op, value });
        match (self.single(), op) {
            (Some(cpu), Op::Ne) => number(Op::Ne, u64::from(cpu)),
            (Some(cpu), _) => number(Op::Eq, u64::from(cpu)),
            // One number never equals several.
            (None, Op::Eq) => Predicate::Test(Test::Never),
            (None, Op::Ne) => match from {
                Number::Cpu => Predicate::Not(Box::new(Predicate::Test(Test::Never))),
                // But what is no CPU is nothing at all.
                _ => number(Op::Lt, u64::from(self.limit)),
            },
            (None, _) => any(self
                .words()
                .filter(|(_, bits)| *bits != 0)
                .map(|(i, bits)| {
                    Predicate::Test(Test::Bit {
                        from,
                        base: 64 * u64::from(i),
                        bits,
                    })
                })),
        }
    }

    /// A mask, of which the u32 at `offset` says where it is.
    fn against_mask(&self, offset: u32, op: Op) -> Predicate {
        let word = |index, op, value| {
            let from = Number::Located {
                offset,
                at: 8 * index,
            };
            Predicate::Test(Test::Number { from, op, value })
        };
        if op == Op::And {
            let words = self.words().filter(|(_, bits)| *bits != 0);
            return any(words.map(|(i, bits)| word(i, Op::And, bits)));
        }
        let equal = self.words().map(|(i, bits)| word(i, Op::Eq, bits));
        let equal = match equal.collect::<Vec<_>>() {
            mut one if one.len() == 1 => one.remove(0),
            all => Predicate::All(all),
        };
        match op {
            Op::Ne => Predicate::Not(Box::new(equal)),
            _ => equal,
        }
    }
}

/// One of these, of which there may be none.
fn any(list: impl Iterator<Item = Predicate>) -> Predicate {
    let mut list: Vec<Predicate> = list.collect();
    match list.len() {
        0 => Predicate::Test(Test::Never),
        1 => list.remove(0),
        _ => Predicate::Any(list),
    }
}

fn is_between(byte: u8) -> bool {
    byte == b',' || is_space(char::from(byte))
}

/// Reads one region, and says what is behind it; `None` there: nothing is read any more.
fn region(text: &[u8], last_cpu: u32) -> Option<(Region, Option<&[u8]>)> {
    let ends = |text: &[u8]| text.first().is_none_or(|b| is_between(*b));
    // A line break right behind a region without a pattern ends the list.
    let behind = |text: &[u8]| !matches!(text.first(), None | Some(b'\n'));
    let (first, last, text) = match text.get(..3) {
        Some(word) if word.eq_ignore_ascii_case(b"all") => (0, last_cpu, text.get(3..)?),
        _ => {
            let (first, text) = number(text, last_cpu)?;
            match text.split_first() {
                Some((b'-', text)) => {
                    let (last, text) = number(text, last_cpu)?;
                    (first, last, text)
                }
                _ if ends(text) => (first, first, text),
                _ => return None,
            }
        }
    };
    let (used, group, rest) = if ends(text) {
        let all = last.checked_add(1)?;
        (all, all, Some(text).filter(|t| behind(t)))
    } else {
        let (used, text) = number(text.strip_prefix(b":")?, last_cpu)?;
        let (group, text) = number(text.strip_prefix(b"/")?, last_cpu)?;
        (used, group, Some(text))
    };
    let valid = first <= last && group != 0 && used <= group && last <= last_cpu;
    let region = Region {
        first,
        last,
        used,
        group,
    };
    valid.then_some((region, rest))
}

/// A decimal number, or `N` for the last CPU.
fn number(text: &[u8], last_cpu: u32) -> Option<(u32, &[u8])> {
    if let Some(rest) = text.strip_prefix(b"N") {
        return Some((last_cpu, rest));
    }
    let end = text.iter().position(|b| !b.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((number, rest))
}
