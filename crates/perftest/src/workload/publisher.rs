//! The sending side: discovery, warm-up, send loop, end.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use peregrine_report::record::{PayloadUse, SendResult, Side, SideResult};
use peregrine_report::stats::LatencyResult;

use super::latency::PingBook;
use super::payload::{PayloadSource, number_of};
use super::side::{STOP_POLL, SharedOutput, discover, location_hint, status};
use super::turns::{Keys, PingSchedule};
use super::{diagnostics, serialization};
use crate::clock::MonotonicNs;
use crate::control::{AnnouncementBoard, ControlCounter, ProcessNumber, Sentinel, Stop, StopReason, Waited};
use crate::error::Error;
use crate::messaging::{Messaging, Sample, SampleReader, SampleWriter, Topic, WriteError};
use crate::pace::{Pacer, SparseClock};
use crate::payload;
use crate::plan::{OVERHEAD_LEN, PublisherPlan, TestPlan};
use crate::recorder::LatencyRecorder;
use crate::selftest;
use crate::wire::WireSpan;
use crate::wording::{NO_LATENCY, counted, percentile_us, thin_percentiles, was};

/// Most transmissions of the end of the test.
const FINISHED_ATTEMPTS: u32 = 50;
/// Interval between two of them.
const END_RETRY: Duration = Duration::from_millis(100);
/// Time that a best-effort ping waits for its answer before the next is sent.
const BEST_EFFORT_ANSWER: Duration = Duration::from_millis(200);
/// Time for the only answer of a test to arrive after the end was confirmed.
const LAST_ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Runs a publisher to its end.
pub(super) fn run<M: Messaging>(
    plan: &TestPlan,
    publisher: &PublisherPlan,
    messaging: &M,
    output: &SharedOutput,
    stop: &Arc<Stop>,
) -> Result<(), Error> {
    let measures_latency = publisher.id == 0;
    let payload = PayloadSource::open(publisher.payload_file.as_ref(), plan.patterns)?;
    let mut writer = messaging.create_writer(Topic::Throughput)?;
    let mut pong_reader = measures_latency.then(|| messaging.create_reader(Topic::Latency)).transpose()?;
    let mut announcement_reader = messaging.create_reader(Topic::Announcement)?;
    diagnostics::report_limits(plan.diagnostics, messaging);

    status(&format!("Waiting to discover {} subscribers ...", publisher.subscribers));
    let deadline = MonotonicNs::now().plus(plan.timeouts.discovery);
    let subscribers = publisher.subscribers;
    let mut discovered = discover(deadline, stop, |step| writer.wait_for_readers(subscribers, step))?;
    if let Some(reader) = &mut pong_reader {
        discovered = discovered && discover(deadline, stop, |step| reader.wait_for_writers(subscribers, step))?;
    }
    discovered =
        discovered && discover(deadline, stop, |step| announcement_reader.wait_for_writers(subscribers, step))?;
    if !discovered {
        return Err(missing_partners(plan, publisher, &BTreeSet::new()));
    }

    let board = Arc::new(AnnouncementBoard::new(publisher.subscribers, Arc::clone(stop)));
    let _announcements = {
        let board = Arc::clone(&board);
        announcement_reader.listen(move |sample| board.on_announcement(sample))?
    };
    status("Waiting for subscribers announcement ...");
    let all_there = match board.wait_for_all(deadline.remaining()) {
        // Readers that were matched first may belong to an earlier test.
        Ok(Waited::Done) => match discover(deadline, stop, |step| writer.wait_for_readers(subscribers, step)) {
            Ok(false) => Err(match stop.reason() {
                Some(reason) => stopped(reason, &board),
                None => missing_partners(plan, publisher, &board.present()),
            }),
            found => found.map(drop),
        },
        Ok(Waited::TimeOver) => Err(missing_partners(plan, publisher, &board.present())),
        Ok(Waited::Stopped(reason)) => Err(stopped(reason, &board)),
        Err(fault) => Err(fault),
    };
    if let Err(error) = all_there {
        call_off(&mut writer, publisher);
        return Err(error);
    }

    let intervals = (measures_latency && output.lock().wants_intervals()).then(|| output.clone());
    let book = Arc::new(PingBook::new(publisher.id, intervals));
    let pongs = Pongs::start(plan, publisher, pong_reader, &book)?;
    let mut run = PublisherRun {
        plan,
        publisher,
        messaging,
        payload,
        writer,
        pongs,
        book,
        board,
        output,
        stop,
        last_seq_num: u32::MAX,
        silence: Duration::ZERO,
        wire: WireSpan::new(messaging.wire_counter(), messaging.name()),
    };
    run.warm_up()?;
    run.test()
}

/// Informs the present subscribers that no test will follow. The reason is known already, so a failed write does not
/// matter.
fn call_off(writer: &mut impl SampleWriter, publisher: &PublisherPlan) {
    let _ = writer.write(&Sentinel::Finished.sample(publisher.id, u32::MAX, 0)).and_then(|()| writer.flush());
    let _ = writer.wait_for_acknowledgments(END_RETRY);
}

/// How answers to pings are received.
enum Pongs<R: SampleReader> {
    /// This publisher receives none.
    None,
    /// The send loop receives each answer itself.
    Inline(R),
    /// A thread of the transport receives them.
    Listening { _listening: R::Listening },
}

impl<R: SampleReader> Pongs<R> {
    fn start(
        plan: &TestPlan,
        publisher: &PublisherPlan,
        reader: Option<R>,
        book: &Arc<PingBook>,
    ) -> Result<Self, Error> {
        let Some(reader) = reader else { return Ok(Self::None) };
        if publisher.latency_test && plan.receive.read_thread {
            return Ok(Self::Inline(reader));
        }
        let book = Arc::clone(book);
        let awaiting = publisher.latency_test;
        let listening = reader.listen(move |sample| book.on_pong(sample, awaiting))?;
        Ok(Self::Listening { _listening: listening })
    }
}

struct PublisherRun<'a, M: Messaging> {
    plan: &'a TestPlan,
    publisher: &'a PublisherPlan,
    messaging: &'a M,
    payload: PayloadSource,
    writer: M::Writer,
    pongs: Pongs<M::Reader>,
    book: Arc<PingBook>,
    board: Arc<AnnouncementBoard>,
    output: &'a SharedOutput,
    stop: &'a Stop,
    /// Sequence number of the last data sample of the current size.
    last_seq_num: u32,
    /// Time without an answer since the last one.
    silence: Duration,
    wire: WireSpan,
}

/// Result of the send loop at one size.
#[derive(Debug, Default)]
struct Sent {
    samples: u64,
    dropped: u64,
    pings: u64,
    unanswered: u64,
    duration_ns: u64,
}

impl<M: Messaging> PublisherRun<'_, M> {
    fn warm_up(&mut self) -> Result<(), Error> {
        let largest = self.publisher.sizes.iter().copied().max().unwrap_or(OVERHEAD_LEN);
        let computed = self.messaging.initial_burst(self.publisher.batching.samples_for(largest));
        let count = self.publisher.initial_burst.unwrap_or(computed.max(self.plan.data.instances.into()));
        status(&format!("Sending {count} initialization pings ..."));
        let process = ProcessNumber::of_this_process();
        let introduction = if self.payload.writes_patterns() {
            process.introduce_with_patterns(self.publisher.id)
        } else {
            process.introduce(self.publisher.id)
        };
        for _ in 0..count {
            if self.stop.reason().is_some() {
                break;
            }
            match self.writer.write(&introduction).or_else(tolerate_full) {
                // Departed readers may belong to an earlier test.
                Err(WriteError::PartnerGone(_)) if self.wait_for_others()? => {}
                written => written.map_err(transfer)?,
            }
        }
        self.writer.flush().or_else(tolerate_full).map_err(transfer)?;
        status("Sending data ...");
        self.stop.sleep(self.plan.timeouts.start_delay);
        Ok(())
    }

    /// Whether there are as many readers as subscribers, after some have left.
    fn wait_for_others(&mut self) -> Result<bool, Error> {
        let deadline = MonotonicNs::now().plus(self.plan.timeouts.partner);
        let (writer, subscribers) = (&mut self.writer, self.publisher.subscribers);
        discover(deadline, self.stop, |step| writer.wait_for_readers(subscribers, step))
    }

    /// Runs every size, then the end. Results are always printed; a size without data fails the run but does not end
    /// it.
    fn test(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        for (round, data_len) in self.publisher.sizes.iter().enumerate() {
            let is_last = round + 1 == self.publisher.sizes.len();
            let size_result = self.test_size(*data_len, round as u32, is_last);
            let ends = !matches!(size_result, Ok(()) | Err(Error::NoData(_)));
            result = if ends { size_result } else { result.and(size_result) };
            if ends {
                break;
            }
        }
        let timed = self.publisher.execution_time.is_some();
        status(if timed { "Finishing test due to timer..." } else { "Finishing test..." });
        status("Test ended.");
        result
    }

    fn test_size(&mut self, data_len: usize, round: u32, is_last: bool) -> Result<(), Error> {
        self.announce_size(data_len);
        let mut pacer = Pacer::start(self.publisher.pace, data_len);
        let raw_values = if self.publisher.latency_file.is_some() { u64::MAX } else { 0 };
        self.book.begin(data_len, pacer.schedule(), raw_values);
        self.wire.begin();
        let (sent, sent_result) = self.send_loop(data_len, &mut pacer);
        let sent_result = sent_result.and(self.writer.flush().or_else(tolerate_full).map_err(transfer));
        let stopped = self.stop.reason().map_or(Ok(()), |reason| Err(stopped(reason, &self.board)));
        let cut_short = sent_result.is_err() || stopped.is_err();
        // In a throughput test the answers to the last pings arrive while the end is being confirmed.
        let ended = if is_last || cut_short { self.finish(round) } else { self.change_length(round) };
        let reported = self.report(data_len, &sent, &pacer, cut_short);
        diagnostics::report_counters(self.plan.diagnostics, self.messaging);
        stopped.and(sent_result).and(ended).and(reported)
    }

    fn announce_size(&self, data_len: usize) {
        if self.publisher.scan {
            status(&format!("Sending samples of {data_len} bytes ..."));
        }
        if let Some(rate) = self.publisher.pace.samples_per_second(data_len) {
            status(&format!("Publication rate: {rate} samples/s of {data_len} bytes"));
        }
    }

    fn send_loop(&mut self, data_len: usize, pacer: &mut Pacer) -> (Sent, Result<(), Error>) {
        let mut payloads = self.payload.payloads(data_len - OVERHEAD_LEN);
        let mut timestamp = 0;
        let mut keys = Keys::new(self.plan.data.instances, self.publisher.write_instance);
        let mut pings = PingSchedule::new(self.publisher, data_len);
        let mut sent = Sent::default();
        let mut result = Ok(());
        self.last_seq_num = u32::MAX;
        let start = MonotonicNs::now();
        let end = self.publisher.execution_time.map_or(MonotonicNs(u64::MAX), |time| start.plus(time));
        let mut clock = SparseClock::new();
        for index in 0..self.publisher.max_samples {
            if self.stop.reason().is_some() || clock.turn() >= end {
                break;
            }
            // Before the sample is due, so that its time does not include this.
            let payload = payloads.next(number_of(self.publisher.id, index as u32));
            pacer.wait(index, self.stop);
            let ping = pings.subscriber_to_ping(index);
            let mut sample = Sample {
                key: keys.next_key(),
                entity_id: self.publisher.id as i32,
                seq_num: index as u32,
                timestamp,
                latency_ping: ping.map_or(Sample::NO_PING, |subscriber| subscriber as i32),
                origin: Sample::NO_ORIGIN,
                payload,
            };
            let step = if ping.is_some() {
                self.send_ping(&mut sample, &mut sent)
            } else {
                sent.count(self.writer.write(&sample))
            };
            // Later samples keep the time of the last ping.
            timestamp = sample.timestamp;
            self.last_seq_num = sample.seq_num;
            if let Err(error) = step {
                result = Err(error);
                break;
            }
        }
        sent.duration_ns = MonotonicNs::now().since_ns(start);
        (sent, result)
    }

    /// Stamps and sends a ping; in a latency test also waits for its answer.
    #[inline]
    fn send_ping(&mut self, sample: &mut Sample<'_>, sent: &mut Sent) -> Result<(), Error> {
        sent.pings += 1;
        if !self.publisher.latency_test {
            sample.timestamp = MonotonicNs::now().0;
            return sent.count(self.writer.write(sample));
        }
        self.book.expect(sample.seq_num);
        let dropped_before = sent.dropped;
        sample.timestamp = MonotonicNs::now().0;
        sent.count(self.writer.write(sample))?;
        if sent.dropped > dropped_before {
            self.book.give_up();
            return Ok(());
        }
        if !self.wait_for_answer()? {
            sent.unanswered += 1;
        }
        Ok(())
    }

    /// Returns `false` if a best-effort ping stays unanswered, or on a stop request.
    fn wait_for_answer(&mut self) -> Result<bool, Error> {
        let partner = self.plan.timeouts.partner;
        let timeout = if self.plan.data.reliable { partner } else { BEST_EFFORT_ANSWER.min(partner) };
        if self.receive_answer(timeout)? {
            self.silence = Duration::ZERO;
            return Ok(true);
        }
        self.book.give_up();
        self.silence += timeout;
        if self.silence < partner || self.stop.reason().is_some() {
            return Ok(false);
        }
        Err(Error::Partner(format!(
            "No subscriber has answered for {} s (-partnerTimeout); the test ends.",
            partner.as_secs_f64()
        )))
    }

    #[inline]
    fn receive_answer(&mut self, timeout: Duration) -> Result<bool, Error> {
        let step = timeout.min(STOP_POLL);
        let mut waited = Duration::ZERO;
        while waited < timeout && self.stop.reason().is_none() {
            let book = &self.book;
            let idle = match &mut self.pongs {
                Pongs::None => return Ok(true),
                Pongs::Listening { .. } => !book.wait_for_answer(step),
                Pongs::Inline(reader) => reader.receive(step, |sample| book.on_pong(sample, true))? == 0,
            };
            if book.is_answered() {
                return Ok(true);
            }
            // A stale answer ends a receive early; it may add a step, but no silence.
            if idle {
                waited += step;
            }
        }
        Ok(false)
    }

    /// Sends the end of the test to all subscribers until each has confirmed it.
    fn finish(&mut self, round: u32) -> Result<(), Error> {
        self.board.expect_departures();
        let retries = self.plan.timeouts.partner.as_millis() / END_RETRY.as_millis();
        let attempts = FINISHED_ATTEMPTS.min(u32::try_from(retries).unwrap_or(u32::MAX)).max(1);
        for attempt in 0..attempts {
            if self.board.present().is_empty() {
                return Ok(());
            }
            self.write_end(Sentinel::Finished, ControlCounter { round, attempt })?;
            if self.board.wait_until_all_have_left(END_RETRY) {
                return Ok(());
            }
        }
        Err(not_confirmed("the end of the test", &self.board.present()))
    }

    /// Announces the next size to all subscribers until each has confirmed it.
    fn change_length(&mut self, round: u32) -> Result<(), Error> {
        let deadline = MonotonicNs::now().plus(self.plan.timeouts.partner);
        let mut attempt = 0;
        while !deadline.remaining().is_zero() {
            self.write_end(Sentinel::LengthChanged, ControlCounter { round, attempt })?;
            match self.board.wait_for_confirmation(round, END_RETRY)? {
                Waited::Done => return Ok(()),
                Waited::TimeOver => attempt += 1,
                Waited::Stopped(reason) => {
                    let _ = self.finish(round + 1);
                    return Err(stopped(reason, &self.board));
                }
            }
        }
        Err(not_confirmed("the change of size", &self.board.present()))
    }

    /// A full buffer, or a subscriber that left after its confirmation, is not an error.
    fn write_end(&mut self, sentinel: Sentinel, counter: ControlCounter) -> Result<(), Error> {
        let sample = sentinel.sample(self.publisher.id, self.last_seq_num, counter.to_timestamp());
        let written = self.writer.write(&sample).and_then(|()| self.writer.flush());
        match written {
            Ok(()) | Err(WriteError::WouldBlock | WriteError::PartnerGone(_)) => Ok(()),
            Err(error) => Err(transfer(error)),
        }
    }

    fn payload_use(&self, data_len: usize) -> PayloadUse {
        let written = self.payload.writes_patterns();
        let cost = written.then(|| selftest::partial_pattern_cost(data_len - OVERHEAD_LEN));
        PayloadUse {
            written,
            max_octets: Some(payload::MAX_LEN as u64),
            write_ns: cost.map_or(0.0, |cost| cost.write_ns),
            ..PayloadUse::default()
        }
    }

    fn report(&mut self, data_len: usize, sent: &Sent, pacer: &Pacer, cut_short: bool) -> Result<(), Error> {
        if sent.pings > 0 && !cut_short {
            // The end is confirmed on another topic, whose listener may run first.
            self.book.wait_for_first_answer(LAST_ANSWER_WITHIN);
        }
        let mut pings = self.book.lock();
        let is_lone_answer = pings.count_a_lone_answer();
        let measures_latency = self.publisher.id == 0;
        let result = SideResult {
            side: Side::Publisher,
            data_len: data_len as u64,
            cut_short,
            cpu_percent: pings.cpu.total_percent(),
            latency: measures_latency.then(|| pings.latency.result()),
            scheduled_latency: pings.scheduled_latency.as_ref().map(|(_, recorder)| recorder.result()),
            send: Some(SendResult {
                samples: sent.samples,
                dropped: sent.dropped,
                unanswered_pings: sent.unanswered,
                duration_ns: sent.duration_ns,
                delay: pacer.delay().map(LatencyRecorder::result),
            }),
            resources: Some(pings.cpu.resources()),
            wire: Some(self.wire.spent()),
            payload: Some(self.payload_use(data_len)),
            security: self.messaging.security(),
            ..SideResult::default()
        };
        let dumped = match &self.publisher.latency_file {
            Some(path) if measures_latency => dump(path, &pings.latency, self.plan.output.ns_resolution),
            _ => Ok(()),
        };
        let (stale, skewed) = (pings.stale, pings.skewed);
        drop(pings);
        let answers = result.latency.as_ref().map_or(0, |latency| latency.count);
        let mut output = self.output.lock();
        if measures_latency {
            let serialization = serialization::measure(&self.payload, data_len, self.publisher.serialization_rounds);
            output.latency_summary(&result, serialization);
        } else {
            status("Latency results are only shown for publisher 0.");
        }
        output.record(&result);
        drop(output);
        remark(sent, stale, skewed, &result);
        if is_lone_answer {
            status(
                "The latency is that of one ping, the first, which is otherwise a warm-up. Lower -latencyCount for more pings.",
            );
        }
        if self.publisher.low_resolution_clock && sent.samples > 0 {
            let one_way_us = sent.duration_ns as f64 / 2e3 / sent.samples as f64;
            status(&format!(
                "Latency from two clock readings around all {} round trips (us): {one_way_us:.3}",
                sent.samples
            ));
        }
        let has_no_latency = measures_latency && answers == 0;
        if !cut_short && (sent.samples == 0 || has_no_latency) {
            return dumped.and(Err(no_data(data_len, sent, self.publisher.latency_test)));
        }
        dumped
    }
}

impl Sent {
    /// Counts a written or dropped sample.
    #[inline]
    fn count(&mut self, written: Result<(), WriteError>) -> Result<(), Error> {
        match written {
            Ok(()) => self.samples += 1,
            Err(WriteError::WouldBlock) => self.dropped += 1,
            Err(error) => return Err(transfer(error)),
        }
        Ok(())
    }
}

/// The error of a size without a result.
fn no_data(data_len: usize, sent: &Sent, is_latency_test: bool) -> Error {
    let (samples, pings) = (counted(sent.samples, "sample"), counted(sent.pings, "ping"));
    let hint = if is_latency_test { "" } else { " Lower -latencyCount for more pings." };
    Error::NoData(format!(
        "{NO_LATENCY}: {samples} of {data_len} bytes and {pings} were sent, and no ping was answered.{hint}"
    ))
}

fn remark(sent: &Sent, stale: u64, skewed: u64, result: &SideResult) {
    if sent.dropped > 0 {
        status(&format!(
            "{} {} dropped because the send buffer was full.",
            counted(sent.dropped, "sample"),
            was(sent.dropped)
        ));
    }
    if sent.unanswered > 0 {
        status(&format!("{} {} not answered in time.", counted(sent.unanswered, "ping"), was(sent.unanswered)));
    }
    if stale > 0 {
        status(&format!("{} ignored: too late, or of another test.", counted(stale, "answer")));
    }
    if skewed > 0 {
        status(&format!("Clock skew suspected: {} arrived before the ping was sent.", counted(skewed, "answer")));
    }
    if let Some(text) = result.latency.as_ref().and_then(thin_percentiles) {
        status(&text);
    }
    let delay = result.send.as_ref().and_then(|send| send.delay.as_ref());
    if let Some(delay) = delay.filter(|delay| delay.count > 0) {
        status(&format!("Sends behind schedule by (us): {}", distribution_text(delay)));
    }
    let scheduled = result.scheduled_latency.as_ref().filter(|latency| latency.count > 0);
    if let Some(latency) = scheduled {
        status(&format!("Latency from the scheduled send (us): {}", distribution_text(latency)));
    }
}

fn distribution_text(latency: &LatencyResult) -> String {
    let [p50, p99] = [0.5, 0.99].map(|fraction| percentile_us(latency, fraction, 3));
    format!("50% {p50}, 99% {p99}, max {:.3}", latency.max_ns as f64 / 1e3)
}

/// Appends every latency in the order of arrival.
fn dump(path: &Path, recorder: &LatencyRecorder, ns_resolution: bool) -> Result<(), Error> {
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(OpenOptions::new().append(true).create(true).open(path)?);
        writeln!(file, "Sample Number, Value")?;
        for (number, value_ns) in recorder.raw_values().iter().enumerate() {
            if ns_resolution {
                writeln!(file, "{number}, {:.3}", *value_ns as f64 / 1e3)?;
            } else {
                writeln!(file, "{number}, {}", value_ns / 1000)?;
            }
        }
        writeln!(file)?;
        file.flush()
    };
    if recorder.raw_dropped() > 0 {
        status(&format!("The last {} latencies are not in {}.", recorder.raw_dropped(), path.display()));
    }
    write().map_err(|error| Error::Transfer(format!("-latencyFile {}: {error}", path.display())))
}

fn tolerate_full(error: WriteError) -> Result<(), WriteError> {
    if error == WriteError::WouldBlock { Ok(()) } else { Err(error) }
}

fn transfer(error: WriteError) -> Error {
    match error {
        WriteError::PartnerGone(text) => Error::Partner(text),
        other => Error::Transfer(other.to_string()),
    }
}

fn stopped(reason: StopReason, board: &AnnouncementBoard) -> Error {
    match reason {
        StopReason::Conflict => Error::Partner(board.fault().unwrap_or_default()),
        StopReason::Interrupted => Error::Interrupted,
        StopReason::PartnersLeft => Error::Partner("Every subscriber has left before the end of the test.".into()),
    }
}

fn missing_partners(plan: &TestPlan, publisher: &PublisherPlan, present: &BTreeSet<u32>) -> Error {
    let missing: Vec<_> = (0..publisher.subscribers).filter(|id| !present.contains(id)).take(10).collect();
    Error::Partner(format!(
        "Subscribers {missing:?} have not announced themselves within {} s (-discoveryTimeout). Are they running, in \
         domain {}, with the same transport and addresses?{}",
        plan.timeouts.discovery.as_secs_f64(),
        plan.data.domain,
        location_hint(plan)
    ))
}

fn not_confirmed(what: &str, present: &BTreeSet<u32>) -> Error {
    Error::Partner(format!("Subscribers {present:?} have not confirmed {what}; their results may be incomplete."))
}
