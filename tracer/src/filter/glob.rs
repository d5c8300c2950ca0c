//! Compiles comm globs to the automaton that the kernel side runs.
//!
//! `*` is any bytes, `?` any one byte, `[a-z]` one of a set (`[!a-z]` or `[^a-z]`
//! one not of it, a `]` that comes first belongs to the set), `\` takes the next
//! byte as it is. A comm is bytes: a character outside ASCII counts as several.
//!
//! A pattern of n single bytes has the states 0…n, state i meaning that i of
//! them have matched; a `*` makes the state where it stands stay. How it is run:
//! [`tracer_common::glob::matches`].

use thiserror::Error;
use tracer_common::config::{GLOB_WORDS, Glob};
use tracer_common::record::COMM_LEN;

/// Longest comm, bytes.
const COMM_MAX: usize = COMM_LEN - 1;
/// States in a word of the automaton.
const WORD: usize = u64::BITS as usize;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GlobError {
    #[error("the pattern {0:?} has a [ without its ]; write \\[ for the character itself")]
    OpenSet(String),
    #[error("the pattern {0:?} has a range that ends before it begins; write it as [a-z]")]
    Range(String),
    #[error("the pattern {0:?} ends in a \\; write \\\\ for the character itself")]
    Escape(String),
    #[error(
        "the pattern {0:?} asks for more than {COMM_MAX} bytes, and the kernel cuts names there, so it can never match; shorten it, or end it with *"
    )]
    TooLong(String),
    #[error(
        "too many patterns: together they need more than {GLOB_WORDS} x {WORD} states; give fewer, or use [sets] and *"
    )]
    TooMany,
}

/// One byte of a pattern: those that match it.
type Set = [bool; 256];

/// A parsed pattern: its single bytes, and the places (0…len) that have a `*`.
#[derive(Default)]
struct Pattern {
    sets: Vec<Set>,
    stars: Vec<usize>,
}

/// Compiles patterns of which one must match.
///
/// # Errors
/// A pattern that is malformed, that no comm can match, or one too many.
pub fn compile<S: AsRef<[u8]>>(patterns: &[S]) -> Result<Glob, GlobError> {
    let mut glob = Glob::EMPTY;
    let mut used = [0; GLOB_WORDS];
    for pattern in patterns {
        let pattern = parse(pattern.as_ref())?;
        let states = pattern.sets.len() + 1;
        let free = used
            .iter_mut()
            .enumerate()
            .find(|(_, used)| **used + states <= WORD);
        let (word, used) = free.ok_or(GlobError::TooMany)?;
        place(&mut glob, word, *used, &pattern);
        *used += states;
    }
    Ok(glob)
}

/// Writes a pattern's states into `word` from bit `base` on; the caller has
/// seen to it that they fit there.
fn place(glob: &mut Glob, word: usize, base: usize, pattern: &Pattern) {
    let bit = |state: usize| 1u64 << (base + state);
    glob.first[word] |= bit(0);
    glob.last[word] |= bit(pattern.sets.len());
    for star in &pattern.stars {
        glob.stay[word] |= bit(*star);
    }
    for (i, set) in pattern.sets.iter().enumerate() {
        for (accept, _) in glob.accept[word]
            .iter_mut()
            .zip(set)
            .filter(|(_, wanted)| **wanted)
        {
            *accept |= bit(i + 1);
        }
    }
}

fn parse(pattern: &[u8]) -> Result<Pattern, GlobError> {
    let name = || String::from_utf8_lossy(pattern).into_owned();
    let mut parsed = Pattern::default();
    let mut rest = pattern;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let set = match byte {
            b'*' => {
                parsed.stars.push(parsed.sets.len());
                continue;
            }
            b'?' => [true; 256],
            b'[' => {
                let (set, after) = parse_set(rest, &name)?;
                rest = after;
                set
            }
            b'\\' => {
                let (byte, after) = rest
                    .split_first()
                    .ok_or_else(|| GlobError::Escape(name()))?;
                rest = after;
                single(*byte)
            }
            byte => single(*byte),
        };
        parsed.sets.push(set);
    }
    if parsed.sets.len() > COMM_MAX {
        Err(GlobError::TooLong(name()))
    } else {
        Ok(parsed)
    }
}

fn single(byte: u8) -> Set {
    std::array::from_fn(|i| i == usize::from(byte))
}

/// A set, from behind its `[`; gives what follows its `]`.
fn parse_set<'a>(
    mut rest: &'a [u8],
    pattern: &dyn Fn() -> String,
) -> Result<(Set, &'a [u8]), GlobError> {
    let open = || GlobError::OpenSet(pattern());
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    if negated {
        rest = rest.get(1..).unwrap_or_default();
    }
    let mut set = [negated; 256];
    let mut first = true;
    loop {
        if let (false, Some((b']', after))) = (first, rest.split_first()) {
            return Ok((set, after));
        }
        first = false;
        let (from, after) = member(rest).ok_or_else(open)?;
        rest = after;
        let mut to = from;
        if let [b'-', next, ..] = rest
            && *next != b']'
        {
            (to, rest) = member(&rest[1..]).ok_or_else(open)?;
            if to < from {
                return Err(GlobError::Range(pattern()));
            }
        }
        for byte in from..=to {
            set[usize::from(byte)] = !negated;
        }
    }
}

/// One byte of a set, with its `\` taken off.
fn member(bytes: &[u8]) -> Option<(u8, &[u8])> {
    match bytes {
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Comm;
    use proptest::prelude::*;
    use tracer_common::glob::matches;

    fn hit(patterns: &[&str], comm: &str) -> bool {
        matches(&compile(patterns).unwrap(), &Comm::new(comm.as_bytes()).0)
    }

    #[test]
    fn globs() {
        for (pattern, yes, no) in [
            ("*", &["", "a", "fifteen-bytes-x"][..], &[][..]),
            ("", &[""], &["a"]),
            ("sh", &["sh"], &["", "s", "shh", "ash"]),
            ("cc*", &["cc", "cc1", "cc1plus"], &["c", "acc"]),
            ("*.so", &[".so", "a.so", "a.so.so"], &["a.so.1"]),
            ("a*b*c", &["abc", "aXbYc", "abbcc"], &["acb", "ab"]),
            ("**a**", &["a", "xax"], &["", "b"]),
            ("?", &["a", "*"], &["", "ab"]),
            ("kworker/[0-9]*", &["kworker/0:1"], &["kworker/u8:1"]),
            ("[!a-c]x", &["dx", "!x"], &["ax", "x"]),
            ("[^a]", &["b"], &["a"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[!]]", &["a"], &["]"]),
            ("[a-]", &["a", "-"], &["b"]),
            (r"[\]-\^]", &["]", "^"], &["\\"]),
            (r"\*\?", &["*?"], &["aa"]),
            ("fifteen-bytes-x", &["fifteen-bytes-x"], &["fifteen-bytes-"]),
            ("fifteen-bytes-x*", &["fifteen-bytes-x"], &[]),
        ] {
            yes.iter()
                .for_each(|comm| assert!(hit(&[pattern], comm), "{pattern} {comm}"));
            no.iter()
                .for_each(|comm| assert!(!hit(&[pattern], comm), "{pattern} {comm}"));
        }
    }

    #[test]
    fn several_patterns_do_not_touch_each_other() {
        let many: Vec<String> = (0..32).map(|i| format!("prog{i:02}x")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for i in 0..32 {
            assert!(hit(&many, &format!("prog{i:02}x")));
        }
        assert!(!hit(&many, "prog00xprog01x") && !hit(&many, "prog32x") && !hit(&many, ""));
        assert!(!hit(&[], "") && !hit(&[], "a"));
    }

    #[test]
    fn what_comes_after_the_nul_does_not_count() {
        let glob = compile(&["sh"]).unwrap();
        assert!(matches(&glob, b"sh\0left over\0\0\0\0"));
        assert!(!matches(&glob, b"s\0h\0\0\0\0\0\0\0\0\0\0\0\0\0"));
        assert!(matches(&compile(&["*"]).unwrap(), &[b'x'; 16]));
    }

    #[test]
    fn errors_name_the_remedy() {
        let error = |patterns: &[&str]| compile(patterns).map(|_| ()).unwrap_err();
        assert_eq!(error(&["[ab"]), GlobError::OpenSet("[ab".into()));
        assert_eq!(error(&["["]), GlobError::OpenSet("[".into()));
        assert_eq!(error(&["[a-"]), GlobError::OpenSet("[a-".into()));
        assert_eq!(error(&["[!]"]), GlobError::OpenSet("[!]".into()));
        assert_eq!(error(&["[z-a]"]), GlobError::Range("[z-a]".into()));
        assert_eq!(error(&["a\\"]), GlobError::Escape("a\\".into()));
        assert_eq!(
            error(&["sixteen-bytes-xx"]),
            GlobError::TooLong("sixteen-bytes-xx".into())
        );
        // 16 states each: 4 to a word.
        assert_eq!(error(&["fifteen-bytes-x"; 17]), GlobError::TooMany);
        assert!(compile(&["fifteen-bytes-x"; 16]).is_ok());
        assert!(
            GlobError::TooLong("x".into())
                .to_string()
                .contains("15 bytes")
        );
        assert!(GlobError::TooMany.to_string().contains("4 x 64"));
    }

    /// By backtracking, without sets and escapes.
    fn naive(pattern: &[u8], s: &[u8]) -> bool {
        match (pattern, s) {
            ([], s) => s.is_empty(),
            ([b'*', p @ ..], s) => (0..=s.len()).any(|n| naive(p, &s[n..])),
            ([b'?', p @ ..], [_, s @ ..]) => naive(p, s),
            ([c, p @ ..], [d, s @ ..]) => c == d && naive(p, s),
            (_, []) => false,
        }
    }

    proptest! {
        #[test]
        fn as_a_naive_matcher(patterns in proptest::collection::vec("[ab*?]{0,8}", 0..12), comm in "[ab]{0,15}") {
            let glob = compile(&patterns).unwrap();
            let truth = patterns.iter().any(|p| naive(p.as_bytes(), comm.as_bytes()));
            prop_assert_eq!(matches(&glob, &Comm::new(comm.as_bytes()).0), truth);
        }

        #[test]
        fn any_pattern_is_survived(patterns in proptest::collection::vec(
            proptest::collection::vec(proptest::sample::select(&b"ab-]![^\\*?\xff\0"[..]), 0..20), 0..4), comm: [u8; 16],
        ) {
            if let Ok(glob) = compile(&patterns) {
                matches(&glob, &comm);
            }
        }
    }
}
