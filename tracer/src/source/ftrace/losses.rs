//! What one CPU's stream says of lost records, against the kernel's own count.

/// Lost records that have been told of.
#[derive(Debug, Default)]
pub struct Losses {
    told: u64,
    /// Of those, the ones that may belong to places that the stream has not come to
    /// yet: the kernel's count is ahead of what is read.
    ahead: u64,
}

impl Losses {
    /// A place in the stream says that `said` records are missing there, or that
    /// some are; `total` is the kernel's count. What is to be told now: no more than
    /// the kernel counted, and at least one where nothing covers that place.
    pub fn at_place(&mut self, said: Option<u64>, total: Option<u64>) -> Option<u64> {
        let untold = total.map(|total| total.saturating_sub(self.told));
        let count = match (said, untold) {
            (Some(said), Some(untold)) => {
                self.ahead = self.ahead.saturating_sub(said.saturating_sub(untold));
                said.min(untold)
            }
            (Some(said), None) => said,
            (None, Some(untold)) if untold > 0 => {
                self.ahead += untold - 1;
                untold
            }
            (None, Some(_)) if self.ahead > 0 => {
                self.ahead -= 1;
                0
            }
            // Some, and nobody knows how many.
            (None, _) => 1,
        };
        self.tell(count)
    }

    /// What no place in the stream told of.
    pub fn at_end(&mut self, total: Option<u64>) -> Option<u64> {
        let untold = total.map_or(0, |total| total.saturating_sub(self.told));
        self.tell(untold)
    }

    fn tell(&mut self, count: u64) -> Option<u64> {
        self.told = self.told.saturating_add(count);
        (count > 0).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_with_its_number_tells_as_many_as_the_kernel_counted() {
        let mut losses = Losses::default();
        assert_eq!(losses.at_place(Some(5), Some(8)), Some(5));
        // Forged, or the kernel's own mistake.
        assert_eq!(losses.at_place(Some(50), Some(8)), Some(3));
        assert_eq!(losses.at_place(Some(1), Some(8)), None);
        assert_eq!(losses.at_end(Some(10)), Some(2));
        assert_eq!(losses.at_end(Some(10)), None);
    }

    #[test]
    fn a_place_without_a_number_is_never_silent() {
        let mut losses = Losses::default();
        assert_eq!(losses.at_place(None, Some(0)), Some(1));
        assert_eq!(losses.at_place(None, None), Some(1));
        // The kernel's count was late: those two are in it.
        assert_eq!(losses.at_place(None, Some(7)), Some(5));
        assert_eq!(losses.at_end(Some(7)), None);
    }

    #[test]
    fn what_was_counted_before_its_place_was_read_is_not_counted_again() {
        let mut losses = Losses::default();
        // Three places, of which the kernel's count knew when the first was read.
        assert_eq!(losses.at_place(None, Some(6)), Some(6));
        assert_eq!(losses.at_place(None, Some(6)), None);
        assert_eq!(losses.at_place(Some(3), Some(6)), None);
        assert_eq!(losses.at_end(Some(6)), None);
        let mut losses = Losses::default();
        assert_eq!(losses.at_place(None, Some(2)), Some(2));
        assert_eq!(losses.at_place(None, Some(2)), None);
        assert_eq!(losses.at_place(None, Some(2)), Some(1));
    }
}
