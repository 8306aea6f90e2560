//! The admission of remote participants by the gate: what is exchanged with them, and which of it waits for keys.

use alloc::string::{String, ToString};
use core::hash::BuildHasher;

use super::Participant;
use super::builtin::SECURE_TOPICS;
use super::drops::Fault;
use super::event::{LostReason, ParticipantEvent};
use super::gate::{Admission, TopicRules};
use super::remote_security::RemoteSecurity;
use crate::discovery::data::{BuiltinEndpointSet, ParticipantData, PublicationData, SubscriptionData};
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::locator::Source;
use crate::qos::NonMatch;
use crate::time::{Instant, Timestamp};

impl Participant {
    /// The answer of the [`Gate`](super::Gate) for a participant may be another one now. The expected order for each
    /// participant: [`Admission::Pending`], then [`Self::open_key_channel`], then [`Admission::Authenticated`], then
    /// [`Self::keys_ready`] for each pair of endpoints.
    pub fn review_admission(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix) {
        let Some(gate) = self.config.gate.clone() else { return };
        if self.remotes.contains_key(&prefix) {
            self.set_admission(now, wall, prefix, gate.admission(prefix));
        }
    }

    /// The admission of a known participant; `None` without a gate.
    #[must_use]
    pub fn admission(&self, prefix: &GuidPrefix) -> Option<&Admission> {
        self.remotes.get(prefix)?.security.as_deref().map(|security| &security.admission)
    }

    /// The gate has the keys of a remote entity for a local one now: of the participants for each other, of their
    /// secure built-in endpoints, or of endpoints of the application. The participant asks the gate about the pair
    /// again, and keeps nothing: the call has no effect for a pair that the participant does not know yet.
    pub fn keys_ready(&mut self, now: Instant, local: EntityId, remote: Guid) {
        if !self.is_authenticated(remote.prefix) {
            self.gate_counters.keys_ignored += 1;
        } else if local.is_builtin() {
            self.reroute(now, remote.prefix);
        } else {
            let local = Guid::new(self.config.prefix, local);
            let (writer, reader) = if local.entity.is_writer() { (local, remote) } else { (remote, local) };
            if !self.consider(writer, reader) {
                self.fill_places(writer, reader);
            }
        }
    }

    /// Asks the gate about a new participant. `None`: the gate refuses it, and an event has reported that.
    pub(super) fn admit(&mut self, found: &ParticipantData, source: Source) -> Option<Option<RemoteSecurity>> {
        let Some(gate) = &self.config.gate else { return Some(None) };
        match gate.announced(found, Some(source)) {
            Admission::Refused(reason) => {
                self.report_refusal(found.prefix, reason);
                None
            }
            admission => {
                self.refusals.forget(found.prefix);
                Some(Some(RemoteSecurity::new(admission)))
            }
        }
    }

    fn report_refusal(&mut self, participant: GuidPrefix, reason: String) {
        self.gate_counters.refused += 1;
        let hasher = foldhash::quality::FixedState::with_seed(self.config.seed);
        if self.refusals.note(participant, hasher.hash_one(&reason)) {
            self.events.push_back(ParticipantEvent::ParticipantRefused { participant, reason });
        }
    }

    pub(super) fn set_admission(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix, admission: Admission) {
        let Some(security) = self.remotes.get_mut(&prefix).and_then(|r| r.security.as_deref_mut()) else { return };
        if security.admission == admission {
            return;
        }
        if let Admission::Refused(reason) = admission {
            self.report_refusal(prefix, reason);
            self.remove_participant(now, wall, prefix, LostReason::Refused);
            return;
        }
        let was_used = security.admission != Admission::Pending;
        let may_keep = admission == Admission::Authenticated;
        security.admission = admission;
        if !may_keep {
            security.forget_signed();
        }
        if was_used && !may_keep {
            self.withdraw(now, wall, prefix);
        }
        self.begin_use(now, wall, prefix);
    }

    /// Begins the exchange that the admission of a participant permits.
    pub(super) fn begin_use(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix) {
        if self.is_authenticated(prefix) {
            self.take_signed_data(now, wall, prefix);
            // The handshake has proved that the participant hears this one.
            self.verify(now, prefix);
            self.note_proved(prefix);
            self.note_new_session(prefix);
            self.ask_after_handshake(now, prefix);
        }
        self.reroute(now, prefix);
        self.rematch_participant(prefix);
    }

    /// The handshake with a participant that is authenticated already has been repeated: the peer may have forgotten
    /// everything, and everything begins anew.
    pub(super) fn begin_again(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix) {
        if self.is_authenticated(prefix) {
            self.withdraw(now, wall, prefix);
            self.begin_use(now, wall, prefix);
        }
    }

    /// Ends all matches with a participant, and forgets its endpoints. The participant stays known.
    fn withdraw(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        let before = remote.held_bytes();
        let publications = remote.publications.take_all(&mut self.writers_by_topic);
        let subscriptions = remote.subscriptions.take_all(&mut self.readers_by_topic);
        remote.forget_endpoints();
        self.discovery_memory.change(remote.origin, before, remote.held_bytes());
        for data in publications.into_values() {
            self.unmatch_writer(data.guid, &data.topic_name, true);
            self.lose_keys_of(data.guid);
            self.events.push_back(ParticipantEvent::PublicationLost(data.guid));
        }
        for data in subscriptions.into_values() {
            self.unmatch_reader(data.guid, &data.topic_name);
            self.lose_keys_of(data.guid);
            self.events.push_back(ParticipantEvent::SubscriptionLost(data.guid));
        }
        self.builtin.unmatch_participant(now, wall, prefix);
    }

    /// Whether the gate has admitted a participant as authenticated.
    pub(super) fn is_authenticated(&self, prefix: GuidPrefix) -> bool {
        self.remotes.get(&prefix).is_some_and(|remote| remote.is_authenticated())
    }

    /// The built-in endpoints of a participant that may be matched now.
    pub(super) fn usable_builtin_endpoints(&self, prefix: GuidPrefix) -> BuiltinEndpointSet {
        let Some(remote) = self.remotes.get(&prefix) else { return BuiltinEndpointSet::NONE };
        let announced = remote.builtin_endpoints();
        let (Some(gate), Some(security)) = (&self.config.gate, remote.security.as_deref()) else { return announced };
        let plain = announced.and(BuiltinEndpointSet::DISCOVERY_AND_LIVELINESS);
        match security.admission {
            Admission::Pending | Admission::Refused(_) => return BuiltinEndpointSet::NONE,
            Admission::Unauthenticated => return plain,
            Admission::Authenticated => {}
        }
        let rules = gate.participant();
        let is_ready = |(local, remote)| gate.has_keys(local, Guid::new(prefix, remote));
        if rules.is_rtps_protected && !is_ready((EntityId::PARTICIPANT, EntityId::PARTICIPANT)) {
            // Nothing of it could be opened.
            return BuiltinEndpointSet::NONE;
        }
        SECURE_TOPICS.iter().fold(plain, |usable, topic| {
            let is_free = !topic.is_protected(rules);
            let with = |usable: BuiltinEndpointSet, bit, pair| {
                if announced.contains(bit) && (is_free || is_ready(pair)) { usable.with(bit) } else { usable }
            };
            let usable = with(usable, topic.writer_bit, (topic.reader, topic.writer));
            with(usable, topic.reader_bit, (topic.writer, topic.reader))
        })
    }

    /// How a topic is protected; `None` without a gate.
    pub(super) fn rules_of(&self, topic: &str) -> Option<TopicRules> {
        self.config.gate.as_deref().map(|gate| gate.topic(topic))
    }

    /// Whether the gate lets a pair match, of which one endpoint is remote.
    pub(super) fn check_gate(
        &self,
        offered: &PublicationData,
        requested: &SubscriptionData,
        rules: Option<TopicRules>,
    ) -> Result<(), NonMatch> {
        let (Some(gate), Some(rules)) = (&self.config.gate, rules) else { return Ok(()) };
        let own = self.config.prefix;
        let remote = if offered.guid.prefix == own { requested.guid } else { offered.guid };
        if remote.prefix == own {
            return Ok(());
        }
        let security = self.remotes.get(&remote.prefix).and_then(|r| r.security.as_deref());
        let refuse = |reason: &str| Err(NonMatch::Security { reason: reason.to_string() });
        match security.map(|security| (&security.admission, security.secure.contains(&remote.entity))) {
            Some((Admission::Unauthenticated, _)) if !rules.is_open() => {
                return refuse("the remote participant is not authenticated, and the topic is protected");
            }
            Some((Admission::Authenticated, false)) if rules.is_discovery_protected => {
                return refuse("the remote endpoint was announced without the protection that its topic requires");
            }
            Some((Admission::Authenticated | Admission::Unauthenticated, _)) => {}
            Some((Admission::Pending | Admission::Refused(_), _)) | None => {
                return refuse("the remote participant is not admitted");
            }
        }
        let checked = if remote == offered.guid {
            gate.check_remote_writer(offered, requested)
        } else {
            gate.check_remote_reader(requested, offered)
        };
        checked.map_err(|reason| NonMatch::Security { reason })
    }

    /// Whether a pair that matches otherwise has the keys that it needs. Begins their exchange if not.
    pub(super) fn want_keys(&self, writer: Guid, reader: Guid, rules: Option<TopicRules>) -> Result<bool, NonMatch> {
        let (local, remote) = self.sides(writer, reader);
        let (Some(gate), Some(rules)) = (&self.config.gate, rules) else { return Ok(true) };
        if !rules.needs_keys() || remote.prefix == self.config.prefix {
            return Ok(true);
        }
        let is_ready = gate.want_keys(local, remote).map_err(|reason| NonMatch::Security { reason })?;
        Ok(is_ready || !rules.waits_for_keys(local.is_reader()))
    }

    /// A pair matches no longer, or does not match.
    pub(super) fn suspend_keys(&self, writer: Guid, reader: Guid) {
        let (local, remote) = self.sides(writer, reader);
        if let Some(gate) = self.config.gate.as_deref().filter(|_| remote.prefix != self.config.prefix) {
            gate.unmatched(local, remote);
        }
    }

    /// A remote endpoint is known no longer.
    pub(super) fn lose_keys_of(&self, remote: Guid) {
        if let Some(gate) = &self.config.gate {
            gate.endpoint_lost(remote);
        }
    }

    /// The local and the other endpoint of a pair, at least one of which is local.
    fn sides(&self, writer: Guid, reader: Guid) -> (EntityId, Guid) {
        if reader.prefix == self.config.prefix { (reader.entity, writer) } else { (writer.entity, reader) }
    }

    /// Counts an announcement that any host could have sent, and that contradicts an authenticated participant.
    pub(super) fn count_unauthenticated(&mut self, prefix: GuidPrefix) {
        self.count_fault(prefix, Fault::Unauthenticated);
    }
}
