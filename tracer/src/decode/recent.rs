//! Paths seen lately: most execs name a program and a directory that another
//! named a moment before, and share its copy.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::model::Bytes;

/// Places, a power of two. What comes to a place that is taken replaces what
/// was there: memory is bounded, and old paths go.
const PLACES: usize = 64;

/// What records said lately, and what it was made into.
pub(super) struct Recent {
    make: fn(&[u8]) -> Bytes,
    places: [Option<(Box<[u8]>, Bytes)>; PLACES],
}

impl Recent {
    pub fn new(make: fn(&[u8]) -> Bytes) -> Self {
        Self {
            make,
            places: [const { None }; PLACES],
        }
    }

    /// What `raw` is made into.
    pub fn get(&mut self, raw: &[u8]) -> Bytes {
        let mut hasher = FxHasher::default();
        hasher.write(raw);
        // The upper bits are the better ones; the index is below PLACES.
        let place = &mut self.places[(hasher.finish() >> 32) as usize % PLACES];
        match place {
            Some((known, made)) if **known == *raw => made.clone(),
            _ => {
                let made = (self.make)(raw);
                *place = Some((raw.into(), made.clone()));
                made
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_what_it_would_be_without() {
        let mut recent = Recent::new(|raw| [b"<", raw].concat().into());
        // More than there are places, twice, in turn and in a row.
        for _ in 0..2 {
            for i in 0..4 * PLACES {
                for _ in 0..2 {
                    let made = recent.get(i.to_string().as_bytes());
                    assert_eq!(made.as_slice(), format!("<{i}").as_bytes());
                }
            }
        }
        assert_eq!(recent.get(b"").as_slice(), b"<");
    }
}
