//! A sample of the fast queue.

use crate::history::WriterSlot;
use crate::id::Guid;
use crate::payload::Payload;
use crate::seq::SequenceNumber;
use crate::time::Timestamp;

/// A value of the instance of the last sample, without a lifespan, that every filter has accepted.
#[derive(Debug)]
pub struct FastSample {
    /// Its writer.
    pub writer: Guid,
    /// The same, as the reader numbers its matched writers.
    pub slot: WriterSlot,
    /// Its number.
    pub sequence_number: SequenceNumber,
    /// When it was written, as the writer tells it; [`Timestamp::INVALID`] if it does not.
    pub source_timestamp: Timestamp,
    /// When it came.
    pub reception_timestamp: Timestamp,
    /// The serialized sample.
    pub payload: Payload,
}
