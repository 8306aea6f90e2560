//! A writer's part in a case: warm-up, measurement, end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use peregrine_report::record::SendResult;
use peregrine_report::stats::LatencyResult;

use super::link::{Receiver, Sender, joined};
use super::window::Window;
use crate::campaign::job::{Job, Sending, Sent};
use crate::campaign::spec::Wait;
use crate::campaign::types::Stamp;
use crate::cli::option::WaitMethod;
use crate::clock::{Clock, MonotonicNs, SystemClock};
use crate::control::Stop;
use crate::error::Error;
use crate::pace::Schedule;
use crate::recorder::LatencyRecorder;

/// Longest time for the acknowledgment of the last samples.
const FINISH_LIMIT: Duration = Duration::from_secs(15);
/// Longest time for an answer, besides the transfer time of its bytes on a slow path.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// Transfer time on a slow path: one microsecond per byte in each direction.
const ANSWER_NS_PER_OCTET: u64 = 2_000;
/// A sender that is later than this at the end of its schedule gives up.
const LATE_LIMIT: Duration = Duration::from_secs(1);
/// Interval at which a thread that waits for an echo checks the stop request.
const ECHO_POLL: Duration = Duration::from_millis(50);

/// One writer.
pub(super) struct Publication<'a> {
    pub(super) job: &'a Job,
    pub(super) window: Window,
    pub(super) topic: u32,
    pub(super) publisher: u32,
    pub(super) stop: &'a Stop,
    pub(super) stack: usize,
    /// Notified when the last sample was sent.
    pub(super) last_sent: SyncSender<()>,
}

/// Result of a writer's measurement.
pub(super) struct Published {
    pub(super) topic: u32,
    pub(super) publisher: u32,
    samples: u64,
    dropped: u64,
    unanswered: u64,
    duration_ns: u64,
    delay: Option<LatencyRecorder>,
    /// Half round trips, if samples are echoed.
    pub(super) from_actual: Option<LatencyRecorder>,
    pub(super) from_intended: Option<LatencyRecorder>,
    /// Corrupt echoes; `None` if samples are not echoed or payloads are not checked.
    pub(super) corrupt: Option<u64>,
}

/// Warm-up or measurement.
#[derive(Clone, Copy)]
struct Phase {
    warm_up: bool,
    start: MonotonicNs,
    end: MonotonicNs,
    /// After this time only the first sample is sent.
    given_up: MonotonicNs,
}

/// Counters of a phase.
struct Counts {
    numbers: u64,
    dropped: u64,
    unanswered: u64,
    last: MonotonicNs,
    delay: LatencyRecorder,
}

impl Phase {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

impl Published {
    pub(super) fn sent(&self) -> Sent {
        Sent { topic: self.topic, publisher: self.publisher, samples: self.samples }
    }
}

impl Publication<'_> {
    pub(super) fn run(&self, sender: &mut dyn Sender, echoes: Option<Box<dyn Receiver>>) -> Result<Published, Error> {
        let Window { warm_up: start, start: middle, end } = self.window;
        start.sleep_until();
        let late_limit = match self.job.sending {
            Sending::Rate(_) => LATE_LIMIT,
            Sending::PingPong | Sending::Unpaced => Duration::ZERO,
        };
        let warm_up = Phase { warm_up: true, start, end: middle, given_up: middle };
        let measurement = Phase { warm_up: false, start: middle, end, given_up: end.plus(late_limit) };
        match (self.job.sending, echoes) {
            (Sending::PingPong, Some(mut echoes)) => {
                let mut round_trips = LatencyRecorder::new(0);
                self.ping(sender, &mut *echoes, warm_up, &mut LatencyRecorder::new(0))?;
                let counts = self.ping(sender, &mut *echoes, measurement, &mut round_trips)?;
                self.tell_last_sent();
                sender.finish(FINISH_LIMIT)?;
                sender.check()?;
                let corrupt = echoes.corrupt();
                Ok(Published { corrupt, ..self.published(counts, measurement, Some((round_trips, None))) })
            }
            (Sending::PingPong, None) => Err(Error::Transfer("a ping-pong takes echoes".into())),
            (_, None) => {
                let counts = self.send_both(sender, warm_up, measurement)?;
                Ok(self.published(counts, measurement, None))
            }
            (_, Some(echoes)) => self.send_and_listen(sender, echoes, warm_up, measurement),
        }
    }

    /// Sends on one thread and receives the echoes on another.
    fn send_and_listen(
        &self,
        sender: &mut dyn Sender,
        mut echoes: Box<dyn Receiver>,
        warm_up: Phase,
        measurement: Phase,
    ) -> Result<Published, Error> {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let ended = &ended;
            let listen = move || self.listen(&mut *echoes, ended);
            let listener = std::thread::Builder::new()
                .name("echoes".into())
                .stack_size(self.stack)
                .spawn_scoped(scope, listen)
                .map_err(|error| Error::Setup(format!("Cannot start a thread: {error}")))?;
            let counts = self.send_both(sender, warm_up, measurement);
            ended.store(true, Ordering::Relaxed);
            let (actual, intended, corrupt) = joined(listener)?;
            Ok(Published { corrupt, ..self.published(counts?, measurement, Some((actual, Some(intended)))) })
        })
    }

    fn send_both(&self, sender: &mut dyn Sender, warm_up: Phase, measurement: Phase) -> Result<Counts, Error> {
        self.send(sender, warm_up)?;
        let counts = self.send(sender, measurement)?;
        self.tell_last_sent();
        sender.finish(FINISH_LIMIT)?;
        sender.check()?;
        Ok(counts)
    }

    /// There is room for this message of each writer; the observing thread may have ended.
    fn tell_last_sent(&self) {
        let _ = self.last_sent.try_send(());
    }

    /// Sends on schedule, or at the highest possible rate.
    fn send(&self, sender: &mut dyn Sender, phase: Phase) -> Result<Counts, Error> {
        let mut counts = Counts::new(phase.start);
        let schedule = match self.job.sending {
            Sending::Rate(rate) => Some((Schedule::of_rate(phase.start, rate), samples_of(rate, phase))),
            Sending::PingPong | Sending::Unpaced => None,
        };
        let method = match self.job.wait {
            Wait::Block | Wait::Listener => WaitMethod::Sleep,
            Wait::Spin | Wait::Poll => WaitMethod::Spin,
        };
        loop {
            if self.stop.reason().is_some() {
                return Err(Error::Interrupted);
            }
            let number = counts.numbers;
            let (intended, now) = match schedule {
                Some((_, samples)) if number >= samples => break,
                Some((schedule, _)) => {
                    let due = schedule.due(number);
                    (due, SystemClock.wait_until(due, method))
                }
                None => {
                    let now = MonotonicNs::now();
                    (now, now)
                }
            };
            if now >= phase.given_up && (number > 0 || phase.is_empty()) {
                break;
            }
            if schedule.is_some() {
                counts.delay.record(now.since_ns(intended));
            }
            let sent = sender.send(&self.stamp(phase, number, intended, now))?;
            counts.dropped += u64::from(!sent);
            counts.numbers += 1;
            counts.last = now;
        }
        Ok(counts)
    }

    /// Sends one sample at a time; sends the next when the answer has arrived or timed out.
    fn ping(
        &self,
        sender: &mut dyn Sender,
        echoes: &mut dyn Receiver,
        phase: Phase,
        half_trips: &mut LatencyRecorder,
    ) -> Result<Counts, Error> {
        let mut counts = Counts::new(phase.start);
        let limit = ANSWER_LIMIT + Duration::from_nanos(self.job.data_len.saturating_mul(ANSWER_NS_PER_OCTET));
        loop {
            if self.stop.reason().is_some() {
                return Err(Error::Interrupted);
            }
            let now = MonotonicNs::now();
            if now >= phase.given_up && (counts.numbers > 0 || phase.is_empty()) {
                break;
            }
            let stamp = self.stamp(phase, counts.numbers, now, now);
            counts.dropped += u64::from(!sender.send(&stamp)?);
            counts.numbers += 1;
            counts.last = now;
            match self.wait_for_echo(echoes, &stamp, now.plus(limit))? {
                Some(back) => half_trips.record(back.since_ns(now) / 2),
                None => counts.unanswered += 1,
            }
        }
        Ok(counts)
    }

    fn wait_for_echo(
        &self,
        echoes: &mut dyn Receiver,
        stamp: &Stamp,
        deadline: MonotonicNs,
    ) -> Result<Option<MonotonicNs>, Error> {
        let mut back = None;
        while back.is_none() && !deadline.remaining().is_zero() && self.stop.reason().is_none() {
            echoes.receive(deadline.remaining().min(ECHO_POLL), &mut |echo, now| {
                if echo == *stamp {
                    back = Some(now);
                }
            })?;
        }
        Ok(back)
    }

    /// Records half round trips of scheduled samples, from the actual and from the intended send time, and counts
    /// corrupt echoes.
    fn listen(
        &self,
        echoes: &mut dyn Receiver,
        ended: &AtomicBool,
    ) -> Result<(LatencyRecorder, LatencyRecorder, Option<u64>), Error> {
        let (mut actual, mut intended) = (LatencyRecorder::new(0), LatencyRecorder::new(0));
        loop {
            let is_last = ended.load(Ordering::Relaxed);
            let before = actual.moments().count();
            echoes.receive(ECHO_POLL, &mut |echo, now| {
                if !echo.warm_up {
                    actual.record(now.0.saturating_sub(echo.sent_ns) / 2);
                    intended.record(now.0.saturating_sub(echo.intended_ns) / 2);
                }
            })?;
            if is_last && actual.moments().count() == before {
                return Ok((actual, intended, echoes.corrupt()));
            }
        }
    }

    fn stamp(&self, phase: Phase, number: u64, intended: MonotonicNs, sent: MonotonicNs) -> Stamp {
        Stamp {
            writer: self.publisher as u16,
            warm_up: phase.warm_up,
            number,
            intended_ns: intended.0,
            sent_ns: sent.0,
        }
    }

    fn published(
        &self,
        counts: Counts,
        phase: Phase,
        trips: Option<(LatencyRecorder, Option<LatencyRecorder>)>,
    ) -> Published {
        let (from_actual, from_intended) = trips.map_or((None, None), |(actual, intended)| (Some(actual), intended));
        Published {
            topic: self.topic,
            publisher: self.publisher,
            samples: counts.numbers,
            dropped: counts.dropped,
            unanswered: counts.unanswered,
            duration_ns: counts.last.since_ns(phase.start),
            delay: matches!(self.job.sending, Sending::Rate(_)).then_some(counts.delay),
            from_actual,
            from_intended,
            corrupt: None,
        }
    }
}

impl Counts {
    fn new(start: MonotonicNs) -> Self {
        Self { numbers: 0, dropped: 0, unanswered: 0, last: start, delay: LatencyRecorder::new(0) }
    }
}

/// Number of samples due within a phase: at least one, unless the phase has no length.
fn samples_of(rate: f64, phase: Phase) -> u64 {
    let seconds = phase.end.since_ns(phase.start) as f64 / 1e9;
    if seconds == 0.0 { 0 } else { ((rate * seconds).round() as u64).max(1) }
}

/// Sum over the writers of one publisher; `None` without writers.
pub(super) fn send_result<'a>(writers: impl Iterator<Item = &'a Published>) -> Option<SendResult> {
    let mut delay: Option<LatencyRecorder> = None;
    let mut result: Option<SendResult> = None;
    for writer in writers {
        let sum = result.get_or_insert_with(SendResult::default);
        sum.samples += writer.samples - writer.dropped;
        sum.dropped += writer.dropped;
        sum.unanswered_pings += writer.unanswered;
        sum.duration_ns = sum.duration_ns.max(writer.duration_ns);
        if let Some(own) = &writer.delay {
            delay.get_or_insert_with(|| LatencyRecorder::new(0)).merge(own);
        }
    }
    result.map(|result| SendResult { delay: delay.map(|delay| delay.result()), ..result })
}

/// Distribution over the writers of one publisher, if there is one.
pub(super) fn latency<'a>(
    writers: impl Iterator<Item = &'a Published>,
    of: impl Fn(&'a Published) -> Option<&'a LatencyRecorder>,
) -> Option<LatencyResult> {
    writers.filter_map(of).next().map(LatencyRecorder::result)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::mpsc::{SyncSender, sync_channel};

    use super::*;
    use crate::campaign::party::tests::job;

    /// Passes stamps on and drops every n-th one.
    struct Sink {
        stamps: SyncSender<Stamp>,
        drop_every: u64,
    }

    impl Sender for Sink {
        fn join(&mut self, _: &[SocketAddr], _: u32, _: MonotonicNs) -> Result<(), Error> {
            Ok(())
        }

        fn send(&mut self, stamp: &Stamp) -> Result<bool, Error> {
            let _ = self.stamps.try_send(*stamp);
            Ok(stamp.number % self.drop_every != self.drop_every - 1)
        }

        fn finish(&mut self, _: Duration) -> Result<(), Error> {
            Ok(())
        }
    }

    /// Echoes each stamp at once, and alters every third one.
    struct Mirror(std::sync::mpsc::Receiver<Stamp>);

    impl Receiver for Mirror {
        fn address(&self) -> Option<SocketAddr> {
            None
        }

        fn join(&mut self, _: u32, _: MonotonicNs) -> Result<(), Error> {
            Ok(())
        }

        fn receive(&mut self, _: Duration, on_sample: &mut dyn FnMut(Stamp, MonotonicNs)) -> Result<(), Error> {
            while let Ok(stamp) = self.0.try_recv() {
                let number = if stamp.number % 3 == 2 { u64::MAX } else { stamp.number };
                on_sample(Stamp { number, ..stamp }, MonotonicNs::now());
            }
            Ok(())
        }

        fn corrupt(&self) -> Option<u64> {
            Some(5)
        }
    }

    fn publish(job: &Job, drop_every: u64, echoes: bool) -> (Published, Vec<Stamp>) {
        let (stamps, sent) = sync_channel(1_000_000);
        let mut sink = Sink { stamps, drop_every };
        let stop = Stop::default();
        let (last_sent, told) = sync_channel(1);
        let window = Window::of(None, job.warm_up, job.duration);
        let publication = Publication { job, window, topic: 0, publisher: 1, stop: &stop, stack: 1 << 20, last_sent };
        let (published, stamps) = if echoes {
            (publication.run(&mut sink, Some(Box::new(Mirror(sent)))).unwrap(), Vec::new())
        } else {
            (publication.run(&mut sink, None).unwrap(), sent.try_iter().collect())
        };
        assert_eq!(told.try_iter().count(), 1, "the end of sending is reported once");
        (published, stamps)
    }

    #[test]
    fn schedule_starts_after_a_separately_numbered_warm_up() {
        let warm_up = Duration::from_millis(10);
        let job = Job { sending: Sending::Rate(1_000.0), warm_up, ..job() };
        let (published, stamps) = publish(&job, 5, false);
        let measured: Vec<_> = stamps.iter().filter(|stamp| !stamp.warm_up).collect();
        assert_eq!(measured.iter().map(|stamp| stamp.number).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        assert!(measured.windows(2).all(|pair| pair[1].intended_ns - pair[0].intended_ns == 1_000_000));
        assert!(stamps.iter().all(|stamp| stamp.writer == 1 && stamp.sent_ns >= stamp.intended_ns));
        assert!(stamps.first().is_some_and(|stamp| stamp.warm_up && stamp.number == 0));
        let sent = send_result([&published].into_iter()).unwrap();
        assert_eq!((sent.samples, sent.dropped, published.sent().samples), (8, 2, 10));
        assert_eq!(sent.delay.unwrap().count, 10);
    }

    #[test]
    fn unpaced_samples_have_no_schedule_and_consecutive_numbers() {
        let (published, stamps) = publish(&job(), u64::MAX, false);
        assert!(stamps.iter().map(|stamp| stamp.number).eq(0..stamps.len() as u64));
        let sent = send_result([&published].into_iter()).unwrap();
        assert!(sent.samples > 0 && sent.delay.is_none() && published.from_actual.is_none());
    }

    #[test]
    fn ping_counts_when_its_own_echo_arrives() {
        // The first three pings: the third is never answered and times out after half a second.
        let job = Job { sending: Sending::PingPong, duration: Duration::from_millis(400), ..job() };
        let (published, _) = publish(&job, u64::MAX, true);
        let sent = send_result([&published].into_iter()).unwrap();
        assert_eq!((sent.samples, sent.unanswered_pings), (3, 1));
        assert_eq!((published.from_actual.unwrap().moments().count(), published.corrupt), (2, Some(5)));
    }

    #[test]
    fn echoes_of_a_schedule_are_timed_from_both_starts() {
        let job = Job { sending: Sending::Rate(1_000.0), ..job() };
        let (published, _) = publish(&job, u64::MAX, true);
        let (actual, intended) = (published.from_actual.unwrap(), published.from_intended.unwrap());
        assert_eq!((actual.moments().count(), intended.moments().count()), (10, 10));
        assert!(intended.moments().mean() >= actual.moments().mean());
    }
}
