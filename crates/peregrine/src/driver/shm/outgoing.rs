//! The samples of a writer on their way to readers in other processes.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrayvec::ArrayVec;
use peregrine_rtps::id::Guid;
use peregrine_rtps::payload::{Octets, Payload};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Timestamp;
use peregrine_rtps::writer::{HandOverBatch, HandOverChange, Recipient};
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::{Poller, Token};
use peregrine_transport::shm::{
    Gone, LoanError, Overflow, ReaderId, Refusal, Request, RetainedSlot, SharedSlot, Slot, SlotLender, SpentSegment,
    Writer, WriterConfig, WriterStatistics,
};

use super::counters::Counters;
use super::metadata::{ALIGNING, Entry};
use crate::driver::adaptive_spin::RoomSpin;
use crate::driver::deadline_cell::DeadlineCell;
use crate::driver::sync::lock;
use crate::shared_memory::SharedMemoryUse;

/// What a reader notes before it has anything, to say that it is there.
pub(super) const READY: u64 = 1;

/// After how many samples acknowledgements are looked at while there is no other reason, and after how many octets: what is
/// not known to be acknowledged keeps its slot, and large slots are to be few.
const LOOK_EVERY: u32 = 32;
const LOOK_EVERY_BYTES: usize = 8 << 20;
/// How often memory is given up that was not in use meanwhile.
pub(super) const TRIM_EVERY: Duration = Duration::from_secs(1);
/// Initial interval between retries of an allocation that a reader waits for. Each failed retry doubles the interval. Other
/// processes notify the writer when they release a slot. Slots in this process (loans, samples of local readers, the history
/// for readers that get messages) are released without a notification.
pub(super) const MEMORY_RETRY_AFTER: Duration = Duration::from_millis(10);

/// A writer's ends of the channels to readers in other processes. Its lock is taken last, and nothing is done under it that
/// takes another.
pub(in crate::driver) struct Outgoing {
    /// Maximum memory for samples, in bytes.
    bytes_max: usize,
    has_readers: AtomicBool,
    /// Readers were found gone that [`Self::poll_channels`] has not told of.
    has_ended: AtomicBool,
    /// Whether the writer held much memory at the last check.
    pub(super) has_excess_memory: AtomicBool,
    /// When to look whether there still is. Set under the lock of the channels.
    pub(super) trim_due: DeadlineCell,
    pub(super) channels: Mutex<Option<Box<Channels>>>,
    /// Has a slot at hand for the next sample, without that lock.
    lending: Arc<SlotLender>,
}

pub(super) struct Channels {
    pub(super) writer: Writer,
    pub(super) readers: Vec<LocalReader>,
    /// Readers whose channels have ended, until [`Outgoing`] reports them.
    ended: Vec<(Guid, Gone)>,
    /// An empty slot, for changes without a payload.
    nothing: Option<SharedSlot>,
    pub(super) since_look: u32,
    pub(super) bytes_since_look: usize,
    /// When to give up memory that is not in use.
    pub(super) trim_at: MonotonicNs,
    /// How much had been published when the writer's timer last called.
    pub(super) published_before: u64,
    /// Some reader is to be looked after, and nothing comes from it any more.
    pub(super) must_poll: bool,
    /// Interval until the next retry of an allocation, for memory that is released without a notification.
    pub(super) memory_retry_after: Duration,
    /// There was no memory for a sample, and the next to come is for that.
    is_short: bool,
    /// The number behind the last that was given to all readers that had room.
    pub(super) sent_below: SequenceNumber,
    /// The last number there is, as far as this was told.
    last: SequenceNumber,
    /// Readers report acknowledgements up to this number, because threads wait for them.
    pub(super) demand: Option<SequenceNumber>,
    pub(super) room: RoomSpin,
    /// Changes that were published without the history.
    pub(super) kept: VecDeque<RetainedChange>,
    /// Samples handed over the short way, once for each reader, that the counters do not have yet.
    sent: u64,
    counters: Arc<Counters>,
}

/// A change that was published on the fast path, until it is acknowledged.
pub(super) struct RetainedChange {
    pub(super) number: SequenceNumber,
    pub(super) source_timestamp: Timestamp,
    pub(super) slot: RetainedSlot,
}

pub(super) struct LocalReader {
    pub(super) id: ReaderId,
    pub(super) guid: Guid,
    /// What it has noted last.
    below: SequenceNumber,
    /// It was asked to tell when it has noted so much.
    asked_note: u64,
    /// It acknowledges.
    is_reliable: bool,
    /// There was no room for it, from this number on.
    halted_at: Option<SequenceNumber>,
    /// It was memory that there was none of.
    is_short: bool,
    /// There was none, nor anything that it or others could give back.
    no_progress: bool,
    /// It is to get messages instead.
    is_closing: bool,
    /// It has noted something, and so is there to take what it is given; and the writer knows that.
    is_ready: bool,
}

/// How many readers a writer admits in other processes.
const READERS_MAX: usize = 64;

/// How far readers are of which there is news.
pub(in crate::driver) type Acknowledged = ArrayVec<(Guid, SequenceNumber), READERS_MAX>;

/// What has become of readers since they were looked after last.
#[derive(Default)]
pub(in crate::driver) struct ChannelEvents {
    /// They are there, and can get their samples here from now on, to be followed by [`Outgoing::note_ready`].
    pub(in crate::driver) ready: Vec<Guid>,
    /// They may have room again.
    pub(in crate::driver) resumed: Vec<Guid>,
    pub(in crate::driver) gone: Vec<(Guid, Gone)>,
}

impl ChannelEvents {
    pub(in crate::driver) const fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.resumed.is_empty() && self.gone.is_empty()
    }
}

/// A payload that lies in a slot.
#[derive(Debug)]
struct InSlot(SharedSlot);

impl Octets for InSlot {
    fn octets(&self) -> &[u8] {
        self.0.get(ALIGNING..).unwrap_or(&[])
    }

    fn value(&self) -> Option<&(dyn Any + Send + Sync)> {
        // Not what readers look for: for the way out, which sends the slot as it is.
        Some(self)
    }
}

/// A place for a payload in shared memory, to be filled.
pub(crate) struct PayloadSlot(pub(super) Slot);

impl PayloadSlot {
    #[inline(always)]
    fn new(mut slot: Slot) -> Option<Self> {
        slot.get_mut(..ALIGNING)?.fill(0);
        Some(Self(slot))
    }

    /// It is not going to be filled. Not to be called with a lock of the writer.
    pub(crate) fn give_back(self) {
        self.0.give_back();
    }

    /// The payload.
    #[inline]
    pub(crate) fn octets(&self) -> &[u8] {
        self.0.get(ALIGNING..).unwrap_or_default()
    }

    /// Where the payload goes.
    #[inline]
    pub(crate) fn octets_mut(&mut self) -> &mut [u8] {
        self.0.get_mut(ALIGNING..).unwrap_or_default()
    }

    /// The payload has become shorter than it was expected to be.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.octets().len() {
            // A shorter one fits.
            let _ = self.0.set_len(len.saturating_add(ALIGNING));
        }
    }

    pub(crate) fn into_payload(self) -> Payload {
        Self::payload_of(self.0.share())
    }

    pub(super) fn payload_of(slot: SharedSlot) -> Payload {
        Payload::foreign(Arc::new(InSlot(slot)))
    }
}

/// Why something could not be given to a reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unsent {
    /// There was no room for it. The reader makes some, and tells of it.
    NoRoom,
    /// There was no memory. Readers may give some back, and tell of it.
    NoMemory,
    /// There was none, and nobody is about to make some unless the writer's own side lets go of what it keeps.
    Stuck,
    /// There never will be.
    TooLong,
}

impl Outgoing {
    /// The outgoing side of a writer whose samples use at most this many bytes of memory, with the lender of its slots.
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
        slot.0.is_lent_by(&self.lending)
    }

    /// Whether there are readers in other processes.
    #[inline]
    pub(in crate::driver) fn has_readers(&self) -> bool {
        self.has_readers.load(Ordering::Acquire)
    }

    /// Admits a reader. It is told of by [`Self::poll_channels`] when it is ready.
    ///
    /// # Errors
    /// Its memory is not as it should be, there are too many, or the system is short of something.
    pub(in crate::driver) fn admit(
        &self,
        request: Request,
        reader: Guid,
        overflow: Overflow,
        (poller, token): (&Poller, Token),
        counters: &Arc<Counters>,
    ) -> io::Result<()> {
        if self.bytes_max == 0 {
            request.refuse(Refusal::Other);
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the writer has no shared memory by its own choice",
            ));
        }
        let mut channels = lock(&self.channels);
        if channels.is_none() {
            let config =
                WriterConfig { max_bytes: self.bytes_max, max_readers: READERS_MAX, ..WriterConfig::default() };
            let writer = Writer::with_lender(config, Arc::clone(&self.lending))?;
            *channels = Some(Box::new(Channels {
                writer,
                readers: Vec::new(),
                ended: Vec::new(),
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
        let added = channels.writer.descriptor(id).map_or(Ok(()), |descriptor| poller.add(&descriptor, token));
        if let Err(error) = added {
            channels.writer.remove(id);
            return Err(error);
        }
        channels.readers.push(LocalReader {
            id,
            guid: reader,
            below: SequenceNumber::ZERO,
            asked_note: 0,
            is_reliable: overflow == Overflow::Block,
            halted_at: None,
            is_short: false,
            no_progress: false,
            is_closing: false,
            is_ready: false,
        });
        // What it has noted before this is seen by whoever looks after it next.
        channels.writer.request_ack_notification(id, READY);
        self.has_readers.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes a slot for a payload of `len` bytes without the lock. On `None`, call [`Self::loan`].
    #[inline(always)]
    pub(in crate::driver) fn loan_at_hand(&self, len: usize) -> Option<PayloadSlot> {
        PayloadSlot::new(self.lending.take(len.checked_add(ALIGNING)?)?)
    }

    /// Takes a slot for a payload of `len` bytes. On `None`, the caller uses a buffer.
    pub(in crate::driver) fn loan(&self, len: usize) -> Option<PayloadSlot> {
        let mut locked = lock(&self.channels);
        let channels = locked.as_mut().filter(|channels| !channels.is_short)?;
        let loaned = channels.writer.loan(len.checked_add(ALIGNING)?);
        self.note_told(channels);
        drop(locked);
        PayloadSlot::new(loaned.ok()?)
    }

    /// Publishes changes to the recipients in other processes. Adds each reader without ring space to `halted`, with the
    /// first sequence number that this reader did not take.
    pub(in crate::driver) fn publish(
        &self,
        batch: &HandOverBatch,
        halted: &mut Vec<(Guid, SequenceNumber)>,
        counters: &Counters,
    ) {
        let mut channels = lock(&self.channels);
        let Some(channels) = channels.as_mut() else { return };
        // Of a batch for several readers, what is not in a slot yet is copied once.
        let mut slots: Vec<Option<SharedSlot>> = Vec::new();
        for recipient in batch.recipients() {
            if let Some(number) = channels.deliver(batch, *recipient, &mut slots, counters) {
                halted.push((recipient.reader, number));
            }
        }
        self.schedule_trim(channels);
        self.schedule_memory_retry(channels);
        self.note_ended(channels);
    }

    /// Whether readers were found gone meanwhile: the control thread is to [poll the channels](Self::poll_channels).
    #[inline]
    pub(in crate::driver) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// From here on readers are asked to report acknowledgements up to `demand`, or none. Returns how far readers are that have
    /// acknowledged more. To be called under the lock of the writer, so that the last demand stays.
    pub(in crate::driver) fn set_demand(&self, last: SequenceNumber, demand: Option<SequenceNumber>) -> Acknowledged {
        let mut channels = lock(&self.channels);
        let Some(channels) = channels.as_mut() else { return Acknowledged::new() };
        channels.demand = demand;
        channels.acknowledged(last)
    }

    /// The same now and then, for a writer that writes on and on.
    pub(in crate::driver) fn acknowledged_meanwhile(&self, last: SequenceNumber) -> Acknowledged {
        let mut channels = lock(&self.channels);
        let Some(channels) = channels.as_mut() else { return Acknowledged::new() };
        self.schedule_trim(channels);
        if !channels.is_time_to_look() {
            return Acknowledged::new();
        }
        self.look_meanwhile(channels, last)
    }

    /// The same when it is time.
    pub(in crate::driver) fn acknowledged_now(&self, last: SequenceNumber) -> Acknowledged {
        let mut channels = lock(&self.channels);
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

    /// Whether this reader had no room when it was last given something, and [`Self::poll_channels`] has not told otherwise.
    pub(in crate::driver) fn is_halted(&self, reader: Guid) -> bool {
        let channels = lock(&self.channels);
        let mut readers = channels.iter().flat_map(|channels| &channels.readers);
        readers.any(|local| local.guid == reader && local.halted_at.is_some())
    }

    /// Whether there is a channel to it, or one to some reader that is still open at the other side.
    pub(in crate::driver) fn has_channel(&self, reader: Guid) -> bool {
        let channels = lock(&self.channels);
        channels.as_ref().is_some_and(|channels| {
            channels.writer.is_closing() || channels.readers.iter().any(|local| local.guid == reader)
        })
    }

    /// How many readers are ready.
    pub(in crate::driver) fn count(&self) -> usize {
        let channels = lock(&self.channels);
        channels.iter().flat_map(|channels| &channels.readers).filter(|local| local.is_ready).count()
    }

    /// The memory there is for samples; the counters are complete by that.
    pub(in crate::driver) fn memory_use(&self) -> SharedMemoryUse {
        let mut channels = lock(&self.channels);
        let Some(channels) = channels.as_mut() else { return SharedMemoryUse::default() };
        channels.count_sent();
        let WriterStatistics { segments, bytes, slots, slots_in_use, .. } = channels.writer.statistics();
        let [segments, bytes, slots, slots_in_use] = [segments, bytes, slots, slots_in_use].map(|count| count as u64);
        SharedMemoryUse { segments, bytes, slots, slots_in_use }
    }

    /// Looks after the readers.
    pub(in crate::driver) fn poll_channels(&self) -> ChannelEvents {
        let mut guard = lock(&self.channels);
        let Some(channels) = guard.as_mut() else { return ChannelEvents::default() };
        channels.writer.service();
        channels.writer.cancel_room_notification();
        channels.end_closing();
        channels.find_gone();
        channels.must_poll = false;
        channels.writer.take_notified();
        self.has_ended.store(false, Ordering::Release);
        let mut looked = ChannelEvents { gone: std::mem::take(&mut channels.ended), ..ChannelEvents::default() };
        for reader in &mut channels.readers {
            if reader.halted_at.take().is_some() {
                looked.resumed.push(reader.guid);
            }
            if !reader.is_ready && channels.writer.ack_of(reader.id).is_some_and(|note| note >= READY) {
                looked.ready.push(reader.guid);
            }
        }
        self.schedule_trim(channels);
        looked
    }

    /// Without readers, no memory is kept for them. To be called when nothing is [kept](Self::spill_to_history) any more.
    pub(in crate::driver) fn end_if_without_readers(&self) {
        self.end_if_unused(&mut lock(&self.channels));
    }

    /// The writer hands its samples to this reader here. Before that, what the reader notes is no acknowledgement.
    pub(in crate::driver) fn note_ready(&self, reader: Guid) {
        let mut channels = lock(&self.channels);
        let mut readers = channels.iter_mut().flat_map(|channels| &mut channels.readers);
        if let Some(local) = readers.find(|local| local.guid == reader) {
            local.is_ready = true;
        }
    }

    /// Ends the channel to a reader, if there is one.
    pub(in crate::driver) fn remove(&self, reader: Guid) {
        let mut guard = lock(&self.channels);
        if let Some(channels) = guard.as_mut() {
            channels.remove(reader);
            self.note_ended(channels);
            self.end_if_unused(&mut guard);
        }
    }

    #[inline]
    pub(super) fn note_ended(&self, channels: &mut Channels) {
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
        self.note_told(channels);
    }

    /// What a reader has told may have been heard here, and is reported by its descriptor no more.
    #[inline]
    fn note_told(&self, channels: &mut Channels) {
        if channels.writer.take_notified() {
            channels.must_poll = true;
            self.has_ended.store(true, Ordering::Release);
        }
    }

    /// Without readers, no memory is kept for them.
    fn end_if_unused(&self, channels: &mut Option<Box<Channels>>) {
        let is_used =
            channels.as_ref().is_some_and(|channels| !channels.readers.is_empty() || !channels.ended.is_empty());
        self.has_readers.store(is_used, Ordering::Release);
        if !is_used {
            *channels = None;
        }
    }
}

impl Channels {
    /// A sample was handed to all readers at once.
    #[inline]
    pub(super) fn note_sent(&mut self) {
        self.sent += self.readers.len() as u64;
    }

    /// Lays a slot ahead for the next sample, unless memory is to be left to another.
    #[inline]
    pub(super) fn lay_ahead(&mut self, spent: SpentSegment) {
        if !self.is_short {
            self.writer.cache_next_slot(spent);
        }
    }

    /// Whether a reader waits for memory.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.readers.iter().any(|reader| reader.halted_at.is_some() && reader.is_short)
    }

    fn count_sent(&mut self) {
        self.counters.sent.fetch_add(std::mem::take(&mut self.sent), Ordering::Relaxed);
    }

    /// Whether acknowledgements are to be looked at after one more sample.
    #[inline]
    pub(super) fn is_time_to_look(&mut self) -> bool {
        self.since_look += 1;
        if self.since_look < LOOK_EVERY && self.bytes_since_look < LOOK_EVERY_BYTES {
            return false;
        }
        (self.since_look, self.bytes_since_look) = (0, 0);
        true
    }

    /// Hands a batch to a reader. If there is no room, the answer is the first number that it did not take.
    fn deliver(
        &mut self,
        batch: &HandOverBatch,
        Recipient { reader, from }: Recipient,
        slots: &mut Vec<Option<SharedSlot>>,
        counters: &Counters,
    ) -> Option<SequenceNumber> {
        let place = self.readers.iter().position(|local| local.guid == reader)?;
        let id = self.readers.get(place)?.id;
        let mut next = from;
        let result = self.send_all(id, batch, &mut next, slots, counters);
        let reader = self.readers.get_mut(place)?;
        reader.no_progress &= next == from;
        let Err(unsent) = result else {
            reader.is_short = false;
            self.sent_below = self.sent_below.max(batch.end());
            return None;
        };
        reader.halted_at = Some(next);
        let is_short = matches!(unsent, Unsent::NoMemory | Unsent::Stuck);
        reader.is_short = is_short;
        // Also whoever gives nothing back may acknowledge what is kept for that.
        let is_any_behind = is_short && self.is_any_behind();
        let no_progress = unsent == Unsent::Stuck && !is_any_behind;
        let reader = self.readers.get_mut(place)?;
        // The second time: what was acknowledged has been let go of since the first.
        reader.is_closing |= unsent == Unsent::TooLong || no_progress && reader.no_progress;
        reader.no_progress = no_progress;
        self.must_poll |= reader.is_closing || no_progress;
        Some(next)
    }

    fn send_all(
        &mut self,
        to: ReaderId,
        batch: &HandOverBatch,
        next: &mut SequenceNumber,
        slots: &mut Vec<Option<SharedSlot>>,
        counters: &Counters,
    ) -> Result<(), Unsent> {
        if batch.is_alive() {
            self.tell(to, Entry::Alive)?;
        }
        if let Some((first, last)) = batch.available() {
            self.tell(to, Entry::Available { first, last })?;
        }
        for (place, change) in batch.changes().iter().enumerate() {
            let number = change.sequence_number;
            if number < *next {
                continue;
            }
            self.tell_unavailable(to, *next, number)?;
            *next = number;
            if slots.len() <= place {
                slots.resize(place + 1, None);
            }
            let Some(slot) = slots.get_mut(place) else { continue };
            if slot.is_none() {
                *slot = Some(self.slot_of(change, counters)?);
            }
            if let Some(slot) = slot {
                self.bytes_since_look = self.bytes_since_look.saturating_add(slot.len());
                self.send(to, slot, entry_of(change))?;
            }
            counters.sent.fetch_add(1, Ordering::Relaxed);
            *next = number.next();
        }
        self.tell_unavailable(to, *next, batch.end())
    }

    fn tell_unavailable(&mut self, to: ReaderId, from: SequenceNumber, end: SequenceNumber) -> Result<(), Unsent> {
        if from < end { self.tell(to, Entry::Unavailable { from, to: end }) } else { Ok(()) }
    }

    fn tell(&mut self, to: ReaderId, entry: Entry) -> Result<(), Unsent> {
        if self.nothing.is_none() {
            self.nothing = Some(self.loan(0)?.share());
        }
        let Some(nothing) = self.nothing.clone() else { return Err(Unsent::Stuck) };
        self.send(to, &nothing, entry)
    }

    fn send(&mut self, to: ReaderId, slot: &SharedSlot, entry: Entry) -> Result<(), Unsent> {
        if self.writer.publish_to(to, slot, entry.to_metadata()).is_ok() {
            return Ok(());
        }
        self.writer.request_room_notification(false);
        // There may have come some before it was asked for.
        self.writer.publish_to(to, slot, entry.to_metadata()).map_err(|_| Unsent::NoRoom)
    }

    /// The slot of a change, which lies in one already unless it was encoded before there were readers here.
    fn slot_of(&mut self, change: &HandOverChange, counters: &Counters) -> Result<SharedSlot, Unsent> {
        // What was written before the last reader left lies in a slot of another pool.
        if let Some(InSlot(slot)) = change.payload.value().and_then(|value| value.downcast_ref())
            && self.writer.owns(slot)
        {
            return Ok(slot.clone());
        }
        let payload = &*change.payload;
        let mut slot = self.loan(payload.len().saturating_add(ALIGNING))?;
        if let Some((aligning, octets)) = slot.split_at_mut_checked(ALIGNING) {
            aligning.fill(0);
            octets.copy_from_slice(payload);
        }
        counters.copied_in.fetch_add(1, Ordering::Relaxed);
        Ok(slot.share())
    }

    /// Takes a slot for this many bytes. If there is none, requests a notification of room and retries once.
    fn loan(&mut self, len: usize) -> Result<Slot, Unsent> {
        let loaned = self.writer.loan(len).or_else(|_| {
            self.writer.request_room_notification(true);
            self.writer.loan(len)
        });
        // Else samples that are made meanwhile would take what is let go of, and wait behind this one. They come here then, so that
        // it ends when there is memory again, even if this one is not wanted any more.
        self.is_short = loaned.is_err();
        loaned.map_err(|error| match error {
            LoanError::TooLong { .. } => Unsent::TooLong,
            _ if self.writer.awaits_returns() => Unsent::NoMemory,
            _ => Unsent::Stuck,
        })
    }

    /// Whether some reader has not acknowledged yet what it has. It tells when it has.
    pub(super) fn is_any_behind(&mut self) -> bool {
        let Self { readers, writer, sent_below, .. } = self;
        let mut is_any = false;
        for reader in readers.iter_mut().filter(|reader| reader.is_reliable && reader.is_ready) {
            let has_below = reader.halted_at.unwrap_or(*sent_below).0.max(0).cast_unsigned();
            is_any |= reader.ask_for_note(writer, has_below).is_some_and(|noted| noted < has_below);
        }
        is_any
    }

    fn acknowledged(&mut self, last: SequenceNumber) -> Acknowledged {
        self.count_sent();
        let mut news = Acknowledged::new();
        // `last` may be stale: it was read before this lock was taken.
        self.last = self.last.max(last);
        // A reader that still gets messages acknowledges by messages.
        for reader in self.readers.iter_mut().filter(|reader| reader.is_ready) {
            if news.is_full() {
                break;
            }
            let noted = match self.demand.filter(|demand| reader.is_reliable && reader.below <= *demand) {
                Some(demand) => {
                    // Half of what is missing: not every sample wakes the writer, and the writer does not run dry.
                    let from = reader.below.0.max(1);
                    let missing = demand.next().0.saturating_sub(from);
                    reader.ask_for_note(&mut self.writer, from.saturating_add((missing / 2).max(1)).cast_unsigned())
                }
                None => self.writer.ack_of(reader.id),
            };
            // The reader process is untrusted: clamp its acknowledgement to the last sample.
            let noted = noted.unwrap_or(0).min(self.last.next().0.cast_unsigned());
            let below = SequenceNumber(noted.cast_signed());
            if below > reader.below {
                reader.below = below;
                news.push((reader.guid, below));
            }
        }
        news
    }

    /// Collects readers whose channels the writer has found closed. Their descriptors are closed too, so the poller reports
    /// nothing for them.
    fn find_gone(&mut self) {
        while let Some(gone) = self.writer.poll_gone() {
            if let Some(place) = self.readers.iter().position(|reader| reader.id == gone.reader) {
                self.ended.push((self.readers.swap_remove(place).guid, gone.reason));
            }
        }
    }

    /// The channels of those that are to get messages.
    fn end_closing(&mut self) {
        for reader in self.readers.iter().filter(|reader| reader.is_closing) {
            self.writer.remove(reader.id);
        }
    }

    /// It is not told of: nobody waits for news of it.
    fn remove(&mut self, guid: Guid) {
        self.ended.retain(|(reader, _)| *reader != guid);
        let Some(place) = self.readers.iter().position(|reader| reader.guid == guid) else { return };
        let reader = self.readers.swap_remove(place);
        self.writer.remove(reader.id);
        self.find_gone();
    }
}

impl LocalReader {
    /// Has it tell when it has noted so much, or what it was asked for before and has not noted yet, if that is less: whoever is
    /// told asks again for what is still missing. What it has noted by now is the answer.
    fn ask_for_note(&mut self, writer: &mut Writer, at: u64) -> Option<u64> {
        let noted = writer.ack_of(self.id)?;
        self.asked_note = if self.asked_note > noted { at.min(self.asked_note) } else { at };
        writer.request_ack_notification(self.id, self.asked_note)
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        self.count_sent();
    }
}

fn entry_of(change: &HandOverChange) -> Entry {
    Entry::Change {
        number: change.sequence_number,
        kind: change.kind,
        instance: change.instance,
        source_timestamp: change.source_timestamp,
    }
}
