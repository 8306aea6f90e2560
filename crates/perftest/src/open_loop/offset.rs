//! The four times of a round trip, and estimates of the two one-way times and the clock offset from them.
//!
//! The sender's clock gives the times at which a probe left (t₀) and its answer arrived (t₃); the responder's clock
//! gives the times at which the probe arrived (t₁) and the answer left (t₂). The responder's clock is ahead by between
//! t₁ − t₃ + (t₂ − t₁) and t₁ − t₀, because neither message arrives before it leaves. The middle is the estimate and
//! half the width the uncertainty, without an assumption about the two one-way times. The fastest round trip of an
//! interval has the narrowest bounds.

use peregrine_report::record::{ClockOffset, OneWay};

use crate::recorder::LatencyRecorder;

/// The offset is estimated once in each interval of this length, because clocks drift.
const STRETCH_NS: u64 = 250_000_000;

/// The times of one round trip, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FourTimes {
    /// Send time of the probe, on the sender's clock.
    pub(super) sent: u64,
    /// Arrival time of the probe, on the responder's clock.
    pub(super) received: u64,
    /// Send time of the answer, on the responder's clock.
    pub(super) answered: u64,
    /// Arrival time of the answer, on the sender's clock.
    pub(super) returned: u64,
}

/// Offset of the responder's clock at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    at_ns: u64,
    offset_ns: i64,
    uncertainty_ns: u64,
}

impl FourTimes {
    /// Sum of both one-way times; `None` if the times contradict each other.
    fn delay_ns(&self) -> Option<u64> {
        let service = self.answered.checked_sub(self.received)?;
        self.returned.checked_sub(self.sent)?.checked_sub(service)
    }

    fn estimate(&self) -> Option<Estimate> {
        let delay_ns = self.delay_ns()?;
        let ahead_at_most = i128::from(self.received) - i128::from(self.sent);
        let ahead_at_least = i128::from(self.answered) - i128::from(self.returned);
        let offset_ns = i64::try_from((ahead_at_most + ahead_at_least).div_euclid(2)).ok()?;
        Some(Estimate { at_ns: self.sent, offset_ns, uncertainty_ns: delay_ns.div_ceil(2) })
    }
}

/// One-way times of all round trips; `None` without round trips. With a single clock nothing is estimated.
pub(super) fn one_way(times: &[FourTimes], same_clock: bool) -> Option<OneWay> {
    let estimates = if same_clock { Vec::new() } else { estimates(times) };
    if times.is_empty() || (!same_clock && estimates.is_empty()) {
        return None;
    }
    let [mut forward, mut service, mut back] = std::array::from_fn(|_| LatencyRecorder::new(0));
    for time in times {
        let offset_ns = offset_at(&estimates, time.sent);
        forward.record(difference(time.received, time.sent, -offset_ns));
        service.record(time.answered.saturating_sub(time.received));
        back.record(difference(time.returned, time.answered, offset_ns));
    }
    let [forward, service, back] = [forward, service, back].map(|recorder| recorder.result());
    Some(OneWay { clock: clock_offset(&estimates, same_clock), forward, service, back })
}

/// later − earlier + shift, at least 0: the uncertainty of an estimate could make a short time negative.
fn difference(later: u64, earlier: u64, shift: i64) -> u64 {
    let exact = i128::from(later) - i128::from(earlier) + i128::from(shift);
    u64::try_from(exact.max(0)).unwrap_or(u64::MAX)
}

/// The best estimate of each interval, in order of time.
fn estimates(times: &[FourTimes]) -> Vec<Estimate> {
    let mut best: Vec<Estimate> = Vec::new();
    let Some(start) = times.iter().map(|time| time.sent).min() else { return best };
    let mut all: Vec<Estimate> = times.iter().filter_map(FourTimes::estimate).collect();
    all.sort_by_key(|estimate| estimate.at_ns);
    let stretch = |estimate: &Estimate| (estimate.at_ns - start) / STRETCH_NS;
    for estimate in all {
        match best.last_mut() {
            Some(last) if stretch(last) == stretch(&estimate) => {
                if estimate.uncertainty_ns < last.uncertainty_ns {
                    *last = estimate;
                }
            }
            _ => best.push(estimate),
        }
    }
    best
}

/// Interpolates linearly between two estimates; 0 without estimates.
fn offset_at(estimates: &[Estimate], at_ns: u64) -> i64 {
    let next = estimates.partition_point(|estimate| estimate.at_ns < at_ns);
    let (before, after) = (next.checked_sub(1).and_then(|index| estimates.get(index)), estimates.get(next));
    match (before, after) {
        (None, None) => 0,
        (Some(only), None) | (None, Some(only)) => only.offset_ns,
        (Some(before), Some(after)) => {
            let share = (at_ns - before.at_ns) as f64 / (after.at_ns - before.at_ns) as f64;
            before.offset_ns + ((after.offset_ns - before.offset_ns) as f64 * share) as i64
        }
    }
}

fn clock_offset(estimates: &[Estimate], same_clock: bool) -> ClockOffset {
    let (Some(first), Some(last)) = (estimates.first(), estimates.last()) else {
        return ClockOffset { same_clock, ..ClockOffset::default() };
    };
    let middle = estimates[estimates.len() / 2];
    let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
    ClockOffset {
        same_clock,
        offset_ns: middle.offset_ns,
        uncertainty_ns: estimates.iter().map(|estimate| estimate.uncertainty_ns).max().unwrap_or(0),
        drift_ns_per_s: if seconds > 0.0 { (last.offset_ns - first.offset_ns) as f64 / seconds } else { 0.0 },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A round trip with one-way times `forward` and `back`, and a responder's clock that is ahead by `offset`.
    fn trip(sent: u64, forward: u64, service: u64, back: u64, offset: i64) -> FourTimes {
        let there = |time: u64| time.checked_add_signed(offset).unwrap();
        FourTimes {
            sent,
            received: there(sent + forward),
            answered: there(sent + forward + service),
            returned: sent + forward + service + back,
        }
    }

    #[test]
    fn single_clock_gives_exact_one_way_times() {
        let ways = one_way(&[trip(1_000, 30, 5, 50, 0), trip(2_000, 40, 5, 50, 0)], true).unwrap();
        assert_eq!((ways.forward.min_ns, ways.forward.max_ns), (30, 40));
        assert_eq!((ways.service.max_ns, ways.back.max_ns), (5, 50));
        assert_eq!(ways.clock, ClockOffset { same_clock: true, ..ClockOffset::default() });
    }

    #[test]
    fn offset_uncertainty_is_that_of_the_fastest_round_trip() {
        let offset = 5_000_000;
        let times = [trip(1_000_000_000, 900, 10, 100, offset), trip(1_000_100_000, 60, 10, 40, offset)];
        let ways = one_way(&times, false).unwrap();
        assert_eq!(ways.clock.offset_ns, offset + 10, "the asymmetry of 20 is divided");
        assert_eq!(ways.clock.uncertainty_ns, 50);
        assert_eq!((ways.forward.min_ns, ways.back.min_ns), (50, 50));
        assert_eq!((ways.forward.max_ns, ways.back.max_ns), (890, 110));
        assert!(!ways.clock.same_clock);
    }

    #[test]
    fn clock_drift_is_tracked() {
        // 100 ns per millisecond: the offset at the start would be wrong by 100 us at the end.
        let times: Vec<_> = (0..1000_u64)
            .map(|ms| trip(1_000_000_000 + ms * 1_000_000, 500, 0, 500, 7_000 + 100 * ms as i64))
            .collect();
        let ways = one_way(&times, false).unwrap();
        assert!((ways.clock.drift_ns_per_s - 100_000.0).abs() < 1.0, "{:?}", ways.clock);
        // No estimate follows the last interval, so its end is off by the drift of a quarter of a second.
        assert!(ways.forward.p90_ns < 16_000 && ways.forward.p50_ns.abs_diff(500) <= 1, "{:?}", ways.forward);
    }

    #[test]
    fn contradictory_times_give_no_estimate() {
        let impossible = FourTimes { sent: 100, received: 50, answered: 500, returned: 110 };
        assert_eq!(impossible.estimate(), None);
        assert!(one_way(&[impossible], false).is_none() && one_way(&[], true).is_none());
    }

    proptest! {
        #[test]
        fn true_offset_lies_within_the_uncertainty(
            trips in prop::collection::vec((0..10_000_000_u64, 0..100_000_u64, 0..1000_u64, 0..100_000_u64), 1..50),
            offset in -1_000_000_000..1_000_000_000_i64,
        ) {
            let times: Vec<_> = trips
                .iter()
                .map(|(at, forward, service, back)| trip(10_000_000_000 + at, *forward, *service, *back, offset))
                .collect();
            let clock = one_way(&times, false).unwrap().clock;
            prop_assert!(clock.offset_ns.abs_diff(offset) <= clock.uncertainty_ns + 1);
        }
    }
}
