//! Delivery without messages: to readers in this process, or through memory shared with another process.
//!
//! A reader on [`ReaderPath::HandOver`] is matched like any other: the writer keeps history for it, and the reader
//! acknowledges. The writer packs no messages for it: the driver takes changes from [`Writer::poll_hand_over`], in
//! order and by reference, and delivers them. The driver reports the reader's progress with [`Writer::acknowledge`],
//! and with [`Writer::pause_reader`] that the reader has no room; [`Writer::resume_reader`] continues at the change
//! where the reader paused. A reader that has lost changes after they were delivered is
//! [rewound](Writer::rewind_reader).
//!
//! Batches that are in delivery at that time belong to an earlier [session](Recipient::session): the driver discards
//! their changes for this reader.
//!
//! Such a reader has no timer: only the driver knows whether the reader can still answer. When the reader cannot, the
//! driver returns it to messages with [`Writer::set_path`].

#[cfg(test)]
mod tests;

use crate::box_list::BoxList;
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

/// Changes of the history handed over at a time.
const CATCH_UP_MAX: usize = 256;

impl HandOverBatch {
    /// The readers, each with its first change.
    #[must_use]
    pub fn recipients(&self) -> &[Recipient] {
        &self.recipients
    }

    /// The changes, ascending by number.
    #[must_use]
    pub fn changes(&self) -> &[HandOverChange] {
        &self.changes
    }

    /// The first and last available number, if the readers do not know them: [`Reader::handle_available`].
    #[must_use]
    pub const fn available(&self) -> Option<(SequenceNumber, SequenceNumber)> {
        self.available
    }

    /// Numbers before this that are not among the changes will not be sent: [`Reader::handle_unavailable`].
    #[must_use]
    pub const fn end(&self) -> SequenceNumber {
        self.end
    }

    /// Whether the application has asserted the writer's liveliness: [`Reader::writer_alive`].
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        self.is_alive
    }

    /// Whether the changes come from the history, for readers that lag behind. Other readers may receive later changes
    /// before.
    #[must_use]
    pub const fn is_catch_up(&self) -> bool {
        self.is_catch_up
    }

    /// Delivers the batch to one of the recipients in order, until the reader refuses a change. With `is_same_type`,
    /// writer and reader compute instances alike.
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
            if !reader.handle_change(rx, writer, number, change.meta(is_same_type), change.payload.lend()) {
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
                // The history recycles the payload when it removes the change.
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
    /// The metadata for the reader. With `is_same_type`, the reader need not compute the instance.
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
    /// Adds a new change that the history holds.
    pub(super) fn push_held(&mut self, change: &CacheChange) {
        self.push(HandOverChange::of_held(change));
    }

    /// Adds a new change that the history does not hold.
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
        // A value that is not encoded counts with the size of its record only.
        self.bytes = self.bytes.saturating_add(size_of::<HandOverChange>() + change.payload.known_len().unwrap_or(0));
        self.batch.changes.push(change);
    }

    pub(super) fn push_liveliness(&mut self) {
        self.batch.is_alive |= self.has_readers;
    }

    /// Whether every matched reader receives each new change at once, and the batch is empty.
    #[inline]
    pub(super) fn are_all_readers_live(&self) -> bool {
        self.are_all_live && self.batch.is_empty()
    }

    /// Bytes to be handed over.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether [`Writer::poll_hand_over`] has a batch.
    pub(super) fn has_some(&self) -> bool {
        self.has_readers && (self.is_catching_up || !self.batch.is_empty())
    }

    fn next_session(&mut self) -> u32 {
        self.last_session = self.last_session.wrapping_add(1);
        self.last_session
    }

    /// Updates the queue after a change of the readers or of their state.
    pub(super) fn refresh(&mut self, readers: &BoxList<ReaderProxy>) {
        self.has_readers = readers.iter().any(ReaderProxy::is_handed_over);
        self.is_catching_up =
            readers.iter().any(|r| r.is_handed_over() && matches!(r.hand_over_state, HandOverState::CatchingUp(_)));
        self.are_all_live =
            self.has_readers && !self.needs_history && readers.iter().all(ReaderProxy::can_do_without_history);
    }
}

impl Writer {
    /// Moves the changes to hand over into `out`, which must be empty. Returns whether there are any. The caller
    /// returns the batch by [`Self::reclaim_hand_over`].
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
            // Readers that lag behind receive the changes from the history.
            out.clear(&mut self.pool);
        }
        self.hand_over.is_catching_up && self.catch_up(out)
    }

    /// Takes a delivered batch back, so that its buffers can be reused.
    pub fn reclaim_hand_over(&mut self, batch: &mut HandOverBatch) {
        batch.clear(&mut self.pool);
    }

    /// Records that a reader on [`ReaderPath::HandOver`] has all samples before `below`.
    pub fn acknowledge(&mut self, now: Instant, reader: Guid, below: SequenceNumber) {
        let end = self.next_new();
        let Some(reader) = self.readers.find_mut(reader).filter(|r| r.is_handed_over()) else {
            self.counters.acknowledgements_ignored += 1;
            return;
        };
        let was_inactive = reader.is_inactive() && !reader.retains_unacknowledged();
        let (before, progress_before) = (reader.acknowledged_below, reader.progress());
        let progress = reader.info.reliable && reader.acknowledge(now, below.min(end));
        let returns = was_inactive && reader.returns_with_progress(before, end, &self.history);
        if was_inactive && !reader.is_inactive() {
            self.events.push_back(WriterEvent::ReaderActive(reader.info.guid));
        }
        let has_ended_stall = progress && reader.lag.has_ended_stall();
        if returns {
            self.hand_over.refresh(&self.readers);
        }
        if progress {
            self.release_after_progress(progress_before);
            if has_ended_stall {
                self.report_stalls(now);
            }
        }
    }

    /// Pauses a recipient of a batch, which has no room for the change `from` or has not matched this writer yet.
    /// Ignored if the recipient's session has ended.
    pub fn pause_reader(&mut self, now: Instant, Recipient { reader, from, session }: Recipient) {
        let is_meant = |reader: &&mut ReaderProxy| reader.is_handed_over() && reader.hand_over_session == session;
        if let Some(paused) = self.readers.find_mut(reader).filter(is_meant) {
            paused.hand_over_state = HandOverState::Paused(from);
            self.hand_over.refresh(&self.readers);
            self.note_lag(now, reader);
        }
    }

    /// Hands the change `from` and later ones over again, because the reader has lost them. The reader is paused, and
    /// its [session](Recipient::session) ends.
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

    /// Resumes a paused reader, which has room again.
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

    /// The process of these readers has ended, as the kernel reports. The writer no longer waits for their
    /// acknowledgements, as after [unanswered requests](WriterEvent::ReaderInactive), unless one acknowledges again.
    pub fn note_dead_readers(&mut self, now: Instant, readers: &[Guid]) {
        let mut any = false;
        for guid in readers {
            let may_wait = |reader: &&mut ReaderProxy| {
                reader.info.reliable && !reader.is_inactive() && !reader.retains_unacknowledged()
            };
            let Some(reader) = self.readers.find_mut(*guid).filter(may_wait) else { continue };
            reader.unanswered = reader.patience;
            // If it returns after all, the window counts it from the next sample on.
            reader.is_left_behind = true;
            self.counters.readers_inactive += 1;
            self.events.push_back(WriterEvent::ReaderInactive(*guid));
            any = true;
        }
        if any {
            self.may_have_inactive = true;
            self.hand_over.refresh(&self.readers);
            self.release_acknowledged();
            self.reschedule(now);
            self.pump(now);
        }
    }

    /// Changes the path to a matched reader. A reliable reader misses no sample and receives none twice: the new path
    /// delivers all samples that the reader has not acknowledged. For a best-effort reader, messages in transit may
    /// arrive too late. A reader with a filter stays on messages.
    pub fn set_path(&mut self, now: Instant, reader: Guid, path: ReaderPath) {
        self.set_paths(now, &[reader], path);
    }

    /// [`Self::set_path`] for several readers.
    pub fn set_paths(&mut self, now: Instant, readers: &[Guid], path: ReaderPath) {
        self.finish_group(now);
        let mut any = false;
        for reader in readers {
            any |= self.move_to_path(*reader, path);
        }
        if any {
            self.regroup();
            self.reschedule(now);
            self.pump(now);
            self.serve_or_defer(now);
        }
    }

    /// Returns whether the reader was on another path.
    fn move_to_path(&mut self, reader: Guid, path: ReaderPath) -> bool {
        let next = self.next_new();
        let is_allowed = |r: &&mut ReaderProxy| path == ReaderPath::Messages || r.info.filter.is_none();
        let proxy = self.readers.find_mut(reader).filter(|r| r.path != path).filter(is_allowed);
        let Some(proxy) = proxy else { return false };
        proxy.path = path;
        proxy.hand_over_session = self.hand_over.next_session();
        proxy.answered();
        proxy.end_current();
        proxy.requested.clear();
        proxy.push_from.clear();
        proxy.owed_heartbeat = proxy.info.reliable && path == ReaderPath::Messages;
        if path == ReaderPath::HandOver {
            let from = if proxy.info.reliable { proxy.acknowledged_below } else { next };
            proxy.begin(from, next);
        } else if !proxy.info.reliable && proxy.lacks_from() < next {
            proxy.push_from.set(proxy.lacks_from());
        }
        true
    }

    /// The path to a matched reader.
    #[must_use]
    pub fn path_to(&self, reader: Guid) -> Option<ReaderPath> {
        self.readers.find(reader).map(|r| r.path)
    }

    /// Whether a value must be encoded before it is written, because readers receive messages, or later readers may
    /// receive this sample by messages. Encoding is application code, which must not run under the caller's lock.
    #[must_use]
    #[inline]
    pub const fn needs_octets(&self) -> bool {
        self.group.has_readers || self.config.durable || self.config.asynchronous
    }

    /// Whether a reader is on the hand-over path, so that [`Self::poll_hand_over`] may have a batch.
    #[must_use]
    #[inline]
    pub const fn hands_over(&self) -> bool {
        self.hand_over.has_readers
    }

    /// The number of the next change for readers that match now.
    pub(super) fn next_new(&self) -> SequenceNumber {
        if self.config.asynchronous { self.next_to_send } else { self.history.last().next() }
    }

    /// Whether written changes can be handed over later.
    fn has_history(&self) -> bool {
        self.holds_changes()
    }

    /// Hands over a part of the missing changes to the first reader that lags behind, and to all readers at the same
    /// position. Readers that share a channel pause together when it is full, and so resume together.
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

/// The position of a reader that lags behind.
#[derive(Clone, Copy, PartialEq, Eq)]
struct CatchUpStart {
    first: SequenceNumber,
    /// For a reliable reader, the first available number. The reader has lost earlier samples, except those that it has
    /// and those written before it matched.
    known: Option<SequenceNumber>,
}

/// `from`, or the first held number if that is greater.
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

    /// Whether it receives each new change at once, and nothing is kept for it but what it has not acknowledged.
    fn can_do_without_history(&self) -> bool {
        self.is_live() && !self.retains_unacknowledged() && !self.lag.is_given_up
    }

    fn is_live(&self) -> bool {
        self.is_handed_over() && self.hand_over_state == HandOverState::Live
    }

    /// The first change that was not handed over to it.
    const fn lacks_from(&self) -> SequenceNumber {
        match self.hand_over_state {
            HandOverState::Live => self.hand_from,
            HandOverState::CatchingUp(from) | HandOverState::Paused(from) => from,
        }
    }

    /// Starts the hand-over at `from`, where `next` is the number of the next change. A best-effort reader that lacks
    /// no change need not know which changes are available, and the writer perhaps keeps no history.
    pub(super) fn begin(&mut self, from: SequenceNumber, next: SequenceNumber) {
        self.hand_from = from;
        self.hand_over_state =
            if !self.info.reliable && from >= next { HandOverState::Live } else { HandOverState::CatchingUp(from) };
    }
}
