//! The clocks of the driver.

use peregrine_rtps::time::{Instant, Timestamp};
use peregrine_transport::clock::{MonotonicNs, RealtimeNs};

/// A deadline that is never reached.
pub(crate) const NEVER: u64 = u64::MAX;

pub(crate) fn now() -> Instant {
    Instant(MonotonicNs::now().0)
}

pub(crate) fn wall() -> Timestamp {
    Timestamp::from_unix_nanos(RealtimeNs::now().0)
}

/// The wall clock time at a monotonic time that was just read; cheaper than reading the wall clock as well.
#[inline]
pub(crate) fn wall_at(now: Instant) -> Timestamp {
    Timestamp::from_unix_nanos(RealtimeNs::at(MonotonicNs(now.0)).0)
}
