//! Medians, and chance.

/// The smallest, the middle and the largest of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Spread {
    /// `None` where there are no numbers.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(*sorted.get(middle - 1)?, upper)
        } else {
            upper
        };
        Some(Self {
            min: *sorted.first()?,
            median,
            max: *sorted.last()?,
        })
    }
}

/// `a / b`, where b may be too small to be measured.
pub fn ratio(a: std::time::Duration, b: std::time::Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64().max(1e-6)
}

/// The geometric mean of positive numbers.
pub fn geometric_mean(numbers: &[f64]) -> f64 {
    let logs: f64 = numbers.iter().map(|n| n.max(1e-9).ln()).sum();
    (logs / numbers.len().max(1) as f64).exp()
}

/// A xorshift generator: an order that nobody chose is all that is asked of it.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed ^ 0x9e37_79b9_7f4a_7c15 | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            let bound = at as u64 + 1;
            // Smaller than `bound`, which came from a usize.
            let other = (self.next() >> 11) % bound;
            items.swap(at, usize::try_from(other).unwrap_or(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        let spread = |numbers: &[f64]| Spread::of(numbers.iter().copied());
        assert_eq!(spread(&[]), None);
        let odd = spread(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.min, odd.median, odd.max), (1.0, 2.0, 3.0));
        assert!((spread(&[1.0, 2.0]).unwrap().median - 1.5).abs() < 1e-9);
        assert!((geometric_mean(&[1.0, 4.0]) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut random = Random::new(7);
        let mut items: Vec<u32> = (0..50).collect();
        random.shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
