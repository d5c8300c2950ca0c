//! Which of the records of one kind and process are the same, by their times.

/// How far ahead a decision looks, and how many records it may pass over at once.
const AHEAD: usize = 8;
const SHIFT: usize = 4;
/// What passing over a record costs, in ns of disagreement.
const GAP_NS: u64 = 100_000;

/// What belongs together; the numbers are positions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Aligned {
    pub pairs: Vec<(usize, usize)>,
    pub only_a: Vec<usize>,
    pub only_b: Vec<usize>,
}

/// Pairs two ascending lists of times in linear time. Times further apart than
/// `tolerance` are not paired.
pub fn align(a: &[u64], b: &[u64], tolerance: u64) -> Aligned {
    let mut out = Aligned::default();
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let (over_a, over_b) = best(a, b, i, j);
        if over_a > 0 || over_b > 0 {
            out.only_a.extend(i..i + over_a);
            out.only_b.extend(j..j + over_b);
            i += over_a;
            j += over_b;
        } else if x.abs_diff(*y) <= tolerance {
            out.pairs.push((i, j));
            i += 1;
            j += 1;
        } else if x < y {
            out.only_a.push(i);
            i += 1;
        } else {
            out.only_b.push(j);
            j += 1;
        }
    }
    out.only_a.extend(i..a.len());
    out.only_b.extend(j..b.len());
    out
}

/// How many to pass over on either side so that what follows agrees best.
fn best(a: &[u64], b: &[u64], i: usize, j: usize) -> (usize, usize) {
    let (left_a, left_b) = (a.len() - i, b.len() - j);
    if left_a == 1 && left_b == 1 {
        return (0, 0);
    }
    if are_nearest(a, b, i, j) {
        return (0, 0);
    }
    let mut best = (cost(a, b, i, j), (0, 0));
    for over in 1..=SHIFT {
        let gap = GAP_NS.saturating_mul(over as u64);
        for (over_a, over_b) in [(over, 0), (0, over)] {
            if over_a >= left_a || over_b >= left_b {
                continue;
            }
            let cost = gap.saturating_add(cost(a, b, i + over_a, j + over_b));
            if cost < best.0 {
                best = (cost, (over_a, over_b));
            }
        }
    }
    best.1
}

/// Whether neither has a neighbour that is nearer to the other.
fn are_nearest(a: &[u64], b: &[u64], i: usize, j: usize) -> bool {
    let distance = |i: usize, j: usize| match (a.get(i), b.get(j)) {
        (Some(x), Some(y)) => x.abs_diff(*y),
        _ => u64::MAX,
    };
    let here = distance(i, j);
    here <= distance(i + 1, j) && here <= distance(i, j + 1)
}

fn cost(a: &[u64], b: &[u64], i: usize, j: usize) -> u64 {
    (0..AHEAD)
        .map(|k| match (a.get(i + k), b.get(j + k)) {
            (Some(x), Some(y)) => x.abs_diff(*y).min(GAP_NS),
            (None, None) => 0,
            _ => GAP_NS,
        })
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(n: u64) -> Vec<u64> {
        (0..n).map(|k| 1_000_000 + k * 300_000).collect()
    }

    #[test]
    fn a_missing_one_is_found_where_it_was() {
        let a = times(40);
        for gone in 0..40 {
            let mut b: Vec<u64> = a.iter().map(|t| t + 30_000).collect();
            b.remove(gone);
            let aligned = align(&a, &b, 100_000_000);
            assert_eq!(aligned.only_a, [gone], "{gone}");
            assert!(aligned.only_b.is_empty());
        }
    }

    #[test]
    fn one_missing_and_another_twice() {
        let a = times(20);
        let mut b = a.clone();
        b.insert(15, a[14]);
        b.remove(3);
        let aligned = align(&a, &b, 100_000_000);
        assert_eq!(aligned.only_a, [3]);
        assert_eq!(aligned.only_b.len(), 1);
        assert!([13, 14].contains(&aligned.only_b[0]));
    }

    #[test]
    fn a_constant_delay_shifts_nothing() {
        let a = times(50);
        let b: Vec<u64> = a.iter().map(|t| t + 140_000).collect();
        assert_eq!(align(&a, &b, 100_000_000).pairs.len(), 50);
    }

    #[test]
    fn what_is_too_far_away_is_another_one() {
        let aligned = align(&[5], &[1_000_000_000], 1_000);
        assert_eq!((aligned.only_a, aligned.only_b), (vec![0], vec![0]));
    }
}
