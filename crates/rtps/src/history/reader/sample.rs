//! Samples on their way into a reader's cache, and their description for the application.

use crate::history::ChangeKind;
use crate::history::instance::{InstanceState, ViewState, WriterSlot};
use crate::id::{Guid, KeyHash};
use crate::payload::Payload;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Timestamp};

/// A sample on its way into the cache.
#[derive(Debug)]
pub struct Arrival {
    /// The effect on its instance.
    pub kind: ChangeKind,
    /// The instance.
    pub instance: KeyHash,
    /// Its writer.
    pub writer: Guid,
    /// The number that the reader gave to the writer when it matched it.
    pub slot: WriterSlot,
    /// The strength of its writer (OWNERSHIP_STRENGTH).
    pub strength: i32,
    /// Its sequence number.
    pub sequence_number: SequenceNumber,
    /// When it was written, as stated by the writer; [`Timestamp::INVALID`] if not stated.
    pub source_timestamp: Timestamp,
    /// When the reader received it.
    pub reception_timestamp: Timestamp,
    /// Its place in the order by source timestamp; without such an order, any time.
    pub order_timestamp: Timestamp,
    /// When its lifespan ends.
    pub expires_at: Instant,
    /// The serialized sample, or for a dispose or unregister the serialized key if the message had it.
    pub payload: Payload,
}

impl Arrival {
    /// The position in the order by source timestamp, the same for every reader. Samples of the same time are ordered
    /// by the GUID of the writer.
    pub(in crate::history) const fn stamp(&self) -> (Timestamp, Guid) {
        (self.order_timestamp, self.writer)
    }
}

/// The result of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// The sample is visible to the application.
    Stored,
    /// The time-based filter holds the sample for later, unless a later sample replaces it.
    Held,
    /// The QoS excludes the sample.
    Filtered(FilterReason),
}

/// Why the application does not get a sample that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterReason {
    /// A stronger writer owns the instance, or an equally strong one with a lesser GUID.
    Ownership,
    /// The sample came too soon after the previous one, and is older than the one that the filter holds.
    TimeBasedFilter,
    /// Its lifespan has ended.
    Expired,
    /// Under order by source timestamp: the application took a newer sample, or HISTORY is full of newer ones, or the
    /// instance was written after this dispose.
    Superseded,
    /// The sample unregisters an unknown instance, or disposes one that is disposed already.
    NothingChanged,
}

/// Why the cache cannot store a sample now (SAMPLE_REJECTED).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RejectReason {
    /// `max_instances`.
    Instances,
    /// `max_samples`.
    Samples,
    /// `max_samples_per_instance`.
    SamplesPerInstance,
    /// The bytes of samples that a reader, a participant or the process may hold.
    Memory,
}

/// The description of a sample besides its value (DDS 1.4 §2.2.2.5.5).
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SampleInfo {
    /// Whether the application has read it before.
    pub read_before: bool,
    /// Whether its instance is new to the application.
    pub view_state: ViewState,
    /// Whether its instance is alive.
    pub instance_state: InstanceState,
    /// The instance.
    pub instance: KeyHash,
    /// Its writer.
    pub writer: Guid,
    /// Its sequence number.
    pub sequence_number: SequenceNumber,
    /// When it was written.
    pub source_timestamp: Timestamp,
    /// When the reader received it.
    pub reception_timestamp: Timestamp,
    /// How often the instance had been revived after a dispose when the sample arrived.
    pub disposed_generation_count: u32,
    /// How often the instance had been revived after the loss of its writers when the sample arrived.
    pub no_writers_generation_count: u32,
    /// Samples of the same instance later in the same collection.
    pub sample_rank: u32,
    /// Generations between it and the newest sample of its instance in the same collection.
    pub generation_rank: u32,
    /// Generations between it and the newest sample of its instance in the reader.
    pub absolute_generation_rank: u32,
    /// Whether the sample has a value. Otherwise it reports a change of the instance's state.
    pub valid_data: bool,
}
