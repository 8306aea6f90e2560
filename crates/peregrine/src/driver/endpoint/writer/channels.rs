//! The channels of a writer to reader processes, and its memory.

use peregrine_rtps::id::Guid;
use peregrine_rtps::writer::{HandOverBatch, ReaderPath, Recipient};
use peregrine_transport::event::{Poller, Token};
use peregrine_transport::shm::{Gone, Overflow, ReaderId, Request};

use super::{PayloadSlot, WriterCore, WriterState};
use crate::driver::base::clock::now;
use crate::driver::route::shm::outgoing::{AttachRequest, ChannelEvents, MatchedRequest};
use crate::shared_memory::SharedMemoryUse;
use crate::status::StatusMask;

impl WriterCore {
    /// Publishes the batch to readers in other processes. Adds readers without ring space to `halted`.
    #[inline]
    pub(in crate::driver) fn share(&self, batch: &HandOverBatch, halted: &mut Vec<Recipient>) {
        if self.outgoing.has_readers()
            && let Some(shared) = self.host.shared_memory()
        {
            self.outgoing.publish(batch, halted, shared.counters());
            self.arm(self.outgoing.deadline());
            self.note_ended_channels();
        }
    }

    /// Requests a poll of the channels if readers were found gone, which then get messages.
    #[inline]
    pub(in crate::driver::endpoint) fn note_ended_channels(&self) {
        if self.outgoing.has_ended() {
            self.report_ended_channels();
        }
    }

    #[cold]
    fn report_ended_channels(&self) {
        if let Some(shared) = self.host.shared_memory() {
            shared.note_ended(self.guid);
        }
    }

    /// Whether a reader in another process had no room, and no thread has noticed room since.
    pub(in crate::driver) fn is_without_room(&self, reader: Guid) -> bool {
        self.outgoing.is_halted(reader)
    }

    /// Admits a reader in another process, which gets samples by shared memory once it is ready.
    pub(in crate::driver) fn admit(
        &self,
        request: Request,
        reader: Guid,
        overflow: Overflow,
        poller: (&Poller, Token),
    ) -> std::io::Result<ReaderId> {
        let may_hand_over = self.return_to_messages(&[reader]) == [true];
        let shared = self.host.shared_memory().filter(|_| may_hand_over);
        let Some(shared) = shared else { return Err(std::io::ErrorKind::Unsupported.into()) };
        self.outgoing.admit(request, reader, overflow, poller, shared.counters())
    }

    /// Attaches readers of another process to the channel of their process, or dismisses those for which that is not
    /// possible, and returns them.
    pub(in crate::driver) fn accept(&self, requests: Vec<MatchedRequest>) -> Vec<Guid> {
        let readers: Vec<Guid> = requests.iter().map(|matched| matched.request.reader).collect();
        let (mut refused, mut allowed) = (Vec::new(), Vec::with_capacity(requests.len()));
        for (matched, is_allowed) in requests.into_iter().zip(self.return_to_messages(&readers)) {
            if is_allowed {
                allowed.push(matched);
            } else {
                self.outgoing.dismiss(&matched.request);
                refused.push(matched.request.reader);
            }
        }
        refused.extend(self.outgoing.accept(&allowed));
        refused
    }

    /// Informs the process of a reader that the reader gets messages.
    pub(in crate::driver) fn dismiss(&self, request: &AttachRequest) {
        self.outgoing.dismiss(request);
    }

    /// Returns readers to messages: they may have had a channel before and lack samples of it. Returns for each whether
    /// it may have a channel; a reader with a content filter gets messages.
    fn return_to_messages(&self, readers: &[Guid]) -> Vec<bool> {
        let mut guard = self.lock();
        self.spill_to_history(&mut guard);
        guard.writer.set_paths(now(), readers, ReaderPath::Messages);
        readers.iter().map(|reader| guard.writer.allows_hand_over(*reader)).collect()
    }

    /// Whether the writer matches each of these readers.
    pub(in crate::driver) fn matches(&self, readers: &[Guid]) -> Vec<bool> {
        let state = self.lock();
        readers.iter().map(|reader| state.matched.binary_search(reader).is_ok()).collect()
    }

    /// Polls a channel, or all of them: ready readers get samples by shared memory from now on, readers whose channel
    /// has ended get messages. The caller then calls [`Self::after`].
    pub(in crate::driver) fn poll_channels(&self, channel: Option<ReaderId>) -> ChannelEvents {
        // Acknowledgements may free room.
        self.note_acknowledged();
        let events = self.outgoing.poll_channels(channel);
        self.arm(self.outgoing.deadline());
        self.apply_channel_events(&events);
        // Threads may have waited for acknowledgements before these readers could get requests.
        self.note_acknowledged();
        events
    }

    fn apply_channel_events(&self, events: &ChannelEvents) {
        let mut guard = self.lock();
        let now = now();
        if !events.is_empty() {
            self.spill_to_history(&mut guard);
        }
        guard.writer.set_paths(now, &events.ready, ReaderPath::HandOver);
        for reader in &events.ready {
            // An asynchronous writer delivers in its turns.
            guard.messages_first = self.flow.is_none();
            self.outgoing.begin_session(*reader, guard.writer.hand_over_session(*reader));
        }
        for (reader, from) in &events.rewound {
            guard.writer.rewind_reader(*reader, *from);
        }
        for reader in &events.resumed {
            guard.writer.resume_reader(*reader);
            self.outgoing.begin_session(*reader, guard.writer.hand_over_session(*reader));
        }
        let gone: Vec<Guid> = events.gone.iter().map(|(reader, _)| *reader).collect();
        guard.writer.set_paths(now, &gone, ReaderPath::Messages);
        let dead = events.gone.iter().filter(|(_, reason)| *reason == Gone::Died);
        guard.writer.note_dead_readers(now, &dead.map(|(reader, _)| *reader).collect::<Vec<_>>());
        guard.wakers.wake(StatusMask::MEMORY);
        if !events.gone.is_empty() {
            self.outgoing.end_if_without_readers();
        }
    }

    /// Whether this channel exists, or some channel is not closed yet at the other side.
    pub(in crate::driver) fn has_channel(&self, channel: ReaderId) -> bool {
        self.outgoing.has_channel(channel)
    }

    /// Whether the protocol writer or a reader process needs the serialized bytes, and not only the value.
    pub(crate) fn needs_octets(&self, state: &WriterState) -> bool {
        state.writer.needs_octets() || self.outgoing.has_readers() || state.local.iter().any(|l| !l.is_same_type)
    }

    /// The number of readers that get samples by shared memory.
    pub(crate) fn local_readers(&self) -> usize {
        self.outgoing.count()
    }

    /// The shared memory of the writer.
    pub(in crate::driver) fn shared_memory_use(&self) -> SharedMemoryUse {
        self.outgoing.memory_use()
    }

    /// Whether the slot belongs to this writer.
    #[inline]
    pub(crate) fn has_lent(&self, slot: &PayloadSlot) -> bool {
        self.outgoing.has_lent(slot)
    }

    /// A slot in shared memory for a payload of `len` bytes; `None` without readers in other processes or without free
    /// memory.
    #[inline(always)]
    pub(crate) fn loan_slot(&self, len: usize) -> Option<PayloadSlot> {
        if !self.outgoing.has_readers() {
            return None;
        }
        self.outgoing.loan_at_hand(len).or_else(|| self.loan_locked(len))
    }

    #[cold]
    fn loan_locked(&self, len: usize) -> Option<PayloadSlot> {
        let slot = self.outgoing.loan(len);
        self.note_ended_channels();
        slot
    }
}
