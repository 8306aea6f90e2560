//! What a writer does: the warm-up, the measurement, the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use peregrine_report::record::SendResult;
use peregrine_report::stats::LatencyResult;

use super::link::{Receiver, Sender};
use crate::campaign::job::{Job, Sending, Sent};
use crate::campaign::spec::Wait;
use crate::campaign::types::Stamp;
use crate::cli::option::WaitMethod;
use crate::clock::{Clock, MonotonicNs, SystemClock};
use crate::control::Stop;
use crate::error::Error;
use crate::pace::Schedule;
use crate::recorder::LatencyRecorder;

/// How long the last samples may take to be acknowledged.
const SETTLE_LIMIT: Duration = Duration::from_secs(15);
/// How long an answer may take, beside the time of its octets on a slow path.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// A slow path: a microsecond an octet, both ways.
const ANSWER_NS_PER_OCTET: u64 = 2_000;
/// How often somebody who waits for an echo looks at the request to stop.
const ECHO_POLL: Duration = Duration::from_millis(50);

/// One writer.
pub(super) struct Publication<'a> {
    pub(super) job: &'a Job,
    pub(super) topic: u32,
    pub(super) publisher: u32,
    pub(super) stop: &'a Stop,
    pub(super) stack: usize,
}

/// What it did in the measurement.
pub(super) struct Published {
    pub(super) topic: u32,
    pub(super) publisher: u32,
    samples: u64,
    dropped: u64,
    unanswered: u64,
    duration_ns: u64,
    delay: Option<LatencyRecorder>,
    /// Half round trips, where there are echoes.
    pub(super) from_actual: Option<LatencyRecorder>,
    pub(super) from_intended: Option<LatencyRecorder>,
}

/// A part of the run.
#[derive(Clone, Copy)]
struct Phase {
    warm_up: bool,
    start: MonotonicNs,
    end: MonotonicNs,
}

/// What was sent in a part of the run.
struct Counts {
    numbers: u64,
    dropped: u64,
    unanswered: u64,
    last: MonotonicNs,
    delay: LatencyRecorder,
}

impl Published {
    pub(super) fn sent(&self) -> Sent {
        Sent { topic: self.topic, publisher: self.publisher, samples: self.samples }
    }
}

impl Publication<'_> {
    pub(super) fn run(
        &self,
        mut sender: Box<dyn Sender>,
        echoes: Option<Box<dyn Receiver>>,
    ) -> Result<Published, Error> {
        let start = MonotonicNs::now();
        let middle = start.plus(self.job.warm_up);
        let warm_up = Phase { warm_up: true, start, end: middle };
        let measurement = Phase { warm_up: false, start: middle, end: middle.plus(self.job.duration) };
        match (self.job.sending, echoes) {
            (Sending::PingPong, Some(mut echoes)) => {
                let mut round_trips = LatencyRecorder::new(0);
                self.ping(&mut *sender, &mut *echoes, warm_up, &mut LatencyRecorder::new(0))?;
                let counts = self.ping(&mut *sender, &mut *echoes, measurement, &mut round_trips)?;
                sender.settle(SETTLE_LIMIT)?;
                Ok(self.published(counts, measurement, Some((round_trips, None))))
            }
            (Sending::PingPong, None) => Err(Error::Transfer("a ping-pong takes echoes".into())),
            (_, None) => {
                let counts = self.send_both(&mut *sender, warm_up, measurement)?;
                Ok(self.published(counts, measurement, None))
            }
            (_, Some(echoes)) => self.send_and_listen(&mut *sender, echoes, warm_up, measurement),
        }
    }

    /// Sends on one thread, and hears the echoes on another.
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
            let (actual, intended) = super::joined(listener)?;
            Ok(self.published(counts?, measurement, Some((actual, Some(intended)))))
        })
    }

    fn send_both(&self, sender: &mut dyn Sender, warm_up: Phase, measurement: Phase) -> Result<Counts, Error> {
        self.send(sender, warm_up)?;
        let counts = self.send(sender, measurement)?;
        sender.settle(SETTLE_LIMIT)?;
        Ok(counts)
    }

    /// Sends on the schedule, or as many as will go.
    fn send(&self, sender: &mut dyn Sender, phase: Phase) -> Result<Counts, Error> {
        let mut counts = Counts::new(phase.start);
        let schedule = match self.job.sending {
            Sending::Rate(rate) => Some((Schedule::of_rate(phase.start, rate), samples_of(rate, phase))),
            Sending::PingPong | Sending::Unpaced => None,
        };
        let method = match self.job.wait {
            Wait::Block => WaitMethod::Sleep,
            Wait::Spin => WaitMethod::Spin,
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
            // A sender that cannot keep up ends in time all the same; it may be one sample late.
            if now >= phase.end && number > 0 {
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

    /// One sample at a time, the next one when the answer has come or is given up.
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
            if now >= phase.end && counts.numbers > 0 {
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

    /// Half round trips of a schedule's samples, from the actual and from the intended send.
    fn listen(
        &self,
        echoes: &mut dyn Receiver,
        ended: &AtomicBool,
    ) -> Result<(LatencyRecorder, LatencyRecorder), Error> {
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
                return Ok((actual, intended));
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
        }
    }
}

impl Counts {
    fn new(start: MonotonicNs) -> Self {
        Self { numbers: 0, dropped: 0, unanswered: 0, last: start, delay: LatencyRecorder::new(0) }
    }
}

/// Samples that are due within a phase, one at least unless it has no length.
fn samples_of(rate: f64, phase: Phase) -> u64 {
    let seconds = phase.end.since_ns(phase.start) as f64 / 1e9;
    if seconds == 0.0 { 0 } else { ((rate * seconds).round() as u64).max(1) }
}

/// What all writers of one publisher have sent; `None` without any.
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

/// The distribution over all writers of one publisher, where there is one.
pub(super) fn latency<'a>(
    writers: impl Iterator<Item = &'a Published>,
    of: impl Fn(&'a Published) -> Option<&'a LatencyRecorder>,
) -> Option<LatencyResult> {
    writers.filter_map(of).next().map(LatencyRecorder::result)
}
