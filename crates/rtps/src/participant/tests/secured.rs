//! Hosts with a gate, and in place of the security implementation a session that hands over keys as the participant
//! asks for them. The gate of a host keeps which pairs have keys, as a session does.

use alloc::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::mock::Mock;
use super::*;
use crate::discovery::data::{ParticipantSecurityData, SecurityInfo};
use crate::locator::Source;
use crate::participant::builtin::SECURE_TOPICS;
use crate::protection::{ProtectionKind, SharedProtection};

/// The topic whose discovery, liveliness, submessages and payloads are protected.
pub(super) const CLOSED: &str = "closed_topic";
/// The topic whose payloads only are protected.
pub(super) const SEALED: &str = "sealed_topic";
/// The topic without protection.
pub(super) const OPEN: &str = "open_topic";

/// A local and a remote entity.
pub(super) type Pair = (EntityId, Guid);

/// A change that a participant has reported to its gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Announced(GuidPrefix),
    /// The exchange of keys has begun, or goes on.
    Wanted(EntityId, Guid),
    Unmatched(EntityId, Guid),
    EndpointLost(Guid),
    ParticipantLost(GuidPrefix, LostReason),
}

/// The keys of a host.
#[derive(Debug, Default)]
struct Keys {
    /// The pairs that exchange keys.
    pairs: BTreeMap<Pair, TestPair>,
    /// Keys for other pairs.
    early: BTreeSet<Pair>,
    /// Pairs whose local keys are to be sent.
    to_give: Vec<Pair>,
}

#[derive(Clone, Copy, Debug, Default)]
struct TestPair {
    is_ready: bool,
    is_suspended: bool,
}

/// The rules of all hosts, and for each of their peers the answers and the keys.
#[derive(Debug)]
pub(super) struct TestGate {
    pub(super) protects_messages: AtomicBool,
    /// For participants without an answer of their own.
    others: Admission,
    answers: Mutex<BTreeMap<GuidPrefix, Admission>>,
    /// The data that participants have signed in their handshakes.
    pub(super) signed: Mutex<BTreeMap<GuidPrefix, Vec<u8>>>,
    /// The source of the last announcement of each participant.
    pub(super) sources: Mutex<BTreeMap<GuidPrefix, Option<Source>>>,
    pub(super) denies: AtomicBool,
    /// There is no room for the keys of another pair.
    pub(super) is_full: AtomicBool,
    keys: Mutex<Keys>,
    told: Mutex<Vec<Told>>,
}

impl TestGate {
    fn new(others: Admission) -> Arc<Self> {
        let (answers, signed, sources, protects_messages, denies) = Default::default();
        let (is_full, keys, told) = Default::default();
        Arc::new(Self { protects_messages, others, answers, signed, sources, denies, is_full, keys, told })
    }

    /// The handshake with a participant is complete: keys are exchanged anew.
    pub(super) fn begin(&self, peer: GuidPrefix) {
        let mut keys = self.keys.lock().unwrap();
        keys.forget(|(_, remote)| remote.prefix == peer);
        for pair in builtin_pairs(peer) {
            keys.pairs.insert(pair, TestPair::default());
            keys.to_give.push(pair);
        }
    }

    /// The keys of a remote entity have come.
    pub(super) fn take(&self, pair: Pair) {
        let mut keys = self.keys.lock().unwrap();
        match keys.pairs.get_mut(&pair) {
            Some(known) => known.is_ready = true,
            None => _ = keys.early.insert(pair),
        }
    }

    /// The changes that the participant has reported to the gate since the last call.
    pub(super) fn take_told(&self) -> Vec<Told> {
        core::mem::take(&mut *self.told.lock().unwrap())
    }

    fn note(&self, told: Told) {
        self.told.lock().unwrap().push(told);
    }

    /// Forgets all answers.
    pub(super) fn clear(&self) {
        self.answers.lock().unwrap().clear();
    }

    fn verdict(&self) -> Result<(), String> {
        match self.denies.load(Ordering::Relaxed) {
            true => Err("permissions.xml: no rule permits it".to_string()),
            false => Ok(()),
        }
    }
}

impl Keys {
    fn forget(&mut self, is_gone: impl Fn(&Pair) -> bool) {
        self.pairs.retain(|pair, _| !is_gone(pair));
        self.early.retain(|pair| !is_gone(pair));
        self.to_give.retain(|pair| !is_gone(pair));
    }
}

/// The pairs of a participant that exchange keys after the handshake: the participants, and their secure built-in
/// endpoints.
pub(super) fn builtin_pairs(peer: GuidPrefix) -> Vec<Pair> {
    let participants = (EntityId::PARTICIPANT, EntityId::PARTICIPANT);
    let of_topics = SECURE_TOPICS.iter().flat_map(|topic| [(topic.reader, topic.writer), (topic.writer, topic.reader)]);
    core::iter::once(participants).chain(of_topics).map(|(local, remote)| (local, Guid::new(peer, remote))).collect()
}

pub(super) fn rules_of(topic: &str) -> TopicRules {
    let (is_closed, is_sealed) = (topic == CLOSED, topic == SEALED);
    TopicRules {
        is_discovery_protected: is_closed,
        is_liveliness_protected: is_closed,
        is_read_protected: is_closed,
        is_write_protected: is_closed,
        is_submessage_protected: is_closed,
        is_payload_protected: is_closed || is_sealed,
        info: SecurityInfo { mask: SecurityInfo::VALID | u32::from(is_closed), plugin_mask: SecurityInfo::VALID },
    }
}

impl Gate for TestGate {
    fn announced(&self, remote: &ParticipantData, source: Option<Source>) -> Admission {
        self.sources.lock().unwrap().insert(remote.prefix, source);
        self.note(Told::Announced(remote.prefix));
        self.admission(remote.prefix)
    }

    fn admission(&self, remote: GuidPrefix) -> Admission {
        self.answers.lock().unwrap().get(&remote).unwrap_or(&self.others).clone()
    }

    fn signed_data(&self, remote: GuidPrefix) -> Option<Vec<u8>> {
        self.signed.lock().unwrap().get(&remote).cloned()
    }

    fn participant(&self) -> ParticipantRules {
        ParticipantRules {
            is_rtps_protected: self.protects_messages.load(Ordering::Relaxed),
            is_discovery_protected: true,
            is_liveliness_protected: true,
        }
    }

    fn topic(&self, name: &str) -> TopicRules {
        rules_of(name)
    }

    fn check_remote_writer(&self, _: &PublicationData, _: &SubscriptionData) -> Result<(), String> {
        self.verdict()
    }

    fn check_remote_reader(&self, _: &SubscriptionData, _: &PublicationData) -> Result<(), String> {
        self.verdict()
    }

    fn want_keys(&self, local: EntityId, remote: Guid) -> Result<bool, String> {
        let mut keys = self.keys.lock().unwrap();
        let Keys { pairs, early, to_give } = &mut *keys;
        let pair = (local, remote);
        if !pairs.contains_key(&pair) && self.is_full.load(Ordering::Relaxed) {
            return Err("there are too many matches".to_string());
        }
        let new = TestPair { is_ready: early.remove(&pair), is_suspended: true };
        let known = pairs.entry(pair).or_insert(new);
        if core::mem::replace(&mut known.is_suspended, false) {
            to_give.push(pair);
            self.note(Told::Wanted(local, remote));
        }
        Ok(known.is_ready)
    }

    fn has_keys(&self, local: EntityId, remote: Guid) -> bool {
        let keys = self.keys.lock().unwrap();
        keys.pairs.get(&(local, remote)).is_some_and(|pair| pair.is_ready && !pair.is_suspended)
    }

    fn unmatched(&self, local: EntityId, remote: Guid) {
        let mut keys = self.keys.lock().unwrap();
        let Some(pair) = keys.pairs.get_mut(&(local, remote)) else { return };
        if !core::mem::replace(&mut pair.is_suspended, true) {
            self.note(Told::Unmatched(local, remote));
        }
    }

    fn endpoint_lost(&self, remote: Guid) {
        self.keys.lock().unwrap().forget(|pair| pair.1 == remote);
        self.note(Told::EndpointLost(remote));
    }

    fn participant_lost(&self, remote: GuidPrefix, reason: LostReason) {
        self.keys.lock().unwrap().forget(|pair| pair.1.prefix == remote);
        self.note(Told::ParticipantLost(remote, reason));
    }
}

/// Hosts with a gate, and perhaps others without.
pub(super) struct Secured {
    pub(super) domain: Domain,
    pub(super) gates: BTreeMap<u32, Arc<TestGate>>,
    pub(super) mocks: BTreeMap<u32, Arc<Mock>>,
    /// The events that the session has seen.
    pub(super) events: BTreeMap<u32, Vec<ParticipantEvent>>,
    /// Whether sessions hand over keys.
    pub(super) gives_keys: bool,
}

impl Secured {
    /// `hosts` with a gate that answers `others` for each participant, and `plain` ones without a gate.
    pub(super) fn new(hosts: &[u32], plain: &[u32], others: Admission) -> Self {
        Self::with_user_protection(hosts, plain, others, ProtectionKind::None)
    }

    /// [`Self::new`], with this protection of user endpoints.
    fn with_user_protection(hosts: &[u32], plain: &[u32], others: Admission, user: ProtectionKind) -> Self {
        let (mut gates, mut mocks) = (BTreeMap::new(), BTreeMap::new());
        let mut configs: Vec<(u32, ParticipantConfig)> = plain.iter().map(|host| (*host, config(*host))).collect();
        for host in hosts {
            let gate = TestGate::new(others.clone());
            let mock = Mock::new(prefix(*host), ProtectionKind::Encrypt, user);
            configs.push((*host, secured_config(*host, &gate, &mock)));
            gates.insert(*host, gate);
            mocks.insert(*host, mock);
        }
        let domain = Domain::new(configs);
        Self { domain, gates, mocks, events: BTreeMap::new(), gives_keys: true }
    }

    /// Starts a host with a gate and without any memory.
    pub(super) fn start(&mut self, host: u32) {
        let gate = TestGate::new(Admission::Pending);
        let mock = Mock::new(prefix(host), ProtectionKind::Encrypt, ProtectionKind::None);
        let participant = Participant::new(self.domain.now, secured_config(host, &gate, &mock));
        self.domain.participants.insert(host, participant);
        self.gates.insert(host, gate);
        self.mocks.insert(host, mock);
    }

    /// Hosts 1 and 2, authenticated.
    pub(super) fn pair() -> Self {
        Self::pair_with_user_protection(ProtectionKind::None)
    }

    /// [`Self::pair`], with this protection of user endpoints.
    pub(super) fn pair_with_user_protection(user: ProtectionKind) -> Self {
        let mut secured = Self::with_user_protection(&[1, 2], &[], Admission::Pending, user);
        secured.run(Span::from_secs(1));
        secured.authenticate(1, 2);
        secured
    }

    /// The handshake of two hosts is complete.
    pub(super) fn authenticate(&mut self, a: u32, b: u32) {
        for (host, peer) in [(a, b), (b, a)] {
            self.mocks[&host].forget(prefix(peer));
            self.mocks[&host].add_pair(prefix(peer));
        }
        for (host, peer) in [(a, b), (b, a)] {
            self.sign(host, peer, |_| ());
            self.gates[&host].begin(prefix(peer));
            self.open(host, peer);
            self.answer(host, peer, Admission::Authenticated);
        }
        self.run(Span::from_secs(1));
    }

    /// The announcement of a peer, with a change, is the data that it has signed for a host.
    pub(super) fn sign(&mut self, host: u32, peer: u32, change: impl FnOnce(&mut ParticipantData)) {
        let mut data = self.domain.at(peer).data();
        data.vendor = self.domain.vendors.get(&peer).copied().unwrap_or(data.vendor);
        change(&mut data);
        let mut signed = vec![];
        data.emit_for_handshake(&mut signed);
        self.gates[&host].signed.lock().unwrap().insert(prefix(peer), signed);
    }

    pub(super) fn open(&mut self, host: u32, peer: u32) {
        let (now, wall) = (self.domain.now, self.domain.wall());
        self.domain.at(host).open_key_channel(now, wall, prefix(peer)).unwrap();
    }

    /// The gate of a host answers this for a peer from now on.
    pub(super) fn answer(&mut self, host: u32, peer: u32, admission: Admission) {
        self.gates[&host].answers.lock().unwrap().insert(prefix(peer), admission);
        let (now, wall) = (self.domain.now, self.domain.wall());
        self.domain.at(host).review_admission(now, wall, prefix(peer));
        self.exchange_all();
    }

    pub(super) fn run(&mut self, span: Span) {
        let end = self.domain.now + span;
        self.exchange_all();
        while self.domain.now < end {
            let step = Span::from_millis(20).0.min(end.since(self.domain.now).0);
            self.domain.run(Span(step));
            self.exchange_all();
        }
    }

    pub(super) fn put_writer(&mut self, host: u32, key: u32, topic: &str) -> Guid {
        let data = publication(host, key, topic);
        let guid = data.guid;
        self.domain.put_writer(host, data);
        self.exchange_all();
        guid
    }

    pub(super) fn put_reader(&mut self, host: u32, key: u32, topic: &str) -> Guid {
        let data = subscription(host, key, topic);
        let guid = data.guid;
        self.domain.put_reader(host, data);
        self.exchange_all();
        guid
    }

    /// Hands over keys until nothing more is to be done.
    pub(super) fn exchange_all(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.domain.run_until_idle();
            let mut is_idle = true;
            let hosts: Vec<u32> = self.domain.participants.keys().copied().collect();
            for host in hosts {
                let fresh = self.domain.events.remove(&host).unwrap_or_default();
                is_idle &= fresh.is_empty();
                self.events.entry(host).or_default().extend(fresh);
                let gate = self.gates.get(&host);
                let to_give = gate.map(|gate| core::mem::take(&mut gate.keys.lock().unwrap().to_give));
                for (local, remote) in to_give.unwrap_or_default() {
                    is_idle = false;
                    self.give_keys(host, local, remote);
                }
                is_idle &= !self.take_keys(host);
            }
            if is_idle {
                return;
            }
        }
        panic!("the sessions exchange keys without end");
    }

    /// The session of a host sends the key of a local entity for a remote one.
    pub(super) fn give_keys(&mut self, host: u32, local: EntityId, remote: Guid) {
        if !self.gives_keys {
            return;
        }
        let (now, wall) = (self.domain.now, self.domain.wall());
        let token = [[0, 1, 0, 0], local.0, remote.entity.0].concat();
        let channel = SecureChannel::KeyExchange;
        self.domain.at(host).send_secure(now, wall, channel, remote.prefix, &token).unwrap();
    }

    /// The session of a host takes the keys that have come. Returns whether there were any.
    fn take_keys(&mut self, host: u32) -> bool {
        let (now, wall) = (self.domain.now, self.domain.wall());
        let mut any = false;
        while let Some(message) = self.domain.at(host).poll_secure_message(now, wall) {
            any = true;
            let remote = Guid::new(message.from, EntityId(message.payload[4..8].try_into().unwrap()));
            let local = EntityId(message.payload[8..12].try_into().unwrap());
            self.mocks[&host].add_remote(remote);
            self.gates[&host].take((local, remote));
            self.domain.at(host).keys_ready(now, local, remote);
        }
        any
    }

    pub(super) fn take_events(&mut self, host: u32) -> Vec<ParticipantEvent> {
        self.exchange_all();
        self.events.remove(&host).unwrap_or_default()
    }

    /// The readers that match writers of a host, and the writers that match its readers, of all events so far.
    pub(super) fn matched(&mut self, host: u32) -> Vec<Guid> {
        self.exchange_all();
        let mut matched = BTreeSet::new();
        for event in self.events.get(&host).into_iter().flatten() {
            match event {
                ParticipantEvent::ReaderMatched { reader, .. } => _ = matched.insert(reader.guid),
                ParticipantEvent::WriterMatched { writer, .. } => _ = matched.insert(writer.guid),
                ParticipantEvent::ReaderUnmatched { reader, .. } => _ = matched.remove(reader),
                ParticipantEvent::WriterUnmatched { writer, .. } => _ = matched.remove(writer),
                _ => {}
            }
        }
        matched.into_iter().collect()
    }

    /// The pairs whose exchange of keys a host has begun or resumed, of user endpoints.
    pub(super) fn wanted(&self, host: u32) -> Vec<Pair> {
        let told = self.gates[&host].told.lock().unwrap();
        let all = told.iter().filter_map(|told| match told {
            Told::Wanted(local, remote) => Some((*local, *remote)),
            _ => None,
        });
        all.collect()
    }

    /// Whether these bytes were ever sent.
    pub(super) fn has_sent(&self, octets: &[u8]) -> bool {
        self.domain.sent.iter().any(|message| message.bytes.windows(octets.len()).any(|window| window == octets))
    }
}

fn secured_config(host: u32, gate: &Arc<TestGate>, mock: &Arc<Mock>) -> ParticipantConfig {
    let gate: Arc<dyn Gate> = Arc::<TestGate>::clone(gate);
    let protection = SharedProtection::new(Arc::<Mock>::clone(mock));
    ParticipantConfig {
        protection: Some(protection),
        gate: Some(gate),
        security: Some(Box::new(ParticipantSecurityData::default())),
        ..config(host)
    }
}
