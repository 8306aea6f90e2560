//! Samples on their way into a reader's cache, and what the application learns about them.

use crate::history::ChangeKind;
use crate::history::instance::{InstanceState, ViewState, WriterSlot};
use crate::id::{Guid, KeyHash};
use crate::payload::Payload;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Timestamp};

/// A sample on its way into the cache.
#[derive(Debug)]
pub struct Arrival {
    /// What it does to its instance.
    pub kind: ChangeKind,
    /// Which instance.
    pub instance: KeyHash,
    /// Its writer.
    pub writer: Guid,
    /// The same, as the reader numbers its matched writers.
    pub slot: WriterSlot,
    /// How strongly it was written (OWNERSHIP_STRENGTH).
    pub strength: i32,
    /// Its number.
    pub sequence_number: SequenceNumber,
    /// When it was written, as the writer tells it; [`Timestamp::INVALID`] if it does not.
    pub source_timestamp: Timestamp,
    /// When it came.
    pub reception_timestamp: Timestamp,
    /// When it stops being of interest.
    pub expires_at: Instant,
    /// The serialized sample, or for a dispose or unregister the serialized key if that came.
    pub payload: Payload,
}

impl Arrival {
    /// What decides about the order by source time stamp, the same for every reader: among samples of the same time the
    /// one of the greater writer is the later. A sample without a time was written when it came.
    pub(in crate::history) const fn stamp(&self) -> (Timestamp, Guid) {
        let at = if self.source_timestamp.is_valid() { self.source_timestamp } else { self.reception_timestamp };
        (at, self.writer)
    }
}

/// What became of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// The application will see it.
    Stored,
    /// The application will see it when the time-based filter lets it, unless a later one takes its place.
    Held,
    /// It is of no interest, by the QoS.
    Filtered(FilterReason),
}

/// Why the application does not see a sample that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterReason {
    /// A stronger writer owns the instance, or an equally strong one of a lesser GUID.
    Ownership,
    /// It came too soon after the one before, and is older than the one held until then.
    TimeBasedFilter,
    /// Its lifespan is over.
    Expired,
    /// By source time stamp a newer one was taken already, or as many newer ones are held as HISTORY keeps, or the
    /// instance was written after it was disposed here.
    Superseded,
    /// An unknown instance was unregistered, or one already gone was disposed again.
    NothingChanged,
}

/// Why the cache cannot take a sample now (SAMPLE_REJECTED).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RejectReason {
    /// `max_instances`.
    Instances,
    /// `max_samples`.
    Samples,
    /// `max_samples_per_instance`.
    SamplesPerInstance,
}

/// What the application learns about a sample besides its value (DDS 1.4 §2.2.2.5.5).
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SampleInfo {
    /// Whether it was read before.
    pub read_before: bool,
    /// Whether its instance is new to the application.
    pub view_state: ViewState,
    /// Whether its instance lives.
    pub instance_state: InstanceState,
    /// Which instance.
    pub instance: KeyHash,
    /// Its writer.
    pub writer: Guid,
    /// Its number within the writer.
    pub sequence_number: SequenceNumber,
    /// When it was written.
    pub source_timestamp: Timestamp,
    /// When it came.
    pub reception_timestamp: Timestamp,
    /// How often the instance had come back after a dispose when it came.
    pub disposed_generation_count: u32,
    /// How often the instance had come back after losing its writers when it came.
    pub no_writers_generation_count: u32,
    /// Samples of the same instance after this one in the same collection.
    pub sample_rank: u32,
    /// Generations between it and the newest of its instance in the same collection.
    pub generation_rank: u32,
    /// Generations between it and the newest of its instance that the reader has.
    pub absolute_generation_rank: u32,
    /// Whether there is a value; if not, only the instance's state has changed.
    pub valid_data: bool,
}
