//! Sends on an absolute schedule that does not depend on earlier samples.
//!
//! A sample has two start times: the time at which it was due, and the time at which the sender sent it. An application
//! that reads a sensor every millisecond does not wait for the network, so its latency counts from the due time; the
//! network accounts for the latency from the send. A sender that records only the second hides the samples that its own
//! waiting delayed (coordinated omission). This sender records both.

use crate::cli::option::WaitMethod;
use crate::clock::{Clock, MonotonicNs};
use crate::control::Stop;
use crate::error::Error;
use crate::pace::Schedule;
use crate::recorder::LatencyRecorder;

/// Samples that one run sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) schedule: Schedule,
    /// Number of samples of the run.
    pub(super) samples: u64,
    /// Every n-th sample requests an answer; at least 1.
    pub(super) probe_every: u64,
    /// No sample is sent after this time: a sender that cannot keep up ends and reports how many samples it did not
    /// send.
    pub(super) end: MonotonicNs,
    pub(super) wait: WaitMethod,
}

/// A due sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) number: u64,
    pub(super) intended: MonotonicNs,
    pub(super) sent: MonotonicNs,
    pub(super) is_probe: bool,
}

/// Result of the sending side.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) samples: u64,
    pub(super) dropped: u64,
    pub(super) probes: u64,
    /// From the due time of the first sample to the send of the last one; at least the duration of the schedule.
    pub(super) duration_ns: u64,
    /// Delay of each sample.
    pub(super) delay: LatencyRecorder,
}

/// Sends the samples of a run; `send` returns whether the sample was sent.
pub(super) fn send_all<C: Clock>(
    load: &Load,
    clock: &C,
    stop: &Stop,
    mut send: impl FnMut(&Outgoing) -> Result<bool, Error>,
) -> Result<Sent, Error> {
    let mut sent = Sent { samples: 0, dropped: 0, probes: 0, duration_ns: 0, delay: LatencyRecorder::new(0) };
    let start = load.schedule.due(0);
    for number in 0..load.samples {
        if stop.reason().is_some() {
            return Err(Error::Interrupted);
        }
        let intended = load.schedule.due(number);
        let now = clock.wait_until(intended, load.wait);
        if now > load.end {
            break;
        }
        let outgoing = Outgoing { number, intended, sent: now, is_probe: number.is_multiple_of(load.probe_every) };
        sent.delay.record(now.since_ns(intended));
        if send(&outgoing)? {
            sent.samples += 1;
            sent.probes += u64::from(outgoing.is_probe);
        } else {
            sent.dropped += 1;
        }
    }
    sent.duration_ns = clock.now().since_ns(start).max(load.schedule.due(load.samples).since_ns(start));
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::control::StopReason;

    /// Advances when a thread waits, or when a test sets it.
    struct MockClock(Cell<u64>);

    impl Clock for MockClock {
        fn now(&self) -> MonotonicNs {
            MonotonicNs(self.0.get())
        }

        fn wait_until(&self, time: MonotonicNs, _: WaitMethod) -> MonotonicNs {
            self.0.set(self.0.get().max(time.0));
            self.now()
        }
    }

    const MS: u64 = 1_000_000;

    fn load(samples: u64) -> Load {
        Load {
            schedule: Schedule::new(MonotonicNs(1_000 * MS), 1_000),
            samples,
            probe_every: 1,
            end: MonotonicNs(u64::MAX),
            wait: WaitMethod::Sleep,
        }
    }

    #[test]
    fn stall_counts_as_delay_of_every_late_sample() {
        // A path of 100 us, whose 100th write is delayed by 50 ms, at 1000 samples per second.
        let clock = MockClock(Cell::new(0));
        let mut from_intended = LatencyRecorder::new(200);
        let mut from_actual = LatencyRecorder::new(200);
        let sent = send_all(&load(200), &clock, &Stop::default(), |sample| {
            let held_up = if sample.number == 100 { 50 * MS } else { 0 };
            clock.0.set(clock.0.get() + held_up);
            let arrival = clock.0.get() + 100_000;
            from_intended.record(arrival - sample.intended.0);
            from_actual.record(arrival - sample.sent.0);
            Ok(true)
        })
        .unwrap();
        // From the actual send, one sample of 200 was slow, which the 99th percentile does not show.
        let actual = from_actual.result();
        assert_eq!((actual.max_ns, actual.min_ns), (50 * MS + 100_000, 100_000));
        assert_eq!(from_actual.raw_values().iter().filter(|time| **time > 100_000).count(), 1);
        // From the intended send, 50 were slow: samples 100 to 149 wait 50, 49, ... 1 ms.
        let expected: Vec<u64> = (1..=50).rev().map(|wait| wait * MS + 100_000).collect();
        assert_eq!(from_intended.raw_values()[100..150], expected);
        assert!(from_intended.raw_values()[150..].iter().all(|time| *time == 100_000));
        assert_eq!((sent.samples, sent.delay.moments().max()), (200, 49 * MS));
        assert_eq!(sent.duration_ns, 200 * MS);
    }

    #[test]
    fn overloaded_sender_ends_in_time_and_reports_sent_samples() {
        let clock = MockClock(Cell::new(0));
        let load = Load { end: MonotonicNs(1_100 * MS), ..load(100) };
        let sent = send_all(&load, &clock, &Stop::default(), |_| {
            clock.0.set(clock.0.get() + 10 * MS);
            Ok(true)
        })
        .unwrap();
        assert_eq!((sent.samples, sent.duration_ns), (11, 110 * MS));
    }

    #[test]
    fn probes_and_drops_are_counted() {
        let clock = MockClock(Cell::new(0));
        let load = Load { probe_every: 10, ..load(95) };
        let sent = send_all(&load, &clock, &Stop::default(), |sample| Ok(sample.number % 2 == 0)).unwrap();
        assert_eq!((sent.samples, sent.dropped, sent.probes), (48, 47, 10));
    }

    #[test]
    fn stop_request_or_error_ends_sender() {
        let clock = MockClock(Cell::new(0));
        let failed = send_all(&load(5), &clock, &Stop::default(), |_| Err(Error::Transfer("no".into())));
        assert_eq!(failed.unwrap_err(), Error::Transfer("no".into()));
        let stop = Stop::default();
        stop.request(StopReason::Interrupted);
        assert_eq!(send_all(&load(5), &clock, &stop, |_| Ok(true)).unwrap_err(), Error::Interrupted);
    }
}
