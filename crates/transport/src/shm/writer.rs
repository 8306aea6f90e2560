//! The writer's side: a pool of slots, and one channel to each reader process.

use super::channel_end::{Gone, ReaderGone, ReaderId};
use super::doorbell::ring_sleeping;
use super::error::{LoanError, PublishError, Unpublished};
use super::link::{Peer, USER_MESSAGES_PER_PACKET};
use super::listener::Request;
use super::message::{Refusal, UserMessage};
use super::pool::{NoSlot, Pool, SlotId, Trimmed};
use super::ring::{Descriptor, Metadata, Overflow, Shape};
use super::slot::{SharedSlot, Slot};
use super::slot_cache::SlotCacheProducer;
use super::slot_lender::SlotLender;
use super::writer_channel::{Channel, ChannelParts, OpenError};
use crate::clock::MonotonicNs;
use crate::event;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::sync::Arc;

/// Bounds of a [`Writer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriterConfig {
    /// Most memory for samples, in bytes, allocated in whole segments.
    pub max_bytes: usize,
    /// Most samples that a reader may be behind: a power of two, at most 16,384. Each costs 64 bytes per reader.
    pub entries: u32,
    /// Most samples that a reader may hold: at most 16,384. Each costs 8 bytes per reader.
    pub max_holds: u32,
    /// Most reader processes.
    pub max_readers: usize,
}

impl Default for WriterConfig {
    /// 1 GiB, 1,024 entries, 4,096 holds, 64 readers.
    fn default() -> Self {
        Self { max_bytes: 1 << 30, entries: 1024, max_holds: 4096, max_readers: 64 }
    }
}

/// Counters of a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriterStatistics {
    /// Segments that exist.
    pub segments: usize,
    /// Size of all segments, in bytes.
    pub bytes: usize,
    /// Slots of all segments.
    pub slots: usize,
    /// Slots that are loaned, kept, waiting or held, as of the writer's last check of the readers.
    pub slots_in_use: usize,
    /// Admitted readers.
    pub readers: usize,
    /// Samples published.
    pub published: u64,
    /// Samples that a reader missed because it did not keep up, summed over all readers, past ones included.
    pub missed: u64,
    /// Number of times that a reader was woken.
    pub wakes: u64,
    /// Segments that were freed.
    pub segments_retired: u64,
}

/// Publishes samples to readers in other processes of the host.
///
/// Has no lock and no thread: threads that share a writer put a lock around it.
#[derive(Debug)]
pub struct Writer {
    config: WriterConfig,
    pub(super) pool: Pool,
    /// Loans the cached slot without the writer's lock. `producer` is the right to fill the cache, unless another
    /// writer has it.
    pub(super) lender: Arc<SlotLender>,
    pub(super) producer: Option<SlotCacheProducer<Slot>>,
    channels: Vec<Channel>,
    /// Channels that this side has ended and whose readers may still read samples.
    closing: Vec<Channel>,
    /// With [`Self::channels`] at most [`Self::ends_max`].
    gone: VecDeque<ReaderGone>,
    next_reader: u64,
    statistics: WriterStatistics,
    /// A reader has sent a notification since [`Writer::take_notified`].
    is_notified: bool,
}

impl Writer {
    /// Creates a writer without readers or segments.
    ///
    /// # Errors
    /// A bound of the configuration is out of range.
    pub fn new(config: WriterConfig) -> io::Result<Self> {
        Self::with_lender(config, SlotLender::new(|| {}))
    }

    /// Like [`Self::new`], with a given lender. A later writer may share the lender; one writer at a time fills its
    /// cache.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_lender(config: WriterConfig, lender: Arc<SlotLender>) -> io::Result<Self> {
        let shape = Shape { entries: config.entries, holds: config.max_holds, overflow: Overflow::Block };
        if shape.check().is_err() {
            let text = format!(
                "entries {} must be a power of two and max_holds {} above zero, both at most {}",
                config.entries,
                config.max_holds,
                Shape::MAX
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Self {
            config,
            pool: Pool::new(config.max_bytes, Arc::clone(&lender.on_return)),
            producer: SlotCacheProducer::claim(&lender.cache),
            lender,
            channels: Vec::new(),
            closing: Vec::new(),
            gone: VecDeque::new(),
            next_reader: 1,
            statistics: WriterStatistics::default(),
            is_notified: false,
        })
    }

    /// Admits a reader. The reader receives samples published from now on; [`Self::publish_to`] sends it older ones.
    ///
    /// # Errors
    /// There are too many readers or unreported ends of readers, the reader's memory is not as announced, or the system
    /// is short of descriptors or memory. The reader has been notified.
    pub fn admit(&mut self, request: Request, overflow: Overflow) -> io::Result<ReaderId> {
        let error = |kind, reason: Refusal| Err(io::Error::new(kind, reason.to_string()));
        if self.channels.len() + self.closing.len() >= self.config.max_readers {
            // Some may have ended.
            self.service();
        }
        let is_full = self.channels.len() + self.closing.len() >= self.config.max_readers;
        if is_full || self.channels.len() + self.gone.len() >= self.ends_max() {
            request.refuse(Refusal::TooManyReaders);
            return error(io::ErrorKind::QuotaExceeded, Refusal::TooManyReaders);
        }
        let id = ReaderId(self.next_reader);
        let (entries, holds) = (self.config.entries, request.holds.min(self.config.max_holds));
        match Channel::open(&request, Shape { entries, holds, overflow }) {
            Ok((channel, welcome)) => {
                let pages = [channel.ring.as_fd(), request.doorbell_page.as_fd()];
                if !request.link.send(&welcome, &pages)? {
                    return error(io::ErrorKind::WouldBlock, Refusal::Other);
                }
                let ChannelParts { sender, doorbell, .. } = channel;
                let (announced, link) = (Vec::new(), request.link);
                let (missed, is_notified, gone) = (0, false, None);
                self.channels.push(Channel {
                    id,
                    sender,
                    doorbell,
                    link,
                    announced,
                    missed,
                    messages: Vec::new(),
                    is_notified,
                    is_closing: false,
                    gone,
                });
                self.next_reader += 1;
                debug_assert!(self.channels.len() + self.closing.len() <= self.config.max_readers);
                Ok(id)
            }
            Err(OpenError::Refused(reason)) => {
                request.refuse(reason);
                error(io::ErrorKind::InvalidData, reason)
            }
            Err(OpenError::System(error)) => {
                request.refuse(Refusal::NoResources);
                Err(error)
            }
        }
    }

    /// A slot for a sample of `len` bytes, to be written and [published](Self::publish).
    ///
    /// # Errors
    /// Loaned, kept and held samples use all memory that `max_bytes` allows, or the system has no more memory.
    pub fn loan(&mut self, len: usize) -> Result<Slot, LoanError> {
        let found = match self.pool.take(len) {
            Ok(Some(id)) => Ok(id),
            Ok(None) => self.find_slot(len),
            Err(error) => Err(error),
        };
        let id = found.map_err(|error| match error {
            NoSlot::Exhausted => LoanError::Exhausted { len, max_bytes: self.config.max_bytes },
            NoSlot::TooLong => LoanError::TooLong { len, max_bytes: self.config.max_bytes },
            NoSlot::System(error) => LoanError::System(error),
        })?;
        self.pool.slot(id, len).ok_or(LoanError::Exhausted { len, max_bytes: self.config.max_bytes })
    }

    /// Publishes a sample to all readers and wakes those that sleep.
    ///
    /// # Errors
    /// A reader with [`Overflow::Block`] has no room. No reader has received the sample, and the slot comes back.
    pub fn publish(&mut self, mut slot: Slot, metadata: Metadata) -> Result<(), PublishError<Slot>> {
        if let Err(reason) = self.send(&slot, metadata, None) {
            return Err(PublishError { slot, reason });
        }
        if let Some((memory, index)) = slot.give_up() {
            self.pool.release(memory.id(index));
        }
        self.wake(None);
        Ok(())
    }

    /// Publishes a sample that the caller keeps.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub fn publish_shared(&mut self, slot: &SharedSlot, metadata: Metadata) -> Result<(), PublishError<()>> {
        self.send(slot.slot(), metadata, None).map_err(|reason| PublishError { slot: (), reason })?;
        self.wake(None);
        Ok(())
    }

    /// Publishes a sample that the caller keeps to one reader only.
    ///
    /// # Errors
    /// As [`Self::publish`]; or the reader is gone.
    pub fn publish_to(
        &mut self,
        reader: ReaderId,
        slot: &SharedSlot,
        metadata: Metadata,
    ) -> Result<(), PublishError<()>> {
        self.send(slot.slot(), metadata, Some(reader)).map_err(|reason| PublishError { slot: (), reason })?;
        self.wake(Some(reader));
        Ok(())
    }

    /// Whether this writer loaned the slot. Only then can it publish the slot.
    #[must_use]
    pub fn owns(&self, slot: &SharedSlot) -> bool {
        slot.slot().place_in(self.pool.return_queue()).is_some()
    }

    /// Last acknowledgement of a reader, zero before the first; `None` if the reader is gone.
    #[must_use]
    pub fn ack_of(&self, reader: ReaderId) -> Option<u64> {
        self.channel(reader).map(|channel| channel.sender.ack())
    }

    /// Requests that a reader make its descriptor readable, once, when it acknowledges `at` or more. Returns its
    /// current acknowledgement, which may already be that large; `None` if the reader is gone.
    pub fn request_ack_notification(&mut self, reader: ReaderId, at: u64) -> Option<u64> {
        let channel = self.channel_mut(reader)?;
        channel.sender.request_ack_notification(at);
        Some(channel.sender.ack())
    }

    /// Requests that all readers make their descriptors readable, once, when they return a slot (`anything`), or else
    /// when half a ring is free. The caller tries again before it waits, and ends the requests with
    /// [`Self::cancel_room_notification`].
    pub fn request_room_notification(&mut self, anything: bool) {
        self.channels_to_notify(anything).for_each(|channel| channel.sender.request_room_notification(anything));
    }

    /// Channels whose readers can return what the writer waits for. A channel that this side has ended returns slots,
    /// but no room in a ring.
    fn channels_to_notify(&mut self, anything: bool) -> impl Iterator<Item = &mut Channel> {
        let closing = self.closing.iter_mut().filter(move |_| anything);
        self.channels.iter_mut().chain(closing)
    }

    /// Cancels the requests of [`Self::request_room_notification`].
    pub fn cancel_room_notification(&mut self) {
        self.channels_to_notify(true).for_each(|channel| channel.sender.cancel_room_notification());
    }

    /// Descriptor of a reader, readable when [`Self::service`] has work; `None` if the reader is gone.
    #[must_use]
    pub fn descriptor(&self, reader: ReaderId) -> Option<BorrowedFd<'_>> {
        self.channel(reader).map(|channel| channel.link.as_fd())
    }

    /// Waits until every reader with [`Overflow::Block`] has room for half a ring, or for one more sample. Returns
    /// false at the deadline.
    ///
    /// # Errors
    /// Errors of `ppoll`, when the system is short of memory.
    pub fn wait_for_room(&mut self, deadline: MonotonicNs) -> io::Result<bool> {
        self.wait(deadline, false, |writer| writer.channels.iter_mut().all(|channel| channel.has_room_or_evicts()))
    }

    /// Waits until readers have returned enough for [`Self::loan`] of `len` bytes. Returns false at the deadline. Slots
    /// that this process itself returns are counted but do not end the wait.
    ///
    /// # Errors
    /// Errors of `ppoll`, when the system is short of memory.
    pub fn wait_for_slot(&mut self, len: usize, deadline: MonotonicNs) -> io::Result<bool> {
        self.wait(deadline, true, |writer| match writer.loan(len) {
            Ok(_) => true,
            Err(error) => !matches!(error, LoanError::Exhausted { .. }),
        })
    }

    /// Handles messages of the readers and removes readers that are gone. Call this when one of [`Self::descriptors`]
    /// is readable, and periodically.
    pub fn service(&mut self) {
        for channel in self.channels.iter_mut().chain(&mut self.closing) {
            channel.receive_messages();
            self.is_notified |= std::mem::take(&mut channel.is_notified);
        }
        self.remove_gone();
    }

    /// [`Self::service`] for one reader. Call this when its [descriptor](Self::descriptor) is readable.
    pub fn service_reader(&mut self, reader: ReaderId) {
        let is_meant = |channel: &&mut Channel| channel.id == reader;
        let closing = self.closing.iter_mut().find(is_meant);
        let Some(channel) = find(&mut self.channels, reader).or(closing) else { return };
        channel.receive_messages();
        self.is_notified |= std::mem::take(&mut channel.is_notified);
        if channel.gone.is_some() {
            self.remove_gone();
        }
    }

    /// Whether the channel to a reader exists, or was [removed](Self::remove) and is still open at the reader's side.
    #[must_use]
    pub fn has_channel(&self, reader: ReaderId) -> bool {
        self.channel(reader).is_some() || self.closing.iter().any(|channel| channel.id == reader)
    }

    /// Whether [`Self::take_notified`] or [`Self::poll_gone`] has something to return.
    #[must_use]
    #[inline]
    pub fn has_events(&self) -> bool {
        self.is_notified || !self.gone.is_empty()
    }

    /// Whether, since the last call, a reader has sent a [requested](Self::request_room_notification) notification, or
    /// a reader that was [removed](Self::remove) has closed its side and so returned its slots. The readiness of a
    /// descriptor does not suffice for that: other calls, such as [`Self::loan`] without free memory, also read the
    /// messages.
    #[inline]
    pub fn take_notified(&mut self) -> bool {
        std::mem::take(&mut self.is_notified)
    }

    /// Counts returned slots and frees segments that had no used slot since the last call; call this about once a
    /// second. Wakes sleeping readers so that they unmap freed segments. Returns the number of segments without a used
    /// slot: another call may free them.
    pub fn trim(&mut self) -> usize {
        self.service();
        self.reclaim();
        let Trimmed { given_up, idle } = self.retire(true);
        if given_up > 0 {
            self.wake(None);
        }
        idle
    }

    /// Whether samples were waiting for readers or held by them at the last look.
    #[must_use]
    pub fn awaits_returns(&self) -> bool {
        self.channels.iter().chain(&self.closing).any(|channel| channel.sender.awaits_returns())
    }

    /// Whether readers of channels that this side has ended still have them open. Until they close them, call
    /// [`Self::service`] when their descriptors become readable.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// Memory for samples, in bytes.
    #[must_use]
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        self.pool.bytes()
    }

    /// Ends the channel to a reader and wakes it. The reader may still take waiting samples, and keeps held ones until
    /// it drops them or its process ends.
    pub fn remove(&mut self, reader: ReaderId) {
        if let Some(channel) = self.channel_mut(reader) {
            channel.gone = Some(Gone::Closed);
        }
        self.remove_gone();
    }

    /// Ends the channel to a reader whose user violated the protocol; the text states how. The slots of the reader are
    /// free at once.
    pub fn reject(&mut self, reader: ReaderId, how: &'static str) {
        if let Some(channel) = self.channel_mut(reader) {
            channel.end(Gone::Broken(how));
        }
        self.remove_gone();
    }

    /// The next reader that is gone and was not reported yet.
    pub fn poll_gone(&mut self) -> Option<ReaderGone> {
        self.gone.pop_front()
    }

    /// Sends messages to the user of a reader, in few packets, and wakes the reader. Returns false if the link is full
    /// or the reader is gone; then some messages may have been sent.
    pub fn send_messages(&mut self, reader: ReaderId, messages: &[UserMessage]) -> bool {
        let Some(channel) = self.channel_mut(reader) else { return false };
        let is_sent = messages.chunks(USER_MESSAGES_PER_PACKET).all(|packet| channel.send_user_messages(packet));
        self.wake(Some(reader));
        self.remove_gone();
        is_sent
    }

    /// The messages from the user of the next reader that has sent any. [`Self::service`] and other calls receive
    /// messages; [`Self::take_notified`] returns true then.
    pub fn poll_messages(&mut self) -> Option<(ReaderId, Vec<UserMessage>)> {
        let channel = self.channels.iter_mut().find(|channel| !channel.messages.is_empty())?;
        Some((channel.id, std::mem::take(&mut channel.messages)))
    }

    /// The readers and their processes.
    pub fn readers(&self) -> impl Iterator<Item = (ReaderId, Peer)> {
        self.channels.iter().map(|channel| (channel.id, channel.link.peer()))
    }

    /// Descriptors that become readable when [`Self::service`] has work.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.channels.iter().chain(&self.closing).map(|channel| channel.link.as_fd())
    }

    /// Counters of this writer.
    #[must_use]
    pub fn statistics(&self) -> WriterStatistics {
        let holdings = self.pool.holdings();
        // The cached slot does not count as in use.
        let cached = usize::from(self.producer.is_some() && self.lender.cache.is_full());
        WriterStatistics {
            segments: holdings.segments,
            bytes: holdings.bytes,
            slots: holdings.slots,
            slots_in_use: holdings.slots_in_use.saturating_sub(cached),
            readers: self.channels.len(),
            missed: self.statistics.missed + self.channels.iter().map(|channel| channel.missed).sum::<u64>(),
            ..self.statistics
        }
    }

    #[inline]
    pub(super) fn send(&mut self, slot: &Slot, metadata: Metadata, only: Option<ReaderId>) -> Result<(), Unpublished> {
        if only.is_none() && self.sends_at_once(slot, metadata) {
            return Ok(());
        }
        self.send_with_care(slot, metadata, only)
    }

    /// The usual case: one reader, which knows the segment and has room.
    #[inline]
    fn sends_at_once(&mut self, slot: &Slot, metadata: Metadata) -> bool {
        let Self { channels, pool, statistics, .. } = self;
        let Some((id, descriptor)) = describe(pool, slot, metadata) else { return false };
        let [channel] = channels.as_mut_slice() else { return false };
        if !channel.knows_segment(id.place, descriptor.segment) || !channel.has_room() {
            return false;
        }
        channel.sender.send(&descriptor, id);
        pool.hold(id);
        statistics.published += 1;
        true
    }

    #[cold]
    fn send_with_care(&mut self, slot: &Slot, metadata: Metadata, only: Option<ReaderId>) -> Result<(), Unpublished> {
        let Some((id, descriptor)) = describe(&self.pool, slot, metadata) else {
            return Err(Unpublished::OtherWriter);
        };
        let (place, segment) = (id.place, descriptor.segment);
        let Self { channels, pool, is_notified, .. } = self;
        let is_meant = |channel: &Channel| only.is_none_or(|only| only == channel.id);
        if only.is_some() && !channels.iter().any(is_meant) {
            return Err(Unpublished::ReaderGone);
        }
        let mut refused = None;
        for channel in channels.iter_mut().filter(|channel| is_meant(channel)) {
            let evicts = channel.sender.overflow() == Overflow::Evict;
            let is_announced = channel.announce(pool, place, segment);
            let has_room = channel.has_room_or_evicts();
            if !has_room || !(is_announced || evicts) {
                // Readers notify the writer of room, and of nothing else.
                if !has_room || refused.is_none() {
                    refused = Some(if has_room { Unpublished::NotAnnounced } else { Unpublished::NoRoom });
                }
                // A dead reader has no room either.
                channel.receive_messages();
                *is_notified |= std::mem::take(&mut channel.is_notified);
            }
        }
        if let Some(refused) = refused {
            if self.channels.iter().all(|channel| channel.gone.is_none()) {
                return Err(refused);
            }
            // The reader without room may be gone.
            self.remove_gone();
            return self.send(slot, metadata, only);
        }
        let Self { channels, pool, .. } = self;
        for channel in channels.iter_mut().filter(|channel| is_meant(channel)) {
            if channel.make_room() && channel.knows_segment(place, segment) {
                channel.sender.send(&descriptor, id);
                pool.hold(id);
            } else {
                channel.missed += 1;
            }
        }
        self.statistics.published += 1;
        Ok(())
    }

    /// Rings the doorbells of sleeping readers after samples were sent to them.
    #[inline]
    pub(super) fn wake(&mut self, only: Option<ReaderId>) {
        let is_meant = |channel: &&Channel| only.is_none_or(|only| only == channel.id);
        let channels = self.channels.iter().filter(is_meant);
        self.statistics.wakes += ring_sleeping(channels.map(|channel| &channel.doorbell));
    }

    /// Finds a slot when none is free: first returned slots, then new memory, then entries withdrawn from slow readers.
    fn find_slot(&mut self, len: usize) -> Result<SlotId, NoSlot> {
        self.reclaim();
        if let Some(id) = self.pool.take(len)? {
            return Ok(id);
        }
        match self.grow_and_take(len) {
            Err(NoSlot::Exhausted) => {}
            result => return result,
        }
        // A dead reader holds its samples until the writer reads the end of its link.
        self.service();
        for _ in 0..self.config.entries {
            self.retire(false);
            match self.grow_and_take(len) {
                Err(NoSlot::Exhausted) => {}
                result => return result,
            }
            if !self.withdraw_some() {
                break;
            }
            self.reclaim();
        }
        self.grow_and_take(len)
    }

    fn grow_and_take(&mut self, len: usize) -> Result<SlotId, NoSlot> {
        if let Some(id) = self.pool.take(len)? {
            return Ok(id);
        }
        self.pool.grow(len)?;
        self.pool.take(len)?.ok_or(NoSlot::Exhausted)
    }

    /// Withdraws the oldest entry from every reader that evicts. Returns false if no reader had one.
    fn withdraw_some(&mut self) -> bool {
        let mut some = false;
        for channel in self.channels.iter_mut().filter(|channel| channel.sender.overflow() == Overflow::Evict) {
            some |= channel.withdraw();
        }
        some
    }

    fn reclaim(&mut self) {
        self.take_back();
        let Self { channels, closing, pool, .. } = self;
        pool.take_returns();
        for channel in channels.iter_mut().chain(closing) {
            let result = channel.sender.reclaim(|slot| pool.release(slot));
            channel.check(result);
        }
        self.remove_gone();
    }

    fn retire(&mut self, only_idle: bool) -> Trimmed {
        let Self { channels, pool, .. } = self;
        let trimmed = pool.trim(only_idle, |place, segment| {
            // A reader that cannot be notified now would keep the segment mapped.
            channels.iter_mut().all(|channel| channel.retire(place, segment))
        });
        self.statistics.segments_retired += trimmed.given_up as u64;
        trimmed
    }

    fn remove_gone(&mut self) {
        let mut place = 0;
        while let Some(channel) = self.channels.get(place) {
            let Some(reason) = channel.gone else {
                place += 1;
                continue;
            };
            let mut channel = self.channels.remove(place);
            self.statistics.missed += channel.missed;
            self.gone.push_back(ReaderGone { reader: channel.id, reason, missed: channel.missed });
            debug_assert!(self.channels.len() + self.gone.len() <= self.ends_max());
            let is_left = channel.is_closing;
            if reason == Gone::Closed || is_left {
                channel.is_closing = true;
                channel.leave();
                // Samples of the reader keep its link open.
                channel.link.end_sending();
                channel.sender.announce_message();
                ring_sleeping(std::iter::once(&channel.doorbell));
                channel.gone = None;
                self.closing.push(channel);
            } else {
                channel.leave();
                Self::release_all(&mut self.pool, channel);
            }
        }
        for channel in self.closing.extract_if(.., |channel| channel.gone.is_some()) {
            // The end of a closing channel is no event, but its slots are free again.
            self.is_notified = true;
            Self::release_all(&mut self.pool, channel);
        }
    }

    /// Most channels together with the ends that wait for [`Self::poll_gone`]: if all readers end at once, as many may
    /// take their places before the ends are polled.
    const fn ends_max(&self) -> usize {
        self.config.max_readers.saturating_mul(2)
    }

    fn channel(&self, reader: ReaderId) -> Option<&Channel> {
        let place = self.channels.binary_search_by_key(&reader, |channel| channel.id).ok()?;
        self.channels.get(place)
    }

    fn channel_mut(&mut self, reader: ReaderId) -> Option<&mut Channel> {
        find(&mut self.channels, reader)
    }

    /// Releases the slots of a reader that accesses none of them any more.
    fn release_all(pool: &mut Pool, channel: Channel) {
        channel.sender.into_slots().for_each(|slot| pool.release(slot));
    }

    /// Waits until `done` returns true; with `anything`, any returned slot ends the wait.
    fn wait(
        &mut self,
        deadline: MonotonicNs,
        anything: bool,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> io::Result<bool> {
        loop {
            let was_notified = self.take_received_notifications();
            for channel in self.channels_to_notify(anything) {
                if anything || !channel.has_room_or_evicts() {
                    channel.sender.request_room_notification(anything);
                }
            }
            let is_done = done(self);
            let is_late = MonotonicNs::now() >= deadline;
            let mut result = Ok(false);
            // `done` may have read a notification, and its descriptor is not readable any more: do not wait.
            let is_notified = self.take_received_notifications();
            self.is_notified = was_notified || is_notified;
            if !is_done && !is_late && !is_notified {
                let descriptors = self.channels_to_notify(anything).map(|channel| channel.link.as_fd().as_raw_fd());
                let mut requests: Vec<libc::pollfd> =
                    descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
                result = event::poll(&mut requests, Some(deadline.since(MonotonicNs::now())));
            }
            self.cancel_room_notification();
            self.service();
            result?;
            if is_done || is_late {
                return Ok(is_done);
            }
        }
    }

    /// Whether any call has received a notification since the last call of this function.
    fn take_received_notifications(&mut self) -> bool {
        let channels = self.channels.iter_mut().chain(&mut self.closing);
        let in_channels = channels.fold(false, |any, channel| any | std::mem::take(&mut channel.is_notified));
        std::mem::take(&mut self.is_notified) | in_channels
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.channels.iter().for_each(Channel::leave);
    }
}

/// The channel to a reader, in channels that are sorted by reader.
fn find(channels: &mut [Channel], reader: ReaderId) -> Option<&mut Channel> {
    let place = channels.binary_search_by_key(&reader, |channel| channel.id).ok()?;
    channels.get_mut(place)
}

/// Identifier and descriptor of the slot; `None` if another pool owns it.
#[inline]
fn describe(pool: &Pool, slot: &Slot, metadata: Metadata) -> Option<(SlotId, Descriptor)> {
    let (memory, index) = slot.place_in(pool.return_queue())?;
    let (segment, offset) = (memory.number(), memory.offset_of(index)?);
    Some((memory.id(index), Descriptor { segment, offset, len: slot.len() as u64, metadata }))
}

#[cfg(test)]
mod tests;
