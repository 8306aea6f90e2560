//! The other side of an open loop: counts, checks and answers samples.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use peregrine_report::record::{PayloadUse, Side, SideResult, ThroughputResult, WireUse};

use super::seen::Seen;
use super::stamp::{Kind, STAMP_LEN, Stamp};
use super::{clock_identity, wire_meter};
use crate::clock::{MonotonicNs, with_one_interval_more};
use crate::control::Stop;
use crate::error::Error;
use crate::messaging::{Messaging, Sample, SampleReader, SampleWriter, Topic, WriteError};
use crate::payload;
use crate::plan::{OVERHEAD_LEN, TestPlan};
use crate::resources::ResourceMeter;
use crate::terminal::message;
use crate::wire::{WireMeter, spent};

/// Interval at which the main thread samples resources and checks for the end.
const TICK: Duration = Duration::from_millis(100);
/// A responder that was started for one sender ends after this time without a sample.
const ALONE: Duration = Duration::from_secs(30);

/// State shared by the main thread and the receiving thread.
#[derive(Debug)]
struct Shared {
    state: Mutex<SharedState>,
    left: Condvar,
}

#[derive(Debug)]
struct SharedState {
    resources: ResourceMeter,
    arrivals: u64,
    has_left: bool,
}

/// Answers until Ctrl-C; with `once` until its sender leaves.
pub(super) fn serve<M: Messaging>(
    plan: &TestPlan,
    messaging: &M,
    once: bool,
    checks: bool,
    stop: &Stop,
) -> Result<(), Error> {
    let pongs = messaging.create_writer(Topic::Latency)?;
    let reader = messaging.create_reader(Topic::Throughput)?;
    let shared = Arc::new(Shared {
        state: Mutex::new(SharedState { resources: ResourceMeter::of_this_process(), arrivals: 0, has_left: false }),
        left: Condvar::new(),
    });
    let wire = wire_meter(plan, messaging);
    let mut responder = Responder {
        pongs,
        checks,
        clock: clock_identity(),
        session: None,
        run: Run::default(),
        answer: Vec::new(),
        wire,
        shared: Arc::clone(&shared),
        failed: 0,
    };
    let _listening = reader.listen(move |sample| responder.on_sample(sample))?;
    let mut last = (0, MonotonicNs::now());
    while stop.reason().is_none() {
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state = shared.left.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
        state.resources.tick();
        if state.arrivals != last.0 {
            last = (state.arrivals, MonotonicNs::now());
        }
        let alone = MonotonicNs::now().since_ns(last.1) > ALONE.as_nanos() as u64;
        if once && state.has_left {
            return Ok(());
        }
        if once && alone {
            return Err(Error::Partner(format!("No sample has arrived for {} s.", ALONE.as_secs())));
        }
    }
    Err(Error::Interrupted)
}

/// State of the receiving thread.
struct Responder<W> {
    pongs: W,
    checks: bool,
    clock: u64,
    /// The session of the sender, which numbers its runs from 1.
    session: Option<u64>,
    run: Run,
    answer: Vec<u8>,
    wire: WireMeter,
    shared: Arc<Shared>,
    /// Number of answers that could not be sent.
    failed: u64,
}

/// Received samples of one run.
#[derive(Debug, Default)]
struct Run {
    number: u32,
    data_len: usize,
    seen: Seen,
    corrupt: u64,
    first_ns: u64,
    last_ns: u64,
    answered: u64,
    wire: WireUse,
}

impl<W: SampleWriter> Responder<W> {
    #[inline]
    fn on_sample(&mut self, sample: &Sample<'_>) {
        let now = MonotonicNs::now();
        let Some(stamp) = Stamp::read_from(sample.payload) else { return };
        match stamp.kind {
            Kind::Data => self.on_data(sample, &stamp, now),
            Kind::Hello => {
                // A repeated hello starts no new session.
                if self.session.replace(stamp.intended_ns) != Some(stamp.intended_ns) {
                    self.run = Run::default();
                }
                self.reply(sample, &Stamp { received_ns: self.clock, ..stamp }, &[]);
            }
            Kind::Report => self.on_report(sample, &stamp),
            Kind::Bye => {
                self.with_shared(|shared| shared.has_left = true);
                self.shared.left.notify_all();
            }
        }
    }

    #[inline]
    fn on_data(&mut self, sample: &Sample<'_>, stamp: &Stamp, now: MonotonicNs) {
        if stamp.run != self.run.number {
            // A delayed sample of an earlier run does not start that run again.
            if stamp.run.wrapping_sub(self.run.number) > u32::MAX / 2 {
                return;
            }
            self.begin(stamp.run, sample.payload.len() + OVERHEAD_LEN, now);
        }
        self.run.last_ns = now.0;
        if !self.run.seen.insert(sample.seq_num.into()) {
            return;
        }
        if sample.latency_ping == Sample::NO_PING {
            self.check(sample);
            return;
        }
        // The answer is sent before the check, which is not part of the path.
        self.run.answered += 1;
        let stamp = Stamp { received_ns: now.0, ..*stamp };
        self.reply(sample, &stamp, &sample.payload[STAMP_LEN..]);
        self.check(sample);
    }

    fn check(&mut self, sample: &Sample<'_>) {
        if self.checks && !payload::is_intact(&sample.payload[STAMP_LEN..], sample.seq_num.into()) {
            self.run.corrupt += 1;
        }
    }

    #[cold]
    fn begin(&mut self, number: u32, data_len: usize, now: MonotonicNs) {
        self.run = Run { number, data_len, first_ns: now.0, wire: self.wire.read(), ..Run::default() };
        self.failed = 0;
        self.with_shared(|shared| shared.resources = ResourceMeter::of_this_process());
    }

    fn on_report(&mut self, sample: &Sample<'_>, stamp: &Stamp) {
        let mut resources = None;
        self.with_shared(|shared| resources = Some(shared.resources.result()));
        let run = &self.run;
        let of_this_run = stamp.run == run.number;
        let samples = if of_this_run { run.seen.count() } else { 0 };
        let result = SideResult {
            side: Side::Subscriber,
            data_len: run.data_len as u64,
            throughput: Some(ThroughputResult {
                samples,
                bytes: samples * run.data_len as u64,
                duration_ns: with_one_interval_more(run.last_ns.saturating_sub(run.first_ns), samples),
                lost: 0,
                duplicate: run.seen.duplicate(),
                reordered: run.seen.reordered(),
            }),
            // The intervals of a long run would not fit into one sample.
            resources: resources
                .map(|resources| peregrine_report::record::ResourceUse { intervals: Vec::new(), ..resources }),
            wire: Some(spent(&run.wire, self.wire.read())),
            payload: Some(PayloadUse { checked: self.checks, corrupt: run.corrupt, ..PayloadUse::default() }),
            ..SideResult::default()
        };
        let text = serde_json::to_vec(&result).unwrap_or_default();
        self.reply(sample, stamp, &text);
    }

    #[inline]
    fn reply(&mut self, sample: &Sample<'_>, stamp: &Stamp, rest: &[u8]) {
        self.answer.clear();
        self.answer.resize(STAMP_LEN, 0);
        self.answer.extend_from_slice(rest);
        Stamp { answered_ns: MonotonicNs::now().0, ..*stamp }.write_to(&mut self.answer);
        let answer = Sample { payload: &self.answer, ..*sample };
        let sent = self.pongs.write(&answer).and_then(|()| self.pongs.flush());
        if let Err(WriteError::Failed(text)) = sent {
            // The sender detects the missing answer; this side prints the reason once.
            if self.failed == 0 {
                message(format_args!("An answer could not be sent: {text}"));
            }
            self.failed += 1;
        }
        self.with_shared(|shared| shared.arrivals += 1);
    }

    fn with_shared(&self, change: impl FnOnce(&mut SharedState)) {
        change(&mut self.shared.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answered = Arc<Mutex<Vec<(u32, Vec<u8>)>>>;

    #[derive(Clone, Default)]
    struct Answers(Answered);

    impl SampleWriter for Answers {
        fn write(&mut self, sample: &Sample<'_>) -> Result<(), WriteError> {
            self.0.lock().unwrap().push((sample.seq_num, sample.payload.to_vec()));
            Ok(())
        }

        fn flush(&mut self) -> Result<(), WriteError> {
            Ok(())
        }

        fn wait_for_readers(&mut self, _: u32, _: Duration) -> Result<bool, Error> {
            Ok(true)
        }

        fn wait_for_acknowledgments(&mut self, _: Duration) -> Result<bool, Error> {
            Ok(true)
        }
    }

    fn responder() -> (Responder<Answers>, Answers) {
        let answers = Answers::default();
        let shared = Arc::new(Shared {
            state: Mutex::new(SharedState {
                resources: ResourceMeter::of_this_process(),
                arrivals: 0,
                has_left: false,
            }),
            left: Condvar::new(),
        });
        let responder = Responder {
            pongs: answers.clone(),
            checks: true,
            clock: 55,
            session: None,
            run: Run::default(),
            answer: Vec::new(),
            wire: WireMeter::new(Box::new(WireUse::default), Vec::new()),
            shared,
            failed: 0,
        };
        (responder, answers)
    }

    fn send(responder: &mut Responder<Answers>, kind: Kind, run: u32, number: u32, ping: bool, spoilt: bool) {
        let mut octets = vec![0; 72];
        payload::write(&mut octets[STAMP_LEN..], u64::from(number));
        octets[40] ^= u8::from(spoilt);
        Stamp::new(kind, run, 123).write_to(&mut octets);
        responder.on_sample(&Sample {
            key: [0; 4],
            entity_id: 0,
            seq_num: number,
            timestamp: 9,
            latency_ping: if ping { 0 } else { Sample::NO_PING },
            origin: Sample::NO_ORIGIN,
            payload: &octets,
        });
    }

    #[test]
    fn probes_are_answered_with_the_times_of_both_ends() {
        let (mut responder, answers) = responder();
        send(&mut responder, Kind::Data, 1, 0, true, false);
        send(&mut responder, Kind::Data, 1, 1, false, false);
        let answers = answers.0.lock().unwrap();
        let [(0, answer)] = &answers[..] else { panic!("{answers:?}") };
        let stamp = Stamp::read_from(answer).unwrap();
        assert_eq!((stamp.kind, stamp.run, stamp.intended_ns), (Kind::Data, 1, 123));
        assert!(0 < stamp.received_ns && stamp.received_ns <= stamp.answered_ns);
        assert!(payload::is_intact(&answer[STAMP_LEN..], 0));
    }

    #[test]
    fn report_states_the_results_of_the_run() {
        let (mut responder, answers) = responder();
        send(&mut responder, Kind::Data, 1, 0, false, false);
        for (number, spoilt) in [(2, false), (1, true), (1, false), (5, false)] {
            send(&mut responder, Kind::Data, 2, number, false, spoilt);
        }
        // Late samples of the previous run count for neither run.
        send(&mut responder, Kind::Data, 1, 9, false, false);
        send(&mut responder, Kind::Report, 2, 0, false, false);
        let answers = answers.0.lock().unwrap();
        let report: SideResult = serde_json::from_slice(&answers[0].1[STAMP_LEN..]).unwrap();
        let throughput = report.throughput.unwrap();
        assert_eq!((throughput.samples, throughput.bytes, throughput.duplicate), (3, 300, 1));
        assert_eq!((throughput.reordered, report.payload.unwrap().corrupt), (1, 1));
        assert!(report.resources.is_some());
    }

    #[test]
    fn new_sender_starts_a_session_and_repeated_hello_does_not() {
        let (mut responder, answers) = responder();
        let hello = |responder: &mut Responder<Answers>, session| {
            let mut octets = [0; STAMP_LEN];
            Stamp::new(Kind::Hello, 0, session).write_to(&mut octets);
            responder.on_sample(&Sample {
                key: [0; 4],
                entity_id: 0,
                seq_num: 0,
                timestamp: 0,
                latency_ping: 0,
                origin: Sample::NO_ORIGIN,
                payload: &octets,
            });
        };
        hello(&mut responder, 1);
        send(&mut responder, Kind::Data, 1, 0, false, false);
        send(&mut responder, Kind::Data, 2, 0, false, false);
        hello(&mut responder, 1);
        assert_eq!((responder.run.number, responder.run.seen.count()), (2, 1));
        hello(&mut responder, 2);
        send(&mut responder, Kind::Data, 1, 0, true, false);
        assert_eq!((responder.run.number, responder.run.seen.count()), (1, 1));
        assert_eq!(answers.0.lock().unwrap().len(), 4);
    }

    #[test]
    fn hello_is_answered_with_the_clock_and_bye_ends_the_session() {
        let (mut responder, answers) = responder();
        send(&mut responder, Kind::Hello, 0, 0, false, false);
        assert_eq!(Stamp::read_from(&answers.0.lock().unwrap()[0].1).unwrap().received_ns, 55);
        send(&mut responder, Kind::Bye, 0, 0, false, false);
        assert!(responder.shared.state.lock().unwrap().has_left);
    }
}
