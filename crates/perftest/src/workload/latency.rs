//! The publisher's pings: which are unanswered, and the times of the answers.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::meter::CpuMeter;
use super::side::SharedOutput;
use crate::clock::MonotonicNs;
use crate::control::Sentinel;
use crate::messaging::Sample;
use crate::output::{LatencyInterval, Quantity};
use crate::pace::Schedule;
use crate::plan::OVERHEAD_LEN;
use crate::recorder::LatencyRecorder;

/// The latencies of the current size. Shared by the sending and the receiving thread.
pub(super) struct PingBook {
    state: Mutex<Pings>,
    answered: Condvar,
}

/// The state behind the lock.
pub(super) struct Pings {
    publisher: i32,
    data_len: usize,
    /// One-way times from the actual send.
    pub(super) latency: LatencyRecorder,
    /// One-way times from the scheduled send.
    pub(super) scheduled_latency: Option<(Schedule, LatencyRecorder)>,
    /// The ping that the send loop waits for.
    awaited: Option<u32>,
    /// Whether the send loop sleeps until another thread has received the answer.
    is_waiting: bool,
    /// Whether the send loop sleeps until another thread has received the answer.
    warm_up: Option<WarmUp>,
    /// Answers to pings that have timed out.
    pub(super) stale: u64,
    /// Answers that seem to precede their ping.
    pub(super) skewed: u64,
    intervals: Option<SharedOutput>,
    pub(super) cpu: CpuMeter,
}

/// An answer to a ping.
struct WarmUp {
    seq_num: u32,
    /// When the ping was sent.
    timestamp: u64,
    round_trip_ns: u64,
}

impl PingBook {
    /// `intervals` is the output for every answer, if requested.
    pub(super) fn new(publisher: u32, intervals: Option<SharedOutput>) -> Self {
        let state = Pings {
            publisher: publisher as i32,
            data_len: 0,
            latency: LatencyRecorder::new(0),
            scheduled_latency: None,
            awaited: None,
            is_waiting: false,
            warm_up: None,
            stale: 0,
            skewed: 0,
            intervals,
            cpu: CpuMeter::start(),
        };
        Self { state: Mutex::new(state), answered: Condvar::new() }
    }

    /// Starts a size without values. `raw_values` is the number of single values to keep.
    pub(super) fn begin(&self, data_len: usize, schedule: Option<Schedule>, raw_values: u64) {
        let latency = LatencyRecorder::new(raw_values);
        let scheduled_latency = schedule.map(|schedule| (schedule, LatencyRecorder::new(0)));
        let mut pings = self.lock();
        pings.data_len = data_len;
        pings.latency = latency;
        pings.scheduled_latency = scheduled_latency;
        pings.awaited = None;
        pings.warm_up = None;
        pings.stale = 0;
        pings.skewed = 0;
        pings.cpu = CpuMeter::start();
    }

    /// Records that the send loop is about to send this ping and wait for its answer.
    pub(super) fn expect(&self, seq_num: u32) {
        self.lock().awaited = Some(seq_num);
    }

    /// Whether the expected ping was answered.
    pub(super) fn is_answered(&self) -> bool {
        self.lock().awaited.is_none()
    }

    /// Waits for an answer that another thread receives.
    pub(super) fn wait_for_answer(&self, timeout: Duration) -> bool {
        let mut pings = self.lock();
        pings.is_waiting = true;
        let waited = self.answered.wait_timeout_while(pings, timeout, |pings| pings.awaited.is_some());
        let (mut pings, _) = waited.unwrap_or_else(PoisonError::into_inner);
        pings.is_waiting = false;
        pings.awaited.is_none()
    }

    /// Waits until at least one ping of this size is answered.
    pub(super) fn wait_for_first_answer(&self, timeout: Duration) {
        let mut pings = self.lock();
        pings.is_waiting = true;
        let waited = self.answered.wait_timeout_while(pings, timeout, |pings| !pings.has_answers());
        let (mut pings, _) = waited.unwrap_or_else(PoisonError::into_inner);
        pings.is_waiting = false;
    }

    /// Stops waiting for the expected answer.
    pub(super) fn give_up(&self) {
        self.lock().awaited = None;
    }

    /// Handles an answer. `awaiting`: whether the send loop waits for each answer.
    pub(super) fn on_pong(&self, sample: &Sample<'_>, awaiting: bool) {
        let now = MonotonicNs::now();
        let mut pings = self.lock();
        // Notifying is a system call even without a waiting thread.
        if pings.on_pong(sample, now, awaiting) && pings.is_waiting {
            drop(pings);
            self.answered.notify_one();
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Pings> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pings {
    /// Returns whether the send loop may continue.
    fn on_pong(&mut self, sample: &Sample<'_>, now: MonotonicNs, awaiting: bool) -> bool {
        if Sentinel::of_sample(sample).is_some() {
            return false;
        }
        let of_this_size = sample.payload.len() + OVERHEAD_LEN == self.data_len;
        let is_awaited = !awaiting || self.awaited == Some(sample.seq_num);
        if sample.entity_id != self.publisher || !of_this_size || !is_awaited {
            self.stale += 1;
            return false;
        }
        self.awaited = None;
        let Some(round_trip_ns) = now.0.checked_sub(sample.timestamp) else {
            self.skewed += 1;
            return true;
        };
        if self.warm_up.is_none() {
            self.warm_up = Some(WarmUp { seq_num: sample.seq_num, timestamp: sample.timestamp, round_trip_ns });
            if let Some(output) = &self.intervals {
                output.lock().begin(Quantity::Latency, self.data_len);
            }
            return true;
        }
        let latency_ns = self.record(sample.seq_num, sample.timestamp, round_trip_ns);
        if let Some(output) = &self.intervals {
            let cpu_percent = self.cpu.interval_percent();
            let interval = LatencyInterval { latency_ns, so_far: self.latency.moments(), cpu_percent };
            output.lock().latency_interval(self.data_len, &interval);
        }
        true
    }

    fn has_answers(&self) -> bool {
        self.warm_up.is_some() || self.latency.moments().count() > 0
    }

    /// Ends a size: a single answer counts, although it was meant as a warm-up. Returns whether it does.
    pub(super) fn count_a_lone_answer(&mut self) -> bool {
        let is_alone = self.latency.moments().count() == 0;
        let Some(first) = self.warm_up.take().filter(|_| is_alone) else { return false };
        self.record(first.seq_num, first.timestamp, first.round_trip_ns);
        true
    }

    /// Records a latency and returns it.
    fn record(&mut self, seq_num: u32, timestamp: u64, round_trip_ns: u64) -> u64 {
        let latency_ns = round_trip_ns / 2;
        self.latency.record(latency_ns);
        if let Some((schedule, recorder)) = &mut self.scheduled_latency {
            let sent = MonotonicNs(timestamp);
            recorder.record(sent.since_ns(schedule.due(seq_num.into())) + latency_ns);
        }
        latency_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: [u8; 72] = [0; 72];

    fn pong(seq_num: u32, timestamp: u64) -> Sample<'static> {
        Sample {
            key: [0; 4],
            entity_id: 0,
            seq_num,
            timestamp,
            latency_ping: 0,
            origin: Sample::NO_ORIGIN,
            payload: &PAYLOAD,
        }
    }

    fn book() -> PingBook {
        let book = PingBook::new(0, None);
        book.begin(100, None, 0);
        book
    }

    fn count(book: &PingBook) -> u64 {
        book.lock().latency.moments().count()
    }

    #[test]
    fn half_the_round_trip_is_recorded_except_for_the_first() {
        let book = book();
        for (seq_num, now) in [(0, 9_000), (1, 2_001), (2, 3_000)] {
            book.expect(seq_num);
            assert!(book.lock().on_pong(&pong(seq_num, 1_000), MonotonicNs(now), true));
        }
        let pings = book.lock();
        let moments = pings.latency.moments();
        assert_eq!((moments.count(), moments.min(), moments.max()), (2, 500, 1_000));
    }

    #[test]
    fn first_answer_is_recorded_if_it_is_the_only_one() {
        let book = book();
        assert!(!book.lock().count_a_lone_answer());
        book.lock().on_pong(&pong(0, 1_000), MonotonicNs(9_000), false);
        assert!(book.lock().count_a_lone_answer());
        assert_eq!((count(&book), book.lock().latency.moments().max()), (1, 4_000));

        book.begin(100, None, 0);
        book.lock().on_pong(&pong(0, 1_000), MonotonicNs(9_000), false);
        book.lock().on_pong(&pong(1, 1_000), MonotonicNs(2_000), false);
        assert!(!book.lock().count_a_lone_answer());
        assert_eq!((count(&book), book.lock().latency.moments().max()), (1, 500));
    }

    #[test]
    fn late_answer_is_not_recorded() {
        let book = book();
        book.expect(1);
        assert!(!book.lock().on_pong(&pong(0, 0), MonotonicNs(400_000_000), true));
        assert!(!book.is_answered());
        book.on_pong(&pong(1, 0), true);
        assert!(book.is_answered());
        assert!(!book.lock().on_pong(&pong(1, 0), MonotonicNs(5), true));
        assert_eq!((count(&book), book.lock().stale), (0, 2));
    }

    #[test]
    fn answers_of_another_size_publisher_or_kind_are_not_recorded() {
        let book = book();
        let other = Sample { entity_id: 1, ..pong(0, 0) };
        let shorter = Sample { payload: &PAYLOAD[1..], ..pong(0, 0) };
        let control = Sentinel::Initialize.sample(0, 0, 0);
        for sample in [other, shorter, control] {
            assert!(!book.lock().on_pong(&sample, MonotonicNs(5), false));
        }
        assert_eq!((count(&book), book.lock().stale), (0, 2));
    }

    #[test]
    fn answer_before_its_ping_is_counted_separately() {
        let book = book();
        assert!(book.lock().on_pong(&pong(0, 10), MonotonicNs(9), false));
        assert_eq!((count(&book), book.lock().skewed), (0, 1));
    }

    #[test]
    fn lateness_of_the_send_belongs_to_the_scheduled_latency() {
        let book = book();
        book.begin(100, Some(Schedule::new(MonotonicNs(1_000), 1_000_000)), 0);
        assert!(book.lock().on_pong(&pong(0, 1_000), MonotonicNs(1_100), false));
        // Due at 3,000, sent at 3,400, answered after 200.
        assert!(book.lock().on_pong(&pong(2, 3_400), MonotonicNs(3_600), false));
        let pings = book.lock();
        assert_eq!(pings.latency.moments().max(), 100);
        assert_eq!(pings.scheduled_latency.as_ref().unwrap().1.moments().max(), 500);
    }

    #[test]
    fn wait_ends_with_answer_or_timeout() {
        let book = book();
        book.expect(3);
        assert!(!book.wait_for_answer(Duration::from_millis(1)));
        book.give_up();
        assert!(book.wait_for_answer(Duration::ZERO));
        book.expect(4);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| book.wait_for_answer(Duration::from_secs(20)));
            book.on_pong(&pong(4, 0), true);
            assert!(waiting.join().unwrap());
        });
    }
}
