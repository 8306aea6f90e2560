//! A reader's part in a case: counts samples and records latencies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use peregrine_report::record::{PayloadUse, SideResult, ThroughputResult};

use super::link::{Receiver, Sender};
use crate::campaign::job::{Job, Sending, Sent};
use crate::campaign::types::Stamp;
use crate::clock::{MonotonicNs, scheduled_span_ns, with_one_interval_more};
use crate::control::Stop;
use crate::error::Error;
use crate::payload;
use crate::recorder::LatencyRecorder;
use crate::workload::sequence::SequenceWindow;

/// Interval at which a reader checks whether to end.
const END_POLL: Duration = Duration::from_millis(20);
/// The same for samples on a schedule, where a waking reader would use more processor time than rare samples.
const END_POLL_OF_SCHEDULE: Duration = Duration::from_millis(250);
/// After this time without a sample the rest counts as lost.
const SILENCE: Duration = Duration::from_millis(200);
/// Longest wait for samples at the end.
const LAST_LIMIT: Duration = Duration::from_secs(10);

/// One reader, shared by its thread and the one that waits for it.
pub(super) struct Reception<'a> {
    job: &'a Job,
    topic: u32,
    subscriber: u32,
    /// Samples of the measurement so far.
    seen: AtomicU64,
}

/// Result of a reader.
pub(super) struct Received {
    pub(super) subscriber: u32,
    topic: u32,
    windows: Vec<SequenceWindow>,
    first: Option<MonotonicNs>,
    last: Option<MonotonicNs>,
    from_actual: LatencyRecorder,
    from_intended: LatencyRecorder,
    /// Corrupt samples; `None` if payloads are not checked.
    corrupt: Option<u64>,
}

impl<'a> Reception<'a> {
    pub(super) fn new(job: &'a Job, topic: u32, subscriber: u32) -> Self {
        Self { job, topic, subscriber, seen: AtomicU64::new(0) }
    }

    /// Receives until `done` is set.
    pub(super) fn run(
        &self,
        mut receiver: Box<dyn Receiver>,
        mut echo: Option<Box<dyn Sender>>,
        done: &AtomicBool,
        stop: &Stop,
    ) -> Result<Received, Error> {
        let mut received = Received {
            subscriber: self.subscriber,
            topic: self.topic,
            windows: vec![SequenceWindow::new(); self.job.publishers as usize],
            first: None,
            last: None,
            from_actual: LatencyRecorder::new(0),
            from_intended: LatencyRecorder::new(0),
            corrupt: None,
        };
        let timed = matches!(self.job.sending, Sending::Rate(_)) && !self.job.echo;
        // With many samples in flight, a listener could wait for acknowledgments of echoes that only its own thread
        // could receive.
        if self.job.sending == Sending::PingPong {
            echo = echo.and_then(|echo| receiver.send_back(echo));
        }
        let mut echoed = Ok(());
        loop {
            // After the end, samples that a listener took may still be uncounted.
            let is_last = done.load(Ordering::Relaxed);
            if stop.reason().is_some() {
                return Err(Error::Interrupted);
            }
            receiver.receive(if is_last { Duration::ZERO } else { end_poll(self.job) }, &mut |stamp, now| {
                if let Some(echo) = &mut echo
                    && stamp.writer == 0
                {
                    echoed = echo.send(&stamp).map(drop);
                }
                if !stamp.warm_up {
                    received.note(&stamp, now, timed);
                    self.seen.fetch_add(1, Ordering::Relaxed);
                }
            })?;
            std::mem::replace(&mut echoed, Ok(()))?;
            if is_last {
                break;
            }
        }
        receiver.check()?;
        echo.as_mut().map_or(Ok(()), |echo| echo.check())?;
        received.corrupt = receiver.corrupt();
        Ok(received)
    }
}

impl Received {
    fn note(&mut self, stamp: &Stamp, now: MonotonicNs, timed: bool) {
        let Some(window) = self.windows.get_mut(usize::from(stamp.writer)) else { return };
        window.on_arrival(stamp.number as u32);
        self.first.get_or_insert(now);
        self.last = Some(now);
        if timed {
            self.from_actual.record(now.0.saturating_sub(stamp.sent_ns));
            self.from_intended.record(now.0.saturating_sub(stamp.intended_ns));
        }
    }
}

fn end_poll(job: &Job) -> Duration {
    if matches!(job.sending, Sending::Rate(_)) { END_POLL_OF_SCHEDULE } else { END_POLL }
}

/// Waits until all sent samples have arrived, or no more arrive.
pub(super) fn wait_for_all(job: &Job, receptions: &[Reception<'_>], sent: &[Sent], stop: &Stop) {
    let sent_to = |topic: u32| sent.iter().filter(|sent| sent.topic == topic).map(|sent| sent.samples).sum::<u64>();
    let expected: u64 = receptions.iter().map(|reception| sent_to(reception.topic)).sum();
    let seen = || receptions.iter().map(|reception| reception.seen.load(Ordering::Relaxed)).sum::<u64>();
    let end = MonotonicNs::now().plus(LAST_LIMIT);
    // The samples that a listener takes are counted at that interval.
    let silence = SILENCE + end_poll(job);
    let (mut last_seen, mut since) = (seen(), MonotonicNs::now());
    while last_seen < expected && !end.remaining().is_zero() && stop.reason().is_none() {
        std::thread::sleep(Duration::from_millis(1));
        let now_seen = seen();
        if now_seen != last_seen {
            (last_seen, since) = (now_seen, MonotonicNs::now());
        } else if since.plus(silence).remaining().is_zero() {
            return;
        }
    }
}

/// Result of one subscriber over all topics; `sent` is the result of all writers.
pub(super) fn side_result(side: SideResult, job: &Job, readers: Vec<Received>, sent: &[Sent]) -> SideResult {
    let mut sum = ThroughputResult::default();
    let mut corrupt: Option<u64> = None;
    let (mut first, mut last): (Option<MonotonicNs>, Option<MonotonicNs>) = (None, None);
    let (mut from_actual, mut from_intended) = (LatencyRecorder::new(0), LatencyRecorder::new(0));
    for mut reader in readers {
        for sent in sent.iter().filter(|sent| sent.topic == reader.topic) {
            if let Some(window) = reader.windows.get_mut(sent.publisher as usize)
                && sent.samples > 0
            {
                window.on_end((sent.samples - 1) as u32);
            }
        }
        for window in &reader.windows {
            sum.samples += window.received();
            sum.lost += window.lost();
            sum.duplicate += window.duplicate();
            sum.reordered += window.reordered();
        }
        first = first.into_iter().chain(reader.first).min();
        last = last.into_iter().chain(reader.last).max();
        corrupt = reader.corrupt.map_or(corrupt, |own| Some(corrupt.unwrap_or(0) + own));
        from_actual.merge(&reader.from_actual);
        from_intended.merge(&reader.from_intended);
    }
    sum.bytes = sum.samples.saturating_mul(job.data_len);
    if let (Some(first), Some(last)) = (first, last) {
        let span_ns = last.since_ns(first);
        sum.duration_ns = match job.sending {
            Sending::Rate(rate) => {
                let sent_by_one = sent.iter().map(|sent| sent.samples).max().unwrap_or(0);
                scheduled_span_ns(span_ns, sent_by_one, rate)
            }
            Sending::PingPong | Sending::Unpaced => with_one_interval_more(span_ns, sum.samples),
        };
    }
    let timed = from_actual.moments().count() > 0;
    SideResult {
        latency: timed.then(|| from_actual.result()),
        scheduled_latency: timed.then(|| from_intended.result()),
        throughput: Some(sum),
        payload: Some(payload_use(job.patterns, corrupt)),
        ..side
    }
}

/// `corrupt` is the count of a receiving side.
pub(super) fn payload_use(written: bool, corrupt: Option<u64>) -> PayloadUse {
    PayloadUse {
        written,
        checked: corrupt.is_some(),
        corrupt: corrupt.unwrap_or(0),
        max_octets: Some(payload::MAX_LEN as u64),
        ..PayloadUse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::party::tests::job;

    fn reader(topic: u32, arrivals: &[(u16, u64, u64)]) -> Received {
        let mut received = Received {
            subscriber: 0,
            topic,
            windows: vec![SequenceWindow::new(); 2],
            first: None,
            last: None,
            from_actual: LatencyRecorder::new(0),
            from_intended: LatencyRecorder::new(0),
            corrupt: Some(u64::from(topic)),
        };
        for &(writer, number, at) in arrivals {
            let stamp = Stamp { writer, number, intended_ns: at - 300, sent_ns: at - 100, ..Stamp::default() };
            received.note(&stamp, MonotonicNs(at), true);
        }
        received
    }

    #[test]
    fn missing_samples_are_lost_per_writer() {
        let sent =
            [(0, 0, 3), (0, 1, 2), (1, 0, 4)].map(|(topic, publisher, samples)| Sent { topic, publisher, samples });
        let readers = vec![
            reader(0, &[(0, 0, 1_000), (1, 1, 2_000), (0, 1, 2_500), (9, 0, 2_600)]),
            reader(1, &[(0, 0, 1_500), (0, 2, 3_000), (0, 1, 4_000), (0, 1, 5_000)]),
        ];
        let side = side_result(SideResult::default(), &job(), readers, &sent);
        let throughput = side.throughput.unwrap();
        assert_eq!((throughput.samples, throughput.lost), (6, 3), "one of each writer of topic 0, the last of topic 1");
        assert_eq!((throughput.duplicate, throughput.reordered), (1, 1));
        assert_eq!(throughput.bytes, 6 * job().data_len);
        assert_eq!(throughput.duration_ns, 4_000 * 6 / 5);
        assert_eq!((side.latency.unwrap().max_ns, side.scheduled_latency.unwrap().min_ns), (100, 300));
        let payload = side.payload.unwrap();
        assert_eq!((payload.written, payload.checked, payload.corrupt), (true, true, 1));
    }

    #[test]
    fn arrivals_of_a_schedule_are_never_above_the_offered_rate() {
        let job = Job { sending: Sending::Rate(1_000.0), ..job() };
        let sent = [(0, 0, 4), (0, 1, 4)].map(|(topic, publisher, samples)| Sent { topic, publisher, samples });
        // Two writers at 1 kHz; the first samples arrive half a millisecond late.
        let arrivals: Vec<_> = (0..4_u64)
            .flat_map(|number| {
                [0, 1].map(|writer| (writer, number, 1_500_000 + number * 1_000_000 - number.min(1) * 500_000))
            })
            .collect();
        let side = side_result(SideResult::default(), &job, vec![reader(0, &arrivals)], &sent);
        let throughput = side.throughput.unwrap();
        assert_eq!((throughput.samples, throughput.lost, throughput.duration_ns), (8, 0, 4_000_000));
        assert!(throughput.samples_per_s() <= 2.0 * 1_000.0);
    }

    #[test]
    fn reader_without_samples_reports_total_loss() {
        let sent = [Sent { topic: 0, publisher: 0, samples: 7 }, Sent { topic: 0, publisher: 1, samples: 0 }];
        let side = side_result(SideResult::default(), &job(), vec![reader(0, &[])], &sent);
        let throughput = side.throughput.unwrap();
        assert_eq!((throughput.samples, throughput.lost, throughput.duration_ns), (0, 7, 0));
        assert!(side.latency.is_none());
    }

    #[test]
    fn wait_ends_when_all_samples_arrived_or_the_run_ends() {
        let job = job();
        let receptions = [Reception::new(&job, 0, 0)];
        receptions[0].seen.store(5, Ordering::Relaxed);
        wait_for_all(&job, &receptions, &[Sent { topic: 0, publisher: 0, samples: 5 }], &Stop::default());
        let stop = Stop::default();
        stop.request(crate::control::StopReason::Interrupted);
        wait_for_all(&job, &receptions, &[Sent { topic: 0, publisher: 0, samples: 6 }], &stop);
    }
}
