//! Separates new HEARTBEATs, ACKNACKs and NACK_FRAGs from repeated ones, and recovers from a forged count.

use crate::limits::{COUNT_STEP_MAX, COUNTS_TO_GO_BACK, COUNTS_TO_JUMP};
use crate::seq::Count;

/// The counts of one kind of message from one remote endpoint (RTPS 2.5 §8.3.5.10).
///
/// A message is new if its count follows the newest one by at most [`COUNT_STEP_MAX`]. Any other count may be forged.
/// The filter records such a count as the start of a second series. The second series replaces the first once
/// [`COUNTS_TO_JUMP`] messages in a row continue it ahead of the first, or [`COUNTS_TO_GO_BACK`] behind the first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CountFilter {
    newest: Option<Count>,
    /// The newest count of the second series, and the number of its messages.
    other: Option<(Count, u32)>,
}

impl CountFilter {
    /// Whether a message with this count is new.
    pub(crate) fn accept(&mut self, count: Count) -> bool {
        let Some(newest) = self.newest else {
            self.newest = Some(count);
            return true;
        };
        if is_next(newest, count) {
            (self.newest, self.other) = (Some(count), None);
            return true;
        }
        if count == newest {
            return false;
        }
        let members = match self.other {
            Some((last, _)) if count == last => return false,
            Some((last, members)) if is_next(last, count) => members.saturating_add(1),
            _ => 1,
        };
        let needed = if count.is_newer_than(newest) { COUNTS_TO_JUMP } else { COUNTS_TO_GO_BACK };
        if members >= needed {
            (self.newest, self.other) = (Some(count), None);
            return true;
        }
        self.other = Some((count, members));
        false
    }
}

fn is_next(last: Count, count: Count) -> bool {
    (1..=COUNT_STEP_MAX).contains(&count.0.wrapping_sub(last.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORGED: Count = Count(0x7fff_ffff);

    fn at(count: i32) -> CountFilter {
        let mut filter = CountFilter::default();
        assert!(filter.accept(Count(count)));
        filter
    }

    #[test]
    fn count_far_ahead_is_accepted_from_second_message() {
        let mut filter = at(7);
        assert!(!filter.accept(FORGED));
        assert!(!filter.accept(FORGED), "a repeated count does not continue the series");
        assert!(filter.accept(Count(8)));
        assert!(!filter.accept(Count(1 << 30)));
        assert!(filter.accept(Count((1 << 30) + 5)));
    }

    #[test]
    fn repeated_and_reordered_counts_are_rejected() {
        let mut filter = at(7);
        assert!(filter.accept(Count(9)));
        assert!(!filter.accept(Count(9)));
        assert!(!filter.accept(Count(8)));
        assert!(!filter.accept(Count(8)));
        assert!(filter.accept(Count(10)));
    }

    #[test]
    fn wrapped_count_is_accepted() {
        let mut filter = at(i32::MAX);
        assert!(filter.accept(Count(i32::MIN)));
        assert!(!filter.accept(Count(i32::MAX)));
    }

    proptest! {
        #[test]
        fn forged_count_blocks_true_series_for_few_messages(
            start: i32, steps in proptest::collection::vec(1..1000_i32, 20),
            lies in proptest::collection::vec(any::<i32>(), 0..20), lie_first: bool,
        ) {
            let mut filter = CountFilter::default();
            if lie_first {
                lies.iter().for_each(|lie| _ = filter.accept(Count(*lie)));
            }
            filter.accept(Count(start));
            lies.iter().for_each(|lie| _ = filter.accept(Count(*lie)));
            let mut count = start;
            let accepted: std::vec::Vec<bool> = steps
                .iter()
                .map(|step| {
                    count = count.wrapping_add(*step);
                    filter.accept(Count(count))
                })
                .collect();
            let ignored = accepted.iter().filter(|is_new| !**is_new).count();
            prop_assert!(ignored < COUNTS_TO_GO_BACK as usize, "{accepted:?}");
        }
    }
}
