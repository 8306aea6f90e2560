//! Separates new HEARTBEATs, ACKNACKs and NACK_FRAGs from repeated ones, and recovers from a forged count.

use crate::limits::{COUNT_SERIES_SILENCE, COUNT_STEP_MAX, COUNTS_TO_GO_BACK, COUNTS_TO_JUMP};
use crate::seq::Count;
use crate::time::Instant;

/// The counts of one kind of message from one remote endpoint (RTPS 2.5 §8.3.5.10).
///
/// A message is new if its count follows the newest one by at most [`COUNT_STEP_MAX`]. Any other count may be false.
/// Such a count starts a second series, which replaces the first once [`COUNTS_TO_JUMP`] messages in a row continue the
/// second ahead of the first, or [`COUNTS_TO_GO_BACK`] behind the first. A lower count is also believed when the
/// first series has been silent for [`COUNT_SERIES_SILENCE`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CountFilter {
    newest: Option<Count>,
    /// When the newest count came.
    newest_at: Instant,
    /// The newest count of the second series, and how many messages belong to it.
    other: Option<(Count, u32)>,
}

/// Whether a message is new, by its count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counted {
    /// The message is new.
    New,
    /// The message is new, and an earlier count was false or jumped: the filter continues from this one.
    Resynchronized,
    /// The message is a repetition, was overtaken, or has a doubtful count.
    Old,
}

impl Counted {
    pub(crate) const fn is_new(self) -> bool {
        !matches!(self, Self::Old)
    }
}

impl CountFilter {
    /// Whether a message with this count is new.
    pub(crate) fn accept(&mut self, now: Instant, count: Count) -> Counted {
        let Some(newest) = self.newest else {
            self.follow(now, count);
            return Counted::New;
        };
        if is_next(newest, count) {
            self.follow(now, count);
            return Counted::New;
        }
        if count == newest {
            return Counted::Old;
        }
        let is_ahead = count.is_newer_than(newest);
        let members = match self.other {
            Some((last, _)) if count == last => return Counted::Old,
            Some((last, members)) if is_next(last, count) => members.saturating_add(1),
            _ => 1,
        };
        let needed = if is_ahead { COUNTS_TO_JUMP } else { COUNTS_TO_GO_BACK };
        let is_silent = !is_ahead && now.since(self.newest_at) >= COUNT_SERIES_SILENCE;
        if members >= needed || is_silent {
            self.follow(now, count);
            return Counted::Resynchronized;
        }
        self.other = Some((count, members));
        Counted::Old
    }

    const fn follow(&mut self, now: Instant, count: Count) {
        (self.newest, self.newest_at, self.other) = (Some(count), now, None);
    }
}

fn is_next(last: Count, count: Count) -> bool {
    (1..=COUNT_STEP_MAX).contains(&count.0.wrapping_sub(last.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;
    use proptest::prelude::*;

    const FORGED: Count = Count(0x7fff_ffff);
    const NOW: Instant = Instant(1);

    fn at(count: i32) -> CountFilter {
        let mut filter = CountFilter::default();
        assert_eq!(filter.accept(NOW, Count(count)), Counted::New);
        filter
    }

    fn accepts(filter: &mut CountFilter, count: i32) -> bool {
        filter.accept(NOW, Count(count)).is_new()
    }

    #[test]
    fn count_far_ahead_is_accepted_from_second_message() {
        let mut filter = at(7);
        assert!(!accepts(&mut filter, FORGED.0));
        assert!(!accepts(&mut filter, FORGED.0), "the same again confirms nothing");
        assert!(accepts(&mut filter, 8));
        assert!(!accepts(&mut filter, 1 << 30));
        assert_eq!(filter.accept(NOW, Count((1 << 30) + 5)), Counted::Resynchronized);
    }

    #[test]
    fn repeated_and_reordered_counts_are_rejected() {
        let mut filter = at(7);
        assert!(accepts(&mut filter, 9));
        assert!(!accepts(&mut filter, 9));
        assert!(!accepts(&mut filter, 8));
        assert!(!accepts(&mut filter, 8));
        assert!(accepts(&mut filter, 10));
    }

    #[test]
    fn lower_count_after_a_silence_is_believed_at_once() {
        let mut filter = at(1000);
        let soon = NOW + Span(COUNT_SERIES_SILENCE.0 - 1);
        assert_eq!(filter.accept(soon, Count(8)), Counted::Old);
        let later = NOW + COUNT_SERIES_SILENCE;
        assert_eq!(filter.accept(later, Count(1000)), Counted::Old, "the same message never counts twice");
        assert_eq!(filter.accept(later, Count(9)), Counted::Resynchronized);
        assert_eq!(filter.accept(later, Count(10)), Counted::New);
    }

    #[test]
    fn wrapped_count_is_accepted() {
        let mut filter = at(i32::MAX);
        assert!(accepts(&mut filter, i32::MIN));
        assert!(!accepts(&mut filter, i32::MAX));
    }

    proptest! {
        #[test]
        fn forged_count_blocks_true_series_for_few_messages(
            start: i32, steps in proptest::collection::vec(1..1000_i32, 20),
            lies in proptest::collection::vec(any::<i32>(), 0..20), lie_first: bool,
        ) {
            let mut filter = CountFilter::default();
            if lie_first {
                lies.iter().for_each(|lie| _ = accepts(&mut filter, *lie));
            }
            accepts(&mut filter, start);
            lies.iter().for_each(|lie| _ = accepts(&mut filter, *lie));
            let mut count = start;
            let accepted: std::vec::Vec<bool> = steps
                .iter()
                .map(|step| {
                    count = count.wrapping_add(*step);
                    accepts(&mut filter, count)
                })
                .collect();
            let ignored = accepted.iter().filter(|is_new| !**is_new).count();
            prop_assert!(ignored < COUNTS_TO_GO_BACK as usize, "{accepted:?}");
        }
    }
}
