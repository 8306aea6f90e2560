//! What a writer counts.

/// What a writer has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriterCounters {
    /// Samples sent for the first time.
    pub samples_sent: u64,
    /// Payload bytes sent for the first time.
    pub bytes_sent: u64,
    /// Samples that no reader was sent because the filters of all readers have rejected them.
    pub samples_rejected: u64,
    /// Whole samples sent again.
    pub samples_repaired: u64,
    /// Fragments sent again.
    pub fragments_repaired: u64,
    /// Heartbeats sent.
    pub heartbeats: u64,
    /// ACKNACKs and NACK_FRAGs taken into account.
    pub acknowledgements: u64,
    /// Acknowledgements that were ignored: from strangers, or their count had come before or
    /// contradicts the counts of the others.
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
    /// How often a reliable reader did not answer for so long that the writer went on without it.
    pub readers_inactive: u64,
    /// Readers that would match and were not taken, because there were as many as a writer takes.
    pub matches_refused: u64,
    /// Messages and submessages that did not leave because they could not be protected.
    pub unprotectable: u64,
}
