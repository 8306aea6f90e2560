//! The age of samples with a LIFESPAN when the wall clocks of writer and reader differ.

use crate::limits::{CLOCK_DRIFT_DIVISOR, PATH_DELAY_MAX, SOURCE_JUMP_MIN};
use crate::time::{Instant, Span, Timestamp};

/// The wall clock of a writer, as its samples show it.
///
/// The age of a sample is counted from its source timestamp (DDS 1.4 §2.2.3.16). A writer sends no sample that has
/// expired. If a sample seems to have expired nevertheless, the clocks differ, or the sample has waited on its way: in
/// a socket while the process stood still, for an earlier sample, or for room. The samples of the writer tell which:
/// one that has waited comes later, by the reader's monotonic clock and its source timestamp, than the youngest one.
#[derive(Debug, Default)]
pub(super) struct WriterClock {
    /// The youngest sample, from which the age of the following ones is counted.
    youngest: Option<Reading>,
    /// The source timestamp of the last sample, in nanoseconds.
    last_ns: u64,
    /// Since when no sample has come in time, and the youngest of them.
    late: Option<(Instant, Reading)>,
}

/// The age of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Age {
    /// By the wall clocks of writer and reader, which agree well enough.
    ByWallClocks(Span),
    /// By the youngest sample of the writer.
    ByYoungest(Span),
}

/// The clocks of writer and reader as one sample shows them.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    /// The source timestamp less the reader's monotonic time, in nanoseconds: greater for a sample that is younger when
    /// it comes.
    lead_ns: i64,
    /// Its age by the wall clocks, if they agreed.
    age: Option<Span>,
}

impl WriterClock {
    /// The age of the next sample of the writer. Also after a failed insertion of the same sample.
    pub(super) fn age(&mut self, now: Instant, wall: Timestamp, source: Timestamp, lifespan: Span) -> Age {
        if !source.is_valid() {
            return Age::ByYoungest(Span::ZERO);
        }
        let (wall_ns, source_ns) = (wall.to_unix_nanos(), source.to_unix_nanos());
        let agree = wall.is_valid() && wall_ns.abs_diff(source_ns) < lifespan.0;
        let by_wall = agree.then(|| Span(wall_ns.saturating_sub(source_ns)));
        let reading = Reading { at: now, lead_ns: lead_ns(now, source_ns), age: by_wall };
        let by_youngest = self.by_youngest(reading, source_ns, lifespan);
        by_wall.map_or(Age::ByYoungest(by_youngest), Age::ByWallClocks)
    }

    fn by_youngest(&mut self, reading: Reading, source_ns: u64, lifespan: Span) -> Span {
        let last_ns = core::mem::replace(&mut self.last_ns, source_ns);
        // The clock was set back, and not just read by two threads in the other order.
        let step = SOURCE_JUMP_MIN.min(lifespan.divided_by(2));
        let is_step_back = source_ns.saturating_add(step.0) < last_ns;
        let before = self.youngest.filter(|_| !is_step_back);
        let Some((age, before)) = before.and_then(|before| Some((reading.age_by(before)?, before))) else {
            (self.youngest, self.late) = (Some(reading), None);
            return Span::ZERO;
        };
        if age < lifespan {
            self.late = None;
            return age;
        }
        let (since, youngest) = self.late.get_or_insert((reading.at, reading));
        if reading.lead_ns > youngest.lead_ns {
            *youngest = reading;
        }
        // A slow path delays all samples. While the wall clocks agreed before, a short delay is never taken for a step.
        let is_delayed = before.age.is_some() && age < PATH_DELAY_MAX;
        if is_delayed || reading.at.since(*since) < lifespan.max(PATH_DELAY_MAX) {
            return age;
        }
        // No sample waits on its way for so long: the clock was set back while no sample came.
        let youngest = *youngest;
        (self.youngest, self.late) = (Some(youngest), None);
        reading.age_by(youngest).unwrap_or(Span::ZERO)
    }
}

impl Reading {
    /// The age of this sample by that of an earlier one; `None` if it is not older than that one was when it came. The
    /// clocks may drift apart meanwhile.
    fn age_by(self, youngest: Self) -> Option<Span> {
        let behind = u64::try_from(youngest.lead_ns.saturating_sub(self.lead_ns)).unwrap_or(0);
        let drift = self.at.since(youngest.at).0 / CLOCK_DRIFT_DIVISOR;
        let age_then = youngest.age.unwrap_or(Span::ZERO);
        behind.checked_sub(drift).filter(|more| *more > 0).map(|more| Span(more.saturating_add(age_then.0)))
    }
}

impl Age {
    /// The rest of this lifespan.
    pub(super) fn rest_of(self, lifespan: Span) -> Span {
        let (Self::ByWallClocks(age) | Self::ByYoungest(age)) = self;
        Span(lifespan.0.saturating_sub(age.0))
    }
}

fn lead_ns(now: Instant, source_ns: u64) -> i64 {
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    signed(source_ns).saturating_sub(signed(now.0))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const HOUR_MS: u64 = 3_600_000;
    const LIFESPAN: Span = Span::from_secs(2);

    /// A reader whose monotonic and wall clock show the same.
    #[derive(Default)]
    struct Observer {
        clock: WriterClock,
        wall_offset_ms: u64,
    }

    impl Observer {
        /// The rest of the lifespan of a sample, in milliseconds: the time of its arrival and its source timestamp.
        fn rest_ms(&mut self, at_ms: u64, source_ms: u64) -> u64 {
            let at = |ms: u64| Timestamp::from_unix_nanos(ms * 1_000_000);
            let now = Instant(at_ms * 1_000_000);
            let age = self.clock.age(now, at(at_ms + self.wall_offset_ms), at(source_ms), LIFESPAN);
            age.rest_of(LIFESPAN).0 / 1_000_000
        }
    }

    /// The times at which ten samples come in a second.
    fn second_from(begin_ms: u64) -> impl Iterator<Item = u64> {
        (0..10).map(move |n| begin_ms + 100 * n)
    }

    const BEGIN_MS: u64 = 100 * HOUR_MS;

    #[test]
    fn lifespan_counts_from_the_source_timestamp_while_clocks_agree() {
        let mut reader = Observer::default();
        assert_eq!(reader.rest_ms(BEGIN_MS, BEGIN_MS - 1_500), 500, "the history of a late joiner");
        assert_eq!(reader.rest_ms(BEGIN_MS, BEGIN_MS - 10), 1_990);
    }

    #[test]
    fn sample_of_a_writer_whose_clock_differs_by_hours_has_its_lifespan() {
        for writer_ms in [BEGIN_MS - HOUR_MS, BEGIN_MS + HOUR_MS] {
            let mut reader = Observer::default();
            for (at, n) in second_from(BEGIN_MS).zip(0..) {
                assert!(reader.rest_ms(at, writer_ms + 100 * n) > 1_990, "sample {n}");
            }
        }
    }

    #[test]
    fn sample_after_a_step_of_either_clock_has_its_lifespan() {
        let mut reader = Observer::default();
        let mut at = BEGIN_MS;
        // The steps of the writer's clock, and those of the reader's clock.
        for (writer, own) in [(50, 50), (49, 50), (51, 50), (50, 50), (50, 51), (50, 49), (26, 50), (50, 74), (50, 50)]
        {
            reader.wall_offset_ms = own * HOUR_MS;
            for at in second_from(at) {
                assert!(reader.rest_ms(at, at + writer * HOUR_MS) > 1_990, "clocks at {writer} and {own}");
            }
            at += 1_000;
        }
    }

    #[test]
    fn sample_that_has_waited_expires_although_clocks_differ() {
        for offset_ms in [0, HOUR_MS] {
            let mut reader = Observer::default();
            for at in second_from(BEGIN_MS) {
                reader.rest_ms(at, at - offset_ms);
            }
            // The process stands still for a minute, and then gets what has come meanwhile.
            let resumed = BEGIN_MS + 60_000;
            for written in (BEGIN_MS + 1_000..resumed).step_by(100) {
                let age = resumed - written;
                let rest = reader.rest_ms(resumed, written - offset_ms);
                // In a minute the clocks may drift apart by 60 ms.
                assert_eq!(rest > 0, age < 2_100, "{age} ms old: {rest} ms");
            }
        }
    }

    #[test]
    fn samples_of_a_path_that_has_become_slower_than_their_lifespan_expire() {
        let mut reader = Observer::default();
        assert!(reader.rest_ms(BEGIN_MS - 5_000, BEGIN_MS - 5_010) > 0);
        for at in (BEGIN_MS + 1_000..BEGIN_MS + 60_000).step_by(500) {
            assert_eq!(reader.rest_ms(at, at - 3_000), 0, "at {at}");
        }
        assert!(reader.rest_ms(BEGIN_MS + 60_000, BEGIN_MS + 59_900) > 0, "the path is fast again");
    }

    #[test]
    fn samples_that_are_taken_from_the_sockets_for_seconds_after_a_stop_expire() {
        for offset_ms in [0, HOUR_MS] {
            let mut reader = Observer::default();
            for at in second_from(BEGIN_MS) {
                reader.rest_ms(at, at - offset_ms);
            }
            let resumed = BEGIN_MS + 60_000;
            for (n, written) in (BEGIN_MS + 1_000..resumed - 10_000).step_by(100).enumerate() {
                let at = resumed + 10 * n as u64;
                assert_eq!(reader.rest_ms(at, written - offset_ms), 0, "written at {written}");
            }
        }
    }

    #[test]
    fn sample_that_has_waited_behind_others_expires_in_time() {
        let mut reader = Observer::default();
        for wait_ms in [500, 1_000, 1_500, 1_900] {
            assert_eq!(reader.rest_ms(BEGIN_MS + wait_ms, BEGIN_MS), 2_000 - wait_ms);
        }
        // The clocks may drift apart by 2 ms meanwhile.
        assert!(reader.rest_ms(BEGIN_MS + 2_000, BEGIN_MS) <= 2);
        assert_eq!(reader.rest_ms(BEGIN_MS + 2_100, BEGIN_MS), 0);
    }

    #[test]
    fn step_back_that_no_source_timestamp_shows_is_noticed_after_ten_seconds() {
        let mut reader = Observer { wall_offset_ms: 5 * HOUR_MS, ..Observer::default() };
        reader.rest_ms(BEGIN_MS, BEGIN_MS);
        // The clock was set back by an hour, and no sample came for two.
        let begin = BEGIN_MS + 2 * HOUR_MS;
        let rests: Vec<u64> = (begin..begin + 14_000).step_by(100).map(|at| reader.rest_ms(at, at - HOUR_MS)).collect();
        assert_eq!(rests.iter().filter(|rest| **rest == 0).count(), 100, "{rests:?}");
        assert!(rests[100..].iter().all(|rest| *rest > 1_990), "{rests:?}");
    }

    #[test]
    fn drift_of_the_clocks_expires_nothing() {
        let mut reader = Observer { wall_offset_ms: 5 * HOUR_MS, ..Observer::default() };
        // The writer's clock loses 0.3 s per hour. A sample every two hours.
        for n in 0..50 {
            let at = BEGIN_MS + 2 * HOUR_MS * n;
            assert!(reader.rest_ms(at, at - 600 * n) > 1_990, "sample {n}");
        }
    }

    #[test]
    fn source_timestamps_in_the_other_order_are_no_step_of_the_clock() {
        let mut reader = Observer { wall_offset_ms: 5 * HOUR_MS, ..Observer::default() };
        reader.rest_ms(BEGIN_MS, BEGIN_MS);
        // Two threads write at the same time, and the reader's process stands still.
        for source in [1_000, 999, 1_010, 1_005] {
            assert_eq!(reader.rest_ms(BEGIN_MS + 60_000, BEGIN_MS + source), 0);
        }
    }

    #[test]
    fn forged_time_far_ahead_takes_no_lifespan_from_later_samples() {
        let mut reader = Observer { wall_offset_ms: 5 * HOUR_MS, ..Observer::default() };
        for at in second_from(BEGIN_MS) {
            reader.rest_ms(at, at);
            assert!(reader.rest_ms(at, at + HOUR_MS) > 1_990);
            assert!(reader.rest_ms(at, at) > 1_990);
        }
    }

    #[test]
    fn sample_without_source_timestamp_has_its_lifespan_from_reception() {
        let mut clock = WriterClock::default();
        let age = clock.age(Instant(1), Timestamp::from_unix_nanos(1), Timestamp::INVALID, LIFESPAN);
        assert_eq!(age, Age::ByYoungest(Span::ZERO));
    }
}
