//! Shared memory without DDS: the floor of every middleware's shared memory.
//!
//! A sample is written once, into memory that its readers map, and read in place. A slot contains one sample, or
//! several consecutive ones with `-batchSize`; a sample of any size is contiguous. A writer waits for room unless
//! `-noBlockingSockets` is set, so no sample is lost.

mod party;
mod reader;
mod rendezvous;
mod traffic;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use peregrine_report::record::WireUse;
use peregrine_transport::shm::{Slot, WriterConfig};

use self::party::Parties;
pub use self::reader::{RawShmListening, RawShmReader};
use self::rendezvous::Rendezvous;
use self::traffic::{Count, Traffic};
use self::writer::{RoomTimeout, SharedWriter, WriterState};
use super::{
    Configuration, ENCAPSULATION_LEN, EndpointReport, HEADER_LEN, Messaging, Resent, Sample, SampleWriter, Topic,
    WireCounter, WriteError,
};
use crate::error::Error;
use crate::plan::{Batching, Role, TestPlan};

/// Samples that a reader may be behind by default; a power of two, as rings require. `-sendQueueSize` overrides it.
const QUEUE_LEN: u32 = 1024;
/// Longest queue that rings support.
const MAX_QUEUE_LEN: u32 = 1 << 14;
/// Memory for samples in flight: about the size of common caches.
const SLOT_BYTES: usize = 8 << 20;
/// Minimum number of the largest samples in flight.
const LARGEST_SLOTS: usize = 4;
/// Additional memory for the messages of the test.
const CONTROL_BYTES: usize = 1 << 20;
/// Upper bound of the rounding of memory.
const PAGE_BYTES: usize = 1 << 16;
/// Readers of an earlier test that may be admitted besides the expected ones.
const SPARE_READERS: usize = 28;

/// Shared memory of one process.
#[derive(Debug)]
pub struct RawShmMessaging {
    plan: TestPlan,
    parties: Parties,
    rendezvous: Rendezvous,
    traffic: Arc<Traffic>,
}

impl RawShmMessaging {
    /// Takes the name of this process, and starts to search for its partners.
    pub fn new(plan: &TestPlan) -> Result<Self, Error> {
        let parties = Parties::of(plan)?;
        let rendezvous = Rendezvous::open(&parties)?;
        Ok(Self { plan: plan.clone(), parties, rendezvous, traffic: Arc::default() })
    }

    /// Echoes are as long as the pings of a publisher, whose sizes only the publisher knows; they arrive one by one.
    fn max_bytes(&self, topic: Topic) -> usize {
        if topic == Topic::Latency {
            return usize::MAX;
        }
        // Encapsulation headers add up to a seventh for the shortest samples; a slot is up to an eighth longer than
        // requested.
        let batch_len = match self.batching() {
            Batching::Implicit(len) | Batching::Explicit(len) => len.saturating_add(len / 7),
            Batching::Off => 0,
        };
        let len = HEADER_LEN.saturating_add(self.plan.data.max_len.max(batch_len));
        let slot_len = len.saturating_add(len / 8).saturating_add(PAGE_BYTES);
        slot_len.saturating_mul(LARGEST_SLOTS).saturating_add(CONTROL_BYTES).max(SLOT_BYTES)
    }

    fn queue_len(&self) -> u32 {
        if self.plan.data.send_queue_given {
            self.plan.data.send_queue_len.clamp(1, MAX_QUEUE_LEN).next_power_of_two()
        } else {
            QUEUE_LEN
        }
    }

    fn batching(&self) -> Batching {
        match &self.plan.role {
            Role::Publisher(publisher) => publisher.batching,
            Role::Subscriber(_) => Batching::Off,
        }
    }

    fn room_timeout(&self) -> RoomTimeout {
        if self.plan.transport.blocking_send {
            RoomTimeout::Upto(self.plan.timeouts.partner)
        } else {
            RoomTimeout::None
        }
    }

    fn names(parties: impl Iterator<Item = party::Party>) -> String {
        parties.map(party::Party::name).collect::<Vec<_>>().join(", ")
    }
}

impl Messaging for RawShmMessaging {
    type Writer = RawShmWriter;
    type Reader = RawShmReader;

    fn name(&self) -> String {
        "plain shared memory".into()
    }

    fn configuration(&self) -> Configuration {
        let is_blocking = if self.plan.transport.blocking_send { "Yes" } else { "No" };
        Configuration {
            perftest: vec![("Middleware".into(), "Raw Transport".into())],
            transport: vec![
                ("Waits for Room".into(), is_blocking.into()),
                ("Samples in flight".into(), format!("up to {}", self.queue_len())),
                ("Receives as".into(), self.parties.own().name()),
                ("Sends to".into(), Self::names(self.parties.all())),
            ],
            security: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn wire_counter(&self) -> WireCounter {
        let traffic = Arc::clone(&self.traffic);
        Box::new(move || {
            let path = format!("shared memory ({} sent, {} received)", traffic.sent.sum(), traffic.received.sum());
            WireUse { path: vec![path], ..WireUse::default() }
        })
    }

    fn initial_burst(&self, _: u64) -> u64 {
        0
    }

    fn resource_limits(&self) -> Vec<EndpointReport> {
        let lines = vec![
            ("Samples in flight (max)", self.queue_len().to_string()),
            ("Shared memory (max)", format!("{} bytes", self.max_bytes(Topic::Throughput))),
        ];
        vec![EndpointReport { title: "Each writer but that of answers".into(), lines }]
    }

    fn counters(&self) -> Vec<EndpointReport> {
        Vec::new()
    }

    fn resent(&self) -> Option<Resent> {
        None
    }

    fn create_writer(&self, topic: Topic) -> Result<RawShmWriter, Error> {
        let config = WriterConfig {
            max_bytes: self.max_bytes(topic),
            entries: self.queue_len(),
            max_readers: self.parties.of_topic(topic).count() + SPARE_READERS,
            ..WriterConfig::default()
        };
        let shared = Arc::new(SharedWriter::new(config, self.room_timeout())?);
        self.rendezvous.add_writer(topic, &shared);
        let batching = if topic == Topic::Throughput { self.batching() } else { Batching::Off };
        Ok(RawShmWriter { shared, batching, batch: None, sent: self.traffic.sent.count() })
    }

    fn create_reader(&self, topic: Topic) -> Result<RawShmReader, Error> {
        RawShmReader::open(topic, &self.plan, &self.rendezvous, self.traffic.received.count())
    }
}

/// Sends the samples of one topic to all readers.
#[derive(Debug)]
pub struct RawShmWriter {
    shared: Arc<SharedWriter>,
    batching: Batching,
    batch: Option<Batch>,
    sent: Count,
}

/// Samples in a slot that wait for further ones.
#[derive(Debug)]
struct Batch {
    slot: Slot,
    used: usize,
    samples: u64,
}

impl SampleWriter for RawShmWriter {
    #[inline]
    fn write(&mut self, sample: &Sample<'_>) -> Result<(), WriteError> {
        let header = sample.header();
        let len = HEADER_LEN + sample.payload.len();
        let samples_per_batch = self.batching.samples_for(len - ENCAPSULATION_LEN);
        if samples_per_batch > 1 {
            return self.append(&header, sample.payload, samples_per_batch);
        }
        self.flush()?;
        let mut state = self.shared.lock();
        let mut slot = state.loan(len)?;
        put(&mut slot, &header, sample.payload);
        publish(&mut state, slot, &self.sent)
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        let Some(Batch { mut slot, used, .. }) = self.batch.take() else { return Ok(()) };
        slot.set_len(used).map_err(|error| WriteError::Failed(error.to_string()))?;
        publish(&mut self.shared.lock(), slot, &self.sent)
    }

    fn wait_for_readers(&mut self, count: u32, timeout: Duration) -> Result<bool, Error> {
        Ok(self.shared.wait_for_readers(count, timeout))
    }

    fn wait_for_acknowledgments(&mut self, _: Duration) -> Result<bool, Error> {
        Ok(true)
    }
}

impl RawShmWriter {
    fn append(&mut self, header: &[u8], payload: &[u8], samples_per_batch: u64) -> Result<(), WriteError> {
        let len = header.len() + payload.len();
        if self.batch.as_ref().is_some_and(|batch| batch.slot.len() - batch.used < len) {
            self.flush()?;
        }
        let batch = match &mut self.batch {
            Some(batch) => batch,
            None => {
                let slot = self.shared.lock().loan(len.saturating_mul(samples_per_batch as usize))?;
                self.batch.insert(Batch { slot, used: 0, samples: 0 })
            }
        };
        put(&mut batch.slot[batch.used..], header, payload);
        batch.used += len;
        batch.samples += 1;
        if batch.samples >= samples_per_batch { self.flush() } else { Ok(()) }
    }
}

#[inline]
fn publish(state: &mut WriterState, slot: Slot, sent: &Count) -> Result<(), WriteError> {
    let published = state.publish(slot);
    if matches!(published, Ok(())) {
        sent.add(1);
    }
    published
}

/// Writes a sample in the form of raw sockets. `place` has at least its length.
#[inline]
fn put(place: &mut [u8], header: &[u8], payload: &[u8]) {
    let (front, rest) = place.split_at_mut(header.len());
    front.copy_from_slice(header);
    rest[..payload.len()].copy_from_slice(payload);
}

#[cfg(test)]
mod tests;
