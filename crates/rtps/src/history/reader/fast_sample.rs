//! A sample of the fast queue.

use crate::history::WriterSlot;
use crate::id::Guid;
use crate::payload::Payload;
use crate::seq::SequenceNumber;
use crate::time::Timestamp;

/// A value of the last sample's instance, without a lifespan, accepted by every filter.
#[derive(Debug)]
pub struct FastSample {
    /// Its writer.
    pub writer: Guid,
    /// The number that the reader gave to the writer when it matched it.
    pub slot: WriterSlot,
    /// Its sequence number.
    pub sequence_number: SequenceNumber,
    /// When it was written, as stated by the writer; [`Timestamp::INVALID`] if not stated.
    pub source_timestamp: Timestamp,
    /// When the reader received it.
    pub reception_timestamp: Timestamp,
    /// The serialized sample.
    pub payload: Payload,
}
