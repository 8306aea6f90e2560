//! What a reader reports to its caller.

use crate::history::RejectReason;
use crate::id::{Guid, KeyHash};

/// Something the application may want to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReaderEvent {
    /// There is something new to take.
    DataAvailable,
    /// So many samples will never come (SAMPLE_LOST).
    SampleLost(u64, SampleLostReason),
    /// A sample found no room (SAMPLE_REJECTED).
    SampleRejected(RejectReason, KeyHash),
    /// An instance was not heard of in time (REQUESTED_DEADLINE_MISSED).
    DeadlineMissed(KeyHash),
    /// A writer has come to life or back to life (LIVELINESS_CHANGED).
    WriterAlive(Guid),
    /// A writer did not show in time that it is alive, or is gone (LIVELINESS_CHANGED).
    WriterNotAlive(Guid),
}

/// Why samples will never come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleLostReason {
    /// The writer has let go of them before they had come: its HISTORY or LIFESPAN did not keep them for so long, or it
    /// stopped waiting for this reader.
    NoLongerHeld,
    /// Nothing of them has come, later ones have, and best-effort writers repair nothing.
    InTransit,
    /// A part of them has come, as above.
    Incomplete,
    /// They are longer than the reader accepts.
    TooLong,
}

/// Why a reader wants to be called at an instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ReaderTimer {
    /// A writer has not been heard yet.
    PreemptiveAckNack,
    /// What was asked for has not come.
    Repair,
    /// A writer should have been heard of.
    Liveliness,
    /// A sample or an instance outlives its interest, or what came too soon is due.
    Cache,
    /// An instance should have been heard of.
    Deadline,
}

/// What a reader has done so far, and what it did not do and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReaderCounters {
    /// Samples put into the cache.
    pub samples: u64,
    /// Their payload bytes, as far as they came as bytes.
    pub bytes: u64,
    /// Samples that had come before.
    pub duplicates: u64,
    /// Fragments that had come before.
    pub duplicate_fragments: u64,
    /// Fragments that contradict others of their sample.
    pub inconsistent_fragments: u64,
    /// Samples and fragments for which there was no room while they waited for others.
    pub no_room: u64,
    /// Samples and parts of samples thrown away or not taken because the reader, or all readers for one remote
    /// participant, would hold too much. Reliable writers are asked for them again.
    pub memory_limited: u64,
    /// Best-effort samples that came after a later one.
    pub late: u64,
    /// Samples that will never come.
    pub lost: u64,
    /// Lost samples of best-effort writers of which nothing has come.
    pub lost_in_transit: u64,
    /// Lost samples of best-effort writers of which a part has come.
    pub lost_incomplete: u64,
    /// Samples the application's limits kept out.
    pub rejected: u64,
    /// Samples whose key could not be found.
    pub undecodable: u64,
    /// Samples the QoS filtered out: by ownership, time, lifespan or order.
    pub filtered: u64,
    /// Submessages from writers that are not matched. A best-effort reader that wants history loses what a writer
    /// pushes before discovery has matched that writer here: without a match the reader cannot know how to treat the
    /// samples, and holding samples of unknown writers would let any sender fill its memory. A reliable reader requests
    /// them once it has matched.
    pub unmatched: u64,
    /// Requests for repair sent: numbers and fragments asked for.
    pub requested: u64,
    /// ACKNACKs and NACK_FRAGs sent.
    pub acknowledgements: u64,
    /// HEARTBEATs that were ignored: their count had come before, or contradicts the counts of the others.
    pub heartbeats_ignored: u64,
    /// How often the reader has gone over to another series of HEARTBEAT counts of a writer, because true HEARTBEATs
    /// went on below a false count, or because two in a row were far ahead.
    pub counts_resynchronized: u64,
    /// Claims of writers that samples are gone or irrelevant, which a later message of the same writer contradicted:
    /// the reader went back to what it had passed over. Forged messages cause that, and rarely reordered ones.
    pub claims_withdrawn: u64,
    /// Fragments that were refused because they were too small for the number of pieces of their sample.
    pub small_fragments: u64,
    /// Requests for fragments that did not leave because the writer's budget for requests was used up.
    pub requests_withheld: u64,
    /// Writers that would match and were not taken, because there were as many as a reader takes.
    pub matches_refused: u64,
    /// Payloads that their writer did not protect, or that were changed.
    pub not_authentic: u64,
}

/// What a reader holds that is not for the application yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// Samples, whole or in part.
    pub samples: usize,
    /// The bytes of their buffers.
    pub bytes: usize,
}
