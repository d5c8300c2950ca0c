//! Texts that a filter compares with, as automata for the kernel side.
//!
//! State i says that i characters have matched, one bit each in one word, or in
//! four for a long pattern. A byte moves every active state one place up, where
//! the byte is accepted, and keeps those that stand on a `*`.

use tracer_common::hist::{
    LONG_PATTERN_STATES, LongPattern, MAX_LONG_PATTERNS, MAX_PATTERNS, PATTERN_STATES,
    Pattern as Short,
};

use crate::hist::filter::Pattern;

/// What stands for one byte.
type Set = [bool; 256];

/// The patterns of a filter.
#[derive(Clone, Debug)]
pub struct Patterns {
    pub short: Box<[Short; MAX_PATTERNS]>,
    pub long: Box<[LongPattern; MAX_LONG_PATTERNS]>,
    used: usize,
    long_used: usize,
}

/// Where a pattern is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub index: u32,
}

impl Place {
    pub fn is_long(self) -> bool {
        self.index as usize >= MAX_PATTERNS
    }
}

impl Default for Patterns {
    fn default() -> Self {
        Self {
            short: Box::new([Short::NONE; MAX_PATTERNS]),
            long: Box::new([LongPattern::NONE; MAX_LONG_PATTERNS]),
            used: 0,
            long_used: 0,
        }
    }
}

impl Patterns {
    /// Where it has been put; `None`: there is no room.
    pub fn add(&mut self, states: &States) -> Option<Place> {
        if states.len() < PATTERN_STATES {
            let index = self.used;
            *self.short.get_mut(index)? = states.short();
            self.used += 1;
            return Some(Place {
                index: index as u32,
            });
        }
        let index = self.long_used;
        *self.long.get_mut(index)? = states.long();
        self.long_used += 1;
        Some(Place {
            index: (MAX_PATTERNS + index) as u32,
        })
    }
}

/// Compiles a pattern. `array`: the size of the array that the text fills, if it
/// is in one. `None`: it has too many characters, or stands too far behind.
pub fn compile(pattern: &Pattern, array: Option<usize>) -> Option<States> {
    let mut automaton = States::default();
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
            match array.map(|size| size.checked_sub(1 + text.len())) {
                Some(Some(before)) if before >= LONG_PATTERN_STATES => return None,
                Some(Some(before)) => automaton.sets.extend(vec![[true; 256]; before]),
                // It does not fit.
                Some(None) => return Some(States::nothing()),
                None => automaton.star(),
            }
            automaton.literal(text);
        }
        Pattern::Glob(text) => automaton.glob(text),
    }
    // The text has a character less than its array.
    if array.is_some_and(|size| automaton.sets.len() > size) {
        return Some(States::nothing());
    }
    (automaton.len() < LONG_PATTERN_STATES).then_some(automaton)
}

/// A pattern, character by character.
#[derive(Clone, Debug, Default)]
pub struct States {
    sets: Vec<Set>,
    /// States that stay.
    stars: Vec<usize>,
}

impl States {
    /// Matches no text.
    fn nothing() -> Self {
        Self {
            sets: vec![[false; 256]],
            stars: Vec::new(),
        }
    }

    /// Characters.
    fn len(&self) -> usize {
        self.sets.len()
    }

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

    fn short(&self) -> Short {
        let LongPattern {
            accept,
            first: [first, ..],
            stay: [stay, ..],
            last: [last, ..],
        } = self.long();
        Short {
            accept: accept.map(|[low, ..]| low),
            first,
            stay,
            last,
        }
    }

    fn long(&self) -> LongPattern {
        fn set<'a>(mut words: impl Iterator<Item = &'a mut u64>, state: usize) {
            if let Some(word) = words.nth(state / 64) {
                *word |= 1 << (state % 64);
            }
        }
        let mut automaton = LongPattern::NONE;
        set(automaton.first.iter_mut(), 0);
        set(automaton.last.iter_mut(), self.sets.len());
        for star in &self.stars {
            set(automaton.stay.iter_mut(), *star);
        }
        for (i, wanted) in self.sets.iter().enumerate() {
            for (accept, wanted) in automaton.accept.iter_mut().zip(wanted) {
                if *wanted {
                    set(accept.iter_mut(), i + 1);
                }
            }
        }
        automaton
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
    fn matches(states: &States, text: &[u8]) -> bool {
        let automaton = states.long();
        let mut active = automaton.first;
        for byte in text {
            let mut carry = 0;
            let accept = automaton.accept[usize::from(*byte)];
            for (word, (accept, stay)) in active.iter_mut().zip(accept.iter().zip(automaton.stay)) {
                let here = *word;
                *word = (((here << 1) | carry) & accept) | (here & stay);
                carry = here >> 63;
            }
        }
        let long = active.iter().zip(automaton.last).any(|(a, l)| a & l != 0);
        if states.len() < PATTERN_STATES {
            let automaton = states.short();
            let mut active = automaton.first;
            for byte in text {
                let accept = automaton.accept.get(usize::from(*byte)).unwrap_or(&0);
                active = ((active << 1) & accept) | (active & automaton.stay);
            }
            assert_eq!(active & automaton.last != 0, long);
        }
        long
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
        assert!(compile(&end, Some(256)).is_some());
        for beyond in [257, usize::MAX] {
            assert!(compile(&end, Some(beyond)).is_none());
        }
        let none = compile(&Pattern::End(vec![b'x'; 16]), Some(16)).unwrap();
        assert!(!matches(&none, &[b'x'; 15]));
    }

    #[test]
    fn long_patterns_go_on_in_the_next_word() {
        for length in [62, 63, 64, 65, 127, 128, 200, 255] {
            let text = vec![b'x'; length];
            let full = compile(&Pattern::Full(text.clone()), None).unwrap();
            assert!(matches(&full, &text), "{length}");
            assert!(
                !matches(&full, &text[1..]) && !matches(&full, &[text.as_slice(), b"x"].concat())
            );
            let middle = compile(&Pattern::Middle(text[2..].to_vec()), None).unwrap();
            assert!(matches(&middle, &text) && !matches(&middle, &text[3..]));
            // No array of 16 bytes has that in it.
            let none = compile(&Pattern::Full(text.clone()), Some(16)).unwrap();
            assert!(!matches(&none, &text[..15]));
        }
        assert!(compile(&Pattern::Full(vec![b'x'; 256]), None).is_none());
        let glob = Pattern::Glob([b"*".as_slice(), &[b'a'; 100], b"*", &[b'b'; 100]].concat());
        let glob = compile(&glob, None).unwrap();
        let text = [b"zz".as_slice(), &[b'a'; 101], b"--", &[b'b'; 100]].concat();
        assert!(matches(&glob, &text) && !matches(&glob, &text[..text.len() - 1]));
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut patterns = Patterns::default();
        let short = compile(&Pattern::Full(b"x".to_vec()), None).unwrap();
        let long = compile(&Pattern::Full(vec![b'x'; 64]), None).unwrap();
        assert_eq!(
            (0..99).map_while(|_| patterns.add(&short)).count(),
            MAX_PATTERNS
        );
        assert_eq!(
            (0..99).map_while(|_| patterns.add(&long)).count(),
            MAX_LONG_PATTERNS
        );
    }

    #[test]
    fn front_and_middle() {
        let front = compile(&Pattern::Front(b"sh".to_vec()), Some(16)).unwrap();
        assert!(matches(&front, b"shell") && matches(&front, b"sh") && !matches(&front, b"ash"));
        let middle = compile(&Pattern::Middle(b"sh".to_vec()), Some(16)).unwrap();
        assert!(matches(&middle, b"ash2") && !matches(&middle, b"as"));
    }
}
