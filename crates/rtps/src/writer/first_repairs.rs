//! The samples that a reader has been sent again: RELIABILITY entitles it to each sample, and to one repair of it.
//! Further repairs have to be paid for.

use alloc::vec::Vec;

use crate::limits::PARTLY_REPAIRED_MAX;
use crate::seq::{FragmentNumber, SequenceNumber};

/// The samples and fragments that one reader has been sent again. Requests come in ascending order, so that a bound
/// suffices, and for samples of which the reader requests fragments, one bound each.
#[derive(Debug, Default)]
pub(super) struct FirstRepairs {
    /// Every sample before this one, those in `partly` apart, counts as repaired.
    below: SequenceNumber,
    /// Samples of which fragments before this one count as repaired, at most [`PARTLY_REPAIRED_MAX`].
    partly: Vec<(SequenceNumber, FragmentNumber)>,
}

impl FirstRepairs {
    /// Whether no part of the sample was repaired before.
    pub(super) fn is_first(&self, number: SequenceNumber) -> bool {
        number >= self.below && !self.partly.iter().any(|(of, _)| *of == number)
    }

    /// Whether the fragment was not repaired before.
    pub(super) fn is_first_fragment(&self, number: SequenceNumber, fragment: FragmentNumber) -> bool {
        let partly = self.partly.iter().find(|(of, _)| *of == number);
        partly.map_or(number >= self.below, |(_, below)| fragment >= *below)
    }

    /// The whole sample is sent again.
    pub(super) fn note(&mut self, number: SequenceNumber) {
        self.partly.retain(|(of, _)| *of != number);
        self.below = self.below.max(number.next());
    }

    /// The fragment is sent again.
    pub(super) fn note_fragment(&mut self, number: SequenceNumber, fragment: FragmentNumber) {
        let next = FragmentNumber(fragment.0.saturating_add(1));
        if let Some((_, below)) = self.partly.iter_mut().find(|(of, _)| *of == number) {
            *below = next.max(*below);
        } else if number >= self.below {
            if self.partly.len() >= PARTLY_REPAIRED_MAX {
                self.forget_oldest();
            }
            self.partly.push((number, next));
        }
        debug_assert!(self.partly.len() <= PARTLY_REPAIRED_MAX);
    }

    /// The reader has everything before this sample: a request for it would be a repeated one.
    pub(super) fn note_acknowledged(&mut self, below: SequenceNumber) {
        self.below = self.below.max(below);
        self.partly.retain(|(of, _)| *of >= below);
    }

    fn forget_oldest(&mut self) {
        let oldest = self.partly.iter().map(|(of, _)| *of).min();
        if let Some(oldest) = oldest {
            self.note(oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn n(number: i64) -> SequenceNumber {
        SequenceNumber(number)
    }

    #[test]
    fn sample_is_repaired_for_the_first_time_once() {
        let mut repairs = FirstRepairs::default();
        assert!(repairs.is_first(n(5)) && repairs.is_first_fragment(n(5), FragmentNumber(1)));
        repairs.note(n(5));
        assert!(!repairs.is_first(n(5)) && !repairs.is_first(n(4)) && repairs.is_first(n(6)));
        assert!(!repairs.is_first_fragment(n(5), FragmentNumber(9)), "the whole sample was sent");
        repairs.note_acknowledged(n(8));
        assert!(!repairs.is_first(n(7)) && repairs.is_first(n(8)));
    }

    #[test]
    fn fragments_of_several_samples_are_each_repaired_for_the_first_time_once() {
        let mut repairs = FirstRepairs::default();
        repairs.note_fragment(n(3), FragmentNumber(256));
        repairs.note_fragment(n(4), FragmentNumber(10));
        repairs.note(n(6));
        assert!(
            repairs.is_first_fragment(n(3), FragmentNumber(257)) && !repairs.is_first_fragment(n(3), FragmentNumber(1))
        );
        assert!(repairs.is_first_fragment(n(4), FragmentNumber(11)) && !repairs.is_first(n(4)));
        assert!(!repairs.is_first_fragment(n(5), FragmentNumber(1)), "a later sample was requested first");
        repairs.note(n(4));
        assert!(!repairs.is_first_fragment(n(4), FragmentNumber(11)));
    }

    #[test]
    fn fragments_of_more_samples_than_are_recorded_count_as_repaired() {
        let mut repairs = FirstRepairs::default();
        let many = PARTLY_REPAIRED_MAX as i64 + 4;
        (1..=many).for_each(|number| repairs.note_fragment(n(number), FragmentNumber(1)));
        assert_eq!(repairs.partly.len(), PARTLY_REPAIRED_MAX);
        let is_first = |number| repairs.is_first_fragment(n(number), FragmentNumber(2));
        assert!((1..=4).all(|number| !is_first(number)) && (5..=many).all(is_first));
    }
}
