//! Taking samples of all channels, and maintenance of the channels.

use peregrine_rtps::id::Guid;
use peregrine_rtps::reader::Reception;
use peregrine_rtps::time::Instant;
use peregrine_transport::shm::{Gone, WriterId};

use super::super::requests::{ChannelRequest, ReaderRequest, RequestedChannel, reason_of};
use super::super::sample_order::Order;
use super::super::services::ShmHost;
use super::channel::{Decision, Given, Inserted, ProtocolViolation};
use super::{AttachedReader, Attachments, Channel, Channels, DeferredActions, NewChannel, ShmReceiver, Stage};
use crate::driver::base::clock::{now, wall_at};
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::local_delivery::LOCAL_SOURCE;
use crate::driver::host::counters::Counters;
use crate::driver::route::shm::attachment::{Attachment, AttachmentKind};
use crate::shared_memory::NoSharedMemory;

/// Maximum number of samples that are taken before their readers are notified.
const BATCH: usize = 64;

/// Maximum number of calls of [`ShmReceiver::take`] before messages of writers and ends of channels are handled.
const TAKES_BETWEEN_MESSAGES: usize = 16;

impl ShmReceiver {
    /// Adds a channel, whose first reader the request named.
    pub(super) fn add(&mut self, channel: NewChannel, shared: &dyn Attachments) {
        let NewChannel { connection, wanted, count } = channel;
        let added = self.reader.add(connection).map_err(|error| error.to_string());
        let added = added.and_then(|id| {
            let notes = self.reader.ack_handle(id).ok_or_else(|| "the writer's process has ended".to_owned())?;
            Ok((id, notes))
        });
        let (id, notes) = match added {
            Ok(added) => added,
            Err(error) => {
                let reason = NoSharedMemory::NotConnected(error);
                return wanted.into_each().for_each(|wanted| shared.detached(wanted, reason.clone()));
            }
        };
        let RequestedChannel { key, at, readers } = wanted;
        let channel = Channel {
            key,
            at,
            notes,
            _count: count,
            readers: Vec::with_capacity(readers.len()),
            next_index: 1,
            asked: Vec::new(),
            is_paused: false,
            owes_ack: false,
        };
        self.channels.push(id, channel);
        let mut readers = readers.into_iter();
        if let Some(first) = readers.next() {
            self.start_first(id, &first, shared);
        }
        self.join(RequestedChannel { key, at, readers: readers.collect() }, shared);
        if self.channels.get_mut(id).is_some_and(|channel| channel.readers.is_empty()) {
            self.reader.remove(id);
            self.channels.remove(id);
        }
    }

    fn start_first(&mut self, id: WriterId, request: &ReaderRequest, shared: &dyn Attachments) {
        let Some(channel) = self.channels.get_mut(id) else { return };
        let Some(core) = request.core.upgrade() else {
            shared.counters().note_detached();
            self.reader.send_messages(id, &[Attachment { index: 0, kind: AttachmentKind::Detach }.encode()]);
            return;
        };
        channel.start_first(request, core);
        channel.acknowledge();
        let writer = channel.key.writer;
        self.reader.send_messages(id, &[Attachment { index: 0, kind: AttachmentKind::Ready }.encode()]);
        shared.attached(request.guid, writer);
    }

    /// Attaches readers to the channel of this process. Without a channel, the readers request one. The caller then
    /// calls [`Self::update_joined`], once for several channels.
    pub(super) fn join(&mut self, wanted: RequestedChannel, shared: &dyn Attachments) {
        let Some((id, channel)) = self.channels.find_mut(wanted.key) else {
            for wanted in wanted.into_each() {
                let reason = NoSharedMemory::NotConnected("the channel of its process has ended".to_owned());
                shared.request_channel_again(wanted, reason);
            }
            return;
        };
        for request in &wanted.readers {
            let is_attached = channel.readers.iter().any(|reader| reader.core.guid == request.guid);
            match request.core.upgrade().filter(|_| !is_attached) {
                Some(core) => channel.join(request, core),
                // The reader is deleted, or it has repeated its request.
                None => shared.counters().note_detached(),
            }
        }
        if self.joined.last() != Some(&id) {
            self.joined.push(id);
        }
    }

    /// Sends the requests of the readers that have joined.
    pub(super) fn update_joined(&mut self) {
        let mut joined = std::mem::take(&mut self.joined);
        joined.sort_unstable();
        joined.dedup();
        for id in joined {
            self.update(id);
        }
    }

    /// Called when the datagrams before the first sample were received: a best-effort reader takes its waiting samples.
    pub(super) fn begin(&mut self, reader: Guid, writer: Guid, dirty: &mut DirtyEndpoints, counters: &Counters) {
        self.drain(dirty, counters, Some(writer), |attached| {
            let is_meant = attached.core.guid == reader;
            if is_meant {
                attached.order = Order::Certain;
            }
            is_meant
        });
    }

    /// Passes waiting samples to a reader that has room again.
    pub(super) fn resume(&mut self, reader: Guid, dirty: &mut DirtyEndpoints, counters: &Counters) {
        self.drain(dirty, counters, None, |attached| attached.core.guid == reader && attached.order == Order::Certain);
    }

    /// Passes waiting samples to the readers for which `is_meant` is true, from the channels of this writer or of all.
    fn drain(
        &mut self,
        dirty: &mut DirtyEndpoints,
        counters: &Counters,
        of: Option<Guid>,
        mut is_meant: impl FnMut(&mut AttachedReader) -> bool,
    ) {
        let now = now();
        let rx = Reception { now, wall: wall_at(now), buffer: None, source: LOCAL_SOURCE };
        let mut drained = Vec::new();
        let of_writer = |channel: &Channel| of.is_none_or(|of| of == channel.key.writer);
        for (id, channel) in self.channels.iter_mut().filter(|(_, channel)| of_writer(channel)) {
            let places = channel.readers.iter_mut().enumerate().filter_map(|(p, r)| is_meant(r).then_some(p));
            for place in places.collect::<Vec<_>>() {
                counters.note_received(channel.drain(place, &rx));
                if let Some(reader) = channel.readers.get(place) {
                    dirty.reader(&reader.core);
                }
                drained.push(id);
            }
        }
        for id in drained {
            self.update(id);
        }
    }

    /// Pauses or resumes a channel, and sends the requests of its readers. Called after any change of its readers.
    fn update(&mut self, id: WriterId) {
        let Self { reader: source, channels, .. } = self;
        let Some(channel) = channels.get_mut(id) else { return };
        channel.update_pause(source, id);
        if !channel.send_requests(source, id) {
            // The writer process does not read its messages. `handle_messages_and_ends` reports the end.
            source.remove(id);
        }
    }

    /// Removes the readers for which `is_meant`, called with the writer of the channel, is true: from the channels of
    /// this writer, or from all.
    pub(super) fn remove(
        &mut self,
        shared: &dyn Attachments,
        of: Option<Guid>,
        is_meant: impl Fn(&AttachedReader, Guid) -> bool,
    ) {
        let has_some = |channel: &Channel| {
            let writer = channel.key.writer;
            of.is_none_or(|of| of == writer) && channel.readers.iter().any(|reader| is_meant(reader, writer))
        };
        let of_them = self.channels.iter().filter(|(_, channel)| has_some(channel));
        for id in of_them.map(|(id, _)| id).collect::<Vec<_>>() {
            let Some(channel) = self.channels.get_mut(id) else { continue };
            let writer = channel.key.writer;
            let removed: Vec<AttachedReader> =
                channel.readers.extract_if(.., |attached| is_meant(attached, writer)).collect();
            channel.acknowledge();
            if channel.readers.is_empty() {
                self.reader.remove(id);
                self.channels.remove(id);
            }
            for attached in removed {
                shared.counters().note_detached();
                let detach = Attachment { index: attached.index, kind: AttachmentKind::Detach };
                let must_tell = attached.stage != Stage::Queued && self.channels.get_mut(id).is_some();
                if must_tell && !self.reader.send_messages(id, &[detach.encode()]) {
                    self.reader.remove(id);
                }
            }
            self.update(id);
        }
    }

    /// Whether there is work that no sample announces.
    pub(super) fn has_to_act(&self) -> bool {
        !self.begun.is_empty() || self.news.is_due(|| self.is_awaiting())
    }

    /// Whether [`Self::deferred_actions`] may return something.
    pub(super) const fn has_deferred_actions(&self) -> bool {
        !self.news.is_empty() || !self.begun.is_empty()
    }

    /// Whether samples wait that precede the deferred messages.
    fn is_awaiting(&self) -> bool {
        is_awaiting(&self.channels)
    }

    /// The actions that are due after a round.
    pub(super) fn deferred_actions(&mut self, has_taken: bool) -> DeferredActions {
        let Self { news, channels, begun, .. } = self;
        DeferredActions { news: news.take_due(has_taken, || is_awaiting(channels)), begun: std::mem::take(begun) }
    }

    /// Takes some samples. Returns their number.
    pub(super) fn take(&mut self, now: Instant, dirty: &mut DirtyEndpoints, shared: &dyn Attachments) -> usize {
        let wall = wall_at(now);
        let rx = Reception { now, wall, buffer: None, source: LOCAL_SOURCE };
        let mut taken = 0;
        let mut last = None;
        while taken < BATCH {
            let inserted = self.take_in_place(&rx, BATCH - taken, dirty, shared.counters());
            taken += inserted;
            if inserted > 0 && !self.reader.is_ready() {
                break;
            }
            let sample = match self.reader.take() {
                Ok(Some(sample)) => sample,
                Ok(None) => break,
                Err(error) => {
                    // A working writer permits more held samples than `HELD_MAX`.
                    self.reader.remove(error.writer);
                    continue;
                }
            };
            taken += 1;
            let id = sample.writer();
            if let Some(other) = last.replace(id).filter(|last| *last != id) {
                self.channels.acknowledge(other);
            }
            let Self { reader: source, channels, begun, .. } = self;
            let Some((channel, copies)) = channels.with_copies(id) else { continue };
            match channel.give(&rx, sample, copies, dirty, begun) {
                Ok(Given { samples, is_answer }) => {
                    shared.counters().note_received(samples);
                    channel.update_pause(source, id);
                    if is_answer {
                        self.update(id);
                    }
                }
                // Reported like any other end.
                Err(ProtocolViolation) => source.remove(id),
            }
        }
        if let Some(id) = last {
            self.channels.acknowledge(id);
        }
        self.takes_since_messages += 1;
        if self.takes_since_messages >= TAKES_BETWEEN_MESSAGES {
            self.reader.look_for_ends();
            self.handle_messages_and_ends(shared);
        }
        taken
    }

    /// Takes samples of one channel on the fast path: they are copied and inserted. Returns their number.
    fn take_in_place(
        &mut self,
        rx: &Reception<'_>,
        most: usize,
        dirty: &mut DirtyEndpoints,
        counters: &Counters,
    ) -> usize {
        let Some(samples) = self.reader.in_place() else { return 0 };
        let Some(channel) = self.channels.get_mut(samples.writer()) else { return 0 };
        let Inserted { samples, must_notify } = channel.insert_in_place(rx, samples, most);
        counters.note_received(samples as u64);
        if must_notify && let Some(only) = channel.readers.first() {
            dirty.reader(&only.core);
        }
        samples
    }

    /// Handles messages of writers, and the channels that have ended.
    pub(super) fn handle_messages_and_ends(&mut self, shared: &dyn Attachments) {
        self.handle_messages(shared);
        while let Some(gone) = self.reader.poll_gone() {
            let Some(channel) = self.channels.remove(gone.writer) else { continue };
            for reader in &channel.readers {
                let wanted = ChannelRequest { key: channel.key, at: channel.at, reader: reader.request() };
                let reason = reason_of(gone.reason);
                match reader.stage {
                    // The writer may have ended the channel before it knew of this reader.
                    Stage::Queued | Stage::Asked => shared.request_channel_again(wanted, reason),
                    Stage::Attached { .. } | Stage::CatchingUp { .. } | Stage::Rewinding => {
                        if gone.reason == Gone::Died {
                            shared.note_writer_died(reader.core.guid, channel.key.writer);
                        }
                        shared.detached(wanted, reason);
                    }
                }
            }
        }
    }

    fn handle_messages(&mut self, shared: &dyn Attachments) {
        self.takes_since_messages = 0;
        while let Some((id, messages)) = self.reader.poll_messages() {
            let Some(channel) = self.channels.get_mut(id) else { continue };
            let (mut accepted, mut ready, mut is_working) = (Vec::new(), Vec::new(), true);
            for message in messages {
                match channel.handle_message(message) {
                    Ok(None) => {}
                    Ok(Some(Decision::Accepted { index, reader, writer })) => {
                        ready.push(Attachment { index, kind: AttachmentKind::Ready }.encode());
                        accepted.push((reader, writer));
                    }
                    Ok(Some(Decision::Dismissed(wanted))) => {
                        let reason = "the writer's process has dismissed the reader from the channel of its process";
                        shared.detached(wanted, NoSharedMemory::NotConnected(reason.to_owned()));
                    }
                    Err(ProtocolViolation) => {
                        is_working = false;
                        break;
                    }
                }
            }
            // The acknowledgement must cover the accepted readers before `Ready` is sent.
            channel.acknowledge();
            let is_empty = channel.readers.is_empty();
            is_working &= ready.is_empty() || self.reader.send_messages(id, &ready);
            accepted.into_iter().for_each(|(reader, writer)| shared.attached(reader, writer));
            if is_empty || !is_working {
                // Unless no reader is left, `handle_messages_and_ends` reports the end.
                self.reader.remove(id);
            }
            if is_empty {
                self.channels.remove(id);
            }
            self.update(id);
        }
    }
}

fn is_awaiting(channels: &Channels) -> bool {
    channels.iter().any(|(_, channel)| channel.readers.iter().any(|reader| reader.order == Order::Awaited))
}

impl DeferredActions {
    pub(super) fn is_empty(&self) -> bool {
        self.news.is_empty() && self.begun.is_empty()
    }

    pub(super) fn perform(self, host: &dyn ShmHost) {
        for (reader, writer) in self.begun {
            host.begin_behind_datagrams(reader, writer);
        }
        self.news.iter().for_each(|news| host.handle_deferred(news, now()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant as Moment};

    use super::super::super::sample_order::{COMMANDS_MAX, NEWS_MAX};
    use super::super::Incoming;
    use super::*;
    use crate::driver::net::socket_barrier::DeferredMessage;
    use crate::{DdsType, DomainConfig, DomainParticipant, InterfaceSelection, WaitStrategy};

    const PATIENCE: Duration = Duration::from_secs(60);

    #[derive(Clone, Debug, DdsType)]
    struct Number {
        value: u64,
    }

    fn participant(prefix: &str, wait: WaitStrategy) -> DomainParticipant {
        let interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
        let mut config = DomainConfig { wait, interfaces, same_process: false, ..DomainConfig::default() };
        config.threads.name_prefix = prefix.to_owned();
        DomainParticipant::builder(71).config(config).build().unwrap()
    }

    /// Messages wait until the first sample of a reader has been received, which may take long.
    #[test]
    fn deferred_messages_take_effect_at_their_bound_although_a_reader_waits_for_its_first_sample() {
        let (here, there) =
            (participant("news here", WaitStrategy::default()), participant("news", WaitStrategy::Poll));
        let name = format!("deferred messages of {}", std::process::id());
        let writer = here.topic::<Number>(&name).unwrap().writer().unwrap();
        let _reader = there.topic::<Number>(&name).unwrap().reader().unwrap();
        let end = Moment::now() + PATIENCE;
        while writer.shared_memory_readers() == 0 {
            assert!(Moment::now() < end, "shared memory is not used");
            there.poll(Duration::from_millis(1));
        }
        let incoming: &Incoming = &there.inner.domain.shared_memory.as_ref().unwrap().incoming;
        let mut receiver = incoming.receiver.lock();
        receiver.channels.iter_mut().flat_map(|(_, channel)| &mut channel.readers).for_each(|reader| {
            reader.order = Order::Awaited;
        });
        assert!(receiver.is_awaiting());
        (1..NEWS_MAX).for_each(|_| receiver.news.push(DeferredMessage::ignored()));
        assert!(!receiver.has_to_act() && receiver.deferred_actions(false).is_empty());
        // All commands that may wait are taken at once.
        (0..COMMANDS_MAX).for_each(|_| receiver.news.push(DeferredMessage::ignored()));
        assert!(receiver.has_to_act());
        assert_eq!(receiver.deferred_actions(false).news.len(), NEWS_MAX - 1 + COMMANDS_MAX);
        assert!(!receiver.has_to_act() && receiver.news.is_empty());
    }

    #[derive(Clone, Debug, DdsType)]
    struct Block {
        bytes: [u8; 100],
    }

    #[test]
    fn readers_of_a_channel_share_copies_of_the_pool_of_channels() {
        let (here, there) =
            (participant("copies here", WaitStrategy::default()), participant("copies", WaitStrategy::Poll));
        let name = format!("copies of {}", std::process::id());
        let writer = here.topic::<Block>(&name).unwrap().writer().unwrap();
        let topic = there.topic::<Block>(&name).unwrap();
        let readers = [topic.reader().unwrap(), topic.reader().unwrap()];
        let end = Moment::now() + PATIENCE;
        while writer.shared_memory_readers() < 2 {
            assert!(Moment::now() < end, "shared memory is not used");
            there.poll(Duration::from_millis(1));
        }
        let incoming: &Incoming = &there.inner.domain.shared_memory.as_ref().unwrap().incoming;
        let held_bytes = || incoming.receiver.lock().channels.copies.held_bytes();
        let mut buffers = 0;
        for number in 1..=20 {
            writer.write(&Block { bytes: [number; 100] }).unwrap();
            for reader in &readers {
                let sample = loop {
                    assert!(Moment::now() < end, "sample {number} is missing");
                    there.poll(Duration::from_millis(1));
                    if let Some(sample) = reader.take().unwrap().into_iter().next() {
                        break sample;
                    }
                };
                assert_eq!(sample.value().unwrap().bytes, [number; 100]);
            }
            buffers = buffers.max(held_bytes());
        }
        assert!((1..=512).contains(&buffers), "{buffers} bytes for one sample of 128 at a time");
        drop(writer);
        while held_bytes() > 0 {
            assert!(Moment::now() < end, "the pool outlives the channel");
            there.poll(Duration::from_millis(1));
        }
    }
}
