//! Readers that attach to the channel of their process, and leave it.

use peregrine_rtps::id::Guid;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_transport::shm::{Gone, ReaderId, UserMessage};

use super::{AttachRequest, AttachedReader, ChannelEvents, Channels, MatchedRequest, Stage, Unsent, find_channel};
use crate::driver::route::shm::attachment::{Attachment, AttachmentKind};

impl Channels {
    pub(super) fn place_of(&self, reader: Guid) -> Result<usize, usize> {
        self.attached.binary_search_by_key(&reader, |attached| attached.guid)
    }

    /// The place of the reader with this index in a channel. Messages of many readers come in the order of their
    /// places, so the search begins behind the last one found.
    fn place_in(&mut self, id: ReaderId, index: u32) -> Option<usize> {
        let is_named = |place: &usize| {
            self.attached.get(*place).is_some_and(|reader| reader.channel == id && reader.index == index)
        };
        let start = self.last_found.wrapping_add(1).min(self.attached.len());
        let place = (start..self.attached.len()).chain(0..start).find(is_named);
        self.last_found = place.unwrap_or(self.last_found);
        place
    }

    pub(super) fn find(&self, reader: Guid) -> Option<&AttachedReader> {
        self.attached.get(self.place_of(reader).ok()?)
    }

    pub(super) fn find_mut(&mut self, reader: Guid) -> Option<&mut AttachedReader> {
        let place = self.place_of(reader).ok()?;
        self.attached.get_mut(place)
    }

    #[cfg(test)]
    pub(in crate::driver) fn channel_of(&self, reader: Guid) -> Option<ReaderId> {
        self.find(reader).map(|reader| reader.channel)
    }

    #[cfg(test)]
    pub(in crate::driver) fn channel_count(&self) -> usize {
        self.channels.len()
    }

    /// Whether the process of a reader was asked to notify the writer of acknowledgements.
    #[cfg(test)]
    pub(in crate::driver) fn is_ack_notification_requested(&self, reader: Guid) -> bool {
        let channel = self.channel_of(reader);
        self.channels.iter().any(|other| Some(other.id) == channel && other.ack_notification_at > 0)
    }

    /// The readers of a channel.
    pub(super) fn of(&self, id: ReaderId) -> impl Iterator<Item = &AttachedReader> {
        self.attached.iter().filter(move |reader| reader.channel == id)
    }

    /// Called whenever readers attach, leave, or begin or cease to be live.
    pub(super) fn note_attached_changed(&mut self) {
        let Self { channels, attached, are_all_live, .. } = self;
        channels.iter_mut().for_each(|channel| channel.has_readers = false);
        *are_all_live = true;
        for reader in attached {
            *are_all_live &= reader.is_live;
            if let Some(channel) = find_channel(channels, reader.channel) {
                channel.has_readers = true;
            }
        }
        *are_all_live &= channels.iter().all(|channel| channel.has_readers);
    }

    pub(super) fn attach(&mut self, channel: ReaderId, index: u32, guid: Guid) {
        let reader = AttachedReader {
            guid,
            channel,
            index,
            stage: Stage::Accepted,
            below: SequenceNumber::ZERO,
            is_live: false,
            session: None,
            epoch: 0,
            rewind: None,
            halted_at: None,
        };
        match self.place_of(guid) {
            Ok(place) => self.attached.splice(place..=place, [reader]).for_each(drop),
            Err(place) => self.attached.insert(place, reader),
        }
    }

    /// Answers requests to attach. Returns the readers that are not attached.
    pub(super) fn accept(&mut self, requests: &[MatchedRequest]) -> Vec<Guid> {
        for MatchedRequest { request, .. } in requests {
            // The reader may have attached before, to another channel.
            self.remove(request.reader);
        }
        let mut refused = Vec::new();
        for of_channel in requests.chunk_by(|one, other| one.request.channel == other.request.channel) {
            let Some(id) = of_channel.first().map(|first| first.request.channel) else { continue };
            let is_reliable = find_channel(&mut self.channels, id).map(|channel| channel.is_reliable);
            let suits = |matched: &MatchedRequest| Some(matched.is_reliable) == is_reliable;
            let answers: Vec<UserMessage> = of_channel
                .iter()
                .map(|matched| {
                    let kind = if suits(matched) { AttachmentKind::Accepted } else { AttachmentKind::Dismissed };
                    Attachment { index: matched.request.index, kind }.encode()
                })
                .collect();
            let is_sent = is_reliable.is_some() && self.send_attachments(id, &answers);
            for matched in of_channel {
                if is_sent && suits(matched) {
                    self.attach(id, matched.request.index, matched.request.reader);
                } else {
                    refused.push(matched.request.reader);
                }
            }
        }
        self.note_attached_changed();
        refused
    }

    pub(super) fn dismiss(&mut self, channel: ReaderId, index: u32) {
        self.send_attachments(channel, &[Attachment { index, kind: AttachmentKind::Dismissed }.encode()]);
    }

    /// Sends messages to the reader process. A process that does not read its messages loses the channel.
    fn send_attachments(&mut self, channel: ReaderId, messages: &[UserMessage]) -> bool {
        let is_sent = self.writer.send_messages(channel, messages);
        if !is_sent {
            self.writer.reject(channel, "the reader process does not read its messages");
        }
        is_sent
    }

    /// Detaches a reader. Without readers, this side ends the channel.
    pub(super) fn remove(&mut self, guid: Guid) {
        self.ended.retain(|(reader, _)| *reader != guid);
        let Ok(place) = self.place_of(guid) else { return };
        let AttachedReader { channel, index, .. } = self.attached.remove(place);
        if self.of(channel).next().is_some() {
            self.dismiss(channel, index);
        } else {
            self.writer.remove(channel);
        }
        self.note_attached_changed();
        self.find_gone();
    }

    /// Handles the messages that reader processes have sent.
    pub(super) fn receive_attachments(&mut self, events: &mut ChannelEvents) {
        let mut has_some = false;
        while let Some((channel, messages)) = self.writer.poll_messages() {
            has_some = true;
            let result = messages.into_iter().try_for_each(|message| {
                let message =
                    Attachment::decode(message).ok_or("the reader process sent a message that means nothing")?;
                self.receive_attachment(channel, message, events)
            });
            if let Err(what) = result {
                self.writer.reject(channel, what);
            }
        }
        if has_some {
            self.note_attached_changed();
        }
    }

    fn receive_attachment(
        &mut self,
        id: ReaderId,
        Attachment { index, kind }: Attachment,
        events: &mut ChannelEvents,
    ) -> Result<(), &'static str> {
        let place = if matches!(kind, AttachmentKind::Attach { .. }) { None } else { self.place_in(id, index) };
        let reader = place.and_then(|place| self.attached.get_mut(place));
        match (kind, reader) {
            (AttachmentKind::Attach { reader }, _) => {
                let Some(channel) = find_channel(&mut self.channels, id) else { return Ok(()) };
                if index <= channel.last_index {
                    return Err("the reader process attached two readers with one index");
                }
                channel.last_index = index;
                events.attach.push(AttachRequest { channel: id, index, reader });
            }
            (AttachmentKind::Ready, Some(reader)) if reader.stage == Stage::Accepted => {
                reader.stage = Stage::Ready;
                events.ready.push(reader.guid);
            }
            (AttachmentKind::Rewind { epoch, from }, Some(reader)) if reader.stage == Stage::InUse => {
                reader.rewind = Some(epoch);
                reader.session = None;
                reader.is_live = false;
                reader.halted_at = None;
                events.rewound.push((reader.guid, from));
            }
            (AttachmentKind::Detach, Some(reader)) => {
                // The reader process closes the channel when its last reader has left.
                events.gone.push((reader.guid, Gone::Ended));
                if let Some(place) = place {
                    self.attached.remove(place);
                    self.last_found = place.wrapping_sub(1);
                }
            }
            // The reader was detached meanwhile, or the message repeats an earlier one.
            (AttachmentKind::Ready | AttachmentKind::Rewind { .. } | AttachmentKind::Detach, _) => {}
            (AttachmentKind::Accepted | AttachmentKind::Dismissed, _) => {
                return Err("the reader process sent a message that only writers send");
            }
        }
        Ok(())
    }

    /// Answers rewind requests of readers, as far as there is room for the answers.
    pub(super) fn answer_rewinds(&mut self, events: &mut ChannelEvents) {
        for place in 0..self.attached.len() {
            let Some(AttachedReader { guid, channel, index, rewind: Some(epoch), .. }) = self.attached.get(place)
            else {
                continue;
            };
            let (guid, channel, index, epoch) = (*guid, *channel, *index, *epoch);
            match self.answer_rewind(channel, index, epoch) {
                Ok(()) => {
                    if let Some(reader) = self.attached.get_mut(place) {
                        reader.epoch = epoch;
                        reader.rewind = None;
                    }
                    events.resumed.push(guid);
                }
                // The reader process notifies the writer of room.
                Err(Unsent::NoRoom | Unsent::NoMemory) => {}
                Err(Unsent::Stuck | Unsent::TooLong | Unsent::NotAnnounced) => {
                    if let Some(channel) = find_channel(&mut self.channels, channel) {
                        channel.is_closing = true;
                    }
                    self.must_poll = true;
                }
            }
        }
    }
}
