//! The time at which the next sample is due.
//!
//! A rate is an absolute schedule: sample n is due at `start + n / rate`, regardless of delays of earlier samples.
//! After a stall all due samples are sent at once, and each records its delay. A fixed delay between samples would hide
//! the samples that a stall delayed (coordinated omission).

use std::time::Duration;

use crate::cli::option::WaitMethod;
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::plan::Pace;
use crate::recorder::LatencyRecorder;

/// The times at which the samples of a run are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    start: MonotonicNs,
    /// In thousandths, so that slow and odd rates are exact enough.
    samples_per_1000_s: u64,
}

impl Schedule {
    /// Sample 0 is due at `start`; `samples_per_second` must be at least 1.
    pub fn new(start: MonotonicNs, samples_per_second: u64) -> Self {
        Self { start, samples_per_1000_s: samples_per_second.max(1).saturating_mul(1000) }
    }

    /// As [`Self::new`], for a fractional rate of at least a thousandth of a sample per second.
    pub fn of_rate(start: MonotonicNs, samples_per_second: f64) -> Self {
        Self { start, samples_per_1000_s: (samples_per_second * 1000.0).round().max(1.0) as u64 }
    }

    /// Time at which sample `index` is due.
    #[inline]
    pub fn due(&self, index: u64) -> MonotonicNs {
        let offset_ns = u128::from(index) * 1_000_000_000_000 / u128::from(self.samples_per_1000_s);
        MonotonicNs(self.start.0.saturating_add(u64::try_from(offset_ns).unwrap_or(u64::MAX)))
    }
}

/// Delays the send loop before each sample.
#[derive(Debug)]
pub enum Pacer {
    /// No schedule.
    Unlimited {
        /// Pause before each sample.
        sleep: Duration,
        /// Iterations of an empty loop before each sample.
        spin_count: u64,
    },
    /// An absolute schedule.
    Scheduled {
        /// Time at which each sample is due.
        schedule: Schedule,
        /// How to wait.
        method: WaitMethod,
        /// Delay of each sample.
        delay: Box<LatencyRecorder>,
    },
}

impl Pacer {
    /// Starts now, for samples of `data_len` bytes.
    pub fn start(pace: Pace, data_len: usize) -> Self {
        let samples_per_second = pace.samples_per_second(data_len).unwrap_or(1);
        match pace {
            Pace::Unlimited { sleep, spin_count } => Self::Unlimited { sleep, spin_count },
            Pace::Samples(rate) | Pace::Bits(rate) => Self::Scheduled {
                schedule: Schedule::new(MonotonicNs::now(), samples_per_second),
                method: rate.method,
                delay: Box::new(LatencyRecorder::new(0)),
            },
        }
    }

    /// Waits until sample `index` is due.
    #[inline]
    pub fn wait(&mut self, index: u64, stop: &Stop) {
        match self {
            Self::Unlimited { sleep, spin_count } => {
                if *spin_count > 0 {
                    spin(*spin_count);
                }
                if !sleep.is_zero() {
                    stop.sleep(*sleep);
                }
            }
            Self::Scheduled { schedule, method, delay } => {
                let due = schedule.due(index);
                let now = match method {
                    WaitMethod::Spin => due.spin_until(),
                    WaitMethod::Sleep => {
                        due.sleep_until();
                        MonotonicNs::now()
                    }
                };
                delay.record(now.since_ns(due));
            }
        }
    }

    /// The schedule, if there is one.
    pub fn schedule(&self) -> Option<Schedule> {
        match self {
            Self::Unlimited { .. } => None,
            Self::Scheduled { schedule, .. } => Some(*schedule),
        }
    }

    /// Delays of the samples, if there is a schedule.
    pub fn delay(&self) -> Option<&LatencyRecorder> {
        match self {
            Self::Unlimited { .. } => None,
            Self::Scheduled { delay, .. } => Some(delay),
        }
    }
}

fn spin(count: u64) {
    for turn in 0..count {
        std::hint::black_box(turn);
    }
}

/// Gives a busy loop the time without reading the clock in every iteration.
///
/// Iterations within microseconds share one reading, up to 64 of them; slow iterations each read the clock.
#[derive(Debug)]
pub struct SparseClock {
    last: MonotonicNs,
    stride: u32,
    turns_left: u32,
}

impl SparseClock {
    const LONGEST_STRIDE: u32 = 64;
    /// A stride that took longer than this is halved.
    const TARGET_NS: u64 = 50_000;

    /// Reads the clock.
    pub fn new() -> Self {
        Self { last: MonotonicNs::now(), stride: 1, turns_left: 1 }
    }

    /// Time of this iteration, or of a slightly earlier one.
    #[inline]
    pub fn turn(&mut self) -> MonotonicNs {
        self.turns_left -= 1;
        if self.turns_left == 0 {
            self.read(MonotonicNs::now());
        }
        self.last
    }

    fn read(&mut self, now: MonotonicNs) {
        self.stride = if now.since_ns(self.last) < Self::TARGET_NS {
            (self.stride * 2).min(Self::LONGEST_STRIDE)
        } else {
            (self.stride / 2).max(1)
        };
        self.turns_left = self.stride;
        self.last = now;
    }
}

impl Default for SparseClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::option::RateLimit;

    #[test]
    fn due_times_do_not_drift() {
        let schedule = Schedule::new(MonotonicNs(5_000), 3);
        assert_eq!(schedule.due(0), MonotonicNs(5_000));
        assert_eq!(schedule.due(1), MonotonicNs(333_338_333));
        assert_eq!(schedule.due(3), MonotonicNs(1_000_005_000));
        // Exact even after ten years.
        let index = 3 * 3_600 * 24 * 3_650;
        assert_eq!(schedule.due(index), MonotonicNs(5_000 + index / 3 * 1_000_000_000));
        assert_eq!(schedule.due(u64::MAX), MonotonicNs(u64::MAX));
        assert_eq!(Schedule::of_rate(MonotonicNs(0), 0.5).due(3), MonotonicNs(6_000_000_000));
        assert_eq!(Schedule::of_rate(MonotonicNs(0), 0.0).due(1), MonotonicNs(1_000_000_000_000));
    }

    #[test]
    fn scheduled_samples_leave_no_earlier_than_due() {
        for method in [WaitMethod::Spin, WaitMethod::Sleep] {
            let mut pacer = Pacer::start(Pace::Samples(RateLimit { per_second: 10_000, method }), 100);
            let schedule = pacer.schedule().unwrap();
            let stop = Stop::default();
            for index in 0..20 {
                pacer.wait(index, &stop);
                assert!(MonotonicNs::now() >= schedule.due(index));
            }
            assert_eq!(pacer.delay().unwrap().moments().count(), 20);
        }
    }

    #[test]
    fn lateness_is_recorded_against_the_schedule() {
        let mut pacer = Pacer::Scheduled {
            schedule: Schedule::new(MonotonicNs(0), 1),
            method: WaitMethod::Spin,
            delay: Box::new(LatencyRecorder::new(0)),
        };
        let before = MonotonicNs::now().0;
        pacer.wait(0, &Stop::default());
        assert!(pacer.delay().unwrap().moments().min() >= before);
    }

    #[test]
    fn sparse_clock_reads_rarely_in_fast_loops_only() {
        let mut clock = SparseClock { last: MonotonicNs(0), stride: 1, turns_left: 1 };
        let strides: Vec<_> = (1..=8)
            .map(|reading| {
                clock.read(MonotonicNs(reading * 1_000));
                clock.turns_left
            })
            .collect();
        assert_eq!(strides, [2, 4, 8, 16, 32, 64, 64, 64]);
        for reading in 1..=7 {
            clock.read(MonotonicNs(reading * 1_000_000));
        }
        assert_eq!(clock.turns_left, 1);
    }
}
