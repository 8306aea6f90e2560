//! The sender's knowledge of its probes: which were answered, and when.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use peregrine_report::record::SideResult;

use super::offset::FourTimes;
use super::seen::Seen;
use super::stamp::{Kind, STAMP_LEN, Stamp};
use crate::clock::MonotonicNs;
use crate::messaging::Sample;
use crate::payload;
use crate::recorder::{LatencyRecorder, ThreadRecorder};

/// Round trips of which all four times are kept: 16 MB.
const MAX_TIMES: usize = 500_000;

/// Shared by the sending thread and the one that receives the answers.
#[derive(Debug, Default)]
pub(super) struct Book {
    state: Mutex<State>,
    told: Condvar,
}

/// State behind the lock.
#[derive(Debug, Default)]
struct State {
    answers: Option<Answers>,
    /// The identity of the responder's clock, once its hello has arrived.
    clock: Option<u64>,
    /// The responder's report of the requested run.
    report: Option<(u32, SideResult)>,
}

/// The answers to the probes of one run.
#[derive(Debug)]
pub(super) struct Answers {
    run: u32,
    checks: bool,
    seen: Seen,
    from_intended: ThreadRecorder,
    /// Round trips from the actual send.
    pub(super) from_actual: LatencyRecorder,
    /// Times of the first round trips, up to the limit.
    pub(super) times: Vec<FourTimes>,
    /// Answers of another run, duplicates, and other messages.
    pub(super) stale: u64,
    /// Corrupt answers.
    pub(super) corrupt: u64,
}

impl Answers {
    /// Creates the answers of a run; `from_intended` records round trips from the intended send.
    pub(super) fn new(run: u32, checks: bool, from_intended: ThreadRecorder) -> Self {
        Self {
            run,
            checks,
            seen: Seen::default(),
            from_intended,
            from_actual: LatencyRecorder::new(0),
            times: Vec::with_capacity(MAX_TIMES),
            stale: 0,
            corrupt: 0,
        }
    }

    /// Number of different probes that were answered.
    pub(super) fn answered(&self) -> u64 {
        self.seen.count()
    }

    fn take(&mut self, sample: &Sample<'_>, stamp: &Stamp, now: MonotonicNs) {
        if stamp.run != self.run || !self.seen.insert(sample.seq_num.into()) {
            self.stale += 1;
            return;
        }
        let intact = !self.checks
            || sample.payload.get(STAMP_LEN..).is_some_and(|rest| payload::is_intact(rest, sample.seq_num.into()));
        self.corrupt += u64::from(!intact);
        self.from_intended.record(now.0.saturating_sub(stamp.intended_ns));
        self.from_actual.record(now.0.saturating_sub(sample.timestamp));
        if self.times.len() < MAX_TIMES {
            self.times.push(FourTimes {
                sent: sample.timestamp,
                received: stamp.received_ns,
                answered: stamp.answered_ns,
                returned: now.0,
            });
        }
    }
}

impl Book {
    /// Handles a sample of the responder.
    pub(super) fn on_sample(&self, sample: &Sample<'_>) {
        let now = MonotonicNs::now();
        let Some(stamp) = Stamp::read_from(sample.payload) else { return };
        let mut state = self.lock();
        match stamp.kind {
            Kind::Data => {
                if let Some(answers) = &mut state.answers {
                    answers.take(sample, &stamp, now);
                }
                return;
            }
            Kind::Hello => state.clock = Some(stamp.received_ns),
            Kind::Report => {
                let text = &sample.payload[STAMP_LEN..];
                let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                if let Ok(report) = serde_json::from_slice(&text[..end]) {
                    state.report = Some((stamp.run, report));
                }
            }
            Kind::Bye => return,
        }
        drop(state);
        self.told.notify_all();
    }

    /// Starts a run.
    pub(super) fn begin(&self, answers: Answers) {
        self.lock().answers = Some(answers);
    }

    /// Ends the run, and returns its answers.
    pub(super) fn end(&self) -> Option<Answers> {
        self.lock().answers.take()
    }

    /// Number of different probes of this run that were answered so far.
    pub(super) fn answered(&self) -> u64 {
        self.lock().answers.as_ref().map_or(0, Answers::answered)
    }

    /// Waits for the responder's hello, and returns its clock.
    pub(super) fn wait_for_hello(&self, timeout: Duration) -> Option<u64> {
        self.wait_for(timeout, |state| state.clock)
    }

    /// Waits for the responder's report of a run.
    pub(super) fn wait_for_report(&self, run: u32, timeout: Duration) -> Option<SideResult> {
        self.wait_for(timeout, |state| state.report.take_if(|report| report.0 == run)).map(|(_, report)| report)
    }

    fn wait_for<T>(&self, timeout: Duration, mut look: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let end = MonotonicNs::now().plus(timeout);
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&mut state) {
                return Some(found);
            }
            let left = end.remaining();
            if left.is_zero() {
                return None;
            }
            state = self.told.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Collector;

    fn payload_of(kind: Kind, run: u32, number: u64) -> Vec<u8> {
        let mut bytes = vec![0; STAMP_LEN + 20];
        payload::write(&mut bytes[STAMP_LEN..], number);
        Stamp { received_ns: 77, ..Stamp::new(kind, run, 10) }.write_to(&mut bytes);
        bytes
    }

    fn sample(payload: &[u8], seq_num: u32) -> Sample<'_> {
        Sample {
            key: [0; 4],
            entity_id: 0,
            seq_num,
            timestamp: 20,
            latency_ping: 0,
            origin: Sample::NO_ORIGIN,
            payload,
        }
    }

    #[test]
    fn answers_count_once_in_their_run_and_are_checked() {
        let mut collector = Collector::new(0);
        let book = Book::default();
        let good = payload_of(Kind::Data, 3, 5);
        book.on_sample(&sample(&good, 5));
        book.begin(Answers::new(3, true, collector.recorder()));
        book.on_sample(&sample(&good, 5));
        book.on_sample(&sample(&good, 5));
        book.on_sample(&sample(&payload_of(Kind::Data, 2, 6), 6));
        book.on_sample(&sample(&payload_of(Kind::Data, 3, 6), 7));
        book.on_sample(&sample(&[1; 100], 8));
        assert_eq!(book.answered(), 2);
        let answers = book.end().unwrap();
        assert_eq!((answers.answered(), answers.stale, answers.corrupt, answers.times.len()), (2, 2, 1, 2));
        assert_eq!(answers.times[0].received, 77);
        drop(answers);
        let intended = collector.take();
        assert_eq!(intended.moments().count(), 2);
        assert!(book.end().is_none());
    }

    #[test]
    fn wait_ends_with_hello_and_report() {
        let book = Book::default();
        assert_eq!(book.wait_for_hello(Duration::ZERO), None);
        book.on_sample(&sample(&payload_of(Kind::Hello, 0, 0), 0));
        assert_eq!(book.wait_for_hello(Duration::ZERO), Some(77));
        let report = SideResult { data_len: 99, ..SideResult::default() };
        let mut bytes = payload_of(Kind::Report, 4, 0)[..STAMP_LEN].to_vec();
        bytes.extend(serde_json::to_vec(&report).unwrap());
        bytes.resize(bytes.len() + 10, 0);
        book.on_sample(&sample(&bytes, 0));
        assert_eq!(book.wait_for_report(3, Duration::ZERO), None);
        assert_eq!(book.wait_for_report(4, Duration::ZERO), Some(report));
        assert_eq!(book.wait_for_report(4, Duration::ZERO), None);
    }
}
