//! A sender connected to its responder, for any number of runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use peregrine_report::record::{PayloadUse, ProbeOutcome, ResourceUse, SendResult, Side, SideResult};

use super::book::{Answers, Book};
use super::offset::one_way;
use super::seen::MAX_SAMPLES;
use super::sender::{Load, Outgoing, Sent, send_all};
use super::stamp::{Kind, STAMP_LEN, Stamp};
use super::{clock_identity, wire_meter};
use crate::cli::option::WaitMethod;
use crate::clock::{MonotonicNs, SystemClock, process_cpu_ns};
use crate::control::Stop;
use crate::error::Error;
use crate::messaging::{Messaging, Sample, SampleReader, SampleWriter, Topic, WriteError};
use crate::pace::Schedule;
use crate::payload;
use crate::plan::{OVERHEAD_LEN, TestPlan};
use crate::recorder::{Collector, LatencyRecorder};
use crate::resources::ResourceMeter;
use crate::selftest;
use crate::terminal::message;
use crate::threads::online_cores;
use crate::wire::{WireMeter, spent};
use crate::wording::{counted, percentile_us};

/// Interval between repeated requests.
const RETRY: Duration = Duration::from_millis(50);
/// Longest wait for the answers and the report after the last sample.
const DRAIN: Duration = Duration::from_secs(2);
/// Time after which missing answers count as lost.
const QUIET: Duration = Duration::from_millis(200);
/// Time between the start of a run and its first sample.
const LEAD: Duration = Duration::from_millis(5);
/// Time in which threads hand over their values; later ones count for the next line.
const HAND_OVER: Duration = Duration::from_millis(20);
/// Interval between two progress lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Settings of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunPlan {
    pub(super) rate_per_s: f64,
    pub(super) time: Duration,
    /// Every n-th sample requests an answer.
    pub(super) probe_every: u64,
    pub(super) wait: WaitMethod,
}

/// A sender connected to a responder.
pub(super) struct Session<'a, M: Messaging> {
    writer: M::Writer,
    _listening: <M::Reader as SampleReader>::Listening,
    book: Arc<Book>,
    wire: WireMeter,
    same_clock: bool,
    data_len: usize,
    /// Whether payloads are written and checked.
    patterns: bool,
    /// As a record stores it, with the cost.
    payload: PayloadUse,
    run: u32,
    stop: &'a Stop,
}

impl<'a, M: Messaging> Session<'a, M> {
    /// Connects to the responder.
    pub(super) fn open(plan: &TestPlan, messaging: &M, patterns: bool, stop: &'a Stop) -> Result<Self, Error> {
        let mut writer = messaging.create_writer(Topic::Throughput)?;
        let mut reader = messaging.create_reader(Topic::Latency)?;
        let deadline = MonotonicNs::now().plus(plan.timeouts.discovery);
        let mut matched = [false; 2];
        while matched != [true; 2] {
            matched = [writer.wait_for_readers(1, RETRY)?, reader.wait_for_writers(1, RETRY)?];
            check_wait(plan, deadline, stop)?;
        }
        let book = Arc::new(Book::default());
        let listening = {
            let book = Arc::clone(&book);
            reader.listen(move |sample| book.on_sample(sample))?
        };
        let data_len = plan.data.max_len;
        let mut session = Self {
            writer,
            _listening: listening,
            book,
            wire: wire_meter(plan, messaging),
            same_clock: false,
            data_len,
            patterns,
            payload: payload_use(patterns, data_len),
            run: 0,
            stop,
        };
        let number = MonotonicNs::now().0;
        let clock = loop {
            session.ask(Kind::Hello, number)?;
            if let Some(clock) = session.book.wait_for_hello(RETRY) {
                break clock;
            }
            check_wait(plan, deadline, stop)?;
        };
        session.same_clock = clock != 0 && clock == clock_identity();
        Ok(session)
    }

    /// Sends on schedule for the planned time, and returns the results of both sides.
    pub(super) fn run(&mut self, plan: &RunPlan) -> Result<(SideResult, SideResult), Error> {
        self.run += 1;
        let samples = ((plan.rate_per_s * plan.time.as_secs_f64()).round() as u64).clamp(1, MAX_SAMPLES);
        let mut collector = Collector::new(0);
        self.book.begin(Answers::new(self.run, self.patterns, collector.recorder()));
        let resources = ResourceMeter::of_this_process();
        let wire_before = self.wire.read();
        let (cpu_before, before) = (process_cpu_ns(), MonotonicNs::now());
        let start = before.plus(LEAD);
        let load = Load {
            schedule: Schedule::of_rate(start, plan.rate_per_s),
            samples,
            probe_every: plan.probe_every.max(1),
            // A tenth more than planned; a later sender cannot keep up.
            end: start.plus(plan.time.mul_f64(1.1)).plus(Duration::from_millis(10)),
            wait: plan.wait,
        };
        let (sent, resources, intended) = self.send(&load, collector, resources)?;
        let (cpu_ns, wall_ns) = (process_cpu_ns() - cpu_before, MonotonicNs::now().since_ns(before));
        let report = self.drain(sent.probes)?;
        let Some(answers) = self.book.end() else { return Err(Error::Transfer("the run was lost".into())) };
        let payload = PayloadUse { corrupt: answers.corrupt, ..self.payload };
        let answered = answers.answered();
        let one_way = one_way(&answers.times, self.same_clock);
        let publisher = SideResult {
            side: Side::Publisher,
            data_len: self.data_len as u64,
            cpu_percent: cpu_ns as f64 * 100.0 / wall_ns.max(1) as f64 / online_cores() as f64,
            send: Some(SendResult {
                samples: sent.samples,
                dropped: sent.dropped,
                unanswered_pings: sent.probes.saturating_sub(answered),
                duration_ns: sent.duration_ns,
                delay: Some(sent.delay.result()),
            }),
            probes: Some(outcome(plan, &load, &sent, answers, intended)),
            one_way,
            resources: Some(resources),
            wire: Some(spent(&wire_before, self.wire.read())),
            payload: Some(payload),
            ..SideResult::default()
        };
        Ok((publisher, self.completed(report, &sent, plan.rate_per_s)))
    }

    /// Completes the responder's report with data that only the sender has.
    fn completed(&self, report: SideResult, sent: &Sent, rate_per_s: f64) -> SideResult {
        let mut subscriber = SideResult { data_len: self.data_len as u64, ..report };
        if let Some(received) = &mut subscriber.throughput {
            received.lost = sent.samples.saturating_sub(received.samples);
            received.duration_ns = span_of_schedule(received.duration_ns, sent.samples + sent.dropped, rate_per_s);
        }
        if let Some(theirs) = &mut subscriber.payload {
            *theirs = PayloadUse { corrupt: theirs.corrupt, checked: theirs.checked, ..self.payload };
        }
        subscriber
    }

    /// Announces the end of this sender to the responder. Without this message the responder ends by timeout.
    pub(super) fn close(mut self) {
        for _ in 0..2 {
            let _ = self.ask(Kind::Bye, 0);
        }
        let _ = self.writer.wait_for_acknowledgments(QUIET);
    }

    fn send(
        &mut self,
        load: &Load,
        collector: Collector,
        resources: ResourceMeter,
    ) -> Result<(Sent, ResourceUse, Intervals), Error> {
        let done = AtomicBool::new(false);
        let mut intervals = Intervals { collector, total: LatencyRecorder::new(0), resources };
        let (run, patterns, stop) = (self.run, self.patterns, self.stop);
        let mut bytes = vec![0; self.data_len - OVERHEAD_LEN];
        let writer = &mut self.writer;
        let mut send = |outgoing: &Outgoing| {
            if patterns {
                payload::write(&mut bytes[STAMP_LEN..], outgoing.number);
            }
            Stamp::new(Kind::Data, run, outgoing.intended.0).write_to(&mut bytes);
            let sample = Sample {
                key: [0; 4],
                entity_id: 0,
                seq_num: outgoing.number as u32,
                timestamp: MonotonicNs::now().0,
                latency_ping: if outgoing.is_probe { 0 } else { Sample::NO_PING },
                origin: Sample::NO_ORIGIN,
                payload: &bytes,
            };
            match writer.write(&sample) {
                Ok(()) => Ok(true),
                Err(WriteError::WouldBlock) => Ok(false),
                Err(error) => Err(Error::Transfer(error.to_string())),
            }
        };
        let sent = std::thread::scope(|scope| {
            let watching = scope.spawn(|| intervals.watch(&done));
            set_timer_slack();
            let sent = send_all(load, &SystemClock, stop, &mut send);
            done.store(true, Ordering::Release);
            watching.thread().unpark();
            sent
        });
        self.writer.flush().map_err(|error| Error::Transfer(error.to_string()))?;
        // Read before the results are processed, which would count as well.
        let resources = intervals.resources.result();
        Ok((sent?, resources, intervals))
    }

    /// Waits for outstanding answers and for the responder's report.
    fn drain(&mut self, probes: u64) -> Result<SideResult, Error> {
        let deadline = MonotonicNs::now().plus(DRAIN);
        let mut last = (self.book.answered(), MonotonicNs::now());
        while last.0 < probes && !deadline.remaining().is_zero() {
            std::thread::sleep(Duration::from_millis(1));
            let answered = self.book.answered();
            if answered != last.0 {
                last = (answered, MonotonicNs::now());
            } else if MonotonicNs::now().since_ns(last.1) > QUIET.as_nanos() as u64 {
                break;
            }
        }
        let deadline = MonotonicNs::now().plus(DRAIN);
        while !deadline.remaining().is_zero() && self.stop.reason().is_none() {
            self.ask(Kind::Report, 0)?;
            if let Some(report) = self.book.wait_for_report(self.run, RETRY) {
                return Ok(report);
            }
        }
        match self.stop.reason() {
            Some(_) => Err(Error::Interrupted),
            None => Err(Error::Partner(format!("The responder has not reported within {} s.", DRAIN.as_secs()))),
        }
    }

    /// A full buffer or a missing responder is not an error: requests are repeated.
    fn ask(&mut self, kind: Kind, number: u64) -> Result<(), Error> {
        let mut bytes = vec![0; self.data_len - OVERHEAD_LEN];
        Stamp::new(kind, self.run, number).write_to(&mut bytes);
        let sample = Sample {
            key: [0; 4],
            entity_id: 0,
            seq_num: 0,
            timestamp: 0,
            latency_ping: 0,
            origin: Sample::NO_ORIGIN,
            payload: &bytes,
        };
        match self.writer.write(&sample).and_then(|()| self.writer.flush()) {
            Ok(()) | Err(WriteError::WouldBlock | WriteError::PartnerGone(_)) => Ok(()),
            Err(WriteError::Failed(text)) => Err(Error::Transfer(text)),
        }
    }
}

/// Time over which a responder received the samples of a schedule: at least as long as the schedule, so that a late
/// first sample does not make the received rate exceed the offered one.
fn span_of_schedule(received_ns: u64, due: u64, rate_per_s: f64) -> u64 {
    received_ns.max((due as f64 * 1e9 / rate_per_s).ceil() as u64)
}

fn payload_use(patterns: bool, data_len: usize) -> PayloadUse {
    let cost = patterns.then(|| selftest::pattern_cost(data_len - OVERHEAD_LEN - STAMP_LEN));
    PayloadUse {
        written: patterns,
        checked: patterns,
        max_octets: None,
        corrupt: 0,
        write_ns: cost.map_or(0.0, |cost| cost.write_ns),
        check_ns: cost.map_or(0.0, |cost| cost.check_ns),
    }
}

fn outcome(plan: &RunPlan, load: &Load, sent: &Sent, answers: Answers, intended: Intervals) -> ProbeOutcome {
    let seconds = sent.duration_ns as f64 / 1e9;
    let (answered, stale, from_actual) = (answers.answered(), answers.stale, answers.from_actual.result());
    // Dropping a recorder hands over its last values.
    drop(answers);
    ProbeOutcome {
        offered_per_s: plan.rate_per_s,
        achieved_per_s: if seconds > 0.0 { sent.samples as f64 / seconds } else { 0.0 },
        probe_every: load.probe_every,
        sent: sent.probes,
        answered,
        stale,
        from_intended: intended.into_total().result(),
        from_actual,
    }
}

/// Combines the values of a run while it lasts, outside the measuring threads.
struct Intervals {
    collector: Collector,
    total: LatencyRecorder,
    resources: ResourceMeter,
}

impl Intervals {
    /// Prints a line per second.
    fn watch(&mut self, done: &AtomicBool) {
        let start = MonotonicNs::now();
        let mut next = start.plus(INTERVAL);
        loop {
            std::thread::park_timeout(next.remaining());
            if done.load(Ordering::Acquire) {
                return;
            }
            if !next.remaining().is_zero() {
                continue;
            }
            next = next.plus(INTERVAL);
            self.resources.tick();
            self.collector.ask();
            std::thread::sleep(HAND_OVER);
            let interval = self.collector.take();
            let result = interval.result();
            if result.count > 0 {
                message(format_args!(
                    "{:>4} s: {}, round trip from the intended send (us): p50 {}, p99 {}, max {:.1}",
                    MonotonicNs::now().since_ns(start) / 1_000_000_000,
                    counted(result.count, "answer"),
                    percentile_us(&result, 0.5, 1),
                    percentile_us(&result, 0.99, 1),
                    result.max_ns as f64 / 1e3
                ));
            }
            self.total.merge(&interval);
        }
    }

    /// All values, after every recorder was dropped.
    fn into_total(mut self) -> LatencyRecorder {
        let rest = self.collector.take();
        self.total.merge(&rest);
        self.total
    }
}

/// By default a timer of an ordinary thread may be 50 us late. If the kernel refuses this setting, the recorded delays
/// show it.
fn set_timer_slack() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

fn check_wait(plan: &TestPlan, deadline: MonotonicNs, stop: &Stop) -> Result<(), Error> {
    if stop.reason().is_some() {
        return Err(Error::Interrupted);
    }
    if deadline.remaining().is_zero() {
        return Err(Error::Partner(format!(
            "No responder has answered within {} s (-discoveryTimeout). Is 'perftest respond' running, in domain {}, with \
             the same options?",
            plan.timeouts.discovery.as_secs_f64(),
            plan.data.domain
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_rate_never_exceeds_the_offered_one() {
        // Eight samples at 30/s, the first of which was late.
        let span_ns = span_of_schedule(226_000_000, 8, 30.0);
        assert!(8.0 * 1e9 / span_ns as f64 <= 30.0, "{span_ns}");
        assert_eq!(span_of_schedule(900_000_000, 8, 30.0), 900_000_000, "samples that arrive more slowly take longer");
    }
}
