//! Changes that reach a reader without messages: in this process, or through memory shared with another one.
//!
//! A reader on [`ReaderPath::HandOver`] is matched like any other: the writer keeps history for it, and the reader acknowledges. The
//! writer packs no messages for it: the driver takes changes from [`Writer::poll_hand_over`], in order and by reference, and
//! delivers them. The driver reports the reader's progress with [`Writer::acknowledge`], and with [`Writer::pause_reader`] that the
//! reader has no room; [`Writer::resume_reader`] continues at the change where the reader paused.
//!
//! No timer runs for such a reader: only the driver knows whether the reader can still answer. When it cannot,
//! [`Writer::set_path`] returns the reader to messages.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use crate::history::{CacheChange, Change, ChangeKind, WriterHistory};
use crate::id::{Guid, KeyHash};
use crate::payload::{BufferPool, Payload};
use crate::reader::{Reader, Reception, SampleMeta};
use crate::seq::SequenceNumber;
use crate::time::{Instant, Timestamp};

use super::proxy::ReaderProxy;
use super::{Writer, WriterEvent};

/// How changes reach a matched reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReaderPath {
    /// RTPS messages to its locators.
    #[default]
    Messages,
    /// The driver takes them from [`Writer::poll_hand_over`] and delivers them.
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
    is_held: bool,
}

/// A reader that changes are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipient {
    /// Which one.
    pub reader: Guid,
    /// The first change for it. Those before are none of its business, or it has them.
    pub from: SequenceNumber,
}

/// What a writer hands over at a time. Reused, so that a steady state allocates nothing.
#[derive(Debug, Default)]
pub struct HandOverBatch {
    recipients: Vec<Recipient>,
    changes: Vec<HandOverChange>,
    /// The first and last number that can be had, when the readers do not know.
    available: Option<(SequenceNumber, SequenceNumber)>,
    /// Numbers before this that are not among the changes will never come.
    end: SequenceNumber,
    is_alive: bool,
}

/// How far a reader has got with a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivered {
    /// It has everything before this: to be told by [`Writer::acknowledge`].
    pub acknowledged_below: Option<SequenceNumber>,
    /// It takes no more for now, and this is the first that it did not take: to be told by [`Writer::pause_reader`].
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
    batch: HandOverBatch,
    /// Bytes of the payloads in `batch`, and of the changes themselves.
    bytes: usize,
    /// Whether there are readers for it at all.
    pub(super) has_readers: bool,
    /// Whether some of them are catching up.
    is_catching_up: bool,
    /// Whether there are readers, each of them gets each new change, and none is kept for without telling what it has.
    are_all_live: bool,
}

/// Changes of the history that are handed to a reader at a time.
const CATCH_UP_MAX: usize = 256;

impl HandOverBatch {
    /// The readers, each with the first change for it.
    #[must_use]
    pub fn recipients(&self) -> &[Recipient] {
        &self.recipients
    }

    /// The changes, ascending by number.
    #[must_use]
    pub fn changes(&self) -> &[HandOverChange] {
        &self.changes
    }

    /// The first and last number that can be had, when the readers do not know: [`Reader::handle_available`].
    #[must_use]
    pub const fn available(&self) -> Option<(SequenceNumber, SequenceNumber)> {
        self.available
    }

    /// Numbers before this that are not among the changes will never come: [`Reader::handle_unavailable`].
    #[must_use]
    pub const fn end(&self) -> SequenceNumber {
        self.end
    }

    /// Whether the application has asserted that the writer is alive: [`Reader::writer_alive`].
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        self.is_alive
    }

    /// Hands everything to one of the recipients, in order, until it takes no more. With `is_same_type`, writer and reader
    /// tell instances by the same means.
    pub fn deliver(
        &self,
        rx: &Reception<'_>,
        writer: Guid,
        recipient: Recipient,
        is_same_type: bool,
        reader: &mut Reader,
    ) -> Delivered {
        if self.is_alive {
            reader.writer_alive(rx.now, writer);
        }
        let mut next = recipient.from;
        if let Some((first, last)) = self.available
            && !reader.handle_available(rx, writer, first, last)
        {
            return Delivered { acknowledged_below: None, refused: Some(next) };
        }
        for change in self.changes.iter().filter(|change| change.sequence_number >= recipient.from) {
            let number = change.sequence_number;
            reader.handle_unavailable(rx, writer, next, number);
            if !reader.handle_change(rx, writer, number, change.meta(is_same_type), &change.payload) {
                return Delivered { acknowledged_below: reader.acknowledged_below(writer), refused: Some(number) };
            }
            next = number.next();
        }
        reader.handle_unavailable(rx, writer, next, self.end);
        Delivered { acknowledged_below: reader.acknowledged_below(writer), refused: None }
    }

    fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.is_alive && self.available.is_none()
    }

    fn clear(&mut self, pool: &mut BufferPool) {
        for change in self.changes.drain(..) {
            if change.is_held {
                // The history puts it away when its time has come.
                pool.recycle(change.payload);
            } else {
                pool.put_away(change.payload);
            }
        }
        self.recipients.clear();
        self.available = None;
        self.end = SequenceNumber::ZERO;
        self.is_alive = false;
    }
}

impl HandOverChange {
    /// What the reader is told about it. With `is_same_type`, it need not find out the instance again.
    #[must_use]
    pub const fn meta(&self, is_same_type: bool) -> SampleMeta {
        SampleMeta {
            kind: self.kind,
            key_hash: Some(self.instance),
            source_timestamp: self.source_timestamp,
            lifespan: None,
            is_filtered: false,
            is_directed: false,
            is_instance_certain: is_same_type,
        }
    }

    fn of_held(change: &CacheChange) -> Self {
        Self {
            sequence_number: change.sequence_number,
            kind: change.kind,
            instance: change.instance,
            source_timestamp: change.source_timestamp,
            payload: change.payload.clone(),
            is_held: true,
        }
    }
}

impl HandOverQueue {
    /// A new change, which the history has too.
    pub(super) fn push_held(&mut self, change: &CacheChange) {
        self.push(HandOverChange::of_held(change));
    }

    /// A new change that nobody else keeps.
    pub(super) fn push_once(&mut self, sequence_number: SequenceNumber, change: &Change) {
        self.push(HandOverChange {
            sequence_number,
            kind: change.kind,
            instance: change.instance,
            source_timestamp: change.source_timestamp,
            payload: change.payload.clone(),
            is_held: false,
        });
    }

    fn push(&mut self, change: HandOverChange) {
        self.batch.end = change.sequence_number.next();
        // A value that is not encoded counts as what refers to it.
        self.bytes = self.bytes.saturating_add(size_of::<HandOverChange>() + change.payload.known_len().unwrap_or(0));
        self.batch.changes.push(change);
    }

    pub(super) fn push_liveliness(&mut self) {
        self.batch.is_alive |= self.has_readers;
    }

    /// Whether every reader there is gets the next change, and nothing else is to be handed over.
    #[inline]
    pub(super) fn are_all_readers_live(&self) -> bool {
        self.are_all_live && self.batch.is_empty()
    }

    /// Bytes that wait to be handed over.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there is something to [poll](Writer::poll_hand_over) for.
    pub(super) fn has_some(&self) -> bool {
        self.has_readers && (self.is_catching_up || !self.batch.is_empty())
    }

    /// The readers have changed, or where they stand.
    pub(super) fn refresh(&mut self, readers: &[ReaderProxy]) {
        self.has_readers = readers.iter().any(ReaderProxy::is_handed_over);
        self.is_catching_up =
            readers.iter().any(|r| r.is_handed_over() && matches!(r.hand_over_state, HandOverState::CatchingUp(_)));
        self.are_all_live = self.has_readers && readers.iter().all(|r| r.is_live() && !r.retains_unacknowledged());
    }
}

impl Writer {
    /// Takes out what is to be handed over, replacing the contents of `out`, which must be empty. Says whether there is
    /// any. The batch is given back by [`Self::reclaim_hand_over`].
    #[inline]
    pub fn poll_hand_over(&mut self, out: &mut HandOverBatch) -> bool {
        if !self.hand_over.has_readers {
            return false;
        }
        if !self.hand_over.batch.is_empty() {
            let end = self.hand_over.batch.end;
            core::mem::swap(&mut self.hand_over.batch, out);
            self.hand_over.bytes = 0;
            for reader in self.readers.iter_mut().filter(|r| r.is_live()) {
                out.recipients.push(Recipient { reader: reader.info.guid, from: reader.hand_from });
                reader.hand_from = reader.hand_from.max(end);
            }
            if !out.recipients.is_empty() {
                return true;
            }
            // Those that are behind find it in the history.
            out.clear(&mut self.pool);
        }
        self.hand_over.is_catching_up && self.catch_up(out)
    }

    /// Takes a batch back that has been delivered, so that its buffers can be used again.
    pub fn reclaim_hand_over(&mut self, batch: &mut HandOverBatch) {
        batch.clear(&mut self.pool);
    }

    /// A reader on [`ReaderPath::HandOver`] has everything before `below`.
    pub fn acknowledge(&mut self, now: Instant, reader: Guid, below: SequenceNumber) {
        let end = self.next_new();
        let Some(reader) = self.readers.find_mut(reader).filter(|r| r.is_handed_over()) else {
            self.counters.acknowledgements_ignored += 1;
            return;
        };
        if reader.is_silent() && !reader.retains_unacknowledged() {
            self.events.push_back(WriterEvent::ReaderActive(reader.info.guid));
        }
        if reader.info.reliable && reader.acknowledge(now, below.min(end)) {
            self.release_acknowledged();
        }
    }

    /// A reader takes no changes at present: it has no room for the change `from`, or has not matched this writer yet.
    pub fn pause_reader(&mut self, reader: Guid, from: SequenceNumber) {
        if let Some(reader) = self.readers.find_mut(reader).filter(|r| r.is_handed_over()) {
            reader.hand_over_state = HandOverState::Paused(from);
            self.hand_over.refresh(&self.readers);
        }
    }

    /// A paused reader has room again.
    pub fn resume_reader(&mut self, reader: Guid) {
        let (has_history, next) = (self.has_history(), self.next_new());
        let Some(reader) = self.readers.find_mut(reader).filter(|r| r.is_handed_over()) else {
            return;
        };
        if let HandOverState::Paused(from) = reader.hand_over_state {
            reader.begin(if has_history { from } else { next }, next);
            self.hand_over.refresh(&self.readers);
        }
    }

    /// The driver has found that this reader does not answer: the writer no longer waits for its acknowledgements, until the
    /// reader acknowledges again.
    pub fn mark_reader_inactive(&mut self, reader: Guid) {
        let Some(reader) = self.readers.find_mut(reader).filter(|r| r.is_handed_over()) else {
            return;
        };
        if reader.info.reliable && !reader.is_silent() {
            reader.unanswered = reader.patience;
            let guid = reader.info.guid;
            self.counters.readers_inactive += 1;
            self.events.push_back(WriterEvent::ReaderInactive(guid));
            self.release_acknowledged();
        }
    }

    /// Changes the way to a matched reader. A reliable one misses nothing and gets nothing twice: it is given by the new
    /// way what it has not acknowledged. To a best-effort one, what is still under way by messages may come too late.
    pub fn set_path(&mut self, now: Instant, reader: Guid, path: ReaderPath) {
        self.finish_group(now);
        let next = self.next_new();
        let Some(proxy) = self.readers.find_mut(reader).filter(|r| r.path != path) else { return };
        proxy.path = path;
        proxy.answered();
        proxy.end_current();
        proxy.requested = None;
        proxy.push_from = None;
        proxy.owed_heartbeat = proxy.info.reliable && path == ReaderPath::Messages;
        if path == ReaderPath::HandOver {
            let from = if proxy.info.reliable { proxy.acknowledged_below } else { next };
            proxy.begin(from, next);
        } else if !proxy.info.reliable && proxy.lacks_from() < next {
            proxy.push_from = Some(proxy.lacks_from());
        }
        self.regroup();
        self.reschedule(now);
        self.pump(now);
        self.serve_or_defer(now);
    }

    /// The way to a matched reader.
    #[must_use]
    pub fn path_to(&self, reader: Guid) -> Option<ReaderPath> {
        self.readers.find(reader).map(|r| r.path)
    }

    /// Whether anyone gets messages: then a value has to be encoded, which is best done before it is written.
    #[must_use]
    #[inline]
    pub const fn needs_octets(&self) -> bool {
        self.group.has_readers
    }

    /// Whether anyone is handed changes: then there may be some to [poll](Self::poll_hand_over) for.
    #[must_use]
    #[inline]
    pub const fn hands_over(&self) -> bool {
        self.hand_over.has_readers
    }

    /// The number of the next change for readers that come now.
    pub(super) fn next_new(&self) -> SequenceNumber {
        if self.config.asynchronous { self.next_to_send } else { self.history.last().next() }
    }

    /// Whether what was written can be handed over later.
    fn has_history(&self) -> bool {
        self.holds_changes()
    }

    /// Hands the first reader that is behind a part of what it lacks.
    fn catch_up(&mut self, out: &mut HandOverBatch) -> bool {
        let next = self.next_new();
        let mut readers = self.readers.iter_mut().filter(|r| r.is_handed_over());
        let behind = readers.find_map(|r| match r.hand_over_state {
            HandOverState::CatchingUp(from) => Some((r, from)),
            HandOverState::Live | HandOverState::Paused(_) => None,
        });
        let Some((reader, from)) = behind else { return false };
        let first = held_from(&self.history, from).min(next);
        if reader.info.reliable {
            // What comes before is lost to the reader, but for what it has or was none of its business.
            let known = self.history.first().max(reader.first_relevant).min(next);
            out.available = Some((known, next.previous()));
        }
        out.recipients.push(Recipient { reader: reader.info.guid, from: first });
        let held = self.history.iter_from(first).take_while(|change| change.sequence_number < next);
        out.changes.extend(held.take(CATCH_UP_MAX).map(HandOverChange::of_held));
        let is_complete = out.changes.len() < CATCH_UP_MAX;
        out.end = match out.changes.last() {
            Some(last) if !is_complete => last.sequence_number.next(),
            _ => next,
        };
        reader.hand_from = out.end;
        reader.hand_over_state = if is_complete { HandOverState::Live } else { HandOverState::CatchingUp(out.end) };
        self.hand_over.refresh(&self.readers);
        true
    }
}

/// The first number from `from` on that is held, or was and is not any more.
fn held_from(history: &WriterHistory, from: SequenceNumber) -> SequenceNumber {
    from.max(history.first())
}

impl ReaderProxy {
    pub(super) fn is_handed_over(&self) -> bool {
        self.path == ReaderPath::HandOver
    }

    fn is_live(&self) -> bool {
        self.is_handed_over() && self.hand_over_state == HandOverState::Live
    }

    /// The first change that it has not been handed.
    const fn lacks_from(&self) -> SequenceNumber {
        match self.hand_over_state {
            HandOverState::Live => self.hand_from,
            HandOverState::CatchingUp(from) | HandOverState::Paused(from) => from,
        }
    }

    /// Is to be handed everything from here on, where `next` is the number of the next change. A best-effort reader that lacks
    /// nothing need not know what can be had, and history may be kept for nobody.
    pub(super) fn begin(&mut self, from: SequenceNumber, next: SequenceNumber) {
        self.hand_from = from;
        self.hand_over_state =
            if !self.info.reliable && from >= next { HandOverState::Live } else { HandOverState::CatchingUp(from) };
    }
}
