//! A predicate as a straight list of tests with forward jumps, which is what a
//! program in the kernel evaluates.

use super::{Predicate, Test};

/// A test and where to go on from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    pub test: &'a Test,
    pub on_true: Next,
    pub on_false: Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The step of this index, a later one.
    Step(usize),
    Accept,
    Reject,
}

pub(super) fn steps(predicate: &Predicate) -> Vec<Step<'_>> {
    let mut out = Vec::new();
    emit(predicate, Next::Accept, Next::Reject, &mut out);
    out
}

/// Number of tests in it.
fn count(predicate: &Predicate) -> usize {
    match predicate {
        Predicate::Test(_) => 1,
        Predicate::Not(inner) => count(inner),
        Predicate::All(list) | Predicate::Any(list) => list.iter().map(count).sum(),
    }
}

fn emit<'a>(predicate: &'a Predicate, yes: Next, no: Next, out: &mut Vec<Step<'a>>) {
    match predicate {
        Predicate::Test(test) => out.push(Step {
            test,
            on_true: yes,
            on_false: no,
        }),
        Predicate::Not(inner) => emit(inner, no, yes, out),
        Predicate::All(list) | Predicate::Any(list) => {
            let all = matches!(predicate, Predicate::All(_));
            let last = list.len().saturating_sub(1);
            for (i, item) in list.iter().enumerate() {
                let next = Next::Step(out.len() + count(item));
                match (i == last, all) {
                    (true, _) => emit(item, yes, no, out),
                    (false, true) => emit(item, next, no, out),
                    (false, false) => emit(item, yes, next, out),
                }
            }
        }
    }
}
