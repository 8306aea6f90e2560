//! Changes that are handed over, and how far each reader has got with them.

use alloc::vec::Vec;

use crate::history::ChangeKind;
use crate::id::{Guid, KeyHash};
use crate::payload::Payload;
use crate::seq::SequenceNumber;
use crate::time::Timestamp;

/// How changes reach a matched reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReaderPath {
    /// RTPS messages to its locators.
    #[default]
    Messages,
    /// The driver takes them from [`Writer::poll_hand_over`](super::Writer::poll_hand_over) and delivers them.
    HandOver,
}

/// A change on its way to readers without messages.
#[derive(Clone, Debug)]
pub struct HandOverChange {
    /// Its number.
    pub sequence_number: SequenceNumber,
    /// What it does.
    pub kind: ChangeKind,
    /// Which instance it is about.
    pub instance: KeyHash,
    /// When it was written.
    pub source_timestamp: Timestamp,
    /// The serialized sample or key, or the value.
    pub payload: Payload,
    /// The history refers to the payload too.
    pub(super) is_held: bool,
}

/// A reader that changes are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipient {
    /// Which one.
    pub reader: Guid,
    /// The first change for it. The reader has the earlier ones, or they were written before it matched.
    pub from: SequenceNumber,
    /// Identifies the hand-over since [`Writer::set_path`](super::Writer::set_path) or
    /// [`Writer::rewind_reader`](super::Writer::rewind_reader). The reader lacks changes from before a batch of an
    /// earlier session.
    pub session: u32,
}

/// What a writer hands over at a time. Reused, so that a steady state allocates nothing.
#[derive(Debug, Default)]
pub struct HandOverBatch {
    pub(super) recipients: Vec<Recipient>,
    pub(super) changes: Vec<HandOverChange>,
    /// The first and last number that can be had, when the readers do not know.
    pub(super) available: Option<(SequenceNumber, SequenceNumber)>,
    /// Numbers before this that are not among the changes will never come.
    pub(super) end: SequenceNumber,
    pub(super) is_alive: bool,
    pub(super) is_catch_up: bool,
}

/// How far a reader has got with a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivered {
    /// It has everything before this: to be told by [`Writer::acknowledge`](super::Writer::acknowledge).
    pub acknowledged_below: Option<SequenceNumber>,
    /// It takes no more for now, and this is the first that it did not take: to be told by
    /// [`Writer::pause_reader`](super::Writer::pause_reader).
    pub refused: Option<SequenceNumber>,
}

/// Where a reader stands that is handed changes. Of no meaning while it gets messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HandOverState {
    /// The reader has all changes so far and gets each new one.
    Live,
    /// The reader lacks every change from this one on, and has not been told which changes are available.
    CatchingUp(SequenceNumber),
    /// As `CatchingUp`, and the reader has no room at present.
    Paused(SequenceNumber),
}

/// What is to be handed over.
#[derive(Debug, Default)]
pub(super) struct HandOverQueue {
    pub(super) batch: HandOverBatch,
    /// Bytes of the payloads in `batch`, and of the changes themselves.
    pub(super) bytes: usize,
    /// Whether there are readers for it at all.
    pub(super) has_readers: bool,
    /// The last [session](Recipient::session) of any reader.
    pub(super) last_session: u32,
    /// Whether some of them are catching up.
    pub(super) is_catching_up: bool,
    /// Whether there are readers, each of them gets each new change, and none is kept for without telling what it has.
    pub(super) are_all_live: bool,
}
