//! From a plan to what the kernel side is told.

use tracer_common::hist::{
    Config, Item, MAX_KEYS, MAX_TESTS, MAX_VALS, NEAR_TEXTS, TABLE_WORDS, TEXT, Test, WORDS_END,
    change, fold, from, goto, op,
};

use super::clock::Clock;
use super::pattern::{self, Patterns};
use super::unsupported::Unsupported;
use crate::hist::filter::{Next, Number, Op, Pattern, Text};
use crate::hist::plan::{Aggregate, Source, Transform};
use crate::hist::{EventFormat, Plan, filter};

/// What one trigger makes of the program.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub config: Config,
    pub patterns: Patterns,
    /// Entries of the table.
    pub entries: u32,
}

/// What an item is made of beside its source.
struct Context<'a> {
    format: &'a EventFormat,
    /// Where the record's last member ends: programs that read beyond are refused.
    end: u32,
    clock: Clock,
}

impl Compiled {
    /// Compiles a plan for its event.
    ///
    /// # Errors
    /// What the program cannot do.
    pub fn new(plan: &Plan, format: &EventFormat) -> Result<Self, Unsupported> {
        let clock = plan.clock.as_deref().unwrap_or("global");
        let clock = Clock::of(clock).ok_or_else(|| Unsupported::Clock(clock.to_owned()))?;
        let last = format.fields.last();
        let context = Context {
            format,
            end: last.map_or(0, |f| f.offset.saturating_add(f.size)),
            clock,
        };
        let mut config = Config::NONE;
        let mut slot = 0;
        if plan.keys.len() > MAX_KEYS {
            return Err(Unsupported::TooLong);
        }
        for (item, key) in config.keys.iter_mut().zip(&plan.keys) {
            let (made, words) = context.key(key.source, key.transform)?;
            *item = Item { slot, ..made };
            slot += words;
        }
        config.key_words = slot;
        let table = TABLE_WORDS.iter().find(|words| **words >= slot as usize);
        config.table_words = *table.ok_or(Unsupported::TooLong)? as u32;
        config.names = u32::from(plan.keeps_comm());
        let counted: Vec<_> = counted(plan).collect();
        if counted.len() > MAX_VALS {
            return Err(Unsupported::TooLong);
        }
        for (item, (_, value)) in config.vals.iter_mut().zip(counted) {
            let made = context.number(value.source)?;
            *item = Item {
                fold: match (value.aggregate, value.shows_sign()) {
                    (Aggregate::Sum | Aggregate::Avg, _) => fold::SUM,
                    (Aggregate::Min, false) => fold::MIN,
                    (Aggregate::Max, false) => fold::MAX,
                    (Aggregate::Min, true) => fold::SIGNED_MIN,
                    (Aggregate::Max, true) => fold::SIGNED_MAX,
                },
                ..made
            };
        }
        let mut patterns = Patterns::default();
        if let Some(filter) = &plan.filter {
            config.n_tests = context.filter(filter, &mut config.tests, &mut patterns)?;
        }
        Ok(Self {
            config,
            patterns,
            entries: plan.size,
        })
    }
}

/// The values that the program must keep; what else there is follows from the hits.
pub(super) fn counted(
    plan: &Plan,
) -> impl Iterator<Item = (usize, &crate::hist::plan::Value)> + '_ {
    let values = plan.values.iter().enumerate();
    values.filter(|(_, v)| constant(v.source).is_none())
}

/// What is the same for each event.
pub(super) fn constant(source: Source) -> Option<u64> {
    match source {
        Source::One => Some(1),
        Source::Constant(number) => Some(number),
        // An address that means nothing in the kernel either.
        Source::TextAddress => Some(0),
        _ => None,
    }
}

impl Context<'_> {
    /// A key, and how many words it takes.
    fn key(&self, source: Source, transform: Transform) -> Result<(Item, u32), Unsupported> {
        Ok(match source {
            Source::StaticText { offset, size } => {
                let item = self.array(offset, size);
                (item, size.div_ceil(8))
            }
            Source::DynText { offset, relative } => (located(offset, relative), (TEXT / 8) as u32),
            Source::Stack => {
                let item = Item {
                    from: from::STACK,
                    ..Item::NONE
                };
                (item, tracer_common::hist::STACK_DEPTH as u32)
            }
            number => {
                let (change, arg) = match transform {
                    Transform::None => (change::NONE, 0),
                    Transform::Log2 => (change::LOG2, 0),
                    Transform::Buckets(width) => (change::BUCKET, width),
                };
                let item = self.number(number)?;
                let item = match item.from {
                    // What is the same for each event is changed now.
                    from::CONSTANT => Item {
                        arg: transform.apply(item.arg),
                        ..item
                    },
                    _ => Item {
                        change,
                        arg,
                        ..item
                    },
                };
                (item, 1)
            }
        })
    }

    fn number(&self, source: Source) -> Result<Item, Unsupported> {
        let plain = |from| Item { from, ..Item::NONE };
        Ok(match source {
            Source::Int {
                offset,
                size,
                signed,
            } => self.int(offset, size, signed)?,
            Source::Timestamp { usecs } => self.clock.item(usecs),
            Source::Cpu => plain(from::CPU),
            other => Item {
                arg: constant(other).unwrap_or(0),
                ..plain(from::CONSTANT)
            },
        })
    }

    /// An integer of the record. Its first eight bytes are not there for a program;
    /// what they have is known otherwise, as far as it is.
    fn int(&self, offset: u32, size: u32, signed: bool) -> Result<Item, Unsupported> {
        let plain = |from| Item { from, ..Item::NONE };
        match (offset, size) {
            (4, 4) => return Ok(plain(from::PID)),
            (0, 2) => {
                return Ok(Item {
                    arg: u64::from(self.format.id),
                    ..plain(from::CONSTANT)
                });
            }
            (2, 1) => return Err(Unsupported::Common("common_flags")),
            (3, 1) => return Err(Unsupported::Common("common_preempt_count")),
            _ => {}
        }
        let item = |from, offset, left: u32, right: u32| Item {
            from,
            offset,
            size,
            left,
            right,
            signed: u32::from(signed),
            ..Item::NONE
        };
        let bits = 8 * size;
        let word = offset & !3;
        Ok(if self.has_word8(offset) && size == 8 {
            item(from::WORD8, offset, 0, 0)
        } else if size <= 4 && word + 4 <= self.end.min(WORDS_END) && offset + size <= word + 4 {
            let left = 64 - bits - 8 * (offset - word);
            // A word of four bytes without a sign is whole.
            let right = if bits == 32 && !signed { 0 } else { 64 - bits };
            item(from::WORD4, word, left, right)
        } else {
            let right = if bits == 64 || !signed { 0 } else { 64 - bits };
            item(from::BYTES, offset, right, right)
        })
    }

    fn has_word8(&self, offset: u32) -> bool {
        offset.is_multiple_of(8) && offset + 8 <= self.end.min(WORDS_END)
    }

    /// A text in an array.
    fn array(&self, offset: u32, size: u32) -> Item {
        let words = size.is_multiple_of(8) && size <= 32;
        if words && offset.is_multiple_of(8) && offset + size <= self.end.min(WORDS_END) {
            return Item {
                from: from::TEXT8,
                offset,
                size,
                ..Item::NONE
            };
        }
        Item {
            from: from::TEXT,
            offset,
            // One that fills its words loses its last byte, in the kernel too.
            size: (size + u32::from(!size.is_multiple_of(8))).min(TEXT as u32),
            ..Item::NONE
        }
    }

    /// Fills in the tests and says how many there are.
    fn filter(
        &self,
        filter: &filter::Predicate,
        tests: &mut [Test; MAX_TESTS],
        patterns: &mut Patterns,
    ) -> Result<u32, Unsupported> {
        let steps = filter.steps();
        if steps.len() > MAX_TESTS {
            return Err(Unsupported::Tests(steps.len()));
        }
        let next = |next: Next| match next {
            Next::Accept => goto::PASS,
            Next::Reject => goto::FAIL,
            // Fewer than MAX_TESTS.
            Next::Step(at) => at as u32,
        };
        // Of texts that are near.
        let mut bytes = 0;
        for (to, step) in tests.iter_mut().zip(&steps) {
            *to = Test {
                yes: next(step.on_true),
                no: next(step.on_false),
                ..Test::NONE
            };
            match step.test {
                filter::Test::Never => to.yes = to.no,
                filter::Test::Number {
                    from,
                    op: operation,
                    value,
                } => {
                    to.item = self.left(*from)?;
                    to.op = operator(*operation, from.is_signed());
                    to.value = *value;
                }
                filter::Test::Bit { from, base, bits } => {
                    to.item = Item {
                        arg: *base,
                        ..self.left(*from)?
                    };
                    to.op = op::BIT;
                    to.value = *bits;
                }
                filter::Test::Text {
                    from,
                    pattern,
                    negate,
                } => {
                    let (item, array) = self.text(*from);
                    let states = pattern::compile(pattern, array);
                    let states = states.ok_or_else(|| Unsupported::Pattern(text_of(pattern)))?;
                    let place = patterns.add(&states).ok_or(Unsupported::Patterns)?;
                    to.item = item;
                    let near = !place.is_long() && bytes + item.size <= NEAR_TEXTS;
                    bytes += if near { item.size } else { 0 };
                    to.op = match (near, *negate) {
                        (true, false) => op::MATCHES,
                        (true, true) => op::DIFFERS,
                        (false, false) => op::SCAN_MATCHES,
                        (false, true) => op::SCAN_DIFFERS,
                    };
                    to.pattern = place.index;
                }
            }
        }
        Ok(steps.len() as u32)
    }

    /// The left side of a comparison of numbers.
    fn left(&self, number: Number) -> Result<Item, Unsupported> {
        match number {
            Number::Field {
                offset,
                size,
                signed,
            } => self.int(offset, size, signed),
            Number::Located { offset, at } => Ok(Item {
                from: from::LOCATED,
                offset,
                arg: u64::from(at),
                ..Item::NONE
            }),
            Number::Cpu => self.number(Source::Cpu),
        }
    }

    /// A text, and the size of the array that it is in.
    fn text(&self, text: Text) -> (Item, Option<usize>) {
        match text {
            Text::Static { offset, size } => (self.array(offset, size), Some(size as usize)),
            Text::Dyn { offset, relative } => (located(offset, relative), None),
            Text::Pointer { offset, user } => {
                let item = Item {
                    from: if user {
                        from::USER_POINTER
                    } else {
                        from::POINTER
                    },
                    offset,
                    size: TEXT as u32,
                    ..Item::NONE
                };
                (item, None)
            }
            Text::Comm => {
                let item = Item {
                    from: from::COMM,
                    size: 16,
                    ..Item::NONE
                };
                (item, Some(16))
            }
        }
    }
}

fn located(offset: u32, relative: bool) -> Item {
    Item {
        from: if relative {
            from::REL_LOC
        } else {
            from::DATA_LOC
        },
        offset,
        size: TEXT as u32,
        ..Item::NONE
    }
}

fn operator(operation: Op, signed: bool) -> u32 {
    match (operation, signed) {
        (Op::Eq, _) => op::EQ,
        (Op::Ne, _) => op::NE,
        (Op::Lt, false) => op::LT,
        (Op::Le, false) => op::LE,
        (Op::Gt, false) => op::GT,
        (Op::Ge, false) => op::GE,
        (Op::Lt, true) => op::SIGNED_LT,
        (Op::Le, true) => op::SIGNED_LE,
        (Op::Gt, true) => op::SIGNED_GT,
        (Op::Ge, true) => op::SIGNED_GE,
        (Op::And, _) => op::AND,
    }
}

fn text_of(pattern: &Pattern) -> String {
    let (Pattern::Full(text)
    | Pattern::Front(text)
    | Pattern::End(text)
    | Pattern::Middle(text)
    | Pattern::Glob(text)) = pattern;
    String::from_utf8_lossy(text).into_owned()
}
