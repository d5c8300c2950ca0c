//! Parentheses, `!`, `&&` and `||` (`calc_stack`, `predicate_parse`).

use super::super::trigger::is_space;
use super::machine::Machine;
use super::{EventFormat, Fault, Predicate, pred};

/// What stands between a pair of parentheses, as far as it has been read.
#[derive(Default)]
struct Level {
    /// A `!` stood before the parenthesis.
    not: bool,
    /// Alternatives that are complete.
    any: Vec<Predicate>,
    /// What is joined by `&&` since the last `||`.
    all: Vec<Predicate>,
}

impl Level {
    fn finish_all(&mut self) {
        if let Some(all) = join(std::mem::take(&mut self.all), Predicate::All) {
            self.any.push(all);
        }
    }

    fn finish(mut self) -> Option<Predicate> {
        self.finish_all();
        join(self.any, Predicate::Any).map(|p| negate(p, self.not))
    }
}

/// The one that there is, or all in one.
fn join(mut list: Vec<Predicate>, many: fn(Vec<Predicate>) -> Predicate) -> Option<Predicate> {
    match list.len() {
        0 | 1 => list.pop(),
        _ => Some(many(list)),
    }
}

fn negate(predicate: Predicate, not: bool) -> Predicate {
    match predicate {
        predicate if !not => predicate,
        Predicate::Not(inner) => *inner,
        predicate => Predicate::Not(Box::new(predicate)),
    }
}

pub(super) fn parse(
    text: &str,
    format: &EventFormat,
    machine: &dyn Machine,
) -> Result<Predicate, Fault> {
    balanced(text)?;
    let byte = |at: usize| text.as_bytes().get(at).copied().unwrap_or(0);
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    let mut not = false;
    // Where an operator that nothing has followed yet stands.
    let mut open: Option<usize> = None;
    let mut at = 0;
    while at < text.len() {
        match byte(at) {
            c if is_space(char::from(c)) => at += 1,
            b'(' => {
                let inner = Level {
                    not: std::mem::take(&mut not),
                    ..Level::default()
                };
                outer.push(std::mem::replace(&mut level, inner));
                at += 1;
            }
            b'!' if !matches!(byte(at + 1), b'=' | b'~') => {
                not = !not;
                at += 1;
            }
            _ => {
                let (test, end) = pred::parse(text, at, format, machine)?;
                level.all.push(negate(test, std::mem::take(&mut not)));
                at = end;
                open = behind(text, &mut at, &mut level, &mut outer)?;
            }
        }
    }
    let end = text.len();
    if let Some(at) = open {
        return Err(
            Fault::new(text, at, "Meaningless filter expression").help("nothing follows this")
        );
    }
    // Every parenthesis is closed, as was checked above.
    level
        .finish()
        .ok_or_else(|| Fault::new(text, end, "No filter found"))
}

/// Reads `)` and one operator behind a test. Returns where the operator is.
fn behind(
    text: &str,
    at: &mut usize,
    level: &mut Level,
    outer: &mut Vec<Level>,
) -> Result<Option<usize>, Fault> {
    loop {
        let rest = text.get(*at..).unwrap_or_default();
        let Some(next) = rest.chars().next() else {
            return Ok(None);
        };
        if is_space(next) {
            *at += 1;
        } else if next == ')' {
            let inner = match outer.pop() {
                Some(outside) => std::mem::replace(level, outside),
                None => return Err(Fault::new(text, *at, "Too few '('")),
            };
            level.all.extend(inner.finish());
            *at += 1;
        } else if rest.starts_with("&&") || rest.starts_with("||") {
            if next == '|' {
                level.finish_all();
            }
            *at += 2;
            return Ok(Some(*at - 2));
        } else {
            return Err(Fault::new(text, *at, "A condition is complete before this")
                .help("conditions are joined by `&&` or `||`"));
        }
    }
}

/// Parentheses match and quotes are closed.
fn balanced(text: &str) -> Result<(), Fault> {
    let mut quote: Option<(usize, char)> = None;
    let mut open = Vec::new();
    let mut something = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some((_, q)), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => {
                quote = Some((at, c));
                something = true;
            }
            (None, '(') => open.push(at),
            (None, ')') => {
                if open.pop().is_none() {
                    return Err(Fault::new(text, at, "Too few '('"));
                }
            }
            (None, c) => something |= !is_space(c),
        }
    }
    if let Some((at, _)) = quote {
        return Err(Fault::new(text, at, "Missing matching quote"));
    }
    if let Some(at) = open.pop() {
        return Err(Fault::new(text, at, "Too many '('"));
    }
    if !something {
        return Err(Fault::new(text, 0, "No filter found"));
    }
    Ok(())
}
