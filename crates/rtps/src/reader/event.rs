//! Events and counters of a reader.

use core::time::Duration;

use crate::history::RejectReason;
use crate::id::{Guid, KeyHash};
use crate::seq::SequenceNumber;

/// An event for the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReaderEvent {
    /// The application can take new samples.
    DataAvailable,
    /// This number of samples will not arrive (SAMPLE_LOST).
    SampleLost(u64, SampleLostReason),
    /// The sample that the reader needs next from a reliable writer, or a fragment of it, has been missing for
    /// [`MISSING_REPORTED_AFTER`], although the reader requests it and no other fragment of it comes. Later samples of
    /// the writer wait. Reported once for each sample.
    ///
    /// [`MISSING_REPORTED_AFTER`]: crate::limits::MISSING_REPORTED_AFTER
    SampleMissing {
        /// The writer.
        writer: Guid,
        /// The sample.
        number: SequenceNumber,
    },
    /// The cache rejected a sample for lack of room (SAMPLE_REJECTED).
    SampleRejected(RejectReason, KeyHash),
    /// An instance had no sample within the deadline (REQUESTED_DEADLINE_MISSED).
    DeadlineMissed(KeyHash),
    /// A writer is alive or alive again (LIVELINESS_CHANGED).
    WriterAlive(Guid),
    /// A writer has not asserted its liveliness in time, or is unmatched (LIVELINESS_CHANGED).
    WriterNotAlive(Guid),
}

/// Why samples are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleLostReason {
    /// The writer removed them before they arrived: HISTORY or LIFESPAN ended, or the writer stopped waiting for this
    /// reader.
    NoLongerHeld,
    /// No part of them arrived before a later sample of a best-effort writer.
    InTransit,
    /// A part of them arrived before a later sample of a best-effort writer.
    Incomplete,
    /// They are longer than the reader accepts.
    TooLong,
}

/// Why a reader has a timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ReaderTimer {
    /// No HEARTBEAT of a writer has arrived yet.
    PreemptiveAckNack,
    /// Requested samples have not arrived.
    Repair,
    /// The liveliness lease of a writer ends.
    Liveliness,
    /// The lifespan of a sample or the purge delay of an instance ends, or a sample of the time-based filter is due.
    Cache,
    /// The deadline of an instance ends.
    Deadline,
}

/// Counters of received and discarded data, and of the reader's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReaderCounters {
    /// Samples inserted into the cache.
    pub samples: u64,
    /// Their payload bytes, except unserialized values.
    pub bytes: u64,
    /// Samples that had arrived before.
    pub duplicates: u64,
    /// Fragments that had arrived before.
    pub duplicate_fragments: u64,
    /// Fragments that contradict others of their sample: another size, or another content of the same fragment. One of
    /// both is forged or damaged, or the writer cuts the sample into other pieces.
    pub inconsistent_fragments: u64,
    /// Partly received samples that were discarded because their writer has not written them, as its HEARTBEATs say, or
    /// because no fragment has arrived for long. The reader requests again what its writer announces.
    pub reassemblies_given_up: u64,
    /// Out-of-order samples and fragments discarded for lack of room.
    pub no_room: u64,
    /// Samples and fragments evicted or discarded because the reader, or all readers for one remote participant,
    /// reached their memory limit. The reader requests them again from reliable writers.
    pub memory_limited: u64,
    /// Best-effort samples that arrived after a later one.
    pub late: u64,
    /// Lost samples.
    pub lost: u64,
    /// Lost samples of best-effort writers without a received fragment.
    pub lost_in_transit: u64,
    /// Lost samples of best-effort writers with some received fragments.
    pub lost_incomplete: u64,
    /// Samples rejected by RESOURCE_LIMITS.
    pub rejected: u64,
    /// Samples whose key could not be computed.
    pub undecodable: u64,
    /// Samples excluded by ownership, time-based filter, lifespan or order, and those that were written before a
    /// volatile reader was created.
    pub filtered: u64,
    /// Samples with a LIFESPAN whose age was not counted by the wall clocks of writer and reader, because these differ,
    /// or because the sample had waited on its way.
    pub lifespans_without_wall_clock: u64,
    /// Submessages from writers that are not matched. A best-effort reader that requests history loses samples that
    /// arrive before discovery has matched their writer here: without a match, the policies of the samples are unknown,
    /// and any sender could fill the memory of a reader that held them. A reliable reader requests them after the
    /// match.
    pub unmatched: u64,
    /// Requested sequence numbers and fragments.
    pub requested: u64,
    /// ACKNACKs and NACK_FRAGs sent.
    pub acknowledgements: u64,
    /// HEARTBEATs ignored because their count is old or inconsistent with earlier counts.
    pub heartbeats_ignored: u64,
    /// How often the reader has gone over to another series of HEARTBEAT counts of a writer, because true HEARTBEATs
    /// went on below a false count, or because two in a row were far ahead.
    pub counts_resynchronized: u64,
    /// Claims of writers that samples are gone or irrelevant, which a later message of the same writer contradicted:
    /// the reader went back to what it had passed over. Forged messages cause that, and rarely reordered ones.
    pub claims_withdrawn: u64,
    /// Samples that arrived although a GAP of their writer excludes them, after the reader had delivered a later one:
    /// dropped, and not counted as lost. The GAP was forged; or the writer let go of the sample while it was under way,
    /// because a newer one has replaced it (HISTORY) or its LIFESPAN has ended. The reader cannot tell which.
    pub excluded_by_gap: u64,
    /// Source timestamps far ahead that later samples of the same writer contradicted, under DESTINATION_ORDER by
    /// source timestamp: samples of other writers are no longer filtered because of them.
    pub source_jumps_withdrawn: u64,
    /// Fragments that were refused because they were too small for the number of pieces of their sample.
    pub small_fragments: u64,
    /// Requests for fragments that did not leave because the writer's budget for requests was used up.
    pub requests_withheld: u64,
    /// Requests for fragments that did not leave because the budget that all writers at the address share was used up,
    /// and the writer has not paid for them itself.
    pub requests_withheld_by_address: u64,
    /// Writers that would match and were not taken, because there were as many as a reader takes.
    pub matches_refused: u64,
    /// Payloads that were not protected by their writer, or that were changed.
    pub not_authentic: u64,
}

/// The sample that a reader needs next from a writer, and of which no part has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingSample {
    /// The writer.
    pub writer: Guid,
    /// The sequence number of the sample.
    pub number: SequenceNumber,
    /// For how long the reader has needed it next and requested it.
    pub lasting: Duration,
}

/// Samples that a reader holds outside its cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// Samples, whole or partly received.
    pub samples: usize,
    /// The bytes of their buffers.
    pub bytes: usize,
}
