//! The counters of a writer.

/// The counters of a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriterCounters {
    /// Samples sent for the first time.
    pub samples_sent: u64,
    /// Payload bytes sent for the first time.
    pub bytes_sent: u64,
    /// Samples not sent because the filters of all readers rejected them.
    pub samples_rejected: u64,
    /// Whole samples retransmitted.
    pub samples_repaired: u64,
    /// Fragments retransmitted.
    pub fragments_repaired: u64,
    /// HEARTBEATs sent.
    pub heartbeats: u64,
    /// ACKNACKs and NACK_FRAGs handled.
    pub acknowledgements: u64,
    /// Acknowledgements ignored: from unmatched readers, or with a count that is old or inconsistent with earlier
    /// counts.
    pub acknowledgements_ignored: u64,
    /// How often the writer has gone over to another series of counts of a reader, because true ACKNACKs or NACK_FRAGs
    /// went on below a false count, or because two in a row were far ahead.
    pub counts_resynchronized: u64,
    /// How often a reader requested a sample that it had acknowledged, or that an acknowledgement in its name had, and
    /// that is held: the acknowledgement was forged, and does not count any more.
    pub acknowledgements_withdrawn: u64,
    /// Requests for repair that were not answered because the answer is under way, or because the reader's budget for
    /// repairs was used up.
    pub repairs_withheld: u64,
    /// Answers to requests for repair that were cut short, or not sent, because the budget that all readers at the
    /// address share was used up, and the reader has not paid for them itself.
    pub repairs_withheld_by_address: u64,
    /// How often a reliable reader did not answer, or made no progress, for so long that the writer went on without it.
    pub readers_inactive: u64,
    /// How often a reader was so much slower than others that the writer sent to it apart from them.
    pub readers_sent_apart: u64,
    /// How often a reader stalled delivery for at least a second.
    pub stalls: u64,
    /// Compatible readers that were not matched because the writer had reached its limit of matches.
    pub matches_refused: u64,
    /// Messages and submessages not sent because they could not be protected.
    pub unprotectable: u64,
}
