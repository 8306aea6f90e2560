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
use peregrine_rtps::writer::{HandOver, HandOverBatch, Recipient};
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::{Poller, Token};
use peregrine_transport::shm::{
    Gone, Overflow, ReaderId, Request, SharedSlot, Slot, Writer, WriterConfig, WriterStatistics,
};

use super::direct::KeptChange;
use super::metadata::{ALIGNING, Entry};
use super::{Counters, lock};
use crate::shared_memory::SharedMemoryUse;

/// What a reader notes before it has anything, to say that it is there.
pub(super) const READY: u64 = 1;

/// After how many samples acknowledgements are looked at while there is no other reason, and after how many octets: what is
/// not known to be acknowledged keeps its slot, and large slots are to be few.
const LOOK_EVERY: u32 = 32;
const LOOK_EVERY_BYTES: usize = 64 << 10;
/// How often a writer that writes on and on gives up memory that was not in use meanwhile.
const TRIM_EVERY: Duration = Duration::from_secs(1);

/// A writer's ends of the channels to readers in other processes. Its lock is taken last, and nothing is done under it that
/// takes another.
#[derive(Default)]
pub(in crate::driver) struct Outgoing {
    has_readers: AtomicBool,
    /// Readers were found gone that [`Self::look_after`] has not told of.
    has_ended: AtomicBool,
    pub(super) channels: Mutex<Option<Box<Channels>>>,
}

pub(super) struct Channels {
    pub(super) writer: Writer,
    pub(super) readers: Vec<LocalReader>,
    /// Those that are gone and were not told of.
    ended: Vec<(Guid, Gone)>,
    /// A slot without octets, for what is told without any.
    nothing: Option<SharedSlot>,
    pub(super) since_look: u32,
    pub(super) bytes_since_look: usize,
    /// When to give up memory that is not in use.
    trim_at: MonotonicNs,
    /// Somebody waits until everything is acknowledged.
    is_asking: bool,
    /// Changes that were published without the history.
    pub(super) kept: VecDeque<KeptChange>,
}

pub(super) struct LocalReader {
    id: ReaderId,
    guid: Guid,
    /// What it has noted last.
    below: SequenceNumber,
    /// There was no room for it.
    is_halted: bool,
    /// It has noted something, and so is there to take what it is given; and the writer knows that.
    is_ready: bool,
}

/// How many readers a writer admits in other processes.
const READERS_MAX: usize = 64;

/// How far readers are of which there is news.
pub(in crate::driver) type Acknowledged = ArrayVec<(Guid, SequenceNumber), READERS_MAX>;

/// What has become of readers since they were looked after last.
#[derive(Default)]
pub(in crate::driver) struct Looked {
    /// They are there, and can get their samples here from now on, to be followed by [`Outgoing::note_ready`].
    pub(in crate::driver) ready: Vec<Guid>,
    /// They may have room again.
    pub(in crate::driver) resumed: Vec<Guid>,
    pub(in crate::driver) gone: Vec<(Guid, Gone)>,
}

impl Looked {
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
    /// The payload.
    pub(crate) fn octets(&self) -> &[u8] {
        self.0.get(ALIGNING..).unwrap_or_default()
    }

    /// Where the payload goes.
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

/// There was no room for something.
struct NoRoom;

impl Outgoing {
    /// Whether there are readers in other processes.
    #[inline]
    pub(in crate::driver) fn has_readers(&self) -> bool {
        self.has_readers.load(Ordering::Acquire)
    }

    /// Admits a reader. It is told of by [`Self::look_after`] when it is ready.
    ///
    /// # Errors
    /// Its memory is not as it should be, there are too many, or the system is short of something.
    pub(in crate::driver) fn admit(
        &self,
        request: Request,
        reader: Guid,
        overflow: Overflow,
        (poller, token): (&Poller, Token),
    ) -> io::Result<()> {
        let mut channels = lock(&self.channels);
        if channels.is_none() {
            let writer = Writer::new(WriterConfig { max_readers: READERS_MAX, ..WriterConfig::default() })?;
            *channels = Some(Box::new(Channels {
                writer,
                readers: Vec::new(),
                ended: Vec::new(),
                nothing: None,
                since_look: 0,
                bytes_since_look: 0,
                trim_at: MonotonicNs(0),
                is_asking: false,
                kept: VecDeque::new(),
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
            is_halted: false,
            is_ready: false,
        });
        // What it has noted before this is seen by whoever looks after it next.
        channels.writer.ask_for_note(id, READY);
        self.has_readers.store(true, Ordering::Release);
        Ok(())
    }

    /// A slot for a payload of `len` octets; `None` where a buffer has to do.
    pub(in crate::driver) fn loan(&self, len: usize) -> Option<PayloadSlot> {
        let mut slot = lock(&self.channels).as_mut()?.writer.loan(len.checked_add(ALIGNING)?).ok()?;
        slot.get_mut(..ALIGNING)?.fill(0);
        Some(PayloadSlot(slot))
    }

    /// Hands changes over to those of the recipients that are in other processes. Those that have no room are in `halted`
    /// then, each with the first number that it did not take.
    pub(super) fn publish(&self, batch: &HandOverBatch, halted: &mut Vec<(Guid, SequenceNumber)>, counters: &Counters) {
        let mut channels = lock(&self.channels);
        let Some(channels) = channels.as_mut() else { return };
        // Of a batch for several readers, what is not in a slot yet is copied once.
        let mut slots: Vec<Option<SharedSlot>> = Vec::new();
        for recipient in batch.recipients() {
            if let Some(number) = channels.deliver(batch, *recipient, &mut slots, counters) {
                halted.push((recipient.reader, number));
            }
        }
        self.note_ended(channels);
    }

    /// Whether readers were found gone meanwhile: somebody is to [look after them](Self::look_after).
    #[inline]
    pub(in crate::driver) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// How far readers are of which there is news; and, with `asks`, asks them to tell when they are further.
    pub(in crate::driver) fn acknowledged(&self, last: SequenceNumber, asks: bool) -> Acknowledged {
        let mut channels = lock(&self.channels);
        channels.as_mut().map_or_else(Acknowledged::new, |channels| channels.acknowledged(last, asks))
    }

    /// The same now and then, for a writer that writes on and on.
    pub(in crate::driver) fn acknowledged_meanwhile(&self, last: SequenceNumber) -> Acknowledged {
        let mut channels = lock(&self.channels);
        let Some(channels) = channels.as_mut() else { return Acknowledged::new() };
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
        channels.acknowledged(last, false)
    }

    /// Whether this reader had no room when it was last given something, and [`Self::look_after`] has not told otherwise.
    pub(in crate::driver) fn is_halted(&self, reader: Guid) -> bool {
        let channels = lock(&self.channels);
        let mut readers = channels.iter().flat_map(|channels| &channels.readers);
        readers.any(|local| local.guid == reader && local.is_halted)
    }

    /// Whether this is one of the readers.
    pub(in crate::driver) fn has_reader(&self, reader: Guid) -> bool {
        lock(&self.channels).as_ref().is_some_and(|channels| channels.readers.iter().any(|local| local.guid == reader))
    }

    /// How many readers are ready.
    pub(in crate::driver) fn count(&self) -> usize {
        let channels = lock(&self.channels);
        channels.iter().flat_map(|channels| &channels.readers).filter(|local| local.is_ready).count()
    }

    /// The memory there is for samples.
    pub(in crate::driver) fn memory_use(&self) -> SharedMemoryUse {
        let channels = lock(&self.channels);
        let Some(WriterStatistics { segments, bytes, slots, slots_in_use, .. }) =
            channels.as_ref().map(|channels| channels.writer.statistics())
        else {
            return SharedMemoryUse::default();
        };
        let [segments, bytes, slots, slots_in_use] = [segments, bytes, slots, slots_in_use].map(|count| count as u64);
        SharedMemoryUse { segments, bytes, slots, slots_in_use }
    }

    /// Looks after the readers.
    pub(in crate::driver) fn look_after(&self) -> Looked {
        let mut guard = lock(&self.channels);
        let Some(channels) = guard.as_mut() else { return Looked::default() };
        channels.writer.service();
        channels.writer.ask_no_more();
        channels.find_gone();
        self.has_ended.store(false, Ordering::Release);
        let mut looked = Looked { gone: std::mem::take(&mut channels.ended), ..Looked::default() };
        for reader in &mut channels.readers {
            if std::mem::take(&mut reader.is_halted) {
                looked.resumed.push(reader.guid);
            }
            if !reader.is_ready && channels.writer.note_of(reader.id).is_some_and(|note| note >= READY) {
                looked.ready.push(reader.guid);
            }
        }
        looked
    }

    /// Without readers, no memory is kept for them. To be called when nothing is [kept](Self::restore_kept) any more.
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

    pub(super) fn note_ended(&self, channels: &mut Channels) {
        channels.find_gone();
        if !channels.ended.is_empty() {
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
    /// Whether acknowledgements are to be looked at after one more sample.
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
        if result.is_ok() {
            return None;
        }
        if let Some(reader) = self.readers.get_mut(place) {
            reader.is_halted = true;
        }
        Some(next)
    }

    fn send_all(
        &mut self,
        to: ReaderId,
        batch: &HandOverBatch,
        next: &mut SequenceNumber,
        slots: &mut Vec<Option<SharedSlot>>,
        counters: &Counters,
    ) -> Result<(), NoRoom> {
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

    fn tell_unavailable(&mut self, to: ReaderId, from: SequenceNumber, end: SequenceNumber) -> Result<(), NoRoom> {
        if from < end { self.tell(to, Entry::Unavailable { from, to: end }) } else { Ok(()) }
    }

    fn tell(&mut self, to: ReaderId, entry: Entry) -> Result<(), NoRoom> {
        if self.nothing.is_none() {
            self.nothing = self.writer.loan(0).ok().map(Slot::share);
        }
        let Some(nothing) = self.nothing.clone() else { return Err(NoRoom) };
        self.send(to, &nothing, entry)
    }

    fn send(&mut self, to: ReaderId, slot: &SharedSlot, entry: Entry) -> Result<(), NoRoom> {
        if self.writer.publish_to(to, slot, entry.to_metadata()).is_ok() {
            return Ok(());
        }
        self.writer.ask_for_room(false);
        // There may have come some before it was asked for.
        self.writer.publish_to(to, slot, entry.to_metadata()).map_err(|_| NoRoom)
    }

    /// The slot of a change, which lies in one already unless it was encoded before there were readers here.
    fn slot_of(&mut self, change: &HandOver, counters: &Counters) -> Result<SharedSlot, NoRoom> {
        // What was written before the last reader left lies in a slot of another pool.
        if let Some(InSlot(slot)) = change.payload.value().and_then(|value| value.downcast_ref())
            && self.writer.owns(slot)
        {
            return Ok(slot.clone());
        }
        let payload = &*change.payload;
        let len = payload.len().saturating_add(ALIGNING);
        let loaned = self.writer.loan(len).or_else(|_| {
            self.writer.ask_for_room(true);
            self.writer.loan(len)
        });
        let mut slot = loaned.map_err(|_| NoRoom)?;
        if let Some((aligning, octets)) = slot.split_at_mut_checked(ALIGNING) {
            aligning.fill(0);
            octets.copy_from_slice(payload);
        }
        counters.copied_in.fetch_add(1, Ordering::Relaxed);
        Ok(slot.share())
    }

    fn acknowledged(&mut self, last: SequenceNumber, asks: bool) -> Acknowledged {
        let mut news = Acknowledged::new();
        self.is_asking |= asks;
        // What one has noted that gets messages still is not news: it is told with them, and here again when it is ready.
        for reader in self.readers.iter_mut().filter(|reader| reader.is_ready) {
            if news.is_full() {
                break;
            }
            let noted = if self.is_asking && reader.below <= last {
                // Half of what is missing: so not every sample wakes the writer, and it does not run dry.
                let missing = last.next().0.saturating_sub(reader.below.0.max(1));
                let at = reader.below.0.max(1).saturating_add((missing / 2).max(1));
                self.writer.ask_for_note(reader.id, at.cast_unsigned())
            } else {
                self.writer.note_of(reader.id)
            };
            // What lies past the last sample is not believed.
            let noted = noted.unwrap_or(0).min(last.next().0.cast_unsigned());
            let below = SequenceNumber(noted.cast_signed());
            if below > reader.below {
                reader.below = below;
                news.push((reader.guid, below));
            }
        }
        // Readers tell once; whoever waits may not be done by that.
        self.is_asking &= self.readers.iter().any(|reader| reader.below <= last);
        news
    }

    /// Those of which nothing can be seen at their descriptors any more, as those are closed.
    fn find_gone(&mut self) {
        while let Some(gone) = self.writer.poll_gone() {
            if let Some(place) = self.readers.iter().position(|reader| reader.id == gone.reader) {
                self.ended.push((self.readers.swap_remove(place).guid, gone.reason));
            }
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

fn entry_of(change: &HandOver) -> Entry {
    Entry::Change {
        number: change.sequence_number,
        kind: change.kind,
        instance: change.instance,
        source_timestamp: change.source_timestamp,
    }
}
