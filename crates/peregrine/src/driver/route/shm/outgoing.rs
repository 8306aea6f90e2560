//! The writer's side of the channels to readers in other processes.
//!
//! The readers of one process with the same reliability share a channel: an entry of its ring is for all of them that
//! are live, or for one that lacks changes of the history.

mod attach;
mod deliver;
mod unread;

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use peregrine_rtps::id::Guid;
use peregrine_rtps::payload::{Octets, Payload};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Timestamp;
use peregrine_rtps::writer::{HandOverBatch, Recipient};
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::{Poller, Token};
use peregrine_transport::shm::{
    Gone, Overflow, ReaderId, Refusal, Request, RetainedSlot, SharedSlot, Slot, SlotLender, SpentSegment, Writer,
    WriterConfig, WriterStatistics,
};
use smallvec::SmallVec;

use super::metadata::ALIGNING;
use crate::driver::base::adaptive_spin::RoomSpin;
use crate::driver::base::deadline_cell::DeadlineCell;
use crate::driver::base::sync::lock_leaf;
use crate::driver::host::counters::Counters;
use crate::shared_memory::SharedMemoryUse;

/// Numbers of samples and of bytes after which a writer reads acknowledgements without another reason. An
/// unacknowledged sample occupies its slot, and large slots have to be few.
const LOOK_EVERY: u32 = 32;
const LOOK_EVERY_BYTES: usize = 8 << 20;
/// Interval at which memory is released that was unused during the interval.
pub(in crate::driver) const TRIM_EVERY: Duration = Duration::from_secs(1);
/// Initial interval between retries of an allocation that a reader waits for. Each failed retry doubles the interval.
/// Other processes notify the writer when they release a slot. Slots in this process (loans, samples of local readers,
/// the history for readers that get messages) are released without a notification.
pub(in crate::driver) const MEMORY_RETRY_AFTER: Duration = Duration::from_millis(10);

/// The writer's ends of the channels to readers in other processes. Its lock is taken last: no other lock is taken
/// under it.
pub(in crate::driver) struct Outgoing {
    /// Maximum memory for samples, in bytes.
    bytes_max: usize,
    has_readers: AtomicBool,
    /// Whether readers were found gone that [`Self::poll_channels`] has not reported.
    has_ended: AtomicBool,
    /// Whether the writer held much memory at the last check.
    pub(in crate::driver) has_excess_memory: AtomicBool,
    /// The time of the next check. Set under the lock of the channels.
    pub(in crate::driver) trim_due: DeadlineCell,
    pub(in crate::driver) channels: Mutex<Option<Box<Channels>>>,
    /// Lends the slot for the next sample without that lock.
    lending: Arc<SlotLender>,
}

pub(in crate::driver) struct Channels {
    pub(in crate::driver) writer: Writer,
    /// At most [`CHANNELS_MAX`], sorted by number.
    channels: Vec<Channel>,
    /// The readers of all channels, sorted by GUID. Each is matched, which bounds their number.
    attached: Vec<AttachedReader>,
    /// The place among these that the last message of a reader named.
    last_found: usize,
    /// Whether each channel has readers, and all of them are live.
    pub(in crate::driver) are_all_live: bool,
    /// Readers that lost their channels, until [`Outgoing`] reports them.
    ended: Vec<(Guid, Gone)>,
    /// The recipients of the batch that is being delivered to a channel, with their places among those attached.
    recipients: Vec<(usize, Recipient)>,
    /// An empty slot for entries without a payload.
    nothing: Option<SharedSlot>,
    pub(super) since_look: u32,
    pub(in crate::driver) bytes_since_look: usize,
    /// When to release unused memory.
    pub(in crate::driver) trim_at: MonotonicNs,
    /// Number of published samples at the last call of the trim timer.
    pub(in crate::driver) published_before: u64,
    /// [`Outgoing::poll_channels`] must be called although no descriptor reports it.
    pub(in crate::driver) must_poll: bool,
    /// Interval until the next retry of an allocation, for memory that is released without a notification, or of an
    /// announcement.
    pub(in crate::driver) memory_retry_after: Duration,
    /// There was no memory for a sample. Memory that becomes free is reserved for that sample.
    is_short: bool,
    /// End of the numbers that were given to all readers with room.
    pub(in crate::driver) sent_below: SequenceNumber,
    /// The last number, as of the last call of [`Self::acknowledged`].
    last: SequenceNumber,
    /// Readers report acknowledgements up to this number, because threads wait for them.
    pub(in crate::driver) demand: Option<SequenceNumber>,
    pub(in crate::driver) room: RoomSpin,
    /// Changes that were published without the history: at most as many as the history has room for
    /// ([`Writer::reserve_slot`](peregrine_rtps::writer::Writer::reserve_slot)).
    pub(in crate::driver) kept: VecDeque<RetainedChange>,
    /// Samples published on the fast path, counted once for each reader, that are not in the counters yet.
    sent: u64,
    counters: Arc<Counters>,
}

/// A change that was published on the fast path, until it is acknowledged.
pub(in crate::driver) struct RetainedChange {
    pub(in crate::driver) number: SequenceNumber,
    pub(in crate::driver) source_timestamp: Timestamp,
    pub(in crate::driver) slot: RetainedSlot,
}

/// The writer's end of a channel to the readers of one process that have the same reliability.
struct Channel {
    id: ReaderId,
    /// Whether its readers are reliable.
    is_reliable: bool,
    /// Index of the last reader that attached.
    last_index: u32,
    /// The reader process notifies the writer when it has acknowledged this.
    ack_notification_at: u64,
    /// The acknowledgement at the last call of [`Outgoing::unread_acknowledgements`].
    seen_acknowledgement: u64,
    /// The last failure was a lack of memory, or of the announcement of a segment, not of ring space.
    is_short: bool,
    /// There was no memory, and no reader holds any that it could release.
    no_progress: bool,
    /// The channel is closing: its readers get messages.
    is_closing: bool,
    /// For a pass over all readers that compares those of each channel.
    lowest: Option<SequenceNumber>,
    /// For a pass over all readers that looks for channels without any.
    has_readers: bool,
}

/// A reader in another process.
struct AttachedReader {
    guid: Guid,
    channel: ReaderId,
    index: u32,
    stage: Stage,
    /// Acknowledged so far.
    below: SequenceNumber,
    /// The reader takes the entries for all readers of the channel.
    is_live: bool,
    /// The delivery session whose batches are for this reader: [`Recipient::session`]. `None` until
    /// [`Outgoing::begin_session`].
    session: Option<u32>,
    /// Epoch of the last answered rewind.
    epoch: u32,
    /// Epoch of a rewind without an answer.
    rewind: Option<u32>,
    /// The first change for which the reader had no room.
    halted_at: Option<SequenceNumber>,
}

/// Progress of the attachment of a reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Acknowledgements of the channel may not cover the reader yet.
    Accepted,
    /// Acknowledgements cover the reader, which waits for the writer to deliver.
    Ready,
    InUse,
}

impl Stage {
    /// Why a reader in this stage gets no more samples by its channel. A process that has not taken a channel into use
    /// may live: the channel has failed to be set up there.
    const fn end(self, reason: Gone) -> Gone {
        match (self, reason) {
            (Self::Accepted | Self::Ready, Gone::Died) => Gone::Ended,
            (_, reason) => reason,
        }
    }
}

/// Maximum number of channels of a writer: pairs of a reader process and a reliability.
pub(in crate::driver) const CHANNELS_MAX: usize = 128;

/// Readers that have acknowledged more, each with the first number that it lacks. Few readers need no allocation.
pub(in crate::driver) type Acknowledged = SmallVec<[(Guid, SequenceNumber); 8]>;

/// A request of a reader process to attach another reader to a channel.
pub(in crate::driver) struct AttachRequest {
    pub(in crate::driver) channel: ReaderId,
    pub(in crate::driver) index: u32,
    pub(in crate::driver) reader: Guid,
}

/// Such a request of a reader that the writer matches.
pub(in crate::driver) struct MatchedRequest {
    pub(in crate::driver) request: AttachRequest,
    pub(in crate::driver) is_reliable: bool,
}

/// Events of readers since the last call of [`Outgoing::poll_channels`].
#[derive(Default)]
pub(in crate::driver) struct ChannelEvents {
    /// Readers that can get samples by shared memory from now on; the caller calls [`Outgoing::begin_session`].
    pub(in crate::driver) ready: Vec<Guid>,
    /// Readers that lack changes from this one on. They may have no room yet.
    pub(in crate::driver) rewound: Vec<(Guid, SequenceNumber)>,
    /// Readers that may have room again; the caller calls [`Outgoing::begin_session`].
    pub(in crate::driver) resumed: Vec<Guid>,
    pub(in crate::driver) gone: Vec<(Guid, Gone)>,
    /// Requests to attach; the caller answers each by [`Outgoing::accept`] or [`Outgoing::dismiss`].
    pub(in crate::driver) attach: Vec<AttachRequest>,
}

impl ChannelEvents {
    pub(in crate::driver) const fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.rewound.is_empty() && self.resumed.is_empty() && self.gone.is_empty()
    }
}

/// A payload in a slot.
#[derive(Debug)]
struct InSlot(SharedSlot);

impl Octets for InSlot {
    fn octets(&self) -> &[u8] {
        self.0.get(ALIGNING..).unwrap_or(&[])
    }

    fn value(&self) -> Option<&(dyn Any + Send + Sync)> {
        // Delivery to channels uses the slot itself.
        Some(self)
    }
}

/// A slot in shared memory for a payload.
pub(crate) struct PayloadSlot(pub(in crate::driver) Slot);

impl PayloadSlot {
    #[inline(always)]
    pub(in crate::driver) fn new(mut slot: Slot) -> Option<Self> {
        slot.get_mut(..ALIGNING)?.fill(0);
        Some(Self(slot))
    }

    /// Returns an unused slot. The caller must not hold a lock of the writer.
    pub(crate) fn give_back(self) {
        self.0.give_back();
    }

    /// The payload.
    #[inline]
    pub(crate) fn octets(&self) -> &[u8] {
        self.0.get(ALIGNING..).unwrap_or_default()
    }

    /// The payload, to be filled.
    #[inline]
    pub(crate) fn octets_mut(&mut self) -> &mut [u8] {
        self.0.get_mut(ALIGNING..).unwrap_or_default()
    }

    /// Shortens the payload.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.octets().len() {
            // A shorter one fits.
            let _ = self.0.set_len(len.saturating_add(ALIGNING));
        }
    }

    pub(crate) fn into_payload(self) -> Payload {
        Self::payload_of(self.0.share())
    }

    pub(in crate::driver) fn payload_of(slot: SharedSlot) -> Payload {
        Payload::foreign(Arc::new(InSlot(slot)))
    }
}

/// Why an entry was not sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unsent {
    /// The ring is full. The reader process notifies the writer when there is room.
    NoRoom,
    /// The segment could not be announced to the reader process. The writer gets no notification when this becomes
    /// possible.
    NotAnnounced,
    /// There is no memory. Reader processes notify the writer when they release some.
    NoMemory,
    /// There is no memory, and no reader holds any: only the writer's own process can release some.
    Stuck,
    /// The sample exceeds all memory that the writer may use.
    TooLong,
}

impl Outgoing {
    /// The outgoing side of a writer with at most this many bytes of memory for samples, and the lender of its slots.
    pub(in crate::driver) fn new(bytes_max: usize, lending: Arc<SlotLender>) -> Self {
        Self {
            bytes_max,
            has_readers: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            has_excess_memory: AtomicBool::new(false),
            trim_due: DeadlineCell::never(),
            channels: Mutex::new(None),
            lending,
        }
    }

    /// Whether this slot was lent here.
    #[inline]
    pub(in crate::driver) fn has_lent(&self, slot: &PayloadSlot) -> bool {
        self.lending.has_lent(&slot.0)
    }

    /// Whether there are readers in other processes.
    #[inline]
    pub(in crate::driver) fn has_readers(&self) -> bool {
        self.has_readers.load(Ordering::Acquire)
    }

    /// Admits the process of a reader, and the reader. [`Self::poll_channels`] reports when it is ready.
    ///
    /// # Errors
    /// The memory of the peer is not valid, there are too many channels, or the system lacks resources.
    pub(in crate::driver) fn admit(
        &self,
        request: Request,
        reader: Guid,
        overflow: Overflow,
        (poller, token): (&Poller, Token),
        counters: &Arc<Counters>,
    ) -> io::Result<ReaderId> {
        if self.bytes_max == 0 {
            request.refuse(Refusal::Other);
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the writer has no shared memory by its own choice",
            ));
        }
        let mut channels = lock_leaf(&self.channels);
        if channels.is_none() {
            let config =
                WriterConfig { max_bytes: self.bytes_max, max_readers: CHANNELS_MAX, ..WriterConfig::default() };
            let writer = Writer::with_lender(config, Arc::clone(&self.lending))?;
            *channels = Some(Box::new(Channels {
                writer,
                channels: Vec::new(),
                attached: Vec::new(),
                last_found: usize::MAX,
                are_all_live: false,
                ended: Vec::new(),
                recipients: Vec::new(),
                nothing: None,
                since_look: 0,
                bytes_since_look: 0,
                trim_at: MonotonicNs(0),
                published_before: 0,
                must_poll: false,
                memory_retry_after: MEMORY_RETRY_AFTER,
                is_short: false,
                sent_below: SequenceNumber::ZERO,
                last: SequenceNumber::ZERO,
                demand: None,
                room: RoomSpin::default(),
                kept: VecDeque::new(),
                sent: 0,
                counters: Arc::clone(counters),
            }));
        }
        let Some(channels) = channels.as_mut() else { return Err(io::ErrorKind::Other.into()) };
        channels.remove(reader);
        let id = channels.writer.admit(request, overflow)?;
        // The place may be that of a process that has just ended.
        channels.find_gone();
        let added = channels.writer.descriptor(id).map_or(Ok(()), |descriptor| poller.add(&descriptor, token));
        if let Err(error) = added {
            channels.writer.remove(id);
            return Err(error);
        }
        channels.channels.push(Channel {
            id,
            is_reliable: overflow == Overflow::Block,
            last_index: 0,
            ack_notification_at: 0,
            seen_acknowledgement: 0,
            is_short: false,
            no_progress: false,
            is_closing: false,
            lowest: None,
            has_readers: false,
        });
        debug_assert!(channels.channels.is_sorted_by_key(|channel| channel.id));
        debug_assert!(channels.channels.len() <= CHANNELS_MAX);
        channels.attach(id, 0, reader);
        channels.note_attached_changed();
        self.has_readers.store(true, Ordering::Release);
        Ok(id)
    }

    /// Takes a slot for a payload of `len` bytes without the lock. On `None`, call [`Self::loan`].
    #[inline(always)]
    pub(in crate::driver) fn loan_at_hand(&self, len: usize) -> Option<PayloadSlot> {
        PayloadSlot::new(self.lending.take(len.checked_add(ALIGNING)?)?)
    }

    /// Takes a slot for a payload of `len` bytes. On `None`, the caller uses a buffer.
    pub(in crate::driver) fn loan(&self, len: usize) -> Option<PayloadSlot> {
        let mut locked = lock_leaf(&self.channels);
        let channels = locked.as_mut().filter(|channels| !channels.is_short)?;
        let loaned = channels.writer.loan(len.checked_add(ALIGNING)?);
        self.note_notified(channels);
        drop(locked);
        PayloadSlot::new(loaned.ok()?)
    }

    /// Publishes changes to the recipients in other processes. Adds each reader without ring space to `halted`, with
    /// the first sequence number that this reader did not take.
    pub(in crate::driver) fn publish(&self, batch: &HandOverBatch, halted: &mut Vec<Recipient>, counters: &Counters) {
        let mut channels = lock_leaf(&self.channels);
        let Some(channels) = channels.as_mut() else { return };
        // A change outside of slots is copied once for all channels of the batch.
        let mut slots: Vec<Option<SharedSlot>> = Vec::new();
        for place in 0..channels.channels.len() {
            channels.deliver(place, batch, &mut slots, halted, counters);
        }
        self.schedule_trim(channels);
        self.schedule_memory_retry(channels);
        self.note_ended(channels);
    }

    /// Whether readers were found gone, so that the control thread has to [poll the channels](Self::poll_channels).
    #[inline]
    pub(in crate::driver) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Sets the number up to which readers report acknowledgements; `None` requests no reports. Returns the progress of
    /// readers that have acknowledged more. The caller holds the lock of the writer, so that the last demand remains.
    pub(in crate::driver) fn set_demand(&self, last: SequenceNumber, demand: Option<SequenceNumber>) -> Acknowledged {
        let mut channels = lock_leaf(&self.channels);
        let Some(channels) = channels.as_mut() else { return Acknowledged::new() };
        channels.demand = demand;
        channels.acknowledged(last)
    }

    /// [`Self::acknowledged_now`] at intervals, for a writer in a steady flow.
    pub(in crate::driver) fn acknowledged_meanwhile(&self, last: SequenceNumber) -> Acknowledged {
        let mut channels = lock_leaf(&self.channels);
        let Some(channels) = channels.as_mut() else { return Acknowledged::new() };
        self.schedule_trim(channels);
        if !channels.is_time_to_look() {
            return Acknowledged::new();
        }
        self.look_meanwhile(channels, last)
    }

    /// Reads the acknowledgements.
    pub(in crate::driver) fn acknowledged_now(&self, last: SequenceNumber) -> Acknowledged {
        let mut channels = lock_leaf(&self.channels);
        channels.as_mut().map_or_else(Acknowledged::new, |channels| self.look_meanwhile(channels, last))
    }

    fn look_meanwhile(&self, channels: &mut Channels, last: SequenceNumber) -> Acknowledged {
        let now = MonotonicNs::now();
        if now >= channels.trim_at {
            channels.trim_at = now.after(TRIM_EVERY);
            channels.writer.trim();
            self.note_ended(channels);
        }
        channels.acknowledged(last)
    }

    /// Whether this reader had no room for the last batch, or waits for [`Self::begin_session`], and
    /// [`Self::poll_channels`] has not reported otherwise.
    pub(in crate::driver) fn is_halted(&self, reader: Guid) -> bool {
        let channels = lock_leaf(&self.channels);
        let found = channels.as_ref().and_then(|channels| channels.find(reader));
        found.is_some_and(|found| found.halted_at.is_some() || found.session.is_none())
    }

    /// Whether this channel exists, or is still open at the other side.
    pub(in crate::driver) fn has_channel(&self, id: ReaderId) -> bool {
        lock_leaf(&self.channels).as_ref().is_some_and(|channels| channels.writer.has_channel(id))
    }

    /// Number of readers that get their samples here.
    pub(in crate::driver) fn count(&self) -> usize {
        let channels = lock_leaf(&self.channels);
        let attached = channels.iter().flat_map(|channels| &channels.attached);
        attached.filter(|reader| reader.stage == Stage::InUse).count()
    }

    /// The memory for samples. The call also completes the counters.
    pub(in crate::driver) fn memory_use(&self) -> SharedMemoryUse {
        let mut channels = lock_leaf(&self.channels);
        let Some(channels) = channels.as_mut() else { return SharedMemoryUse::default() };
        channels.count_sent();
        let WriterStatistics { segments, bytes, slots, slots_in_use, .. } = channels.writer.statistics();
        let [segments, bytes, slots, slots_in_use] = [segments, bytes, slots, slots_in_use].map(|count| count as u64);
        SharedMemoryUse { segments, bytes, slots, slots_in_use }
    }

    /// Polls a channel, or all of them: collects the events of readers.
    pub(in crate::driver) fn poll_channels(&self, channel: Option<ReaderId>) -> ChannelEvents {
        let mut guard = lock_leaf(&self.channels);
        let Some(channels) = guard.as_mut() else { return ChannelEvents::default() };
        match channel {
            Some(channel) => channels.writer.service_reader(channel),
            None => channels.writer.service(),
        }
        channels.writer.cancel_room_notification();
        channels.end_closing();
        let mut events = ChannelEvents::default();
        channels.receive_attachments(&mut events);
        channels.find_gone();
        channels.must_poll = false;
        channels.writer.take_notified();
        self.has_ended.store(false, Ordering::Release);
        events.gone.append(&mut channels.ended);
        for reader in &mut channels.attached {
            if reader.halted_at.take().is_some() && reader.rewind.is_none() {
                events.resumed.push(reader.guid);
            }
        }
        channels.answer_rewinds(&mut events);
        self.schedule_trim(channels);
        events
    }

    /// Releases all memory if there are no readers. The caller has [spilled](Self::spill_to_history) the retained
    /// changes.
    pub(in crate::driver) fn end_if_without_readers(&self) {
        self.end_if_unused(&mut lock_leaf(&self.channels));
    }

    /// The writer delivers to this reader by the channel from now on. Before that, acknowledgements of the channel do
    /// not count for the reader, and batches are not for it.
    pub(in crate::driver) fn begin_session(&self, reader: Guid, session: Option<u32>) {
        if let Some(reader) = lock_leaf(&self.channels).as_mut().and_then(|channels| channels.find_mut(reader)) {
            reader.stage = Stage::InUse;
            reader.session = session.filter(|_| reader.rewind.is_none());
        }
    }

    /// Attaches matched readers to their channels. Returns the readers for which that is not possible; they are then
    /// dismissed.
    pub(in crate::driver) fn accept(&self, requests: &[MatchedRequest]) -> Vec<Guid> {
        let mut guard = lock_leaf(&self.channels);
        let Some(channels) = guard.as_mut() else {
            return requests.iter().map(|matched| matched.request.reader).collect();
        };
        let refused = channels.accept(requests);
        self.note_ended(channels);
        refused
    }

    /// Informs the process of a reader that the reader gets messages.
    pub(in crate::driver) fn dismiss(&self, request: &AttachRequest) {
        if let Some(channels) = lock_leaf(&self.channels).as_mut() {
            channels.dismiss(request.channel, request.index);
            self.note_ended(channels);
        }
    }

    /// Detaches a reader, if it is attached, without an event.
    pub(in crate::driver) fn remove(&self, reader: Guid) {
        let mut guard = lock_leaf(&self.channels);
        if let Some(channels) = guard.as_mut() {
            channels.remove(reader);
            self.note_ended(channels);
            self.end_if_unused(&mut guard);
        }
    }

    #[inline]
    pub(in crate::driver) fn note_ended(&self, channels: &mut Channels) {
        let must_tell = channels.must_poll || !channels.ended.is_empty();
        if channels.writer.has_events() || must_tell && !self.has_ended() {
            self.note_news(channels);
        }
    }

    #[cold]
    fn note_news(&self, channels: &mut Channels) {
        channels.find_gone();
        if !channels.ended.is_empty() || channels.must_poll {
            self.has_ended.store(true, Ordering::Release);
        }
        self.note_notified(channels);
    }

    /// This call may have consumed notifications of a reader, which its descriptor does not report again.
    #[inline]
    fn note_notified(&self, channels: &mut Channels) {
        if channels.writer.take_notified() {
            channels.must_poll = true;
            self.has_ended.store(true, Ordering::Release);
        }
    }

    /// Releases all memory if there are no readers.
    fn end_if_unused(&self, channels: &mut Option<Box<Channels>>) {
        let is_used =
            channels.as_ref().is_some_and(|channels| !channels.channels.is_empty() || !channels.ended.is_empty());
        self.has_readers.store(is_used, Ordering::Release);
        if !is_used {
            *channels = None;
        }
    }
}

impl Channels {
    /// Counts a sample that was delivered to all readers at once.
    #[inline]
    pub(in crate::driver) fn note_sent(&mut self) {
        self.sent += self.attached.len() as u64;
    }

    /// Caches a slot for the next sample, unless memory is reserved for a waiting sample.
    #[inline]
    pub(in crate::driver) fn lay_ahead(&mut self, spent: SpentSegment) {
        if !self.is_short {
            self.writer.cache_next_slot(spent);
        }
    }

    /// Whether a reader waits for memory.
    pub(in crate::driver) fn is_short_of_memory(&self) -> bool {
        self.channels
            .iter()
            .any(|channel| channel.is_short && self.of(channel.id).any(|reader| reader.halted_at.is_some()))
    }

    fn count_sent(&mut self) {
        self.counters.sent.fetch_add(std::mem::take(&mut self.sent), Ordering::Relaxed);
    }

    /// Whether to read acknowledgements after one more sample.
    #[inline]
    pub(in crate::driver) fn is_time_to_look(&mut self) -> bool {
        self.since_look += 1;
        if self.since_look < LOOK_EVERY && self.bytes_since_look < LOOK_EVERY_BYTES {
            return false;
        }
        (self.since_look, self.bytes_since_look) = (0, 0);
        true
    }

    /// Whether some reader has unacknowledged samples. That reader notifies the writer when it has acknowledged them.
    pub(in crate::driver) fn is_any_behind(&mut self) -> bool {
        let sent_below = self.sent_below;
        self.find_lowest(|reader| reader.halted_at.unwrap_or(sent_below));
        let Self { channels, writer, .. } = self;
        let mut is_any = false;
        for channel in channels.iter_mut().filter(|channel| channel.is_reliable) {
            let Some(has_below) = channel.lowest else { continue };
            let has_below = has_below.0.max(0).cast_unsigned();
            is_any |= channel.request_ack_notification(writer, has_below).is_some_and(|noted| noted < has_below);
        }
        is_any
    }

    /// Sets [`Channel::lowest`] to the lowest number of its readers. A reader that still gets messages acknowledges by
    /// messages, and does not count.
    fn find_lowest(&mut self, number: impl Fn(&AttachedReader) -> SequenceNumber) {
        let Self { channels, attached, .. } = self;
        channels.iter_mut().for_each(|channel| channel.lowest = None);
        for reader in attached.iter().filter(|reader| reader.stage == Stage::InUse) {
            if let Some(channel) = find_channel(channels, reader.channel) {
                let number = number(reader);
                channel.lowest = Some(channel.lowest.map_or(number, |lowest| lowest.min(number)));
            }
        }
    }

    fn acknowledged(&mut self, last: SequenceNumber) -> Acknowledged {
        self.count_sent();
        let mut news = Acknowledged::new();
        // `last` may be stale: it was read before this lock was taken.
        self.last = self.last.max(last);
        self.find_lowest(|reader| reader.below);
        let Self { channels, attached, writer, demand, last, .. } = self;
        let mut has_news = false;
        for channel in channels.iter_mut() {
            let Some(below) = channel.lowest else { continue };
            let noted = match demand.filter(|demand| channel.is_reliable && below <= *demand) {
                Some(demand) => {
                    // Half of the missing samples: so not every sample wakes the writer, and the writer does not run
                    // out of room.
                    let from = below.0.max(1);
                    let missing = demand.next().0.saturating_sub(from);
                    channel.request_ack_notification(writer, from.saturating_add((missing / 2).max(1)).cast_unsigned())
                }
                None => writer.ack_of(channel.id),
            };
            // The reader process is untrusted: clamp its acknowledgement to the last sample.
            let noted = noted.unwrap_or(0).min(last.next().0.cast_unsigned());
            let noted = SequenceNumber(noted.cast_signed());
            has_news |= noted > below;
            channel.lowest = Some(noted);
        }
        if has_news {
            for reader in attached.iter_mut().filter(|reader| reader.stage == Stage::InUse) {
                let noted = find_channel(channels, reader.channel).and_then(|channel| channel.lowest);
                if let Some(noted) = noted.filter(|noted| *noted > reader.below) {
                    reader.below = noted;
                    news.push((reader.guid, noted));
                }
            }
        }
        news
    }

    /// Collects readers whose channels the writer has found closed. Their descriptors are closed too, so the poller
    /// reports nothing for them.
    fn find_gone(&mut self) {
        while let Some(gone) = self.writer.poll_gone() {
            self.channels.retain(|channel| channel.id != gone.reader);
            let Self { attached, ended, .. } = self;
            ended.extend(
                attached
                    .extract_if(.., |reader| reader.channel == gone.reader)
                    .map(|reader| (reader.guid, reader.stage.end(gone.reason))),
            );
            self.note_attached_changed();
        }
    }

    /// Ends the closing channels, whose readers get messages.
    fn end_closing(&mut self) {
        for channel in self.channels.iter().filter(|channel| channel.is_closing) {
            self.writer.remove(channel.id);
        }
    }
}

impl Channel {
    /// Requests a notification when the readers have acknowledged `at`, or an earlier unfulfilled request if that is
    /// lower: the notified thread then requests the rest again. Returns the current acknowledgement.
    fn request_ack_notification(&mut self, writer: &mut Writer, at: u64) -> Option<u64> {
        let noted = writer.ack_of(self.id)?;
        self.ack_notification_at = if self.ack_notification_at > noted { at.min(self.ack_notification_at) } else { at };
        writer.request_ack_notification(self.id, self.ack_notification_at)
    }
}

/// A channel, in channels that are sorted by number.
#[inline]
fn find_channel(channels: &mut [Channel], id: ReaderId) -> Option<&mut Channel> {
    // With one or two channels the first comparison finds it.
    let place = match channels.first() {
        Some(first) if first.id == id => 0,
        _ => channels.binary_search_by_key(&id, |channel| channel.id).ok()?,
    };
    channels.get_mut(place)
}

impl Drop for Channels {
    fn drop(&mut self) {
        self.count_sent();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn process_that_has_not_taken_a_channel_into_use_counts_as_alive() {
        for stage in [Stage::Accepted, Stage::Ready] {
            assert_eq!(stage.end(Gone::Died), Gone::Ended);
        }
        assert_eq!(Stage::InUse.end(Gone::Died), Gone::Died);
        for reason in [Gone::Ended, Gone::Closed, Gone::Broken("why")] {
            assert_eq!(Stage::Accepted.end(reason), reason);
        }
    }
}
