//! Monotonic and real time in nanoseconds.
//!
//! Both reads go through the vDSO on Linux: about 16 ns, no system call.

use std::time::Duration;

/// A point on the monotonic clock (`CLOCK_MONOTONIC`): nanoseconds since some moment before the process started.
///
/// Processes of one host share this clock, hosts do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonotonicNs(pub u64);

impl MonotonicNs {
    /// Reads the clock.
    #[must_use]
    pub fn now() -> Self {
        Self(read(libc::CLOCK_MONOTONIC))
    }

    /// The point `duration` later, or the last representable one (after some 584 years).
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The time since `earlier`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A point of real time (`CLOCK_REALTIME`): nanoseconds since 1970-01-01 00:00:00 UTC. It may jump when the clock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RealtimeNs(pub u64);

impl RealtimeNs {
    /// Reads the clock.
    #[must_use]
    pub fn now() -> Self {
        Self(read(libc::CLOCK_REALTIME))
    }
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable `timespec`.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    debug_assert_eq!(result, 0, "both clocks exist on every supported system");
    // Both clocks count from a moment in the past, so neither field is negative.
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn monotonic_time_never_runs_back() {
        let mut last = MonotonicNs::now();
        for _ in 0..10_000 {
            let now = MonotonicNs::now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn real_time_is_the_system_time() {
        let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        let now = u128::from(RealtimeNs::now().0);
        let after = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        assert!(before <= now && now <= after, "{before} {now} {after}");
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(MonotonicNs(5).since(MonotonicNs(9)), Duration::ZERO);
        assert_eq!(MonotonicNs(9).since(MonotonicNs(5)), Duration::from_nanos(4));
        assert_eq!(MonotonicNs(u64::MAX).after(Duration::from_secs(1)), MonotonicNs(u64::MAX));
        assert_eq!(MonotonicNs(1).after(Duration::MAX), MonotonicNs(u64::MAX));
    }
}
