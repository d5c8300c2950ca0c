//! Decimal numbers, written where they are to stand: most figures of a capture
//! are small, and a copy of a few bytes costs more than the digits.

/// What JSON calls an integer.
pub trait Integer: Copy {
    /// Its sign and its magnitude.
    fn parts(self) -> (bool, u64);
}

macro_rules! integers {
    ($($unsigned:ty)*; $($signed:ty)*) => {
        $(impl Integer for $unsigned {
            #[inline]
            fn parts(self) -> (bool, u64) {
                (false, self.into())
            }
        })*
        $(impl Integer for $signed {
            #[inline]
            fn parts(self) -> (bool, u64) {
                (self < 0, self.unsigned_abs().into())
            }
        })*
    };
}
integers!(u32 u64; i32 i64);

/// Digits of the largest `u64`.
const MOST: usize = 20;

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// Appends a number.
#[inline]
pub fn append(out: &mut Vec<u8>, n: impl Integer) {
    let (negative, n) = n.parts();
    if negative {
        out.push(b'-');
    }
    if n < 10 {
        // One digit: the remainder of a `u8` below 10.
        out.push(b'0' + n as u8);
    } else {
        digits(out, n);
    }
}

fn digits(out: &mut Vec<u8>, mut n: u64) {
    let begin = out.len();
    // Room for all, of which what is not needed goes again: both of constant size.
    out.extend_from_slice(&[b'0'; MOST]);
    let len = n.checked_ilog10().map_or(1, |log| log as usize + 1);
    if let Some(place) = out.get_mut(begin..begin + len) {
        let (first, pairs) = place.as_rchunks_mut();
        for pair in pairs.iter_mut().rev() {
            *pair = PAIRS[(n % 100) as usize];
            n /= 100;
        }
        if let [first] = first {
            *first = b'0' + n as u8;
        }
    }
    out.truncate(begin + len);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(n: impl Integer) -> String {
        let mut out = b"x".to_vec();
        append(&mut out, n);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn at_each_number_of_digits() {
        let mut n = 1u64;
        loop {
            for n in [n - 1, n, n + 1] {
                assert_eq!(text(n), format!("x{n}"));
            }
            match n.checked_mul(10) {
                Some(more) => n = more,
                None => break,
            }
        }
        assert_eq!(text(u64::MAX), format!("x{}", u64::MAX));
        assert_eq!(text(i64::MIN), format!("x{}", i64::MIN));
        assert_eq!(text(-7i32), "x-7");
    }

    proptest! {
        #[test]
        fn as_display_has_it(n: u64, signed: i64, bits in 0u32..64) {
            prop_assert_eq!(text(n >> bits), format!("x{}", n >> bits));
            prop_assert_eq!(text(signed >> bits), format!("x{}", signed >> bits));
        }
    }
}
