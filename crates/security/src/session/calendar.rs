//! The calendar of a participant.

use peregrine_rtps::time::Instant;

use crate::wall_time::WallTime;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The calendar of a participant: the clock of the host, and never earlier than the beginning of the session and the
/// time that the monotonic clock has counted since. A clock that is set back prolongs no certificate. The beginning is
/// within the validity of the participant's own certificates, and a clock that is set forward has no effect after it is
/// right again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calendar {
    began: (Instant, WallTime),
}

impl Calendar {
    pub(super) const fn new(now: Instant, wall: WallTime) -> Self {
        Self { began: (now, wall) }
    }

    /// The time of the calendar, when the clocks of the host state these times.
    pub(super) fn at(self, now: Instant, wall: WallTime) -> WallTime {
        let (began, at_first) = self.began;
        let seconds = i64::try_from(now.since(began).0 / NANOS_PER_SEC).unwrap_or(i64::MAX);
        wall.max(WallTime(at_first.0.saturating_add(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use peregrine_rtps::time::Span;

    use super::*;

    #[test]
    fn calendar_follows_the_host_forward_and_back_to_the_monotonic_clock_and_no_further() {
        let began = Instant(7);
        let calendar = Calendar::new(began, WallTime(1000));
        for (seconds, wall, expected) in [
            (0, 1000, 1000),
            (10, 1010, 1010),
            (10, 900, 1010),
            (20, 5000, 5000),
            (30, 1030, 1030),
            (40, i64::MIN, 1040),
            (50, i64::MAX, i64::MAX),
        ] {
            let found = calendar.at(began + Span::from_secs(seconds), WallTime(wall));
            assert_eq!(found, WallTime(expected), "after {seconds} s");
        }
    }
}
