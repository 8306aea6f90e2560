//! Delivery of a batch of changes into the rings of the channels.

use std::sync::atomic::Ordering;

use peregrine_rtps::id::KeyHash;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::writer::{HandOverBatch, HandOverChange, Recipient};
use peregrine_transport::shm::{LoanError, PublishError, ReaderId, SharedSlot, Slot};

use super::{AttachedReader, Channels, InSlot, Unsent};
use crate::driver::host::counters::Counters;
use crate::driver::route::shm::metadata::{ALIGNING, Addressed, Addressees, Entry};

/// The destination of the entries of a batch.
#[derive(Clone, Copy)]
struct Destination {
    channel: ReaderId,
    /// The readers that the entries are for; `None` for all live ones.
    to: Option<Addressees>,
    /// Number of readers that the entries are for.
    readers: u64,
}

/// Readers that entries can name together, out of a list.
struct Shared<'r> {
    to: Addressees,
    readers: &'r [(usize, Recipient)],
    /// The readers after these in the list.
    rest: &'r [(usize, Recipient)],
}

impl Channels {
    /// Delivers a batch to the readers of a channel. Adds each reader without room to `halted`, with the first change
    /// that the reader did not take.
    pub(super) fn deliver(
        &mut self,
        place: usize,
        batch: &HandOverBatch,
        slots: &mut Vec<Option<SharedSlot>>,
        halted: &mut Vec<Recipient>,
        counters: &Counters,
    ) {
        let Some(id) = self.channels.get(place).map(|channel| channel.id) else { return };
        let mut recipients = std::mem::take(&mut self.recipients);
        self.find_recipients(id, batch, &mut recipients);
        let is_live = |(place, _): &(usize, Recipient)| self.attached.get(*place).is_some_and(|r| r.is_live);
        let live = self.of(id).filter(|reader| reader.is_live).count();
        let are_these_live = recipients.len() == live && recipients.iter().all(is_live);
        if batch.is_catch_up() && !are_these_live {
            // A change of an instance names one reader.
            let is_shared = batch.changes().iter().all(|change| change.instance == KeyHash::NIL);
            if is_shared {
                recipients.sort_unstable_by_key(|(place, recipient)| (recipient.from, self.index_at(*place)));
            }
            let mut left = &*recipients;
            while let Some(Shared { to, readers: these, rest }) = self.next_addressees(left, is_shared) {
                left = rest;
                let mut next = these.first().map_or(batch.end(), |(_, recipient)| recipient.from);
                let result = self.send_to_some(id, to, these, batch, &mut next, slots, counters);
                self.note_sent_to(place, these, next, batch.end(), result, halted);
            }
        } else if let Some(from) = recipients.iter().map(|(_, recipient)| recipient.from).min() {
            let mut next = from;
            let made_live = if are_these_live { Ok(()) } else { self.make_live(id, &recipients) };
            let destination = Destination { channel: id, to: None, readers: recipients.len() as u64 };
            let result = made_live.and_then(|()| self.send_all(destination, batch, &mut next, slots, counters));
            self.note_sent_to(place, &recipients, next, batch.end(), result, halted);
        }
        recipients.clear();
        self.recipients = recipients;
    }

    /// The readers of a channel that a batch is for. A reader that was rewound meanwhile lacks changes from before the
    /// batch.
    fn find_recipients(&self, id: ReaderId, batch: &HandOverBatch, recipients: &mut Vec<(usize, Recipient)>) {
        for recipient in batch.recipients() {
            let Ok(place) = self.place_of(recipient.reader) else { continue };
            let is_meant = |reader: &AttachedReader| reader.channel == id && reader.session == Some(recipient.session);
            if self.attached.get(place).is_some_and(is_meant) {
                recipients.push((place, *recipient));
            }
        }
    }

    /// Makes the recipients the live readers of a channel.
    fn make_live(&mut self, id: ReaderId, recipients: &[(usize, Recipient)]) -> Result<(), Unsent> {
        let mut recipient_at = vec![None; self.attached.len()];
        for (place, recipient) in recipients {
            recipient_at.get_mut(*place).into_iter().for_each(|at| *at = Some(*recipient));
        }
        let mut begin = Vec::new();
        for (place, recipient) in recipient_at.into_iter().enumerate() {
            let Some(reader) = self.attached.get(place).filter(|reader| reader.channel == id) else { continue };
            match recipient {
                Some(recipient) if !reader.is_live => {
                    begin.push((place, Recipient { from: recipient.from.max(SequenceNumber(1)), ..recipient }));
                }
                None if reader.is_live => self.end_live(place)?,
                _ => {}
            }
        }
        begin.sort_unstable_by_key(|(place, recipient)| (recipient.from, self.index_at(*place)));
        let result = self.begin_live(id, &begin);
        self.note_attached_changed();
        result
    }

    /// Makes these readers of a channel live, sorted by their first number and their index.
    fn begin_live(&mut self, id: ReaderId, mut readers: &[(usize, Recipient)]) -> Result<(), Unsent> {
        while let Some(Shared { to, readers: these, rest }) = self.next_addressees(readers, true) {
            let from = these.first().map_or(SequenceNumber(1), |(_, recipient)| recipient.from);
            let destination = Destination { channel: id, to: Some(to), readers: these.len() as u64 };
            self.send_entry(destination, Entry::Live { from })?;
            for (place, _) in these {
                self.attached.get_mut(*place).into_iter().for_each(|reader| reader.is_live = true);
            }
            readers = rest;
        }
        Ok(())
    }

    fn index_at(&self, place: usize) -> u32 {
        self.attached.get(place).map_or(0, |reader| reader.index)
    }

    /// The first of these readers that entries can name together. `are_shared`: several readers may share an entry if
    /// they begin at one number.
    fn next_addressees<'r>(&self, readers: &'r [(usize, Recipient)], are_shared: bool) -> Option<Shared<'r>> {
        let (place, first) = readers.first()?;
        let mut to = Addressees::one(self.index_at(*place));
        let most = if are_shared { readers.len() } else { 1 };
        let mut is_next =
            |(place, next): &&(usize, Recipient)| next.from == first.from && to.insert(self.index_at(*place));
        let count = readers.iter().take(most).take_while(|reader| is_next(reader)).count();
        let (readers, rest) = readers.split_at_checked(count)?;
        Some(Shared { to, readers, rest })
    }

    /// Makes a reader take only the entries that name it.
    fn end_live(&mut self, place: usize) -> Result<(), Unsent> {
        let Some(reader) = self.attached.get(place) else { return Ok(()) };
        let destination = Destination { channel: reader.channel, to: Some(Addressees::one(reader.index)), readers: 1 };
        self.send_entry(destination, Entry::NotLive { epoch: reader.epoch })?;
        self.attached.get_mut(place).into_iter().for_each(|reader| reader.is_live = false);
        self.note_attached_changed();
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the state of one delivery")]
    fn send_to_some(
        &mut self,
        channel: ReaderId,
        to: Addressees,
        readers: &[(usize, Recipient)],
        batch: &HandOverBatch,
        next: &mut SequenceNumber,
        slots: &mut Vec<Option<SharedSlot>>,
        counters: &Counters,
    ) -> Result<(), Unsent> {
        for (place, _) in readers {
            if self.attached.get(*place).is_some_and(|reader| reader.is_live) {
                self.end_live(*place)?;
            }
        }
        let destination = Destination { channel, to: Some(to), readers: readers.len() as u64 };
        self.send_all(destination, batch, next, slots, counters)
    }

    /// Records the result for readers to which a batch was sent up to `next`.
    fn note_sent_to(
        &mut self,
        place: usize,
        recipients: &[(usize, Recipient)],
        next: SequenceNumber,
        end: SequenceNumber,
        result: Result<(), Unsent>,
        halted: &mut Vec<Recipient>,
    ) {
        let Some(channel) = self.channels.get_mut(place) else { return };
        channel.no_progress &= recipients.iter().all(|(_, recipient)| next <= recipient.from);
        let Err(unsent) = result else {
            channel.is_short = false;
            self.sent_below = self.sent_below.max(end);
            return;
        };
        for (place, recipient) in recipients {
            let from = next.max(recipient.from);
            if let Some(reader) = self.attached.get_mut(*place) {
                reader.halted_at = Some(from);
                halted.push(Recipient { from, ..*recipient });
            }
        }
        let is_short = matches!(unsent, Unsent::NoMemory | Unsent::Stuck);
        channel.is_short = is_short || unsent == Unsent::NotAnnounced;
        // A reader without memory to release may still acknowledge samples, whose slots then become free.
        let is_any_behind = is_short && self.is_any_behind();
        let no_progress = unsent == Unsent::Stuck && !is_any_behind;
        let Some(channel) = self.channels.get_mut(place) else { return };
        // Closes at the second attempt: acknowledged samples have been released since the first.
        channel.is_closing |= unsent == Unsent::TooLong || no_progress && channel.no_progress;
        channel.no_progress = no_progress;
        self.must_poll |= channel.is_closing || no_progress;
    }

    fn send_all(
        &mut self,
        to: Destination,
        batch: &HandOverBatch,
        next: &mut SequenceNumber,
        slots: &mut Vec<Option<SharedSlot>>,
        counters: &Counters,
    ) -> Result<(), Unsent> {
        // Without memory for a change, nothing is sent: the reader would return the entries without a payload, and each
        // return would cause another attempt.
        if let Some(first) = batch.changes().iter().position(|change| change.sequence_number >= *next) {
            self.slot_at(first, batch, slots, counters)?;
        }
        if batch.is_alive() {
            self.send_entry(to, Entry::Alive)?;
        }
        if let Some((first, last)) = batch.available() {
            self.send_entry(to, Entry::Available { first, last })?;
        }
        for (place, change) in batch.changes().iter().enumerate() {
            let number = change.sequence_number;
            if number < *next {
                continue;
            }
            self.send_unavailable(to, *next, number)?;
            *next = number;
            let slot = self.slot_at(place, batch, slots, counters)?;
            self.bytes_since_look = self.bytes_since_look.saturating_add(slot.len());
            self.send(to, &slot, entry_of(change))?;
            counters.sent.fetch_add(to.readers, Ordering::Relaxed);
            *next = number.next();
        }
        self.send_unavailable(to, *next, batch.end())
    }

    fn send_unavailable(&mut self, to: Destination, from: SequenceNumber, end: SequenceNumber) -> Result<(), Unsent> {
        if from < end { self.send_entry(to, Entry::Unavailable { from, to: end }) } else { Ok(()) }
    }

    /// Writes the entry with which the answer to a rewind begins.
    pub(super) fn answer_rewind(&mut self, channel: ReaderId, index: u32, epoch: u32) -> Result<(), Unsent> {
        self.send_entry(Destination { channel, to: Some(Addressees::one(index)), readers: 1 }, Entry::NotLive { epoch })
    }

    fn send_entry(&mut self, to: Destination, entry: Entry) -> Result<(), Unsent> {
        if self.nothing.is_none() {
            self.nothing = Some(self.loan(0)?.share());
        }
        let Some(nothing) = self.nothing.clone() else { return Err(Unsent::Stuck) };
        self.send(to, &nothing, entry)
    }

    fn send(
        &mut self,
        Destination { channel, to, .. }: Destination,
        slot: &SharedSlot,
        entry: Entry,
    ) -> Result<(), Unsent> {
        let metadata = Addressed { to, entry }.to_metadata();
        let unsent = |error: PublishError<()>| match error.is_segment_unannounced() {
            true => Unsent::NotAnnounced,
            false => Unsent::NoRoom,
        };
        match self.writer.publish_to(channel, slot, metadata).map_err(unsent) {
            Err(Unsent::NoRoom) => {}
            // Otherwise the reader would notify the writer for each entry that it skips, without effect.
            result => return result,
        }
        self.writer.request_room_notification(false);
        // Room may have become free before the request.
        self.writer.publish_to(channel, slot, metadata).map_err(unsent)
    }

    /// The slot of the change at this index of the batch.
    fn slot_at(
        &mut self,
        place: usize,
        batch: &HandOverBatch,
        slots: &mut Vec<Option<SharedSlot>>,
        counters: &Counters,
    ) -> Result<SharedSlot, Unsent> {
        if let Some(Some(slot)) = slots.get(place) {
            return Ok(slot.clone());
        }
        let change = batch.changes().get(place).ok_or(Unsent::Stuck)?;
        let slot = self.slot_of(change, counters)?;
        if slots.len() <= place {
            slots.resize(place + 1, None);
        }
        if let Some(known) = slots.get_mut(place) {
            *known = Some(slot.clone());
        }
        Ok(slot)
    }

    /// The slot of a change. A change that was encoded before there were readers is copied into a slot.
    fn slot_of(&mut self, change: &HandOverChange, counters: &Counters) -> Result<SharedSlot, Unsent> {
        // A sample from before the last reader left is in a slot of another pool.
        if let Some(InSlot(slot)) = change.payload.value().and_then(|value| value.downcast_ref())
            && self.writer.owns(slot)
        {
            return Ok(slot.clone());
        }
        debug_assert!(change.payload.known_len().is_some(), "user code would encode the value under a lock");
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
    pub(in crate::driver) fn loan_or_ask(&mut self, len: usize) -> Result<Slot, LoanError> {
        self.writer.loan(len).or_else(|_| {
            self.writer.request_room_notification(true);
            self.writer.loan(len)
        })
    }

    fn loan(&mut self, len: usize) -> Result<Slot, Unsent> {
        let loaned = self.loan_or_ask(len);
        // Else samples that are written meanwhile would take the memory that is released, and wait behind this one.
        // Their loans come here, which ends the shortage when there is memory again, even if this sample is not wanted
        // any more.
        self.is_short = loaned.is_err();
        loaned.map_err(|error| match error {
            LoanError::TooLong { .. } => Unsent::TooLong,
            _ if self.writer.awaits_returns() => Unsent::NoMemory,
            _ => Unsent::Stuck,
        })
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
