//! The built-in endpoints: ordinary writers and readers for the topics of discovery (RTPS 2.5 §8.5.4, §8.4.13).

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::discovery::data::{BuiltinEndpointSet, disposed_endpoint};
use crate::history::{HistoryKind, Selected, Selector};
use crate::id::{EntityId, Guid, GuidPrefix, KeyHash};
use crate::limits::{BUILTIN_MEMORY_PER_READER_MAX, BUILTIN_MEMORY_PER_WRITER_MAX, BUILTIN_SAMPLE_BYTES_MAX};
use crate::locator::Locator;
use crate::protection::Protection;
use crate::reader::{KeyExtractor, MatchedWriter, Reader, ReaderConfig, Reception};
use crate::receiver::{Envelope, Input};
use crate::time::{Instant, Span, Timestamp};
use crate::transmit::TransmitBatch;
use crate::vendor::VendorId;
use crate::wire::Payload as WirePayload;
use crate::writer::{MatchedReader, Writer, WriterConfig};

/// Discovery messages fit into the smallest MTU of an ordinary network, so that no path must be known.
const BUILTIN_MESSAGE_BYTES: usize = 1400;

/// A built-in topic: its writer, its reader, and the bits that announce them.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) writer: Writer,
    pub(super) reader: Reader,
    writer_bit: BuiltinEndpointSet,
    reader_bit: BuiltinEndpointSet,
}

/// The reliable built-in topics.
#[derive(Debug)]
pub(super) struct Builtin {
    pub(super) publications: Topic,
    pub(super) subscriptions: Topic,
    pub(super) messages: Topic,
}

impl Builtin {
    pub(super) fn new(prefix: GuidPrefix, seed: u64, protection: Option<&Arc<dyn Protection>>) -> Self {
        let topic = |writer, reader, writer_bit, reader_bit, keys| {
            Topic::new(
                [Guid::new(prefix, writer), Guid::new(prefix, reader)],
                [writer_bit, reader_bit],
                keys,
                seed,
                protection,
            )
        };
        Self {
            publications: topic(
                EntityId::SEDP_PUBLICATIONS_WRITER,
                EntityId::SEDP_PUBLICATIONS_READER,
                BuiltinEndpointSet::PUBLICATIONS_ANNOUNCER,
                BuiltinEndpointSet::PUBLICATIONS_DETECTOR,
                endpoint_key,
            ),
            subscriptions: topic(
                EntityId::SEDP_SUBSCRIPTIONS_WRITER,
                EntityId::SEDP_SUBSCRIPTIONS_READER,
                BuiltinEndpointSet::SUBSCRIPTIONS_ANNOUNCER,
                BuiltinEndpointSet::SUBSCRIPTIONS_DETECTOR,
                endpoint_key,
            ),
            messages: topic(
                EntityId::PARTICIPANT_MESSAGE_WRITER,
                EntityId::PARTICIPANT_MESSAGE_READER,
                BuiltinEndpointSet::PARTICIPANT_MESSAGE_WRITER,
                BuiltinEndpointSet::PARTICIPANT_MESSAGE_READER,
                message_key,
            ),
        }
    }

    pub(super) fn topics(&mut self) -> [&mut Topic; 3] {
        [&mut self.publications, &mut self.subscriptions, &mut self.messages]
    }

    /// Matches the endpoints of a participant that announces `set`.
    pub(super) fn match_participant(
        &mut self,
        now: Instant,
        prefix: GuidPrefix,
        set: BuiltinEndpointSet,
        to: &Arc<[Locator]>,
        vendor: VendorId,
    ) {
        for topic in self.topics() {
            topic.match_participant(now, prefix, set, to, vendor);
        }
    }

    pub(super) fn unmatch_participant(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix) {
        for topic in self.topics() {
            topic.writer.unmatch_reader(now, Guid::new(prefix, topic.reader.guid().entity));
            topic.reader.unmatch_writer(now, wall, Guid::new(prefix, topic.writer.guid().entity));
        }
    }

    /// Passes an input to its endpoint. Returns whether there is one.
    pub(super) fn handle(&mut self, rx: &Reception<'_>, envelope: &Envelope, input: &Input<'_>) -> bool {
        let from = envelope.from;
        let is_for_reader = input.is_for_reader();
        let topic = self.topics().into_iter().find(|t| {
            let (local, remote) = if is_for_reader {
                (t.reader.guid().entity, t.writer.guid().entity)
            } else {
                (t.writer.guid().entity, t.reader.guid().entity)
            };
            from.entity == remote && (envelope.to == local || envelope.to == EntityId::UNKNOWN && is_for_reader)
        });
        let Some(topic) = topic else { return false };
        match input {
            Input::Data(meta, data) => topic.reader.handle_data(rx, from, *meta, data),
            Input::DataFrag(meta, frag) => topic.reader.handle_data_frag(rx, from, *meta, frag),
            Input::Heartbeat(heartbeat) => topic.reader.handle_heartbeat(rx, from, heartbeat),
            Input::HeartbeatFrag(heartbeat) => topic.reader.handle_heartbeat_frag(rx, from, heartbeat),
            Input::Gap(gap) => topic.reader.handle_gap(rx, from, gap),
            Input::AckNack(acknack) => topic.writer.handle_acknack(rx.now, from, acknack),
            Input::NackFrag(nack) => topic.writer.handle_nack_frag(rx.now, from, nack),
        }
        true
    }

    /// See [`Writer::handle_room`].
    pub(super) fn handle_room(&mut self, now: Instant, locator: &Locator) {
        for topic in self.topics() {
            topic.writer.handle_room(now, locator);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, wall: Timestamp) {
        for topic in self.topics() {
            topic.writer.handle_timeout(now);
            topic.reader.handle_timeout(now, wall);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let topics = [&self.publications, &self.subscriptions, &self.messages];
        let writers = topics.iter().filter_map(|t| t.writer.poll_timeout().map(|(at, _)| at));
        let readers = topics.iter().filter_map(|t| t.reader.poll_timeout().map(|(at, _)| at));
        writers.chain(readers).min()
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBatch) -> bool {
        for topic in self.topics() {
            while topic.writer.poll_event().is_some() {}
            if topic.writer.poll_transmit(out) || topic.reader.poll_transmit(now, out) {
                return true;
            }
        }
        false
    }
}

impl Topic {
    fn new(
        [writer, reader]: [Guid; 2],
        [writer_bit, reader_bit]: [BuiltinEndpointSet; 2],
        keys: fn(&[u8], bool) -> Option<KeyHash>,
        seed: u64,
        protection: Option<&Arc<dyn Protection>>,
    ) -> Self {
        let writer_config = WriterConfig {
            durable: true,
            history: HistoryKind::KeepLast(1),
            max_message_bytes: BUILTIN_MESSAGE_BYTES,
            default_message_bytes: BUILTIN_MESSAGE_BYTES,
            seed,
            protection: protection.cloned(),
            ..WriterConfig::new(writer)
        };
        let mut reader_config = ReaderConfig::new(reader);
        reader_config.reliable = true;
        reader_config.wants_history = true;
        reader_config.max_sample_bytes = BUILTIN_SAMPLE_BYTES_MAX;
        reader_config.memory_per_writer = BUILTIN_MEMORY_PER_WRITER_MAX;
        reader_config.memory_per_reader = BUILTIN_MEMORY_PER_READER_MAX;
        reader_config.keys = Some(KeyExtractor(keys));
        // Each sample is taken, even if the same datagram replaces it: a forged one may follow a true one. The bounds
        // are those of one datagram and of the samples that wait for earlier ones.
        reader_config.cache.history = HistoryKind::KeepAll;
        reader_config.cache.seed = seed;
        reader_config.protection = protection.cloned();
        Self { writer: Writer::new(writer_config), reader: Reader::new(reader_config), writer_bit, reader_bit }
    }

    fn match_participant(
        &mut self,
        now: Instant,
        prefix: GuidPrefix,
        set: BuiltinEndpointSet,
        to: &Arc<[Locator]>,
        vendor: VendorId,
    ) {
        if set.contains(self.reader_bit) {
            let reader = MatchedReader {
                guid: Guid::new(prefix, self.reader.guid().entity),
                reliable: true,
                wants_history: true,
                to: Arc::clone(to),
                group: None,
                max_message_bytes: BUILTIN_MESSAGE_BYTES,
                expects_inline_qos: false,
                positive_acks_disabled: false,
                vendor,
                filter: None,
            };
            self.writer.match_reader(now, reader);
        }
        if set.contains(self.writer_bit) {
            let writer = MatchedWriter {
                guid: Guid::new(prefix, self.writer.guid().entity),
                reliable: true,
                has_history: true,
                strength: 0,
                lifespan: Span::INFINITE,
                liveliness_lease: Span::INFINITE,
                to: Arc::clone(to),
                max_message_bytes: BUILTIN_MESSAGE_BYTES,
                vendor,
                memory: Arc::default(),
            };
            self.reader.match_writer(now, writer);
        }
    }

    /// Takes all samples received since the last call.
    pub(super) fn take(&mut self, now: Instant, wall: Timestamp) -> Vec<Selected> {
        let mut news = Vec::new();
        let mut any = false;
        while let Some(event) = self.reader.poll_event() {
            any |= event == crate::reader::ReaderEvent::DataAvailable;
        }
        if any {
            self.reader.select(&Selector::ANY, true, &mut news);
            self.reader.resume(now, wall);
        }
        news
    }
}

/// The key of an endpoint's announcement is its GUID.
fn endpoint_key(payload: &[u8], is_key: bool) -> Option<KeyHash> {
    let payload = if is_key { WirePayload::Key(payload) } else { WirePayload::Data(payload) };
    disposed_endpoint(payload, None).ok().map(|guid| KeyHash(guid.to_bytes()))
}

/// The key of a participant message is its first sixteen bytes.
fn message_key(payload: &[u8], _: bool) -> Option<KeyHash> {
    payload.get(4..)?.first_chunk().copied().map(KeyHash)
}
