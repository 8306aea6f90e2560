//! One participant: dispatches messages to endpoints, and runs discovery (RTPS 2.5 §8.5).
//!
//! The participant does not own the user's endpoints: it names the endpoint of each input, and the matching remote
//! endpoints; the caller delivers both. Discovery itself uses the ordinary [`Writer`](crate::writer::Writer) and
//! [`Reader`](crate::reader::Reader).
//!
//! After every call that may produce output, the caller drains [`Participant::poll_event`] and
//! [`Participant::poll_transmit`], and reads the next deadline from [`Participant::poll_timeout`].

mod address_budgets;
mod addresses;
mod admission;
mod announce;
mod announced_parts;
mod announcer;
mod answer_budget;
mod answer_repetitions;
mod builtin;
mod by_topic;
mod config;
mod discovery_memory;
mod drop_reports;
mod drops;
mod ended_processes;
mod endpoint_retries;
mod endpoints;
mod event;
mod eviction;
mod fragment_run;
mod gate;
mod handshakes;
mod healing;
mod inventory;
mod kept_sessions;
mod key_channels;
mod known_levels;
mod liveliness_leases;
mod local_endpoint;
mod lost_sessions;
mod match_places;
mod matches;
mod matching;
mod message_refusal;
mod moves;
mod new_terms;
mod origin;
mod parked;
mod parking;
mod partial_messages;
mod paths;
mod places;
mod process_end;
mod protected;
mod recent_signs;
mod refusals;
mod refused_endpoints;
mod refused_messages;
mod rejoin;
mod rejoin_steps;
mod relocation;
mod remote;
mod remote_endpoints;
mod remote_security;
mod removal;
mod sealed_announcement;
mod secure_channel;
mod secure_discovery;
mod secure_messages;
mod secure_rejoin;
mod set_addresses;
mod sign_of_life;
mod signed_data;
mod streams;
mod terms;
#[cfg(test)]
mod tests;
#[cfg(debug_assertions)]
mod timer_watch;
mod ways;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;

use hashbrown::HashMap;

pub use addresses::Addresses;
pub use announced_parts::AnnouncedParts;
pub use config::ParticipantConfig;
pub use drops::{Drops, PeerDrops};
pub use event::{Delivery, GateCounters, Healed, LostReason, ParticipantCounters, ParticipantEvent, StreamChange};
pub use fragment_run::FragmentRun;
pub use gate::{Admission, Gate, ParticipantRules, TopicRules};
pub use message_refusal::MessageRefusal;
pub use paths::{LocalAddress, Path, Paths};
pub use secure_channel::{SecureChannel, SecureChannelCounters, SecureMessage, SecureSendError};

use crate::discovery::data::{ParticipantData, PublicationData, SubscriptionData};
use crate::event_queue::EventQueue;
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::limits::{COPY_PAYLOAD_MAX, OPENED_BYTES_MAX, SHARED_COPIES_BYTES_MAX};
use crate::payload::{BufferPool, Payload as SamplePayload};
use crate::protection::open::Opener;
use crate::qos::ParticipantQos;
use crate::reader::{MessageBuffer, Reception, SampleMeta, SharedCopy};
use crate::receiver::{DropReason, Envelope, Input, Receive, interpret};
use crate::time::{Instant, Timestamp};
use crate::transmit::TransmitBatch;
use crate::vendor::VendorId;
use crate::wire::{Data, Header, Payload, Submessage, Submessages};
use address_budgets::AddressBudgets;
use announcer::Announcer;
use answer_budget::AnswerBudgets;
use builtin::Builtin;
use by_topic::ByTopic;
use discovery_memory::DiscoveryMemory;
use drops::Fault;
use handshakes::HandshakeChannel;
use inventory::Digests;
use key_channels::KeyChannels;
use known_levels::KnownLevels;
use liveliness_leases::LivelinessLeases;
use local_endpoint::{LocalReader, LocalWriter};
use lost_sessions::LostSessions;
use message_refusal::RefusedMessages;
use parked::ParkedParticipants;
use places::Places;
use recent_signs::RecentSigns;
use refusals::Refusals;
use rejoin_steps::SecureRejoin;
use remote::RemoteParticipant;

/// One RTPS participant.
#[derive(Debug)]
pub struct Participant {
    config: ParticipantConfig,
    builtin: Builtin,
    announcer: Announcer,
    writers: BTreeMap<EntityId, LocalWriter>,
    readers: BTreeMap<EntityId, LocalReader>,
    remotes: BTreeMap<GuidPrefix, Box<RemoteParticipant>>,
    /// The entries of `writers` and of the publications of `remotes`.
    writers_by_topic: ByTopic,
    /// The entries of `readers` and of the subscriptions of `remotes`.
    readers_by_topic: ByTopic,
    /// The leases of `writers`.
    leases: LivelinessLeases,
    /// The leases of those whose liveliness is protected.
    secure_leases: LivelinessLeases,
    /// Pairs of a writer and a reader that were visited to match or unmatch them.
    #[cfg(test)]
    pairs_visited: usize,
    places: Places,
    discovery_memory: DiscoveryMemory,
    parked: ParkedParticipants,
    /// For each writer that matches local readers: which.
    routes: HashMap<Guid, Vec<EntityId>, foldhash::quality::FixedState>,
    /// For [copies of samples](SharedCopy) that several local readers get.
    copies: RefCell<BufferPool>,
    ignored: BTreeSet<Guid>,
    /// As many as the application ignores.
    ignored_topics: BTreeSet<String>,
    next_lease_check: Option<Instant>,
    next_liveliness: Option<Instant>,
    manual_liveliness_asserted: bool,
    outbox: TransmitBatch,
    events: EventQueue<ParticipantEvent>,
    /// Participants with an endpoint that cannot be reached until a message arrives from an address that they announce.
    unreached: BTreeSet<GuidPrefix>,
    /// Bytes of the current datagram that have not been counted as credit for an answer.
    unanswered_bytes: usize,
    messages: u64,
    not_rtps: u64,
    /// The drops of unknown participants.
    unknown_drops: Drops,
    signs: RecentSigns,
    /// The announcements of `writers` and of `readers`.
    announced: [Digests; 2],
    /// The participants that are to be asked.
    healing: BTreeSet<GuidPrefix>,
    next_healing: Option<Instant>,
    /// The earliest time for that.
    heals_from: Instant,
    healed: Healed,
    #[cfg(debug_assertions)]
    timer_watch: timer_watch::TimerWatch,
    opener: Opener,
    known_levels: KnownLevels,
    handshakes: HandshakeChannel,
    /// The channels for keys; `None` without protection.
    keys: Option<Box<KeyChannels>>,
    /// The last announcement to authenticated participants.
    said_securely: Vec<u8>,
    /// Peers that were authenticated and have to discover this participant anew: at most as many as participants.
    secure_rejoins: Vec<SecureRejoin>,
    /// Goodbyes have the number of the next secure announcement.
    must_repeat_announcement: bool,
    lost_sessions: LostSessions,
    refusals: Refusals,
    refused_messages: RefusedMessages,
    /// Messages that were not sent because their protection failed.
    unsealed: u64,
    rejoins: u64,
    /// Whether this participant has ever lost an address.
    has_moved: bool,
    gate_counters: GateCounters,
    /// Whether the announcement has changed since [`Self::take_changed_handshake_data`].
    has_changed_handshake_data: bool,
    /// The budgets for answers to participants with known addresses.
    answers: AnswerBudgets,
    /// The budgets for answers of endpoints.
    address_budgets: RefCell<AddressBudgets>,
}

impl Participant {
    /// A participant that starts to announce itself.
    #[must_use]
    pub fn new(now: Instant, config: ParticipantConfig) -> Self {
        let routes = HashMap::with_hasher(foldhash::quality::FixedState::with_seed(config.seed));
        let keys = |protection| {
            Box::new(KeyChannels::new(config.prefix, config.seed, protection, Arc::clone(&config.memory.keys)))
        };
        Self {
            builtin: Builtin::new(&config),
            announcer: Announcer::new(now, config.announce_period, config.seed),
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
            remotes: BTreeMap::new(),
            writers_by_topic: ByTopic::new(config.seed),
            readers_by_topic: ByTopic::new(config.seed),
            leases: LivelinessLeases::default(),
            secure_leases: LivelinessLeases::default(),
            #[cfg(test)]
            pairs_visited: 0,
            places: Places::default(),
            discovery_memory: DiscoveryMemory::new(Arc::clone(&config.memory.discovery)),
            parked: ParkedParticipants::default(),
            routes,
            copies: RefCell::new(BufferPool::new(SHARED_COPIES_BYTES_MAX)),
            ignored: BTreeSet::new(),
            ignored_topics: BTreeSet::new(),
            next_lease_check: None,
            next_liveliness: None,
            manual_liveliness_asserted: false,
            outbox: TransmitBatch::default(),
            events: EventQueue::new(),
            unreached: BTreeSet::new(),
            unanswered_bytes: 0,
            messages: 0,
            not_rtps: 0,
            unknown_drops: Drops::default(),
            signs: RecentSigns::new(),
            announced: Default::default(),
            healing: BTreeSet::new(),
            next_healing: None,
            heals_from: now,
            healed: Healed::default(),
            #[cfg(debug_assertions)]
            timer_watch: timer_watch::TimerWatch::default(),
            opener: Opener::new(OPENED_BYTES_MAX),
            known_levels: KnownLevels::default(),
            handshakes: HandshakeChannel::default(),
            keys: config.protection.as_ref().map(keys),
            said_securely: Vec::new(),
            secure_rejoins: Vec::new(),
            must_repeat_announcement: false,
            lost_sessions: LostSessions::default(),
            refusals: Refusals::default(),
            refused_messages: RefusedMessages::default(),
            unsealed: 0,
            rejoins: 0,
            has_moved: false,
            gate_counters: GateCounters::default(),
            has_changed_handshake_data: false,
            answers: AnswerBudgets::default(),
            address_budgets: RefCell::default(),
            config,
        }
    }

    /// The GUID prefix.
    #[must_use]
    pub const fn prefix(&self) -> GuidPrefix {
        self.config.prefix
    }

    /// The GUID.
    #[must_use]
    pub const fn guid(&self) -> Guid {
        Guid::new(self.config.prefix, EntityId::PARTICIPANT)
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &ParticipantConfig {
        &self.config
    }

    /// Handles a datagram. Passes inputs for user endpoints to `deliver`, and handles discovery itself. Returns whether
    /// the datagram contained discovery data: only then may the participant have events or messages to send. `run`
    /// belongs to the previous datagram, if no other call was made since.
    pub fn handle_datagram<'m>(
        &mut self,
        rx: &Reception<'_>,
        message: &'m [u8],
        run: &mut FragmentRun<'m>,
        mut deliver: impl FnMut(&Reception<'_>, Delivery, &Input<'_>),
    ) -> bool {
        self.messages += 1;
        self.unanswered_bytes = message.len();
        if self.config.protection.is_some() {
            // Protected messages differ in more than their fragments.
            run.end();
            return self.handle_protected(rx, message, deliver);
        }
        if let Some((delivery, input)) = run.follow(message) {
            deliver(rx, delivery, &input);
            return false;
        }
        let own = self.config.prefix;
        let mut demultiplexer = Demultiplexer::new(self, rx, deliver);
        interpret(message, own, &mut demultiplexer);
        let Demultiplexer { concerns_discovery, inputs, fragment, .. } = demultiplexer;
        match fragment {
            Some((delivery, meta)) if inputs == 1 => run.begin(message, delivery, meta),
            _ => run.end(),
        }
        if concerns_discovery {
            self.process_discovery(rx.now, rx.wall);
        }
        concerns_discovery
    }

    /// Handles timers.
    pub fn handle_timeout(&mut self, now: Instant, wall: Timestamp) {
        #[cfg(debug_assertions)]
        {
            let due = self.poll_timeout().filter(|at| *at <= now);
            self.timer_watch.note(due);
        }
        self.notice_silence(now, wall);
        self.builtin.handle_timeout(now, wall);
        if let Some(keys) = &mut self.keys {
            keys.handle_timeout(now, wall);
        }
        self.process_discovery(now, wall);
        self.heal(now, wall);
        self.consume_number_of_goodbyes(now, wall);
        self.continue_secure_rejoins(now, wall);
        if self.announcer.is_due(now) {
            self.announce(now, wall);
        }
        if self.checks_leases(now) {
            self.expire_leases(now, wall);
        }
        if self.next_liveliness.is_some_and(|at| at <= now) {
            self.show_liveliness(now, wall);
        }
    }

    /// When to call [`Self::handle_timeout`] next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let keys = self.keys.as_deref().and_then(KeyChannels::poll_timeout);
        let rejoin = self.next_secure_rejoin();
        let others = [self.next_lease_check, self.next_liveliness, self.next_healing, keys, rejoin];
        [self.builtin.poll_timeout(), Some(self.announcer.next())].into_iter().chain(others).flatten().min()
    }

    /// Moves the messages to send into `out`, which must be empty. Returns whether there are any.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBatch) -> bool {
        debug_assert!(out.is_empty());
        if !self.outbox.is_empty() {
            core::mem::swap(&mut self.outbox, out);
            return true;
        }
        self.builtin.poll_transmit(now, out)
            || self.keys.as_deref_mut().is_some_and(|keys| keys.poll_transmit(now, out))
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ParticipantEvent> {
        self.events.pop_front()
    }

    /// Removes this participant or endpoint, and ignores it from now on (DDS 1.4 §2.2.2.2.1.14 and following).
    pub fn ignore(&mut self, now: Instant, wall: Timestamp, guid: Guid) {
        self.ignored.insert(guid);
        if guid.entity == EntityId::PARTICIPANT {
            self.remove_participant(now, wall, guid.prefix, LostReason::Ignored);
        } else {
            self.remove_remote_endpoint(now, wall, guid);
        }
    }

    /// Removes the remote endpoints with a topic of this name, and ignores such endpoints from now on.
    pub fn ignore_topic(&mut self, now: Instant, wall: Timestamp, topic: &str) {
        self.ignored_topics.insert(String::from(topic));
        for guid in self.remote_endpoints_of(topic) {
            self.remove_remote_endpoint(now, wall, guid);
        }
    }

    /// The known participants.
    pub fn remote_participants(&self) -> impl Iterator<Item = &ParticipantData> {
        self.remotes.values().map(|r| &r.data)
    }

    /// The announcement of a known participant.
    #[must_use]
    pub fn remote_participant(&self, prefix: &GuidPrefix) -> Option<&ParticipantData> {
        self.remotes.get(prefix).map(|r| &r.data)
    }

    /// The announcements of remote writers.
    pub fn remote_publications(&self) -> impl Iterator<Item = &PublicationData> {
        self.remotes.values().flat_map(|r| r.publications.values())
    }

    /// The announcements of remote readers.
    pub fn remote_subscriptions(&self) -> impl Iterator<Item = &SubscriptionData> {
        self.remotes.values().flat_map(|r| r.subscriptions.values())
    }

    /// Changes the policies of the participant, and announces them at once.
    pub fn set_qos(&mut self, now: Instant, wall: Timestamp, qos: ParticipantQos) {
        self.config.qos = qos;
        self.has_changed_handshake_data = true;
        self.announce_change(now, wall);
    }

    /// The announcement of a remote writer.
    #[must_use]
    pub fn remote_publication(&self, guid: &Guid) -> Option<&PublicationData> {
        self.remotes.get(&guid.prefix)?.publications.get(guid.entity)
    }

    fn has_endpoint(&self, entity: EntityId) -> bool {
        self.readers.contains_key(&entity) || self.writers.contains_key(&entity)
    }

    /// The announcement of a remote reader.
    #[must_use]
    pub fn remote_subscription(&self, guid: &Guid) -> Option<&SubscriptionData> {
        self.remotes.get(&guid.prefix)?.subscriptions.get(guid.entity)
    }
}

/// Whether a message may announce the end of an endpoint or participant. A cheap check, which may be wrongly true but
/// never wrongly false.
#[must_use]
pub fn ends_something(message: &[u8]) -> bool {
    let Ok((_, rest)) = Header::parse(message) else { return false };
    let ends = |data: &Data<'_>| {
        data.writer.is_builtin() && (matches!(data.payload, Payload::Key(_)) || data.inline_qos.is_some())
    };
    Submessages::new(rest).map_while(Result::ok).any(|s| matches!(s, Submessage::Data(data) if ends(&data)))
}

/// Whether readers keep a copy of the payload: not in their own entries, and not by a reference to the receive buffer.
fn is_copied(input: &Input<'_>) -> bool {
    let Input::Data(_, data) = input else { return false };
    let len = data.payload.as_bytes().len();
    len > SamplePayload::HERE_MAX && len <= COPY_PAYLOAD_MAX
}

struct Demultiplexer<'p, D> {
    participant: &'p mut Participant,
    rx: &'p Reception<'p>,
    deliver: D,
    concerns_discovery: bool,
    /// The only reader that matches the writer of the last sample, and so probably of the next one.
    sole: Option<(Guid, EntityId)>,
    /// The number of inputs of the message so far, whether or not understood.
    inputs: usize,
    /// The last input, if it was a fragment for one reader.
    fragment: Option<(Delivery, SampleMeta)>,
    /// The participant whose submessages have been noted as a sign of life.
    heard: GuidPrefix,
}

impl<'p, D> Demultiplexer<'p, D> {
    const fn new(participant: &'p mut Participant, rx: &'p Reception<'p>, deliver: D) -> Self {
        Self {
            participant,
            rx,
            deliver,
            concerns_discovery: false,
            sole: None,
            inputs: 0,
            fragment: None,
            heard: GuidPrefix::UNKNOWN,
        }
    }

    /// Notes a sign of life, once for all submessages in a row.
    #[inline(always)]
    fn note_heard(&mut self, envelope: &Envelope) {
        if envelope.from.prefix != self.heard {
            self.heard = envelope.from.prefix;
            self.concerns_discovery |= self.participant.note_heard(self.rx, envelope);
        }
    }
}

impl<D: FnMut(&Reception<'_>, Delivery, &Input<'_>)> Receive for Demultiplexer<'_, D> {
    // Inlined into each caller, so that the compiler knows the kind of the input.
    #[inline(always)]
    fn input(&mut self, envelope: Envelope, input: Input<'_>) {
        let Envelope { from, to, .. } = envelope;
        self.inputs += 1;
        if from.entity.is_builtin() {
            if from.prefix != self.participant.config.prefix {
                if !self.participant.permits(if to == EntityId::UNKNOWN { from.entity } else { to }, &envelope) {
                    self.concerns_discovery |= self.participant.refuse_unprotected(self.rx.now, from.prefix);
                    return;
                }
                self.concerns_discovery = true;
                self.sole = None;
                self.note_heard(&envelope);
                self.participant.handle_builtin(self.rx, &envelope, &input);
            }
            return;
        }
        if self.participant.config.protection.is_none() {
            self.note_heard(&envelope);
        }
        if !self.participant.unreached.is_empty() && self.participant.unreached.contains(&from.prefix) {
            self.concerns_discovery |= self.participant.record_source_address(self.rx.now, from.prefix, self.rx.source);
        }
        let is_for_all = to == EntityId::UNKNOWN && input.is_for_reader();
        let sole = self.sole.filter(|(writer, _)| *writer == from && is_for_all);
        let named = [sole.map_or(to, |(_, reader)| reader)];
        let recipients = if sole.is_some() {
            &named[..]
        } else if to != EntityId::UNKNOWN {
            if envelope.is_addressed && !self.participant.has_endpoint(to) {
                self.participant.count_fault(from.prefix, Fault::NoSuchEndpoint);
                return;
            }
            &named[..]
        } else if is_for_all {
            self.participant.routes.get(&from).map_or(&[][..], Vec::as_slice)
        } else {
            self.participant.count_fault(from.prefix, Fault::NoSuchEndpoint);
            return;
        };
        if let [reader] = recipients
            && is_for_all
        {
            self.sole = Some((from, *reader));
        }
        if let ([to], Input::DataFrag(meta, _)) = (recipients, &input) {
            self.fragment = Some((Delivery { to: *to, from }, *meta));
        }
        let copy = SharedCopy::new(&self.participant.copies);
        let with_copy = Reception { buffer: Some(MessageBuffer::SharedCopy(&copy)), ..*self.rx };
        let rx = if recipients.len() > 1 && is_copied(&input) { &with_copy } else { self.rx };
        let (mut unprotected, is_protected) = (0, self.participant.config.protection.is_some());
        // A protected submessage for no endpoint of this participant is a sign of life, too.
        let is_permitted = !recipients.is_empty() || envelope.protection.is_any();
        for to in recipients {
            if let Some(protection) = &self.participant.config.protection {
                let is_local =
                    || self.participant.readers.contains_key(to) || self.participant.writers.contains_key(to);
                if !self
                    .participant
                    .known_levels
                    .of(*to, || protection.levels(*to), is_local)
                    .permit(envelope.protection)
                {
                    unprotected += 1;
                    continue;
                }
            }
            (self.deliver)(rx, Delivery { to: *to, from }, &input);
        }
        if unprotected > 0 {
            self.concerns_discovery |= self.participant.refuse_unprotected(self.rx.now, from.prefix);
        } else if is_protected && is_permitted {
            self.note_heard(&envelope);
        }
    }

    fn dropped(&mut self, from: GuidPrefix, _: VendorId, reason: DropReason) {
        self.inputs += 1;
        self.participant.count_dropped(from, reason);
    }
}
