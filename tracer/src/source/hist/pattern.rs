//! Texts that a filter compares with, as automata for the kernel side.
//!
//! One word of states: state i says that i characters have matched. A byte moves
//! every active state one place up, where the byte is accepted, and keeps those
//! that stand on a `*`.

use tracer_common::hist::{PATTERN_STATES, Pattern as Automaton};

use crate::hist::filter::Pattern;

/// What stands for one byte.
type Set = [bool; 256];

/// Compiles a pattern. `array`: the size of the array that the text fills, if it
/// is in one. `None`: it has too many characters.
pub fn compile(pattern: &Pattern, array: Option<usize>) -> Option<Automaton> {
    let mut automaton = Builder::default();
    match pattern {
        Pattern::Full(text) => automaton.literal(text),
        Pattern::Front(text) => {
            automaton.literal(text);
            automaton.star();
        }
        Pattern::Middle(text) => {
            automaton.star();
            automaton.literal(text);
            automaton.star();
        }
        // The kernel looks at the end of the array, not at that of the text.
        Pattern::End(text) => {
            match array {
                Some(size) => {
                    for _ in 0..size.checked_sub(1 + text.len())? {
                        automaton.sets.push([true; 256]);
                    }
                }
                None => automaton.star(),
            }
            automaton.literal(text);
        }
        Pattern::Glob(text) => automaton.glob(text),
    }
    automaton.finish()
}

#[derive(Default)]
struct Builder {
    sets: Vec<Set>,
    /// States that stay.
    stars: Vec<usize>,
}

impl Builder {
    fn literal(&mut self, text: &[u8]) {
        self.sets.extend(text.iter().map(|b| single(*b)));
    }

    fn star(&mut self) {
        self.stars.push(self.sets.len());
    }

    /// The language of the kernel's `lib/glob.c`.
    fn glob(&mut self, mut text: &[u8]) {
        while let Some((byte, after)) = text.split_first() {
            text = after;
            match byte {
                b'*' => self.star(),
                b'?' => self.sets.push([true; 256]),
                b'[' => match class(text) {
                    Some((set, after)) => {
                        self.sets.push(set);
                        text = after;
                    }
                    // Without its `]` it stands for itself.
                    None => self.sets.push(single(b'[')),
                },
                b'\\' => {
                    let (byte, after) = text.split_first().unwrap_or((&b'\\', &[]));
                    self.sets.push(single(*byte));
                    text = after;
                }
                byte => self.sets.push(single(*byte)),
            }
        }
    }

    fn finish(self) -> Option<Automaton> {
        if self.sets.len() >= PATTERN_STATES {
            return None;
        }
        let mut automaton = Automaton {
            first: 1,
            last: 1 << self.sets.len(),
            ..Automaton::NONE
        };
        for star in &self.stars {
            automaton.stay |= 1 << star;
        }
        for (i, set) in self.sets.iter().enumerate() {
            for (accept, wanted) in automaton.accept.iter_mut().zip(set) {
                *accept |= u64::from(*wanted) << (i + 1);
            }
        }
        Some(automaton)
    }
}

fn single(byte: u8) -> Set {
    let mut set = [false; 256];
    set[usize::from(byte)] = true;
    set
}

/// What stands behind a `[`, and the rest behind its `]`.
fn class(text: &[u8]) -> Option<(Set, &[u8])> {
    let (inverted, mut rest) = match text.split_first() {
        Some((b'!', rest)) => (true, rest),
        _ => (false, text),
    };
    let mut set = [inverted; 256];
    // The first one is never the end.
    let mut first = true;
    loop {
        let (from, after) = rest.split_first()?;
        if *from == b']' && !first {
            return Some((set, after));
        }
        first = false;
        let (to, after) = match after {
            [b'-', to, after @ ..] if *to != b']' => (to, after),
            _ => (from, after),
        };
        for byte in *from..=*to {
            set[usize::from(byte)] = !inverted;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel side runs it.
    fn matches(automaton: &Automaton, text: &[u8]) -> bool {
        let mut active = automaton.first;
        for byte in text {
            let accept = automaton.accept.get(usize::from(*byte)).unwrap_or(&0);
            active = ((active << 1) & accept) | (active & automaton.stay);
        }
        active & automaton.last != 0
    }

    fn glob(pattern: &str, text: &str) -> bool {
        let pattern = Pattern::Glob(pattern.into());
        matches(&compile(&pattern, None).unwrap(), text.as_bytes())
    }

    #[test]
    fn globs_are_those_of_the_kernel() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "aa", false),
            ("", "", true),
            ("?", "", false),
            ("[a-c]d", "bd", true),
            ("[!a-c]d", "bd", false),
            ("[!a]", "!", true),
            ("[^a]", "^", true),
            ("[^a]", "b", false),
            ("[]a]", "]", true),
            ("[a-]", "-", true),
            ("[a", "[a", true),
            ("*.c", "x.c", true),
            ("*.c", "x.c.h", false),
            ("a*b*c", "aXbYbc", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn the_end_is_that_of_the_array() {
        let end = Pattern::End(b"ue".to_vec());
        let text = compile(&end, None).unwrap();
        assert!(matches(&text, b"true") && !matches(&text, b"truer"));
        let array = compile(&end, Some(16)).unwrap();
        assert!(!matches(&array, b"true") && matches(&array, b"0123456789abcue"));
        assert!(compile(&Pattern::End(vec![b'x'; 16]), Some(16)).is_none());
        assert!(compile(&Pattern::Full(vec![b'x'; 64]), None).is_none());
    }

    #[test]
    fn front_and_middle() {
        let front = compile(&Pattern::Front(b"sh".to_vec()), Some(16)).unwrap();
        assert!(matches(&front, b"shell") && matches(&front, b"sh") && !matches(&front, b"ash"));
        let middle = compile(&Pattern::Middle(b"sh".to_vec()), Some(16)).unwrap();
        assert!(matches(&middle, b"ash2") && !matches(&middle, b"as"));
    }
}
