//! The order by source timestamp (DESTINATION_ORDER) when a wall clock steps.

use alloc::vec::Vec;

use crate::id::KeyHash;
use crate::limits::{SOURCE_JUMP_INSTANCES_MAX, SOURCE_JUMP_MIN, SOURCE_TIMESTAMP_AHEAD_MAX};
use crate::time::Timestamp;

/// The place of the samples of one writer in the order by source timestamp.
///
/// Order within one writer comes from sequence numbers: a sample has at least the time of the one before, regardless of
/// the writer's clock. After a step back of that clock, samples of the writer have the latest time before the step
/// until the clock has reached that time again. All readers that receive them order them in the same way.
///
/// A time that jumps ahead is taken back if the times of later samples go on as before the jump: the one sample was
/// forged, since a clock that steps goes on from there.
#[derive(Debug)]
pub(super) struct SourceOrder {
    latest: Timestamp,
    /// When the reader received the sample with that time.
    received: Timestamp,
    jump: Option<Jump>,
}

/// A source timestamp has jumped ahead, further than the reader's clock went on.
#[derive(Debug)]
struct Jump {
    /// The time before, and when it was received.
    before: (Timestamp, Timestamp),
    /// When the reader received the sample with the later time.
    at: Timestamp,
    /// The instances of the samples since, [`SOURCE_JUMP_INSTANCES_MAX`] at most.
    instances: Vec<KeyHash>,
}

/// A jump that later samples have contradicted.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct FalseJump {
    /// The place of the writer's samples in these instances is no later than this.
    pub(super) place: Timestamp,
    pub(super) instances: Vec<KeyHash>,
}

impl Default for SourceOrder {
    /// No sample yet.
    fn default() -> Self {
        let latest = Timestamp { seconds: 0, fraction: 0 };
        Self { latest, received: Timestamp::INVALID, jump: None }
    }
}

impl SourceOrder {
    /// The time of the next sample of the writer, received at `wall`, and the jump that it contradicts. A sample
    /// without a source timestamp has the time of its reception. Also after a failed insertion of the same sample.
    pub(super) fn next(
        &mut self,
        source: Timestamp,
        wall: Timestamp,
        instance: KeyHash,
    ) -> (Timestamp, Option<FalseJump>) {
        let stated = if source.is_valid() { source } else { wall };
        let stated = stated.min(latest_acceptable(wall));
        let before = (self.latest, self.received);
        let false_jump = self.contradicted_by(stated, wall);
        if let Some(FalseJump { place, .. }) = &false_jump {
            self.latest = *place;
        }
        if stated > self.latest {
            // The times of a router, or of a replayed recording, differ from sample to sample, and are past.
            let is_ahead = wall.is_valid() && stated > expected((wall, wall), wall);
            let is_jump = is_ahead && before.1.is_valid() && stated > expected(before, wall);
            if is_jump && self.jump.is_none() && false_jump.is_none() {
                self.jump = Some(Jump { before, at: wall, instances: Vec::new() });
            }
            (self.latest, self.received) = (stated, wall);
        }
        self.jump.take_if(|jump| latest_acceptable(jump.at) <= wall);
        if let Some(Jump { instances, .. }) = self.jump.as_mut()
            && instances.len() < SOURCE_JUMP_INSTANCES_MAX
            && !instances.contains(&instance)
        {
            instances.push(instance);
        }
        (self.latest, false_jump)
    }

    /// The jump, if a sample with this time shows that the times go on as before.
    fn contradicted_by(&mut self, stated: Timestamp, wall: Timestamp) -> Option<FalseJump> {
        let latest = self.latest;
        let jump = self.jump.take_if(|jump| stated < latest && stated <= expected(jump.before, wall))?;
        Some(FalseJump { place: jump.before.0, instances: jump.instances })
    }
}

/// The latest time that a sample received at `wall` has, after this time that came at that one, if no clock steps.
fn expected((time, received): (Timestamp, Timestamp), wall: Timestamp) -> Timestamp {
    if !wall.is_valid() {
        return Timestamp::INVALID;
    }
    let passed = wall.to_unix_nanos().saturating_sub(received.to_unix_nanos());
    Timestamp::from_unix_nanos(time.to_unix_nanos().saturating_add(passed).saturating_add(SOURCE_JUMP_MIN.0))
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

    const INSTANCE: KeyHash = KeyHash([1; 16]);

    fn next(order: &mut SourceOrder, source: Timestamp, wall: Timestamp) -> Timestamp {
        let (place, false_jump) = order.next(source, wall, INSTANCE);
        assert_eq!(false_jump, None);
        place
    }

    #[test]
    fn clock_that_steps_back_does_not_reverse_order_of_a_writer() {
        let mut order = SourceOrder::default();
        let stated = [7200, 7201, 3602, 3603, 7202];
        assert_eq!(stated.map(|s| next(&mut order, at(s), at(7203))), [7200, 7201, 7201, 7201, 7202].map(at));
    }

    #[test]
    fn clock_that_steps_ahead_and_goes_on_is_believed() {
        let mut order = SourceOrder::default();
        for (stated, wall) in [(100, 100), (101, 101), (122, 102), (123, 103), (153, 133)] {
            assert_eq!(next(&mut order, at(stated), at(wall)), at(stated));
        }
        // The later time has held for longer than a jump can be taken back: a step back changes nothing.
        assert_eq!(next(&mut order, at(134), at(134)), at(153));
    }

    #[test]
    fn sample_without_source_timestamp_has_time_of_reception() {
        let mut order = SourceOrder::default();
        assert_eq!(next(&mut order, Timestamp::INVALID, at(5)), at(5));
        assert_eq!(next(&mut order, at(6), Timestamp::INVALID), at(6), "a reader without a wall clock");
    }

    #[test]
    fn time_far_in_the_future_counts_as_thirty_seconds_ahead() {
        let mut order = SourceOrder::default();
        assert_eq!(next(&mut order, at(129), at(100)), at(129));
        assert_eq!(next(&mut order, at(1_000_000), at(100)), at(130));
        assert_eq!(next(&mut order, at(101), at(101)), at(130));
        assert_eq!(next(&mut order, at(131), at(131)), at(131), "the writer goes on with true times");
    }

    #[test]
    fn time_that_jumps_ahead_is_taken_back_when_later_samples_go_on_as_before() {
        let mut order = SourceOrder::default();
        for second in 98..=100 {
            assert_eq!(next(&mut order, at(second), at(second)), at(second));
        }
        assert_eq!(next(&mut order, at(1_000_000), at(100)), at(130));
        assert_eq!(next(&mut order, at(1_000_000), at(100)), at(130), "a second one");
        let (place, false_jump) = order.next(at(101), at(101), KeyHash([2; 16]));
        assert_eq!((place, false_jump), (at(101), Some(FalseJump { place: at(100), instances: [INSTANCE].into() })));
        assert_eq!(next(&mut order, at(102), at(102)), at(102));
        assert_eq!(next(&mut order, at(101), at(102)), at(102), "the order within the writer holds");
    }

    #[test]
    fn past_times_that_differ_from_sample_to_sample_keep_their_order() {
        let mut order = SourceOrder::default();
        for (stated, wall) in [(98, 100), (100, 100), (98, 101), (90, 101), (100, 102), (99, 102)] {
            let highest = if stated < 100 && wall == 100 { 98 } else { 100 };
            assert_eq!(next(&mut order, at(stated), at(wall)), at(highest), "{stated} at {wall}");
        }
    }

    #[test]
    fn instances_of_a_jump_are_bounded() {
        let mut order = SourceOrder::default();
        next(&mut order, at(100), at(100));
        for key in 0..100 {
            order.next(at(125), at(100), KeyHash([key; 16]));
        }
        let (_, false_jump) = order.next(at(100), at(100), INSTANCE);
        assert_eq!(false_jump.unwrap().instances.len(), SOURCE_JUMP_INSTANCES_MAX);
    }
}
