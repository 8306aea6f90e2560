//! The built-in endpoints: ordinary writers and readers for the topics of discovery (RTPS 2.5 §8.5.4, §8.4.13).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::config::ParticipantConfig;
use super::gate::ParticipantRules;
use crate::address_budget::AddressBudget;
use crate::discovery::data::{BuiltinEndpointSet, disposed_endpoint, disposed_participant};
use crate::history::{Change, HistoryKind, Selected, Selector};
use crate::id::{EntityId, Guid, GuidPrefix, KeyHash};
use crate::limits::{
    ANNOUNCEMENTS_GATHERED_FOR, BUILTIN_MEMORY_PER_READER_MAX, BUILTIN_MEMORY_PER_WRITER_MAX, BUILTIN_SAMPLE_BYTES_MAX,
};
use crate::locator::Locator;
use crate::memory_account::MemoryAccount;
use crate::reader::{KeyExtractor, MatchedWriter, Reader, ReaderConfig, Reception};
use crate::receiver::{Envelope, Input};
use crate::time::{Instant, Span, Timestamp};
use crate::transmit::TransmitBatch;
use crate::vendor::VendorId;
use crate::wire::Payload as WirePayload;
use crate::writer::{Batching, MatchedReader, Writer, WriterConfig};

/// Discovery messages fit into the smallest MTU of an ordinary network, so that no path must be known.
const BUILTIN_MESSAGE_BYTES: usize = 1400;

/// A built-in topic: its writer, its reader, and the bits that announce them.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) writer: Writer,
    pub(super) reader: Reader,
    writer_bit: BuiltinEndpointSet,
    reader_bit: BuiltinEndpointSet,
    /// Announcements until then wait for others: an application that makes one endpoint often makes more.
    gathers_until: Option<Instant>,
    /// The account of discovery data.
    account: Arc<MemoryAccount>,
}

/// The reliable built-in topics.
#[derive(Debug)]
pub(super) struct Builtin {
    pub(super) publications: Topic,
    pub(super) subscriptions: Topic,
    pub(super) messages: Topic,
    /// The topics that DDS Security adds; only with a gate.
    pub(super) secure: Option<Box<SecureTopics>>,
}

/// The topics of discovery and liveliness between authenticated participants (DDS Security 1.2 §7.5.1, §7.5.2).
#[derive(Debug)]
pub(super) struct SecureTopics {
    pub(super) participants: Topic,
    pub(super) publications: Topic,
    pub(super) subscriptions: Topic,
    pub(super) messages: Topic,
}

/// The endpoints of a secure topic, and their bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct SecureTopic {
    pub(super) writer: EntityId,
    pub(super) reader: EntityId,
    pub(super) writer_bit: BuiltinEndpointSet,
    pub(super) reader_bit: BuiltinEndpointSet,
    is_liveliness: bool,
}

/// Participants, publications, subscriptions, messages.
pub(super) const SECURE_TOPICS: [SecureTopic; 4] = [
    SecureTopic {
        writer: EntityId::SPDP_SECURE_WRITER,
        reader: EntityId::SPDP_SECURE_READER,
        writer_bit: BuiltinEndpointSet::PARTICIPANT_SECURE_WRITER,
        reader_bit: BuiltinEndpointSet::PARTICIPANT_SECURE_READER,
        is_liveliness: false,
    },
    SecureTopic {
        writer: EntityId::SEDP_PUBLICATIONS_SECURE_WRITER,
        reader: EntityId::SEDP_PUBLICATIONS_SECURE_READER,
        writer_bit: BuiltinEndpointSet::PUBLICATIONS_SECURE_WRITER,
        reader_bit: BuiltinEndpointSet::PUBLICATIONS_SECURE_READER,
        is_liveliness: false,
    },
    SecureTopic {
        writer: EntityId::SEDP_SUBSCRIPTIONS_SECURE_WRITER,
        reader: EntityId::SEDP_SUBSCRIPTIONS_SECURE_READER,
        writer_bit: BuiltinEndpointSet::SUBSCRIPTIONS_SECURE_WRITER,
        reader_bit: BuiltinEndpointSet::SUBSCRIPTIONS_SECURE_READER,
        is_liveliness: false,
    },
    SecureTopic {
        writer: EntityId::PARTICIPANT_MESSAGE_SECURE_WRITER,
        reader: EntityId::PARTICIPANT_MESSAGE_SECURE_READER,
        writer_bit: BuiltinEndpointSet::PARTICIPANT_MESSAGE_SECURE_WRITER,
        reader_bit: BuiltinEndpointSet::PARTICIPANT_MESSAGE_SECURE_READER,
        is_liveliness: true,
    },
];

impl SecureTopic {
    /// Whether its endpoints need keys.
    pub(super) const fn is_protected(&self, rules: ParticipantRules) -> bool {
        if self.is_liveliness { rules.is_liveliness_protected } else { rules.is_discovery_protected }
    }
}

impl Builtin {
    /// With a gate, the topics that DDS Security adds too.
    pub(super) fn new(config: &ParticipantConfig) -> Self {
        type Keys = fn(&[u8], bool) -> Option<KeyHash>;
        let topic = |writer, reader, writer_bit, reader_bit, keys: Keys| {
            Topic::new(
                [Guid::new(config.prefix, writer), Guid::new(config.prefix, reader)],
                [writer_bit, reader_bit],
                keys,
                config,
            )
        };
        let secure = |[participants, publications, subscriptions, messages]: [SecureTopic; 4]| {
            let topic = |t: SecureTopic, keys| topic(t.writer, t.reader, t.writer_bit, t.reader_bit, keys);
            Box::new(SecureTopics {
                participants: topic(participants, participant_key),
                publications: topic(publications, endpoint_key),
                subscriptions: topic(subscriptions, endpoint_key),
                messages: topic(messages, message_key),
            })
        };
        Self {
            secure: config.gate.is_some().then(|| secure(SECURE_TOPICS)),
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

    /// All topics.
    fn all(&mut self) -> impl Iterator<Item = &mut Topic> {
        let Self { publications, subscriptions, messages, secure } = self;
        let secure = secure.iter_mut().flat_map(|secure| {
            let SecureTopics { participants, publications, subscriptions, messages } = &mut **secure;
            [participants, publications, subscriptions, messages]
        });
        [publications, subscriptions, messages].into_iter().chain(secure)
    }

    /// The topic of this writer.
    pub(super) fn topic_of_writer(&mut self, entity: EntityId) -> Option<&mut Topic> {
        self.all().find(|topic| topic.writer.guid().entity == entity)
    }

    /// Has the writers of a participant asked again that have not been heard yet.
    pub(super) fn ask_unheard_writers(&mut self, now: Instant, prefix: GuidPrefix) {
        for topic in self.all() {
            topic.reader.ask_unheard_writer(now, Guid::new(prefix, topic.writer.guid().entity));
        }
    }

    /// Matches the endpoints of a participant that announces `set`.
    pub(super) fn match_participant(
        &mut self,
        now: Instant,
        prefix: GuidPrefix,
        set: BuiltinEndpointSet,
        to: &Arc<[Locator]>,
        vendor: VendorId,
        address_budget: &Arc<AddressBudget>,
    ) {
        for topic in self.all() {
            topic.match_participant(now, prefix, set, to, vendor, address_budget);
        }
    }

    /// Unmatches the endpoints that a participant announces no longer.
    pub(super) fn unmatch_removed(
        &mut self,
        now: Instant,
        wall: Timestamp,
        prefix: GuidPrefix,
        before: BuiltinEndpointSet,
        after: BuiltinEndpointSet,
    ) {
        let is_removed = |bit| before.contains(bit) && !after.contains(bit);
        for topic in self.all() {
            if is_removed(topic.reader_bit) {
                topic.writer.unmatch_reader(now, Guid::new(prefix, topic.reader.guid().entity));
            }
            if is_removed(topic.writer_bit) {
                topic.reader.unmatch_writer(now, wall, Guid::new(prefix, topic.writer.guid().entity));
            }
        }
    }

    pub(super) fn unmatch_participant(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix) {
        for topic in self.all() {
            topic.writer.unmatch_reader(now, Guid::new(prefix, topic.reader.guid().entity));
            topic.reader.unmatch_writer(now, wall, Guid::new(prefix, topic.writer.guid().entity));
        }
    }

    /// Passes an input to its endpoint. Returns whether there is one.
    pub(super) fn handle(&mut self, rx: &Reception<'_>, envelope: &Envelope, input: &Input<'_>) -> bool {
        let from = envelope.from;
        let is_for_reader = input.is_for_reader();
        let topic = self.all().find(|t| {
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
        for topic in self.all() {
            topic.writer.handle_room(now, locator);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, wall: Timestamp) {
        for topic in self.all() {
            topic.writer.handle_timeout(now);
            topic.reader.handle_timeout(now, wall);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let secure = self
            .secure
            .as_deref()
            .map(|secure| [&secure.participants, &secure.publications, &secure.subscriptions, &secure.messages]);
        let topics = [&self.publications, &self.subscriptions, &self.messages];
        topics.into_iter().chain(secure.into_iter().flatten()).filter_map(Topic::poll_timeout).min()
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBatch) -> bool {
        for topic in self.all() {
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
        config: &ParticipantConfig,
    ) -> Self {
        let ParticipantConfig { seed, protection, memory, .. } = config;
        let writer_config = WriterConfig {
            durable: true,
            history: HistoryKind::KeepLast(1),
            max_message_bytes: BUILTIN_MESSAGE_BYTES,
            default_message_bytes: BUILTIN_MESSAGE_BYTES,
            batching: Some(Batching { max_bytes: BUILTIN_MESSAGE_BYTES, max_delay: ANNOUNCEMENTS_GATHERED_FOR }),
            seed: *seed,
            protection: protection.clone(),
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
        reader_config.cache.seed = *seed;
        reader_config.cache.account = Arc::clone(&memory.discovery);
        reader_config.protection = protection.clone();
        let (writer, reader) = (Writer::new(writer_config), Reader::new(reader_config));
        Self { writer, reader, writer_bit, reader_bit, gathers_until: None, account: Arc::clone(&memory.discovery) }
    }

    /// Writes a sample. The first one goes out at once; those that follow it closely share messages.
    pub(super) fn write(&mut self, now: Instant, change: Change) {
        let is_first = self.gathers_until.is_none_or(|until| until <= now);
        self.gathers_until = Some(now + ANNOUNCEMENTS_GATHERED_FOR);
        // A KEEP_LAST writer without limits never refuses a write.
        drop(self.writer.write(now, change));
        if is_first {
            self.writer.flush(now);
        }
    }

    /// Like [`Self::write`], without waiting for others.
    pub(super) fn write_at_once(&mut self, now: Instant, change: Change) {
        drop(self.writer.write(now, change));
        self.writer.flush(now);
    }

    fn match_participant(
        &mut self,
        now: Instant,
        prefix: GuidPrefix,
        set: BuiltinEndpointSet,
        to: &Arc<[Locator]>,
        vendor: VendorId,
        address_budget: &Arc<AddressBudget>,
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
                owed_answers: Arc::default(),
                address_budget: Arc::clone(address_budget),
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
                memory: Arc::clone(&self.account),
                address_budget: Arc::clone(address_budget),
            };
            self.reader.match_writer(now, writer);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let writer = self.writer.poll_timeout().map(|(at, _)| at);
        let reader = self.reader.poll_timeout().map(|(at, _)| at);
        writer.into_iter().chain(reader).min()
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

/// The key of a participant's announcement is its GUID.
fn participant_key(payload: &[u8], is_key: bool) -> Option<KeyHash> {
    let payload = if is_key { WirePayload::Key(payload) } else { WirePayload::Data(payload) };
    disposed_participant(payload, None).ok().map(|guid| KeyHash(guid.to_bytes()))
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
