//! Handles each sample of a subscriber, on the receiving thread.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use peregrine_report::record::ThroughputResult;

use super::meter::Totals;
use super::sequence::{Arrival, SequenceWindow};
use crate::clock::{MonotonicNs, with_one_interval_more};
use crate::control::{ControlCounter, Partner, ProcessNumber, Sentinel};
use crate::messaging::{Sample, SampleWriter, WriteError};
use crate::pace::SparseClock;
use crate::payload;
use crate::plan::{OVERHEAD_LEN, SubscriberPlan};

/// An event from the receive thread to the main thread.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// Every publisher has ended a size (or the test); the next one may begin once this is confirmed.
    Ended { sentinel: Sentinel, round: u32, result: SizeResult },
    /// A publisher has not seen the confirmation yet.
    EndedAgain { sentinel: Sentinel, round: u32 },
    /// A fault that does not end the test.
    Fault(String),
    /// Two publishers have the same number, so all counts are meaningless.
    Conflict(String),
}

/// Received samples of one size.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SizeResult {
    /// 0 if no sample was received.
    pub(super) data_len: usize,
    pub(super) throughput: ThroughputResult,
    /// Checked samples, and corrupt ones among them.
    pub(super) checked: u64,
    pub(super) corrupt: u64,
}

/// The main thread's view of the receive thread, which alone writes the counters.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Number of all arrived samples, control messages included.
    arrivals: AtomicU64,
    /// Number of publishers of which data has arrived, of any size.
    publishers_heard: AtomicU64,
    data_len: AtomicU64,
    samples: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    duplicate: AtomicU64,
    reordered: AtomicU64,
    checked: AtomicU64,
    corrupt: AtomicU64,
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    events: Mutex<VecDeque<Event>>,
    happened: Condvar,
}

/// Most events that wait for the main thread, which takes them within milliseconds.
const MAX_EVENTS: usize = 64;

impl Progress {
    /// Number of all arrived samples, control messages included.
    pub(super) fn arrivals(&self) -> u64 {
        self.arrivals.load(Ordering::Relaxed)
    }

    /// Number of publishers of which data has arrived.
    pub(super) fn publishers_heard(&self) -> u64 {
        self.publishers_heard.load(Ordering::Relaxed)
    }

    /// Totals of the current size.
    pub(super) fn totals(&self) -> Totals {
        Totals {
            data_len: self.data_len.load(Ordering::Relaxed) as usize,
            samples: self.samples.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }

    /// Result of the current size, as if it had ended with the last sample.
    pub(super) fn result_so_far(&self) -> SizeResult {
        let totals = self.totals();
        let (first, last) = (self.first_ns.load(Ordering::Relaxed), self.last_ns.load(Ordering::Relaxed));
        SizeResult {
            data_len: totals.data_len,
            throughput: ThroughputResult {
                samples: totals.samples,
                bytes: totals.bytes,
                duration_ns: with_one_interval_more(last.saturating_sub(first), totals.samples),
                lost: totals.lost,
                duplicate: self.duplicate.load(Ordering::Relaxed),
                reordered: self.reordered.load(Ordering::Relaxed),
            },
            checked: self.checked.load(Ordering::Relaxed),
            corrupt: self.corrupt.load(Ordering::Relaxed),
        }
    }

    /// Waits for an event until `end`.
    pub(super) fn wait_until(&self, end: MonotonicNs) -> Option<Event> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(event) = events.pop_front() {
                return Some(event);
            }
            let left = end.remaining();
            if left.is_zero() {
                return None;
            }
            events = self.happened.wait_timeout(events, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn tell(&self, event: Event) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() < MAX_EVENTS {
            events.push_back(event);
        }
        drop(events);
        self.happened.notify_one();
    }
}

/// State of the receive thread.
pub(super) struct Reception<W> {
    subscriber: i32,
    pongs: W,
    publishers: Vec<SequenceWindow>,
    /// Whether payloads are checked, and the publishers that write patterns.
    checks: bool,
    patterned: BTreeSet<i32>,
    /// Publishers of which data has arrived.
    heard: BTreeSet<i32>,
    /// Publishers that have ended the current size.
    ended: BTreeSet<u32>,
    /// The end that was reported last.
    last_end: Option<(Sentinel, u32)>,
    size: SizeSoFar,
    clock: SparseClock,
    progress: Arc<Progress>,
    fault_told: bool,
    /// Process of each publisher that introduces itself.
    processes: BTreeMap<u32, Partner>,
}

/// State of the current size that only this thread needs.
#[derive(Debug, Default)]
struct SizeSoFar {
    data_len: usize,
    samples: u64,
    bytes: u64,
    checked: u64,
    corrupt: u64,
    arrivals: u64,
}

impl<W: SampleWriter> Reception<W> {
    /// Answers pings through `pongs`. If `checks`, checks the payloads of publishers that announce patterns.
    pub(super) fn new(plan: SubscriberPlan, checks: bool, pongs: W, progress: Arc<Progress>) -> Self {
        Self {
            subscriber: plan.id as i32,
            pongs,
            publishers: vec![SequenceWindow::new(); plan.publishers as usize],
            checks,
            patterned: BTreeSet::new(),
            heard: BTreeSet::new(),
            ended: BTreeSet::new(),
            last_end: None,
            size: SizeSoFar::default(),
            clock: SparseClock::new(),
            progress,
            fault_told: false,
            processes: BTreeMap::new(),
        }
    }

    /// Handles one sample.
    #[inline]
    pub(super) fn on_sample(&mut self, sample: &Sample<'_>) {
        self.size.arrivals += 1;
        self.progress.arrivals.store(self.size.arrivals, Ordering::Relaxed);
        match Sentinel::of_sample(sample) {
            None => {
                if sample.latency_ping == self.subscriber {
                    self.answer(sample);
                }
                self.on_data(sample);
            }
            Some(Sentinel::Initialize) => self.on_initialize(sample),
            Some(sentinel) => self.on_end(sentinel, sample),
        }
    }

    #[inline]
    fn on_data(&mut self, sample: &Sample<'_>) {
        let Some(window) = usize::try_from(sample.entity_id).ok().and_then(|id| self.publishers.get_mut(id)) else {
            return self.on_foreign(sample.entity_id);
        };
        let arrival = window.on_arrival(sample.seq_num);
        if window.received() == 1 {
            self.heard.insert(sample.entity_id);
            self.progress.publishers_heard.store(self.heard.len() as u64, Ordering::Relaxed);
        }
        let now = self.clock.turn();
        let progress = &*self.progress;
        if arrival != Arrival::Duplicate {
            if self.size.samples == 0 {
                self.size.data_len = sample.payload.len() + OVERHEAD_LEN;
                progress.data_len.store(self.size.data_len as u64, Ordering::Relaxed);
                progress.first_ns.store(MonotonicNs::now().0, Ordering::Relaxed);
            }
            self.size.samples += 1;
            self.size.bytes += (sample.payload.len() + OVERHEAD_LEN) as u64;
            progress.samples.store(self.size.samples, Ordering::Relaxed);
            progress.bytes.store(self.size.bytes, Ordering::Relaxed);
        }
        progress.last_ns.store(now.0, Ordering::Relaxed);
        self.publish_losses();
        if self.checks && self.patterned.contains(&sample.entity_id) {
            self.check(sample);
        }
    }

    /// Called after answering and counting, so that the time of this sample does not include the check.
    #[inline]
    fn check(&mut self, sample: &Sample<'_>) {
        self.size.checked += 1;
        self.progress.checked.store(self.size.checked, Ordering::Relaxed);
        if !payload::are_some_intact(sample.payload, sample.pattern_number()) {
            self.size.corrupt += 1;
            self.progress.corrupt.store(self.size.corrupt, Ordering::Relaxed);
        }
    }

    #[inline]
    fn publish_losses(&mut self) {
        let [only] = &self.publishers[..] else {
            let (mut lost, mut duplicate, mut reordered) = (0, 0, 0);
            for window in &self.publishers {
                lost += window.lost();
                duplicate += window.duplicate();
                reordered += window.reordered();
            }
            return self.store_losses(lost, duplicate, reordered);
        };
        self.store_losses(only.lost(), only.duplicate(), only.reordered());
    }

    #[inline]
    fn store_losses(&self, lost: u64, duplicate: u64, reordered: u64) {
        self.progress.lost.store(lost, Ordering::Relaxed);
        self.progress.duplicate.store(duplicate, Ordering::Relaxed);
        self.progress.reordered.store(reordered, Ordering::Relaxed);
    }

    /// Echoes the whole sample.
    fn answer(&mut self, sample: &Sample<'_>) {
        let answered = self.pongs.write(sample).and_then(|()| self.pongs.flush());
        if let Err(WriteError::Failed(text)) = answered {
            self.report_fault(format!("A ping could not be answered: {text}"));
        }
    }

    fn on_initialize(&mut self, sample: &Sample<'_>) {
        self.answer(sample);
        let Some(publisher) = self.publisher_number(sample.entity_id) else { return self.on_foreign(sample.entity_id) };
        let Some(process) = Partner::of_introduction(sample) else { return };
        if ProcessNumber::announces_patterns(sample) {
            self.patterned.insert(sample.entity_id);
        }
        if *self.processes.entry(publisher).or_insert(process) != process {
            self.progress.tell(Event::Conflict(format!(
                "Two publishers announce themselves as number {publisher}; give each its own -pidMultiPubTest."
            )));
        }
    }

    /// The number of an expected publisher.
    fn publisher_number(&self, entity_id: i32) -> Option<u32> {
        u32::try_from(entity_id).ok().filter(|publisher| (*publisher as usize) < self.publishers.len())
    }

    fn on_end(&mut self, sentinel: Sentinel, sample: &Sample<'_>) {
        let arrival = MonotonicNs::now();
        let ControlCounter { round, attempt } = ControlCounter::from_timestamp(sample.timestamp);
        // RTI Perftest does not number its rounds, but sends FINISHED once.
        if self.last_end.is_some_and(|last| last == (sentinel, round) || last.0 == Sentinel::Finished) {
            self.progress.tell(Event::EndedAgain { sentinel, round });
            return;
        }
        let Some(publisher) = self.publisher_number(sample.entity_id) else { return self.on_foreign(sample.entity_id) };
        if !self.ended.insert(publisher) {
            return;
        }
        self.publishers[publisher as usize].on_end(sample.seq_num);
        if self.ended.len() < self.publishers.len() {
            return;
        }
        // The first copy of the end arrives right after the data; a later one would add the time of its retries.
        if attempt == 0 && self.size.samples > 0 {
            self.progress.last_ns.store(arrival.0, Ordering::Relaxed);
        }
        self.publish_losses();
        self.last_end = Some((sentinel, round));
        self.progress.tell(Event::Ended { sentinel, round, result: self.progress.result_so_far() });
        self.begin_next_size();
    }

    fn begin_next_size(&mut self) {
        self.ended.clear();
        self.publishers.fill_with(SequenceWindow::new);
        self.size = SizeSoFar { arrivals: self.size.arrivals, ..SizeSoFar::default() };
        self.progress.data_len.store(0, Ordering::Relaxed);
        self.progress.samples.store(0, Ordering::Relaxed);
        self.progress.bytes.store(0, Ordering::Relaxed);
        self.progress.checked.store(0, Ordering::Relaxed);
        self.progress.corrupt.store(0, Ordering::Relaxed);
        self.store_losses(0, 0, 0);
    }

    #[cold]
    fn on_foreign(&mut self, entity_id: i32) {
        self.report_fault(format!(
            "Samples of publisher {entity_id} are ignored: with -numPublishers {} the publishers must be numbered 0 to \
             {} by -pidMultiPubTest.",
            self.publishers.len(),
            self.publishers.len() - 1
        ));
    }

    /// Reports only the first fault.
    #[cold]
    fn report_fault(&mut self, text: String) {
        if !std::mem::replace(&mut self.fault_told, true) {
            self.progress.tell(Event::Fault(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::Error;
    use crate::workload::payload::number_of;

    const PAYLOAD: [u8; 72] = [0; 72];

    #[derive(Clone, Default)]
    struct Answers(Arc<Mutex<Vec<(u32, usize)>>>);

    impl SampleWriter for Answers {
        fn write(&mut self, sample: &Sample<'_>) -> Result<(), WriteError> {
            self.0.lock().unwrap().push((sample.seq_num, sample.payload.len()));
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

    struct Bench {
        reception: Reception<Answers>,
        answers: Answers,
        progress: Arc<Progress>,
    }

    fn bench(publishers: u32) -> Bench {
        let (answers, progress) = (Answers::default(), Arc::new(Progress::default()));
        let plan = SubscriberPlan { id: 3, publishers };
        Bench { reception: Reception::new(plan, true, answers.clone(), Arc::clone(&progress)), answers, progress }
    }

    impl Bench {
        fn data(&mut self, publisher: i32, seq_num: u32, latency_ping: i32) {
            self.reception.on_sample(&Sample {
                key: [0; 4],
                entity_id: publisher,
                seq_num,
                timestamp: 1,
                latency_ping,
                origin: Sample::NO_ORIGIN,
                payload: &PAYLOAD,
            });
        }

        fn end(&mut self, publisher: u32, last: u32, sentinel: Sentinel, round: u32) {
            let counter = ControlCounter { round, attempt: 0 };
            self.reception.on_sample(&sentinel.sample(publisher, last, counter.to_timestamp()));
        }

        fn event(&self) -> Option<Event> {
            self.progress.wait_until(MonotonicNs(0))
        }
    }

    #[test]
    fn only_pings_for_this_subscriber_and_initialize_are_answered() {
        let mut bench = bench(1);
        bench.reception.on_sample(&Sentinel::Initialize.sample(0, 0, 0));
        bench.data(0, 0, 3);
        bench.data(0, 1, 2);
        bench.data(0, 2, -1);
        assert_eq!(*bench.answers.0.lock().unwrap(), [(0, 1234), (0, 72)]);
        assert_eq!((bench.progress.arrivals(), bench.progress.totals().samples), (4, 3));
        assert_eq!(bench.progress.publishers_heard(), 1);
    }

    #[test]
    fn payloads_of_publishers_with_announced_patterns_are_checked() {
        let mut bench = bench(2);
        let process = ProcessNumber::of_this_process();
        bench.reception.on_sample(&process.introduce(0));
        bench.reception.on_sample(&process.introduce_with_patterns(1));
        for (publisher, seq_num) in [(0, 0), (1, 0), (1, 1), (1, 2)] {
            let mut octets = [0; 1000];
            // The last sample remains that of the previous size.
            payload::write_some(&mut octets, number_of(publisher, seq_num.min(1)));
            let sample = Sample { seq_num, ..Sample::data(publisher, &octets) };
            bench.reception.on_sample(&sample);
        }
        let so_far = bench.progress.result_so_far();
        assert_eq!((so_far.throughput.samples, so_far.checked, so_far.corrupt), (4, 3, 1));
        for publisher in [0, 1] {
            bench.end(publisher, 2, Sentinel::LengthChanged, 0);
        }
        let Some(Event::Ended { result, .. }) = bench.event() else { panic!() };
        assert_eq!((result.checked, result.corrupt), (3, 1));
        assert_eq!(bench.progress.result_so_far().checked, 0, "each size by itself");
        bench.reception.checks = false;
        bench.data(1, 0, -1);
        assert_eq!((bench.progress.totals().samples, bench.progress.result_so_far().checked), (1, 0));
    }

    #[test]
    fn end_of_size_counts_earlier_losses() {
        let mut bench = bench(1);
        bench.data(0, 1, -1);
        bench.data(0, 1, -1);
        bench.end(0, 4, Sentinel::Finished, 0);
        let Some(Event::Ended { sentinel: Sentinel::Finished, round: 0, result }) = bench.event() else { panic!() };
        assert_eq!(result.data_len, 100);
        let throughput = result.throughput;
        assert_eq!((throughput.samples, throughput.bytes, throughput.lost, throughput.duplicate), (1, 100, 4, 1));
        bench.end(0, 4, Sentinel::Finished, 0);
        assert_eq!(bench.event(), Some(Event::EndedAgain { sentinel: Sentinel::Finished, round: 0 }));
    }

    #[test]
    fn size_ends_when_every_publisher_has_ended_it() {
        let mut bench = bench(2);
        bench.data(0, 0, -1);
        bench.data(1, 0, -1);
        bench.end(1, 0, Sentinel::LengthChanged, 0);
        bench.end(1, 0, Sentinel::LengthChanged, 0);
        assert_eq!(bench.event(), None);
        bench.end(0, 1, Sentinel::LengthChanged, 0);
        let Some(Event::Ended { result, .. }) = bench.event() else { panic!() };
        assert_eq!((result.throughput.samples, result.throughput.lost), (2, 1));
        assert_eq!(bench.progress.totals(), Totals::default());
        bench.data(0, 0, -1);
        assert_eq!(bench.progress.totals().samples, 1);
    }

    #[test]
    fn foreign_publishers_are_ignored_and_reported_once() {
        let mut bench = bench(1);
        for entity_id in [1, -1, i32::MAX] {
            bench.data(entity_id, 0, -1);
        }
        bench.end(9, 0, Sentinel::Finished, 0);
        assert!(matches!(bench.event(), Some(Event::Fault(text)) if text.contains("publisher 1 ")));
        assert_eq!((bench.event(), bench.progress.totals().samples), (None, 0));
    }

    #[test]
    fn two_processes_with_one_number_are_a_conflict() {
        let mut bench = bench(2);
        let processes = [ProcessNumber::of_this_process(), ProcessNumber::of_this_process()];
        for (process, publisher) in [(processes[0], 0), (processes[1], 1), (processes[0], 0)] {
            bench.reception.on_sample(&process.introduce(publisher));
        }
        // RTI Perftest sends no process number.
        bench.reception.on_sample(&Sentinel::Initialize.sample(0, 0, 99));
        assert_eq!(bench.event(), None);
        bench.reception.on_sample(&processes[1].introduce(0));
        assert!(matches!(bench.event(), Some(Event::Conflict(text)) if text.contains("as number 0")));
    }

    #[test]
    fn two_participants_with_one_number_are_a_conflict() {
        let mut bench = bench(2);
        let introduction = |publisher, origin| Sample { origin, ..Sentinel::Initialize.sample(publisher, 0, 99) };
        for (publisher, origin) in [(0, [1; 12]), (1, [2; 12]), (0, [1; 12])] {
            bench.reception.on_sample(&introduction(publisher, origin));
        }
        assert_eq!(bench.event(), None);
        bench.reception.on_sample(&introduction(0, [2; 12]));
        assert!(matches!(bench.event(), Some(Event::Conflict(text)) if text.contains("as number 0")));
    }

    #[test]
    fn missing_data_gives_result_of_zeros() {
        let mut bench = bench(1);
        bench.end(0, u32::MAX, Sentinel::Finished, 0);
        let Some(Event::Ended { result, .. }) = bench.event() else { panic!() };
        assert_eq!(result, SizeResult::default());
    }
}
