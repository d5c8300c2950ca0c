//! One comparison: `FIELD OP VALUE` (`parse_pred`).

use super::super::format::{Class, Field};
use super::super::number;
use super::super::trigger::is_space;
use super::machine::Machine;
use super::{EventFormat, Fault, Number, Op, Pattern, Predicate, Test, Text, cpus, function};

/// A value in quotes has fewer bytes (`MAX_FILTER_STR_VAL`).
const TEXT_MAX: usize = 256;
/// A number has fewer.
pub(super) const NUMBER_MAX: usize = 24;

/// In the order in which the kernel looks for them.
const OPERATORS: [(&str, Operator); 8] = [
    ("~", Operator::Glob),
    ("!=", Operator::Number(Op::Ne)),
    ("==", Operator::Number(Op::Eq)),
    ("<=", Operator::Number(Op::Le)),
    ("<", Operator::Number(Op::Lt)),
    (">=", Operator::Number(Op::Ge)),
    (">", Operator::Number(Op::Gt)),
    ("&", Operator::Number(Op::And)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Glob,
    Number(Op),
}

/// What is still to be read.
pub(super) struct Cursor<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    pub(super) fn eat(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        self.at += if found { prefix.len() } else { 0 };
        found
    }

    pub(super) fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(self.text, self.at, message)
    }
}

/// The comparison that begins at `at`, and where it ends.
pub(super) fn parse(
    text: &str,
    at: usize,
    format: &EventFormat,
    machine: &dyn Machine,
) -> Result<(Predicate, usize), Fault> {
    let mut cursor = Cursor { text, at };
    let name = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
    if name.is_empty() {
        return Err(Fault::new(text, at, "A field's name is missing").help(
            "a condition is `FIELD OPERATOR VALUE`, as in `prio < 100` or `comm ~ \"cc*\"`",
        ));
    }
    let field = format.find(name).ok_or_else(|| {
        Fault::new(
            text,
            at,
            format!("Field not found: {} has no `{name}`", format.name),
        )
        .near("fields", name, format.names())
    })?;
    let user = cursor.eat(".ustring");
    let function = cursor.eat(".function");
    cursor.take_while(is_space);
    let operator = OPERATORS.iter().find(|(text, _)| cursor.eat(text));
    let Some((_, operator)) = operator else {
        return Err(cursor
            .fault("Invalid operator")
            .help("operators are == != < <= > >= & for numbers, and == != ~ for texts"));
    };
    cursor.take_while(is_space);
    if function {
        let within = function::parse(&mut cursor, &field, *operator, machine)?;
        return Ok((within, cursor.at));
    }
    let test = match cursor.rest().chars().next() {
        Some('\'' | '"') => of_text(&mut cursor, &field, *operator, user)?,
        Some(c) if c.is_ascii_digit() || c == '-' => of_number(&mut cursor, &field, *operator)?,
        Some('C') if cursor.rest().starts_with("CPUS") => {
            let cpus = cpus::parse(&mut cursor, &field, *operator, machine)?;
            return Ok((cpus, cursor.at));
        }
        _ => {
            return Err(cursor
                .fault("Invalid value (did you forget quotes)?")
                .help("a value is a number, or a text in quotes"));
        }
    };
    Ok((Predicate::Test(test), cursor.at))
}

fn of_text(
    cursor: &mut Cursor<'_>,
    field: &Field,
    operator: Operator,
    user: bool,
) -> Result<Test, Fault> {
    let start = cursor.at;
    if !matches!(operator, Operator::Glob | Operator::Number(Op::Eq | Op::Ne)) {
        return Err(cursor
            .fault("Illegal operation for field type")
            .help("texts are compared by == != ~"));
    }
    let from = match field.class {
        Class::StaticString => Text::Static {
            offset: field.offset,
            size: field.size,
        },
        Class::DynString | Class::RelDynString => Text::Dyn {
            offset: field.offset,
            relative: field.class == Class::RelDynString,
        },
        Class::PtrString => Text::Pointer {
            offset: field.offset,
            user,
        },
        Class::Comm => Text::Comm,
        Class::Other | Class::CpuMask | Class::Cpu | Class::Stacktrace => {
            return Err(cursor.fault(format!(
                "Expecting numeric field: `{}` is no text",
                field.name
            )));
        }
    };
    // The quote is ASCII, and one like it follows: it was looked for at first.
    let quote = cursor.rest().chars().next().unwrap_or('"');
    cursor.at += 1;
    let value = cursor.take_while(|c| c != quote);
    if !cursor.eat(quote.encode_utf8(&mut [0; 4])) {
        return Err(Fault::new(cursor.text, start, "Missing matching quote"));
    }
    if value.len() >= TEXT_MAX {
        return Err(Fault::new(cursor.text, start, "Operand too long")
            .help(format!("a text has at most {} bytes", TEXT_MAX - 1)));
    }
    let (pattern, negate) = match operator {
        Operator::Glob => pattern(value),
        operator => (
            Pattern::Full(value.into()),
            operator == Operator::Number(Op::Ne),
        ),
    };
    Ok(Test::Text {
        from,
        pattern,
        negate,
    })
}

/// What `~` compares with, and whether a `!` negates it (`filter_parse_regex`).
fn pattern(value: &str) -> (Pattern, bool) {
    let (value, negate) = match value.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (value, false),
    };
    let inner = value.strip_prefix('*');
    let front = inner.unwrap_or(value);
    let core = front.strip_suffix('*').unwrap_or(front);
    let pattern = if value.starts_with(|c: char| c.is_ascii_digit()) {
        // The kernel takes it for an index, and then for the text itself.
        Pattern::Full(value.into())
    } else if core.contains(['*', '?', '[', '\\']) {
        Pattern::Glob(value.into())
    } else {
        match (inner.is_some(), core.len() < front.len()) {
            (false, false) => Pattern::Full(core.into()),
            (false, true) => Pattern::Front(core.into()),
            (true, false) => Pattern::End(core.into()),
            (true, true) => Pattern::Middle(core.into()),
        }
    };
    (pattern, negate)
}

fn of_number(cursor: &mut Cursor<'_>, field: &Field, operator: Operator) -> Result<Test, Fault> {
    let start = cursor.at;
    if field.class.is_text() {
        return Err(cursor
            .fault(format!(
                "Expecting string field: `{}` is a text",
                field.name
            ))
            .help("put the value into quotes"));
    }
    let Operator::Number(op) = operator else {
        return Err(cursor
            .fault("Illegal operation for field type")
            .help("`~` compares texts"));
    };
    cursor.eat("-");
    cursor.take_while(|c| c.is_ascii_alphanumeric());
    let digits = cursor.text.get(start..cursor.at).unwrap_or_default();
    let fault = |message: &str| Fault::new(cursor.text, start, message);
    if digits.len() >= NUMBER_MAX {
        return Err(fault("Operand too long"));
    }
    let value = if field.signed {
        number::signed(digits).map(i64::cast_unsigned)
    } else {
        number::unsigned(digits)
    };
    let value = value.ok_or_else(|| {
        let what = if field.signed { "signed" } else { "unsigned" };
        fault("Illegal integer value").help(format!(
            "`{}` is {what}; numbers are decimal, 0x… hexadecimal, 0… octal",
            field.name
        ))
    })?;
    Ok(match (field.class, op) {
        (Class::Cpu, Op::And) => Test::Never,
        (Class::Cpu, op) => Test::Number {
            from: Number::Cpu,
            op,
            value: cut(value, 4, true),
        },
        _ if !field.is_number_sized() => Test::Never,
        (_, op) => Test::Number {
            from: Number::Field {
                offset: field.offset,
                size: field.size,
                signed: field.signed,
            },
            op,
            value: cut(value, field.size, field.signed),
        },
    })
}

/// The low `size` bytes of a number, extended to eight.
pub(super) fn cut(value: u64, size: u32, signed: bool) -> u64 {
    let shift = 64 - 8 * size.clamp(1, 8);
    if signed {
        ((value << shift).cast_signed() >> shift).cast_unsigned()
    } else {
        value << shift >> shift
    }
}
