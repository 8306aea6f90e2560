//! Changes to hand over, and the progress of each reader.

use alloc::vec::Vec;

use crate::history::ChangeKind;
use crate::id::{Guid, KeyHash};
use crate::payload::Payload;
use crate::seq::SequenceNumber;
use crate::time::Timestamp;

/// The path of changes to a matched reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReaderPath {
    /// RTPS messages to its locators.
    #[default]
    Messages,
    /// The driver takes changes from [`Writer::poll_hand_over`](super::Writer::poll_hand_over) and delivers them.
    HandOver,
}

/// A change for readers on the hand-over path.
#[derive(Clone, Debug)]
pub struct HandOverChange {
    /// Its sequence number.
    pub sequence_number: SequenceNumber,
    /// The effect on its instance.
    pub kind: ChangeKind,
    /// The instance.
    pub instance: KeyHash,
    /// When it was written.
    pub source_timestamp: Timestamp,
    /// The serialized sample or key, or the value.
    pub payload: Payload,
    /// Whether the history refers to the payload too.
    pub(super) is_held: bool,
}

/// A reader that receives the changes of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipient {
    /// The reader.
    pub reader: Guid,
    /// The first change for it. The reader has the earlier ones, or they were written before it matched.
    pub from: SequenceNumber,
    /// Identifies the hand-over since [`Writer::set_path`](super::Writer::set_path) or
    /// [`Writer::rewind_reader`](super::Writer::rewind_reader). A batch of an earlier session does not continue where
    /// the reader is now.
    pub session: u32,
}

/// The changes handed over at a time. Reused, so that a steady state allocates nothing.
#[derive(Debug, Default)]
pub struct HandOverBatch {
    pub(super) recipients: Vec<Recipient>,
    pub(super) changes: Vec<HandOverChange>,
    /// The first and last available number, if the readers do not know them.
    pub(super) available: Option<(SequenceNumber, SequenceNumber)>,
    /// Numbers before this that are not among the changes will not be sent.
    pub(super) end: SequenceNumber,
    pub(super) is_alive: bool,
    pub(super) is_catch_up: bool,
}

/// The progress of a reader with a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivered {
    /// The reader has all samples before this number: the driver calls
    /// [`Writer::acknowledge`](super::Writer::acknowledge).
    pub acknowledged_below: Option<SequenceNumber>,
    /// The first change that the reader refused, if any: the driver calls
    /// [`Writer::pause_reader`](super::Writer::pause_reader).
    pub refused: Option<SequenceNumber>,
}

/// The state of a reader on the hand-over path. Not used while the reader receives messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HandOverState {
    /// The reader has all changes so far and gets each new one.
    Live,
    /// The reader lacks every change from this one on, and does not know which changes are available.
    CatchingUp(SequenceNumber),
    /// Like `CatchingUp`, and the reader has no room at present.
    Paused(SequenceNumber),
}

/// The changes to hand over to readers that are up to date.
#[derive(Debug, Default)]
pub(super) struct HandOverQueue {
    pub(super) batch: HandOverBatch,
    /// Bytes of the payloads in `batch`, and of the changes themselves.
    pub(super) bytes: usize,
    /// Whether there are readers on the hand-over path.
    pub(super) has_readers: bool,
    /// The last [session](Recipient::session) of any reader.
    pub(super) last_session: u32,
    /// Whether some of these readers are catching up.
    pub(super) is_catching_up: bool,
    /// Whether the writer counts what its history holds.
    pub(super) needs_history: bool,
    /// Whether there are readers, all of them are live, the writer does not count what its history holds, and no
    /// samples are kept for readers that never acknowledge.
    pub(super) are_all_live: bool,
}
