//! Changes that reach a reader without messages: in this process, or through memory shared with another one.
//!
//! A reader on [`ReaderPath::HandOver`] is matched like any other: the writer keeps history for it, and the reader
//! acknowledges. The writer packs no messages for it: the driver takes changes from [`Writer::poll_hand_over`], in
//! order and by reference, and delivers them. The driver reports the reader's progress with [`Writer::acknowledge`],
//! and with [`Writer::pause_reader`] that the reader has no room; [`Writer::resume_reader`] continues at the change
//! where the reader paused. A reader that has lost changes after they were delivered is
//! [rewound](Writer::rewind_reader).
//!
//! Batches that are being delivered meanwhile belong to an earlier [session](Recipient::session): the driver drops what
//! they hold for this reader.
//!
//! No timer runs for such a reader: only the driver knows whether the reader can still answer. When it cannot,
//! [`Writer::set_path`] returns the reader to messages.

#[cfg(test)]
mod tests;

use crate::history::{CacheChange, Change, WriterHistory};
use crate::id::Guid;
use crate::payload::BufferPool;
use crate::reader::{Reader, Reception, SampleMeta};
use crate::seq::SequenceNumber;
use crate::time::Instant;

use super::hand_over_state::{
    Delivered, HandOverBatch, HandOverChange, HandOverQueue, HandOverState, ReaderPath, Recipient,
};
use super::proxy::ReaderProxy;
use super::{Writer, WriterEvent};

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

    /// Whether the changes come from the history, for readers that lack them. Other readers get later changes
    /// meanwhile.
    #[must_use]
    pub const fn is_catch_up(&self) -> bool {
        self.is_catch_up
    }

    /// Hands everything to one of the recipients, in order, until it takes no more. With `is_same_type`, writer and
    /// reader tell instances by the same means.
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
        self.is_catch_up = false;
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

    /// A new change that the history does not keep.
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

    fn next_session(&mut self) -> u32 {
        self.last_session = self.last_session.wrapping_add(1);
        self.last_session
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
                out.recipients.push(reader.recipient(reader.hand_from));
                reader.hand_from = reader.hand_from.max(end);
            }
            if !out.recipients.is_empty() {
                return true;
            }
            // Readers that are behind find it in the history.
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

    /// A recipient of a batch takes no changes at present: it has no room for the change `from`, or has not matched
    /// this writer yet. Ignored if the recipient's session has ended.
    pub fn pause_reader(&mut self, Recipient { reader, from, session }: Recipient) {
        let is_meant = |reader: &&mut ReaderProxy| reader.is_handed_over() && reader.hand_over_session == session;
        if let Some(reader) = self.readers.find_mut(reader).filter(is_meant) {
            reader.hand_over_state = HandOverState::Paused(from);
            self.hand_over.refresh(&self.readers);
        }
    }

    /// A reader has lost the change `from` and those after it. It is paused, and its [session](Recipient::session)
    /// ends.
    pub fn rewind_reader(&mut self, reader: Guid, from: SequenceNumber) {
        let session = self.hand_over.next_session();
        if let Some(reader) = self.readers.find_mut(reader).filter(|r| r.is_handed_over()) {
            reader.hand_over_session = session;
            reader.hand_over_state = HandOverState::Paused(from);
            self.hand_over.refresh(&self.readers);
        }
    }

    /// The [session](Recipient::session) of a reader on [`ReaderPath::HandOver`].
    #[must_use]
    pub fn hand_over_session(&self, reader: Guid) -> Option<u32> {
        self.readers.find(reader).filter(|r| r.is_handed_over()).map(|r| r.hand_over_session)
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

    /// The driver has found that this reader does not answer: the writer no longer waits for its acknowledgements,
    /// until the reader acknowledges again.
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

    /// Changes the way to a matched reader. A reliable one misses nothing and gets nothing twice: it is given by the
    /// new way what it has not acknowledged. To a best-effort one, what is still under way by messages may come too
    /// late. A reader with a filter keeps getting messages.
    pub fn set_path(&mut self, now: Instant, reader: Guid, path: ReaderPath) {
        self.finish_group(now);
        let next = self.next_new();
        let session = self.hand_over.next_session();
        let is_allowed = |r: &&mut ReaderProxy| path == ReaderPath::Messages || r.info.filter.is_none();
        let Some(proxy) = self.readers.find_mut(reader).filter(|r| r.path != path).filter(is_allowed) else { return };
        proxy.path = path;
        proxy.hand_over_session = session;
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

    /// Whether a value has to be encoded before it is written: readers get messages, or readers that match later may
    /// get this sample by messages. Encoding is code of the application, which must not run under the caller's lock.
    #[must_use]
    #[inline]
    pub const fn needs_octets(&self) -> bool {
        self.group.has_readers || self.config.durable || self.config.asynchronous
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

    /// Hands a part of what they lack to the first reader that is behind, and to all that are behind as far as it is.
    /// Readers that share a channel halt together when it is full, and so they go on together.
    fn catch_up(&mut self, out: &mut HandOverBatch) -> bool {
        let next = self.next_new();
        let Self { readers, history, hand_over, .. } = self;
        let behind = readers.iter().find_map(|reader| reader.catch_up_start(history, next));
        let Some(start) = behind else { return false };
        out.is_catch_up = true;
        out.available = start.known.map(|known| (known, next.previous()));
        let held = history.iter_from(start.first).take_while(|change| change.sequence_number < next);
        out.changes.extend(held.take(CATCH_UP_MAX).map(HandOverChange::of_held));
        let is_complete = out.changes.len() < CATCH_UP_MAX;
        out.end = match out.changes.last() {
            Some(last) if !is_complete => last.sequence_number.next(),
            _ => next,
        };
        for reader in readers.iter_mut().filter(|reader| reader.catch_up_start(history, next) == Some(start)) {
            out.recipients.push(reader.recipient(start.first));
            reader.hand_from = out.end;
            reader.hand_over_state = if is_complete { HandOverState::Live } else { HandOverState::CatchingUp(out.end) };
        }
        hand_over.refresh(readers);
        true
    }
}

/// Where a reader that is behind goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct CatchUpStart {
    first: SequenceNumber,
    /// For a reliable reader, the first number that can be had. What comes before is lost to the reader, except what
    /// the reader has and what was written before it matched.
    known: Option<SequenceNumber>,
}

/// The first number from `from` on that is held, or was and is not any more.
fn held_from(history: &WriterHistory, from: SequenceNumber) -> SequenceNumber {
    from.max(history.first())
}

impl ReaderProxy {
    pub(super) fn is_handed_over(&self) -> bool {
        self.path == ReaderPath::HandOver
    }

    const fn recipient(&self, from: SequenceNumber) -> Recipient {
        Recipient { reader: self.info.guid, from, session: self.hand_over_session }
    }

    /// `None` unless the reader is catching up.
    fn catch_up_start(&self, history: &WriterHistory, next: SequenceNumber) -> Option<CatchUpStart> {
        let HandOverState::CatchingUp(from) = self.hand_over_state else { return None };
        let known = || history.first().max(self.first_relevant).min(next);
        self.is_handed_over()
            .then(|| CatchUpStart { first: held_from(history, from).min(next), known: self.info.reliable.then(known) })
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

    /// Is to be handed everything from here on, where `next` is the number of the next change. A best-effort reader
    /// that lacks nothing need not know what can be had, and no history may be kept.
    pub(super) fn begin(&mut self, from: SequenceNumber, next: SequenceNumber) {
        self.hand_from = from;
        self.hand_over_state =
            if !self.info.reliable && from >= next { HandOverState::Live } else { HandOverState::CatchingUp(from) };
    }
}
