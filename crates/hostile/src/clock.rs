//! The monotonic clock, which all processes of a host share.

use std::time::Duration;

use rustix::time::ClockId;

/// Nanoseconds of the monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
    let time = seconds.saturating_add(Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0)));
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
