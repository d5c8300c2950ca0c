//! `FIELD.function == NAME`: an address within a function.

use super::super::format::Field;
use super::super::number;
use super::super::trigger::is_space;
use super::machine::Machine;
use super::pred::{Cursor, NUMBER_MAX, Operator};
use super::{Fault, Number, Op, Predicate, Test};

/// Bytes of an address.
const LONG: u32 = 8;

/// What stands behind the operator: a name, which ends with a blank, or an address.
pub(super) fn parse(
    cursor: &mut Cursor<'_>,
    field: &Field,
    operator: Operator,
    machine: &dyn Machine,
) -> Result<Predicate, Fault> {
    if field.size != LONG {
        return Err(cursor
            .fault("Illegal operation for field type")
            .help(format!(
                "`.function` is for addresses, and `{}` does not have {LONG} bytes",
                field.name
            )));
    }
    let negate = match operator {
        Operator::Number(Op::Eq) => false,
        Operator::Number(Op::Ne) => true,
        _ => {
            return Err(cursor
                .fault("Invalid operator")
                .help("functions are compared by == and !="));
        }
    };
    let start = cursor.at;
    let fault = |message: &str| Fault::new(cursor.text, start, message);
    let found = if cursor.rest().starts_with(|c: char| c.is_ascii_digit()) {
        let digits = cursor.take_while(|c| c.is_ascii_alphanumeric());
        if digits.len() >= NUMBER_MAX {
            return Err(fault("Operand too long"));
        }
        let address = number::unsigned(digits);
        machine.function_at(address.ok_or_else(|| fault("Invalid value"))?)
    } else {
        machine.function(cursor.take_while(|c| !is_space(c)))
    };
    let range = match found {
        Ok(Some(range)) => range,
        Ok(None) => {
            return Err(fault("Function not found").help(
                "a function's name reaches to the next blank; `grep -w NAME /proc/kallsyms` finds it",
            ));
        }
        Err(reason) => return Err(fault("Function not found").help(reason)),
    };
    let from = Number::Field {
        offset: field.offset,
        size: LONG,
        signed: false,
    };
    let test = |op, value| Predicate::Test(Test::Number { from, op, value });
    let within = Predicate::All(vec![test(Op::Ge, range.start), test(Op::Lt, range.end)]);
    Ok(match negate {
        true => Predicate::Not(Box::new(within)),
        false => within,
    })
}
