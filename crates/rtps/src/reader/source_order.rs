//! The order by source timestamp (DESTINATION_ORDER) when a wall clock steps.

use crate::limits::SOURCE_TIMESTAMP_AHEAD_MAX;
use crate::time::Timestamp;

/// The place of the samples of one writer in the order by source timestamp.
///
/// Order within one writer comes from sequence numbers: a sample has at least the time of the one before, regardless of
/// the writer's clock. After a step back of that clock, samples of the writer have the latest time before the step
/// until the clock has reached that time again. All readers that receive them order them in the same way.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceOrder {
    latest: Timestamp,
}

impl SourceOrder {
    /// No sample yet.
    pub(super) const BEGIN: Self = Self { latest: Timestamp { seconds: 0, fraction: 0 } };

    /// The time of the next sample of the writer, received at `wall`. A sample without a source timestamp has the time
    /// of its reception. Also after a failed insertion of the same sample.
    pub(super) fn next(&mut self, source: Timestamp, wall: Timestamp) -> Timestamp {
        let stated = if source.is_valid() { source } else { wall };
        self.latest = self.latest.max(stated.min(latest_acceptable(wall)));
        self.latest
    }
}

/// A later source timestamp is wrong or forged, and would keep all samples of other writers out for as long.
fn latest_acceptable(wall: Timestamp) -> Timestamp {
    match wall.is_valid() {
        true => Timestamp::from_unix_nanos(wall.to_unix_nanos().saturating_add(SOURCE_TIMESTAMP_AHEAD_MAX.0)),
        false => Timestamp::INVALID,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn clock_that_steps_back_does_not_reverse_order_of_a_writer() {
        let mut order = SourceOrder::BEGIN;
        let stated = [7200, 7201, 3602, 3603, 7202];
        assert_eq!(stated.map(|source| order.next(at(source), at(7203))), [7200, 7201, 7201, 7201, 7202].map(at));
    }

    #[test]
    fn sample_without_source_timestamp_has_time_of_reception() {
        let mut order = SourceOrder::BEGIN;
        assert_eq!(order.next(Timestamp::INVALID, at(5)), at(5));
        assert_eq!(order.next(at(6), Timestamp::INVALID), at(6), "a reader without a wall clock");
    }

    #[test]
    fn time_far_in_the_future_counts_as_thirty_seconds_ahead() {
        let mut order = SourceOrder::BEGIN;
        assert_eq!(order.next(at(129), at(100)), at(129));
        assert_eq!(order.next(at(1_000_000), at(100)), at(130));
        assert_eq!(order.next(at(101), at(101)), at(130));
        assert_eq!(order.next(at(131), at(131)), at(131), "the writer goes on with true times");
    }
}
