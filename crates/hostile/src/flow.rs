//! The flow between victim and honest peer: samples at a fixed rate, and a record of what came when.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use peregrine::qos::{Limit, ResourceLimits};
use peregrine::{DataReader, DataWriter, DdsType, DomainParticipant, Error};
use serde::{Deserialize, Serialize};

use crate::clock::now_ns;

/// Nanoseconds between two samples: 500 samples per second.
const PERIOD_NS: u64 = 2_000_000;
/// Unacknowledged samples that the writer holds: one second of the flow, so that acknowledgements that do not count any
/// more stop the flow soon.
pub(crate) const HELD_SAMPLES: u32 = 500;
/// A sample that comes later than this after it was due is late. The time covers a repair and a busy machine.
pub(crate) const LATE_NS: u64 = 100_000_000;
/// Samples that one flow can record: more than 30 minutes.
const INDEX_MAX: u64 = 1 << 20;
/// The head of a sample in little-endian CDR.
const CDR_LE: [u8; 4] = [0, 1, 0, 0];

/// LIFESPAN of the samples: far longer than any delay that is no damage.
const LIFESPAN: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "final")]
pub(crate) struct Beat {
    /// Names the run and is the key, so that the flow is one instance.
    #[dds(key)]
    run: u64,
    index: u64,
    due_ns: u64,
    octets: [u8; 32],
}

impl Beat {
    /// The serialized key of a run.
    pub(crate) fn serialized_key(run: u64) -> Vec<u8> {
        let mut out = CDR_LE.to_vec();
        out.extend_from_slice(&run.to_le_bytes());
        out
    }

    /// A serialized sample of a run that the honest pair does not write.
    pub(crate) fn serialized_forgery(run: u64) -> Vec<u8> {
        let mut out = Self::serialized_key(run);
        out.extend_from_slice(&INDEX_MAX.to_le_bytes());
        out.extend_from_slice(&[0; 40]);
        out
    }
}

/// The record of a reader of the flow.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FlowReport {
    /// Samples received, each once.
    pub(crate) received: u64,
    /// Samples between the first and the last that never came.
    pub(crate) lost: u64,
    /// Samples that came more than once, or were forged.
    pub(crate) foreign: u64,
    /// Longest time without a sample since the mark.
    pub(crate) longest_gap_ns: u64,
    /// When the last late sample came; zero for never.
    pub(crate) late_at_ns: u64,
    /// When the latest sample was due.
    pub(crate) due_ns: u64,
    /// Calls of `write` that timed out.
    pub(crate) refused: u64,
    /// When this report was made.
    pub(crate) now_ns: u64,
}

#[derive(Default)]
struct Record {
    first: Option<u64>,
    seen: BTreeSet<u64>,
    arrival_ns: u64,
    report: FlowReport,
}

impl Record {
    fn note(&mut self, beat: &Beat, run: u64, now: u64) {
        if beat.run != run || beat.index >= INDEX_MAX || !self.seen.insert(beat.index) {
            self.report.foreign += 1;
            return;
        }
        let first = self.first.map_or(beat.index, |first| first.min(beat.index));
        self.first = Some(first);
        self.report.received += 1;
        let highest = self.seen.last().copied().unwrap_or(first);
        self.report.lost = (highest - first + 1).saturating_sub(self.seen.len() as u64);
        if self.arrival_ns != 0 {
            self.report.longest_gap_ns = self.report.longest_gap_ns.max(now.saturating_sub(self.arrival_ns));
        }
        self.arrival_ns = now;
        if now.saturating_sub(beat.due_ns) > LATE_NS {
            self.report.late_at_ns = now;
        }
        self.report.due_ns = self.report.due_ns.max(beat.due_ns);
    }
}

/// One side of the flow. It writes from the first match on, until it is stopped or dropped.
pub(crate) struct Flow {
    writer: DataWriter<Beat>,
    reader: DataReader<Beat>,
    record: Arc<Mutex<Record>>,
    refused: Arc<AtomicU64>,
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Flow {
    pub(crate) fn start(participant: &DomainParticipant, run: u64, said: &str, heard: &str) -> Result<Self> {
        let limits = |samples| ResourceLimits {
            max_samples: Limit::At(samples),
            max_instances: Limit::At(1),
            max_samples_per_instance: Limit::At(samples),
        };
        // Both policies make source timestamps count.
        let writer = participant.topic::<Beat>(said)?.writer_builder().reliable().keep_all();
        let writer = writer.by_source_timestamp().lifespan(LIFESPAN).max_blocking_time(Duration::from_millis(50));
        let writer = writer.resource_limits(limits(HELD_SAMPLES)).build()?;
        let reader = participant.topic::<Beat>(heard)?.reader_builder().reliable().keep_all();
        let reader = reader.by_source_timestamp().resource_limits(limits(4 * HELD_SAMPLES)).build()?;
        let flow = Self {
            writer,
            reader,
            record: Arc::default(),
            refused: Arc::default(),
            stops: Arc::default(),
            threads: Vec::new(),
        };
        Ok(flow.with_threads(run))
    }

    fn with_threads(mut self, run: u64) -> Self {
        let (writer, refused, stops) = (self.writer.clone(), Arc::clone(&self.refused), Arc::clone(&self.stops));
        self.threads.push(thread::spawn(move || write(&writer, run, &refused, &stops)));
        let (reader, record) = (self.reader.clone(), Arc::clone(&self.record));
        // Ends with the process: samples still come after this side has stopped writing.
        drop(thread::spawn(move || read(&reader, run, &record)));
        self
    }

    /// The entities of writer and reader.
    pub(crate) fn entities(&self) -> (peregrine::EntityId, peregrine::EntityId) {
        (self.writer.guid().entity, self.reader.guid().entity)
    }

    /// Forged counts, claims and acknowledgements that writer and reader have noticed and dropped.
    pub(crate) fn healed(&self) -> u64 {
        let (writer, reader) = (self.writer.counters(), self.reader.counters());
        writer.counts_resynchronized
            + writer.acknowledgements_withdrawn
            + writer.acknowledgements_ignored
            + reader.counts_resynchronized
            + reader.claims_withdrawn
    }

    /// The participants of the readers that the writer has matched.
    pub(crate) fn readers(&self) -> Vec<[u8; 12]> {
        self.writer.matched_subscriptions().iter().map(|reader| reader.prefix.0).collect()
    }

    /// The participants of the writers that the reader has matched.
    pub(crate) fn writers(&self) -> Vec<[u8; 12]> {
        self.reader.matched_publications().iter().map(|writer| writer.prefix.0).collect()
    }

    pub(crate) fn report(&self) -> FlowReport {
        let now_ns = now_ns();
        let record = lock(&self.record);
        // The present silence counts, too.
        let silence_ns = if record.arrival_ns == 0 { 0 } else { now_ns.saturating_sub(record.arrival_ns) };
        let longest_gap_ns = record.report.longest_gap_ns.max(silence_ns);
        let refused = self.refused.load(Ordering::Relaxed);
        FlowReport { refused, now_ns, longest_gap_ns, ..record.report }
    }

    /// Forgets the longest gap so far.
    pub(crate) fn mark(&self) {
        lock(&self.record).report.longest_gap_ns = 0;
    }

    /// Stops writing. Whether the peer has acknowledged everything within `patience`.
    pub(crate) fn finish(&mut self, patience: Duration) -> bool {
        self.stops.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
        self.writer.wait_for_acknowledgments(patience).is_ok()
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(writer: &DataWriter<Beat>, run: u64, refused: &AtomicU64, stops: &AtomicBool) {
    let is_on = || !stops.load(Ordering::Relaxed);
    while is_on() && writer.wait_for_readers(1, Duration::from_millis(100)).is_err() {}
    let start = now_ns();
    let mut index = 0;
    while is_on() {
        let due_ns = start + index * PERIOD_NS;
        thread::sleep(Duration::from_nanos(due_ns.saturating_sub(now_ns())));
        match writer.write(&Beat { run, index, due_ns, octets: [7; 32] }) {
            Ok(_) => index += 1,
            // The sample stays due.
            Err(Error::Timeout(_)) => {
                refused.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => return,
        }
    }
}

fn read(reader: &DataReader<Beat>, run: u64, record: &Mutex<Record>) {
    loop {
        match reader.wait_for_data(Duration::from_millis(100)) {
            Ok(()) => {}
            Err(Error::Timeout(_)) => continue,
            Err(_) => return,
        }
        let Ok(samples) = reader.take() else { return };
        let now = now_ns();
        let mut record = lock(record);
        for beat in samples.into_iter().filter_map(peregrine::Sample::into_value) {
            record.note(&beat, run, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u64 = 9;

    fn note(record: &mut Record, index: u64, delay_ns: u64) {
        let due_ns = 1_000 + index * PERIOD_NS;
        record.note(&Beat { run: RUN, index, due_ns, octets: [0; 32] }, RUN, due_ns + delay_ns);
    }

    #[test]
    fn missing_samples_count_as_lost_until_they_come() {
        let mut record = Record::default();
        [3, 4, 7].into_iter().for_each(|index| note(&mut record, index, 5));
        assert_eq!((record.report.received, record.report.lost), (3, 2));
        assert_eq!(record.report.longest_gap_ns, 3 * PERIOD_NS);
        [5, 6].into_iter().for_each(|index| note(&mut record, index, 10 * PERIOD_NS));
        assert_eq!((record.report.received, record.report.lost), (5, 0));
        assert_eq!(record.report.late_at_ns, 0);
    }

    #[test]
    fn late_sample_marks_its_arrival() {
        let mut record = Record::default();
        note(&mut record, 0, 5);
        note(&mut record, 1, LATE_NS + 1);
        assert_eq!(record.report.late_at_ns, 1_000 + PERIOD_NS + LATE_NS + 1);
    }

    #[test]
    fn forged_and_repeated_samples_count_apart() {
        let mut record = Record::default();
        note(&mut record, 0, 5);
        note(&mut record, 0, 6);
        record.note(&Beat { run: RUN + 1, index: 500, due_ns: 0, octets: [0; 32] }, RUN, 50);
        assert_eq!((record.report.received, record.report.lost, record.report.foreign), (1, 0, 2));
    }
}
