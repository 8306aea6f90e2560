//! The clock of all measurements: `CLOCK_MONOTONIC`, in nanoseconds.

use std::time::Duration;

use rustix::thread::{ClockId, Timespec};

use crate::cli::option::WaitMethod;

/// Nanoseconds since an arbitrary start, the same for all processes of this machine until it restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MonotonicNs(pub u64);

impl MonotonicNs {
    /// Current time.
    #[inline]
    pub fn now() -> Self {
        let time = rustix::time::clock_gettime(ClockId::Monotonic);
        Self(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// Nanoseconds since `earlier`; 0 if that is in the future.
    #[inline]
    pub fn since_ns(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// A later time.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Time left until this time; zero if it has passed.
    pub fn remaining(self) -> Duration {
        Duration::from_nanos(self.since_ns(Self::now()))
    }

    /// Sleeps until this time. Signals do not end the sleep.
    pub fn sleep_until(self) {
        let request = Timespec { tv_sec: (self.0 / 1_000_000_000) as i64, tv_nsec: (self.0 % 1_000_000_000) as i64 };
        while rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &request) == Err(rustix::io::Errno::INTR) {}
    }

    /// Spins until this time, and returns the first reading at or after it.
    pub fn spin_until(self) -> Self {
        loop {
            let now = Self::now();
            if now >= self {
                return now;
            }
            std::hint::spin_loop();
        }
    }
}

/// Clock of an open-loop sender: the system's, or one that a test moves.
pub trait Clock {
    /// Current time.
    fn now(&self) -> MonotonicNs;

    /// Waits until `time`; returns a reading at or after it. Returns at once if it has passed.
    fn wait_until(&self, time: MonotonicNs, how: WaitMethod) -> MonotonicNs;
}

/// `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> MonotonicNs {
        MonotonicNs::now()
    }

    #[inline]
    fn wait_until(&self, time: MonotonicNs, how: WaitMethod) -> MonotonicNs {
        match how {
            WaitMethod::Spin => time.spin_until(),
            WaitMethod::Sleep => {
                // A late sender makes no system call to sleep.
                let now = MonotonicNs::now();
                if now >= time {
                    return now;
                }
                time.sleep_until();
                MonotonicNs::now()
            }
        }
    }
}

/// Processor time of the whole process so far, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of the calling thread so far, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// There is one interval less than there are samples; a rate needs as many intervals as samples.
pub(crate) fn with_one_interval_more(span_ns: u64, samples: u64) -> u64 {
    match samples {
        0 | 1 => span_ns,
        _ => (u128::from(span_ns) * u128::from(samples) / u128::from(samples - 1)) as u64,
    }
}

/// Duration over which samples of a schedule are counted: that of the schedule, or longer if the samples took longer.
/// Several writers keep the same schedule, so `samples` is the count of one writer.
pub(crate) fn scheduled_span_ns(span_ns: u64, samples: u64, rate_per_s: f64) -> u64 {
    let scheduled_ns = samples as f64 * 1e9 / rate_per_s;
    // Rounded up, so that the rate of arrival never exceeds that of the schedule.
    with_one_interval_more(span_ns, samples).max(scheduled_ns.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_of_a_schedule_are_not_faster_than_it() {
        // Eight samples at 30 Hz, of which the first was 35 ms late.
        let span_ns = scheduled_span_ns(198_000_000, 8, 30.0);
        assert_eq!(span_ns, 266_666_667);
        assert!(8.0 * 1e9 / span_ns as f64 <= 30.0);
        // Samples that arrive more slowly than they are due count over the time that they took.
        assert_eq!(scheduled_span_ns(700_000_000, 8, 30.0), 800_000_000);
    }

    #[test]
    fn rate_has_as_many_intervals_as_samples() {
        assert_eq!([0, 1, 2, 3].map(|samples| with_one_interval_more(6000, samples)), [6000, 6000, 12_000, 9000]);
        assert_eq!(with_one_interval_more(u64::MAX / 2, 1_000_000_000), u64::MAX / 2 + 9_223_372_046);
    }
}
