//! When the answer to a participant is repeated that has not shown yet that it hears us, and the announcement after a
//! goodbye.

use crate::limits::ANSWER_REPETITIONS;
use crate::time::{Instant, Span};

/// An answer reaches a peer that does not take it in, and the peer waits for the next period:
///
/// - Fast DDS 2.9 announces itself before it can process an answer, and ignores one that comes 100 us later.
/// - A process of Cyclone DDS that was stopped for longer than a lease announces itself once when it goes on. The
///   answer comes before it has noticed that the lease of this participant is over, and renews nothing.
///
/// The answer is therefore repeated after each of the intervals [`ANSWER_REPETITIONS`], as long as the credit of the
/// peer lasts. A further announcement of the peer begins that anew, but for the first interval, which suits only a peer
/// that has just been found.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct AnswerRepetitions {
    next: Option<Instant>,
    /// The repetitions since the last announcement. The first one counts as done from the second announcement on.
    done: usize,
    has_begun: bool,
}

impl AnswerRepetitions {
    /// The peer has announced itself. Frequent announcements do not put a repetition off.
    pub(super) fn begin(&mut self, now: Instant) {
        self.done = usize::from(self.has_begun);
        self.has_begun = true;
        let planned = self.next;
        self.plan(now);
        self.next = planned.into_iter().chain(self.next).min();
    }

    pub(super) const fn end(&mut self) {
        self.next = None;
    }

    /// Whether the answer is to be repeated now. Plans the next repetition.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.next.is_some_and(|at| at <= now);
        if is_due {
            self.done = self.done.saturating_add(1);
            self.plan(now);
        }
        is_due
    }

    pub(super) const fn next(&self) -> Option<Instant> {
        self.next
    }

    /// The time of the last repetition, from the first answer on.
    pub(super) fn duration() -> Span {
        ANSWER_REPETITIONS.iter().fold(Span::ZERO, |sum, interval| sum + *interval)
    }

    fn plan(&mut self, now: Instant) {
        self.next = ANSWER_REPETITIONS.get(self.done).map(|interval: &Span| now + *interval);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    const START: Instant = Instant(1_000_000_000);

    /// The times of all repetitions from now on, after the start.
    fn repetitions(of: &mut AnswerRepetitions) -> Vec<Span> {
        let mut all = Vec::new();
        while let Some(at) = of.next() {
            assert!(!of.take_due(Instant(at.0 - 1)) && of.take_due(at));
            all.push(at.since(START));
            assert!(all.len() <= ANSWER_REPETITIONS.len());
        }
        all
    }

    #[test]
    fn first_announcement_is_answered_again_after_each_interval() {
        let mut repetitions_of_one = AnswerRepetitions::default();
        repetitions_of_one.begin(START);
        let times = [10, 110, 310].map(Span::from_millis);
        assert_eq!(repetitions(&mut repetitions_of_one), times);
    }

    #[test]
    fn later_announcement_leaves_out_the_first_interval_and_puts_nothing_off() {
        let mut of_burst = AnswerRepetitions::default();
        of_burst.begin(START);
        assert!(of_burst.take_due(START + Span::from_millis(10)));
        of_burst.begin(START + Span::from_millis(100));
        assert_eq!(repetitions(&mut of_burst), [110, 310].map(Span::from_millis));
        of_burst.begin(START + Span::from_millis(400));
        assert_eq!(repetitions(&mut of_burst), [500, 700].map(Span::from_millis));
    }

    #[test]
    fn peer_that_hears_us_ends_the_repetitions() {
        let mut ended = AnswerRepetitions::default();
        ended.begin(START);
        ended.end();
        assert_eq!(repetitions(&mut ended), vec![]);
    }
}
