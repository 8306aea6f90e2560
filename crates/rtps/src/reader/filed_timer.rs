//! The timer of a writer as a key of a [`MinTree`](crate::min_tree::MinTree).

use core::num::NonZeroU64;

use crate::time::Instant;

use super::event::ReaderTimer;

/// The bits of a [`FiledTimer`] that hold the kind of the timer.
const KIND_BITS: u32 = 3;

/// An instant and a kind of timer in eight bytes, in the order of the instants. The instant is exact up to 73 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct FiledTimer(NonZeroU64);

impl FiledTimer {
    pub(super) fn new(at: Instant, timer: ReaderTimer) -> Self {
        let kind = match timer {
            ReaderTimer::PreemptiveAckNack => 1,
            ReaderTimer::Repair => 2,
            ReaderTimer::Liveliness => 3,
            ReaderTimer::Cache => 4,
            ReaderTimer::Deadline => 5,
        };
        Self(NonZeroU64::MIN.saturating_add((at.0.min(u64::MAX >> KIND_BITS) << KIND_BITS | kind) - 1))
    }

    pub(super) fn timer(self) -> (Instant, ReaderTimer) {
        let timer = match self.0.get() & ((1 << KIND_BITS) - 1) {
            1 => ReaderTimer::PreemptiveAckNack,
            2 => ReaderTimer::Repair,
            3 => ReaderTimer::Liveliness,
            4 => ReaderTimer::Cache,
            _ => ReaderTimer::Deadline,
        };
        (Instant(self.0.get() >> KIND_BITS), timer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMERS: [ReaderTimer; 5] = [
        ReaderTimer::PreemptiveAckNack,
        ReaderTimer::Repair,
        ReaderTimer::Liveliness,
        ReaderTimer::Cache,
        ReaderTimer::Deadline,
    ];

    proptest! {
        #[test]
        fn filed_timers_are_ordered_as_pairs_and_keep_both_parts(
            first in (0..u64::MAX >> KIND_BITS, 0..TIMERS.len()),
            second in (0..u64::MAX >> KIND_BITS, 0..TIMERS.len()),
        ) {
            let pair = |(at, kind): (u64, usize)| (Instant(at), TIMERS[kind]);
            let filed = |(at, timer)| FiledTimer::new(at, timer);
            let (first, second) = (pair(first), pair(second));
            prop_assert_eq!(filed(first).timer(), first);
            prop_assert_eq!(filed(first).cmp(&filed(second)), first.cmp(&second));
        }
    }

    #[test]
    fn filed_timer_takes_no_more_room_when_it_is_optional() {
        assert_eq!(size_of::<Option<FiledTimer>>(), 8);
        assert_eq!(FiledTimer::new(Instant::FAR_FUTURE, ReaderTimer::Deadline).timer().1, ReaderTimer::Deadline);
    }
}
