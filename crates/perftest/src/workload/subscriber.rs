//! Main thread of the receiving side: discovery, announcements, interval rows, end.

use std::sync::Arc;
use std::time::Duration;

use peregrine_report::record::{PayloadUse, SecurityUse, Side, SideResult};

use super::diagnostics;
use super::meter::{CpuMeter, IntervalMeter};
use super::reception::{Event, Progress, Reception, SizeResult};
use super::side::{STOP_POLL, SharedOutput, discover, location_hint, status};
use crate::clock::MonotonicNs;
use crate::control::{ControlCounter, ProcessNumber, Sentinel, Stop};
use crate::error::Error;
use crate::messaging::{Messaging, Sample, SampleReader, SampleWriter, Topic, WriteError};
use crate::output::Quantity;
use crate::payload;
use crate::plan::{OVERHEAD_LEN, SubscriberPlan, TestPlan};
use crate::selftest;
use crate::wire::WireSpan;

/// Interval between two rows.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time to the second announcement; doubles from one to the next, up to [`LAST_ANNOUNCEMENT_GAP`].
const FIRST_ANNOUNCEMENT_GAP: Duration = Duration::from_millis(20);
const LAST_ANNOUNCEMENT_GAP: Duration = Duration::from_secs(1);
/// After the end, the subscriber leaves if no publisher repeats its request for this time, which is longer than the
/// interval between a publisher's attempts.
const LINGER_QUIET: Duration = Duration::from_millis(150);
/// Longest time that a subscriber stays after the end.
const LINGER_TOTAL: Duration = Duration::from_secs(2);

/// Runs a subscriber to its end.
pub(super) fn run<M: Messaging>(
    plan: &TestPlan,
    subscriber: SubscriberPlan,
    messaging: &M,
    output: &SharedOutput,
    stop: &Stop,
) -> Result<(), Error> {
    let mut pong_writer = messaging.create_writer(Topic::Latency)?;
    let mut reader = messaging.create_reader(Topic::Throughput)?;
    let mut announcer = messaging.create_writer(Topic::Announcement)?;
    diagnostics::report_limits(plan.diagnostics, messaging);

    status(&format!("Waiting to discover {} publishers ...", subscriber.publishers));
    let deadline = MonotonicNs::now().plus(plan.timeouts.discovery);
    let publishers = subscriber.publishers;
    let discovered = discover(deadline, stop, |step| reader.wait_for_writers(publishers, step))?
        && discover(deadline, stop, |step| pong_writer.wait_for_readers(1, step))?
        && discover(deadline, stop, |step| announcer.wait_for_readers(publishers, step))?;
    if !discovered {
        return Err(missing_partners(plan, subscriber));
    }

    let progress = Arc::new(Progress::default());
    let mut reception = Reception::new(subscriber, plan.patterns, pong_writer, Arc::clone(&progress));
    let _listening = reader.listen(move |sample| reception.on_sample(sample))?;
    status("Waiting for data ...");
    let now = MonotonicNs::now();
    let mut run = SubscriberRun {
        plan,
        subscriber,
        announcer,
        progress,
        output,
        stop,
        intervals: IntervalMeter::default(),
        cpu: CpuMeter::start(),
        measured: 0,
        corrupt: 0,
        told_of_payloads: None,
        cut_short: false,
        last_arrivals: 0,
        last_sign_of_life: now,
        discovery_deadline: deadline,
        wire: WireSpan::new(messaging.wire_counter(), messaging.name()),
        security: messaging.security(),
    };
    let result = run.receive();
    diagnostics::report_counters(plan.diagnostics, messaging);
    status("Finishing test...");
    status("Test ended.");
    result
}

struct SubscriberRun<'a, W> {
    plan: &'a TestPlan,
    subscriber: SubscriberPlan,
    announcer: W,
    progress: Arc<Progress>,
    output: &'a SharedOutput,
    stop: &'a Stop,
    intervals: IntervalMeter,
    cpu: CpuMeter,
    /// Samples of all ended sizes.
    measured: u64,
    /// Corrupt samples among them.
    corrupt: u64,
    /// The last printed remark on checked payloads.
    told_of_payloads: Option<String>,
    cut_short: bool,
    last_arrivals: u64,
    last_sign_of_life: MonotonicNs,
    discovery_deadline: MonotonicNs,
    wire: WireSpan,
    security: Option<SecurityUse>,
}

impl<W: SampleWriter> SubscriberRun<'_, W> {
    fn receive(&mut self) -> Result<(), Error> {
        let mut announcements = Announcements::new();
        // Sent even if data already arrives: the publisher must learn of this subscriber.
        self.announce(&announcements.process.introduce(self.subscriber.id))?;
        let mut next_interval = MonotonicNs::now().plus(INTERVAL);
        loop {
            // A publisher may have started when no announcement could reach it.
            let heard = self.progress.publishers_heard() == u64::from(self.subscriber.publishers);
            if !heard && announcements.is_due() {
                self.announce(&announcements.process.introduce(self.subscriber.id))?;
            }
            let wake =
                next_interval.min(MonotonicNs::now().plus(if heard { STOP_POLL } else { FIRST_ANNOUNCEMENT_GAP }));
            match self.progress.wait_until(wake) {
                Some(Event::Fault(text)) => status(&text),
                Some(Event::Conflict(text)) => return self.give_up(Error::Partner(text)),
                Some(Event::EndedAgain { sentinel, round }) => self.confirm(sentinel, round)?,
                Some(Event::Ended { sentinel: Sentinel::Finished, round, result }) => {
                    return self.finish(round, &result);
                }
                Some(Event::Ended { sentinel, round, result }) => {
                    self.report(&result);
                    self.confirm(sentinel, round)?;
                }
                None => {}
            }
            if self.stop.reason().is_some() {
                return self.give_up(Error::Interrupted);
            }
            if let Err(error) = self.check_silence() {
                return self.give_up(error);
            }
            let now = MonotonicNs::now();
            if now >= next_interval {
                next_interval = next_interval.plus(INTERVAL).max(now);
                self.print_interval(now);
            }
        }
    }

    /// The regular end: prints the result, and stays until every publisher has the confirmation.
    fn finish(&mut self, round: u32, result: &SizeResult) -> Result<(), Error> {
        self.report(result);
        self.confirm(Sentinel::Finished, round)?;
        let acknowledged = self.announcer.wait_for_acknowledgments(LINGER_TOTAL)?;
        // Sockets have no acknowledgments. With DDS, a subscriber that stays longer would be discovered by the next
        // publisher of a script.
        if self.plan.transport.raw || !acknowledged {
            self.linger()?;
        }
        if self.measured == 0 {
            return Err(Error::NoData("No sample was received.".into()));
        }
        if self.corrupt > 0 {
            return Err(Error::Transfer(format!(
                "{} of {} samples were corrupt: something between the two sides alters or mixes payloads.",
                self.corrupt, self.measured
            )));
        }
        Ok(())
    }

    /// Stays until no publisher has repeated its request for a while.
    fn linger(&mut self) -> Result<(), Error> {
        let end = MonotonicNs::now().plus(LINGER_TOTAL);
        while !end.remaining().is_zero() {
            let quiet = MonotonicNs::now().plus(LINGER_QUIET).min(end);
            match self.progress.wait_until(quiet) {
                Some(Event::EndedAgain { sentinel, round }) => self.confirm(sentinel, round)?,
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// The early end: prints the results so far, and informs the publishers that this subscriber leaves.
    fn give_up(&mut self, error: Error) -> Result<(), Error> {
        self.cut_short = true;
        let result = self.progress.result_so_far();
        if result.throughput.samples > 0 || self.measured == 0 {
            self.report(&result);
        }
        // The reason for ending takes precedence over a failed announcement.
        let _ = self.announce(&Sentinel::Finished.sample(self.subscriber.id, 0, 0));
        Err(error)
    }

    fn report(&mut self, size: &SizeResult) {
        let nothing = size.throughput.samples == 0;
        self.measured += size.throughput.samples;
        self.corrupt += size.corrupt;
        let result = SideResult {
            side: Side::Subscriber,
            data_len: if nothing { self.plan.data.max_len } else { size.data_len } as u64,
            cut_short: self.cut_short,
            cpu_percent: self.cpu.total_percent(),
            throughput: Some(size.throughput.clone()),
            resources: Some(self.cpu.resources()),
            wire: Some(self.wire.spent()),
            payload: Some(payload_use(size)),
            security: self.security.clone(),
            ..SideResult::default()
        };
        let mut output = self.output.lock();
        output.throughput_summary(&result);
        output.record(&result);
        drop(output);
        let (duplicate, reordered) = (size.throughput.duplicate, size.throughput.reordered);
        if duplicate > 0 || reordered > 0 {
            status(&format!("Duplicate samples: {duplicate}, reordered samples: {reordered}"));
        }
        self.report_payloads(size);
        self.intervals = IntervalMeter::default();
        self.cpu = CpuMeter::start();
        self.wire.begin();
    }

    /// Prints a remark once, and again if it changes with a later size.
    fn report_payloads(&mut self, size: &SizeResult) {
        let unchecked = size.throughput.samples.saturating_sub(size.checked);
        let text = if size.throughput.samples == 0 {
            return;
        } else if !self.plan.patterns {
            "Payloads were not checked (-noPatterns).".to_owned()
        } else if size.corrupt > 0 {
            format!("Corrupt samples: {} of {}.", size.corrupt, size.checked)
        } else if unchecked > 0 {
            "Payloads were not checked of every publisher: one does not announce that it writes patterns. RTI Perftest, \
             -loadDataFromFile and -noPatterns do not."
                .to_owned()
        } else {
            format!("Payloads were checked and intact, up to {} bytes of each sample.", payload::MAX_LEN)
        };
        if self.told_of_payloads.as_ref() != Some(&text) {
            status(&text);
            self.told_of_payloads = Some(text);
        }
    }

    fn print_interval(&mut self, now: MonotonicNs) {
        let totals = self.progress.totals();
        let cpu_percent = self.cpu.interval_percent();
        let row = self.intervals.tick(now, totals, cpu_percent);
        if totals.samples == 0 {
            return;
        }
        let mut output = self.output.lock();
        output.begin(Quantity::Throughput, totals.data_len);
        if let Some(row) = row {
            output.throughput_interval(&row);
        }
    }

    /// A missing or ended publisher does not block the subscriber without limit.
    fn check_silence(&mut self) -> Result<(), Error> {
        let now = MonotonicNs::now();
        let arrivals = self.progress.arrivals();
        if arrivals != self.last_arrivals {
            self.last_arrivals = arrivals;
            self.last_sign_of_life = now;
        }
        let heard = self.progress.publishers_heard();
        if heard < u64::from(self.subscriber.publishers) && (arrivals == 0 || heard > 0) {
            return if now < self.discovery_deadline {
                Ok(())
            } else {
                Err(missing_partners(self.plan, self.subscriber))
            };
        }
        let partner = self.plan.timeouts.partner;
        // The publisher pauses between the warm-up and the first sample.
        let patience = if heard > 0 { partner } else { partner + self.plan.timeouts.start_delay };
        if now.since_ns(self.last_sign_of_life) > patience.as_nanos() as u64 {
            return Err(Error::Partner(format!(
                "No publisher has sent anything for {} s (-partnerTimeout), nor announced the end.",
                patience.as_secs_f64()
            )));
        }
        Ok(())
    }

    fn confirm(&mut self, sentinel: Sentinel, round: u32) -> Result<(), Error> {
        let counter = ControlCounter { round, attempt: 0 }.to_timestamp();
        self.announce(&sentinel.sample(self.subscriber.id, 0, counter))
    }

    /// A missing or departed publisher is not an error: announcements are repeated.
    fn announce(&mut self, sample: &Sample<'_>) -> Result<(), Error> {
        match self.announcer.write(sample).and_then(|()| self.announcer.flush()) {
            Ok(()) | Err(WriteError::WouldBlock | WriteError::PartnerGone(_)) => Ok(()),
            Err(WriteError::Failed(text)) => Err(Error::Transfer(text)),
        }
    }
}

fn payload_use(size: &SizeResult) -> PayloadUse {
    let checked = size.checked > 0 && size.checked >= size.throughput.samples;
    let cost = checked.then(|| selftest::partial_pattern_cost(size.data_len.saturating_sub(OVERHEAD_LEN)));
    PayloadUse {
        // As far as this side knows.
        written: checked,
        checked,
        corrupt: size.corrupt,
        max_octets: Some(payload::MAX_LEN as u64),
        check_ns: cost.map_or(0.0, |cost| cost.check_ns),
        ..PayloadUse::default()
    }
}

/// Times of this subscriber's repeated announcements.
struct Announcements {
    /// Distinguishes this process from another one with the same number.
    process: ProcessNumber,
    next: MonotonicNs,
    gap: Duration,
}

impl Announcements {
    fn new() -> Self {
        Self {
            process: ProcessNumber::of_this_process(),
            next: MonotonicNs::now().plus(FIRST_ANNOUNCEMENT_GAP),
            gap: FIRST_ANNOUNCEMENT_GAP * 2,
        }
    }

    fn is_due(&mut self) -> bool {
        let due = MonotonicNs::now() >= self.next;
        if due {
            self.next = MonotonicNs::now().plus(self.gap);
            self.gap = (self.gap * 2).min(LAST_ANNOUNCEMENT_GAP);
        }
        due
    }
}

fn missing_partners(plan: &TestPlan, subscriber: SubscriberPlan) -> Error {
    Error::Partner(format!(
        "{} publishers have not appeared within {} s (-discoveryTimeout). Are they running, in domain {}, with the same \
         transport and addresses?{}",
        subscriber.publishers,
        plan.timeouts.discovery.as_secs_f64(),
        plan.data.domain,
        location_hint(plan)
    ))
}
