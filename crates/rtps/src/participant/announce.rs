//! SPDP: the participant announces itself, and handles announcements of others (RTPS 2.5 §8.5.3).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::discovery::data::{BuiltinEndpointSet, ParticipantData, disposed_participant, emit_participant_key};
use crate::history::ChangeKind;
use crate::id::{EntityId, GuidPrefix, KeyHash};
use crate::limits::{GOODBYE_SILENCE, RETURN_QUESTIONS};
use crate::locator::Locator;
use crate::reader::{Reception, SampleMeta};
use crate::receiver::Envelope;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Span, Timestamp};
use crate::vendor::{ProtocolVersion, VendorId};
use crate::wire::{
    Data, DataHead, Endianness, Header, InfoDestination, InfoTimestamp, InlineQos, Payload, PayloadKind, StatusInfo,
};

use super::drops::Fault;
use super::origin::Origin;
use super::relocation::Relocation;
use super::remote::RemoteParticipant;
use super::secure_discovery::without_status;
use super::{Addresses, LostReason, Participant, ParticipantConfig, ParticipantEvent};

const ENDIANNESS: Endianness = Endianness::Little;

/// The least time between two answers to one participant, so that two participants do not answer each other endlessly.
const ANSWER_INTERVAL: Span = Span::from_secs(1);

/// Header, INFO_DST and HEARTBEAT.
const QUESTION_BYTES: usize = 20 + 16 + 32;

impl ParticipantConfig {
    /// The announcement of a participant with this configuration.
    #[must_use]
    pub fn data(&self) -> ParticipantData {
        let config = self;
        let mut data = ParticipantData::new(config.prefix, ProtocolVersion::V2_5, VendorId::PEREGRINE);
        data.domain = Some(config.domain);
        data.domain_tag.clone_from(&config.domain_tag);
        data.builtin_endpoints = BuiltinEndpointSet::DISCOVERY_AND_LIVELINESS;
        data.lease_duration = config.lease;
        data.metatraffic_unicast.clone_from(&config.addresses.metatraffic_unicast);
        data.metatraffic_multicast.clone_from(&config.addresses.metatraffic_multicast);
        data.default_unicast.clone_from(&config.addresses.default_unicast);
        data.default_multicast.clone_from(&config.addresses.default_multicast);
        data.streams.clone_from(&config.addresses.streams);
        data.name = Some(config.name.clone()).filter(|name| !name.is_empty());
        data.user_data = config.qos.user_data.clone();
        data.properties = config.qos.properties.clone();
        data.shared_memory = config.shared_memory.map(Box::new);
        if config.security.is_some() {
            // Participants that have only a pre-shared key exchange no handshakes and no keys.
            let has_handshakes = config.protection.as_ref().is_none_or(|protection| protection.pre_shared().is_none());
            let added = match config.gate {
                Some(_) => BuiltinEndpointSet::SECURITY,
                None if has_handshakes => BuiltinEndpointSet::SECURE_CHANNELS,
                None => BuiltinEndpointSet::default(),
            };
            data.builtin_endpoints = data.builtin_endpoints.with(added);
            data.security.clone_from(&config.security);
            without_status(&mut data.security);
        }
        data
    }
}

impl Participant {
    /// The announcement of this participant.
    #[must_use]
    pub fn data(&self) -> ParticipantData {
        self.config.data()
    }

    /// Appends what the handshake of DDS Security contains of the announcement; see
    /// [`ParticipantData::emit_for_handshake`].
    pub fn emit_for_handshake(&self, out: &mut Vec<u8>) {
        self.data().emit_for_handshake(out);
    }

    /// The participant data that handshakes have to contain from now on, if the announcement has changed since the last
    /// call.
    pub fn take_changed_handshake_data(&mut self) -> Option<Vec<u8>> {
        core::mem::take(&mut self.has_changed_handshake_data).then(|| {
            let mut out = Vec::new();
            self.emit_for_handshake(&mut out);
            out
        })
    }

    /// Announces immediately instead of at the next period.
    pub const fn announce_soon(&mut self, now: Instant) {
        self.announcer.next = now;
    }

    /// Announces changed policies immediately, and then repeats the burst: one datagram may get lost or arrive after an
    /// earlier one.
    pub(super) fn announce_change(&mut self, now: Instant, wall: Timestamp) {
        self.announcer.sent = 0;
        self.announce(now, wall);
    }

    /// Announces to all participants immediately, unless the announcer is silent, and then repeats the burst: a new
    /// path often loses datagrams.
    pub(super) fn announce_afresh(&mut self, now: Instant, wall: Timestamp) {
        self.announcer.sent = 0;
        self.announce_to(now, wall, true);
    }

    /// Announces the end of the participant, so that others need not wait for its lease. The participant sends nothing
    /// afterwards.
    pub fn leave(&mut self, wall: Timestamp) {
        let message = self.goodbye(wall, None);
        let to = self.everyone(true);
        self.say(&message, to);
        self.leave_securely(wall);
    }

    /// The announcement that this participant has left: for one participant, or for all.
    pub(super) fn goodbye(&mut self, wall: Timestamp, to: Option<GuidPrefix>) -> Vec<u8> {
        let (qos, payload) = self.disposal();
        let number = self.announcer.number_of_goodbye();
        self.message(wall, to, number, &qos, PayloadKind::Key, &payload)
    }

    /// Inline QoS and key of the disposal of the announcement.
    pub(super) fn disposal(&self) -> (InlineQos, Vec<u8>) {
        let mut payload = Vec::new();
        emit_participant_key(self.guid(), &mut payload);
        let status_info = StatusInfo::DISPOSED.with(StatusInfo::UNREGISTERED);
        let key_hash = Some(KeyHash(self.guid().to_bytes()));
        (InlineQos { key_hash, status_info, ..InlineQos::default() }, payload)
    }

    pub(super) fn announce(&mut self, now: Instant, wall: Timestamp) {
        self.announce_to(now, wall, false);
    }

    /// Announces to the groups and initial peers; with `known`, to each known participant too. While the announcer is
    /// silent, it does so later.
    fn announce_to(&mut self, now: Instant, wall: Timestamp, known: bool) {
        self.notice_silence(now, wall);
        let Some(known) = self.announcer.begin(now, known) else { return };
        self.announce_securely(now, wall);
        let message = self.announcement(wall, None);
        let to = self.everyone(known || self.config.addresses.metatraffic_multicast.is_empty());
        if !to.is_empty() {
            self.say(&message, to);
        }
    }

    /// Handles the announcement of another participant.
    pub(super) fn handle_announcement(
        &mut self,
        rx: &Reception<'_>,
        envelope: &Envelope,
        meta: &SampleMeta,
        data: &Data<'_>,
    ) {
        let sender = envelope.from.prefix;
        if meta.kind != ChangeKind::Alive {
            match disposed_participant(data.payload, meta.key_hash) {
                Ok(guid) if guid.prefix == sender && self.is_authenticated(sender) => {
                    self.count_unauthenticated(sender);
                }
                Ok(guid) if guid.prefix == sender => {
                    self.remove_participant(rx.now, rx.wall, sender, LostReason::Left);
                }
                Ok(_) => self.count_fault(sender, Fault::Forged),
                Err(_) => self.count_fault(sender, Fault::DiscoveryMalformed),
            }
            return;
        }
        let Payload::Data(payload) = data.payload else {
            self.count_fault(sender, Fault::DiscoveryMalformed);
            return;
        };
        let Ok((mut found, summaries)) = ParticipantData::parse_with_summaries(payload, envelope.vendor) else {
            self.count_fault(sender, Fault::DiscoveryMalformed);
            return;
        };
        self.place_on_link(rx.source, &mut found);
        found.streams.retain(|locator| self.config.addresses.paths.is_stream(locator));
        if found.prefix != sender {
            self.count_fault(sender, Fault::Forged);
            return;
        }
        let other_domain = found.domain.is_some_and(|domain| domain != self.config.domain);
        if other_domain || found.domain_tag != self.config.domain_tag {
            self.count_fault(sender, Fault::ForeignDomain);
            return;
        }
        if self.ignored.contains(&found.guid()) {
            return;
        }
        let mut is_outdated = false;
        match self.remotes.get_mut(&sender) {
            // Any host could have sent it in the name of an authenticated participant.
            Some(remote) if remote.is_authenticated() => {
                remote.renew(rx.now);
                if remote.data == found {
                    self.review_ways(rx.now, sender);
                } else {
                    self.count_unauthenticated(sender);
                    self.answer_other_addresses(rx, &found);
                }
            }
            Some(remote) if remote.has_overtaken(rx.now, data.sequence_number, &found) => {
                remote.renew(rx.now);
                self.count_fault(sender, Fault::Outdated);
                is_outdated = true;
            }
            Some(_) => {
                if !self.hear_again(rx, found) {
                    return;
                }
            }
            None => match self.parked.left(sender).map(|left| rx.now.since(left.at)) {
                // The goodbye has overtaken this announcement, or an impostor has said it: then more will come.
                Some(silence) if silence <= GOODBYE_SILENCE => {
                    self.count_fault(sender, Fault::Outdated);
                    return;
                }
                Some(_) => {
                    // Its addresses before the goodbye are tried first: an impostor may announce others.
                    if self.restore_left(rx, sender) && !self.hear_again(rx, found) {
                        return;
                    }
                }
                None => self.add_participant(rx, found),
            },
        }
        // A peer that addresses this participant may have lost it and wait for proof that this participant receives its
        // messages, just as this participant does while the peer is unverified.
        let is_verified = self.remotes.get(&sender).is_some_and(|r| r.is_verified);
        if envelope.is_addressed || !is_verified {
            self.answer(rx, sender, envelope.is_addressed);
        } else if self.config.protection.is_some() {
            self.pay_for_handshake(sender);
        }
        if envelope.is_addressed {
            self.verify(rx.now, sender);
        }
        self.ask_unheard_writers(rx.now, sender);
        if !is_outdated {
            if let Some(remote) = self.remotes.get_mut(&sender) {
                remote.note_announced_number(rx.now, data.sequence_number);
            }
            self.weigh_summaries(rx, sender, summaries);
        }
        if let Some(at) = self.remotes.get(&sender).map(|remote| remote.lease_until()) {
            self.expect_lease_end(at);
        }
    }

    /// Announces this participant to one that was just heard of, so that it learns of us at once instead of at our next
    /// period, and before anything else comes from us. And asks one that is unverified whether it hears us: a peer that
    /// has known us all the time, although we have lost it, takes no notice of announcements, but answers a HEARTBEAT.
    ///
    /// An address that is hearsay is sent at most [`ANSWER_CREDIT_FACTOR`] times what came in its name, however many
    /// others the same datagram announces. Where that is not enough for both, they take turns, and one that was known
    /// before is asked first.
    ///
    /// The announcement is repeated, because the peer may not take it in: see [`AnswerRepetitions`].
    ///
    /// [`ANSWER_CREDIT_FACTOR`]: crate::limits::ANSWER_CREDIT_FACTOR
    /// [`AnswerRepetitions`]: super::answer_repetitions::AnswerRepetitions
    fn answer(&mut self, rx: &Reception<'_>, to: GuidPrefix, is_addressed: bool) {
        let heard_bytes = core::mem::take(&mut self.unanswered_bytes);
        let Some(remote) = self.remotes.get_mut(&to) else { return };
        remote.earn_handshake_credit(heard_bytes);
        if remote.is_trusted() {
            self.answers.pay(rx.now, remote.origin, heard_bytes);
        } else {
            remote.earn_credit(heard_bytes);
        }
        if remote.metatraffic.is_empty() {
            return;
        }
        let is_due = |at: Option<Instant>| at.is_none_or(|at| rx.now.since(at) >= ANSWER_INTERVAL);
        let announces = is_due(remote.answered_at);
        let is_undecided = !is_addressed && !remote.is_verified;
        let asks = is_undecided && is_due(remote.questioned_at);
        let was_known = remote.answered_at.is_none() && self.parked.contains(to);
        let asks_first = asks && (was_known || remote.questioned_at < remote.answered_at);
        let has_rejoined = is_undecided && self.pursue_discovered_peer(rx.now, rx.wall, to);
        if asks_first {
            self.question(rx.now, to);
        }
        if announces && !has_rejoined {
            self.answer_with_announcement(rx, to);
        }
        if asks && !asks_first {
            self.question(rx.now, to);
        }
        if is_undecided
            && !has_rejoined
            && let Some(remote) = self.remotes.get_mut(&to)
        {
            remote.answer_repetitions.begin(rx.now);
            self.heal_later(to);
        }
    }

    fn answer_with_announcement(&mut self, rx: &Reception<'_>, to: GuidPrefix) {
        if self.announce_to_one(rx.now, rx.wall, to) {
            return;
        }
        let Some(remote) = self.remotes.get_mut(&to) else { return };
        *remote.drops.get_or_default().of(Fault::HeldBack) += 1;
        if remote.is_trusted() {
            // The next periodic announcement reaches it.
            remote.answered_at = Some(rx.now);
        } else {
            self.announcer.expedite_announcement(rx.now);
        }
    }

    /// Repeats the answer to a participant that has not shown yet that it hears us, or the announcement after a
    /// goodbye: see [`AnswerRepetitions`](super::answer_repetitions::AnswerRepetitions).
    pub(super) fn repeat_answer(&mut self, now: Instant, wall: Timestamp, to: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&to) else { return };
        if !remote.answer_repetitions.take_due(now) {
            return;
        }
        debug_assert!(!remote.is_verified || remote.relocation.is_open(), "an answer ends the repetitions");
        if !self.announce_to_one(now, wall, to)
            && let Some(remote) = self.remotes.get_mut(&to)
        {
            // The next announcement brings more credit, and begins the repetitions anew.
            remote.answer_repetitions.end();
        }
    }

    /// Announces this participant to one participant, within its budget. Returns whether that was possible.
    fn announce_to_one(&mut self, now: Instant, wall: Timestamp, to: GuidPrefix) -> bool {
        let answer = self.announcement(wall, Some(to));
        let Some(remote) = self.remotes.get_mut(&to) else { return true };
        if !remote.spend_on_answer(&mut self.answers, now, answer.len()) {
            return false;
        }
        remote.answered_at = Some(now);
        let to = Arc::clone(&remote.metatraffic);
        self.say(&answer, to);
        true
    }

    /// Sends a HEARTBEAT of a built-in writer: a participant that knows the writer answers. With security there are no
    /// keys for an unverified peer, and authentication shows whether it hears us.
    pub(super) fn question(&mut self, now: Instant, to: GuidPrefix) {
        if self.config.protection.is_some() {
            return;
        }
        let Some(remote) = self.remotes.get_mut(&to) else { return };
        if !remote.spend_credit(QUESTION_BYTES) {
            return;
        }
        remote.questioned_at = Some(now);
        let to_address = Arc::clone(&remote.metatraffic);
        let message = self.question_for(to);
        self.say(&message, to_address);
    }

    /// A HEARTBEAT that a participant has to answer.
    pub(super) fn question_for(&mut self, to: GuidPrefix) -> Vec<u8> {
        let mut message = Vec::with_capacity(QUESTION_BYTES);
        Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: self.config.prefix }
            .emit(&mut message);
        InfoDestination { prefix: to }.emit(ENDIANNESS, &mut message);
        let heartbeat = self.builtin.publications.writer.question_for(EntityId::SEDP_PUBLICATIONS_READER);
        heartbeat.emit(ENDIANNESS, &mut message);
        debug_assert_eq!(message.len(), QUESTION_BYTES);
        message
    }

    /// The sender has named this participant: it hears us.
    pub(super) fn verify(&mut self, now: Instant, sender: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&sender).filter(|r| !r.is_verified) else { return };
        remote.is_verified = true;
        remote.answer_repetitions.end();
        if self.config.protection.is_some() {
            // No question is asked before a handshake.
            remote.relocation.resume(now);
        } else if remote.relocation.is_open() {
            // Any host may have sent the message. An answer to a question comes from an address of the participant.
            let from = remote.relocation.from().cloned();
            remote.relocation = Relocation::asking(now, from, RETURN_QUESTIONS);
        }
        self.places.note_verified(remote);
        self.reroute(now, sender);
        self.heal_later(sender);
    }

    fn add_participant(&mut self, rx: &Reception<'_>, found: ParticipantData) {
        let Some(security) = self.admit(&found, rx.source) else { return };
        let prefix = found.prefix;
        let account = self.places.account(Origin::of(rx.source), &self.config.memory.incomplete);
        let mut remote = Box::new(RemoteParticipant::new(rx.now, found.clone(), rx.source, account));
        remote.choose_way(&self.config.addresses.paths);
        remote.security = security.map(Box::new);
        if !self.place(rx, remote) {
            self.count_fault(found.prefix, Fault::NoRoom);
            return;
        }
        self.events.push_back(ParticipantEvent::ParticipantFound(Box::new(found)));
        if self.config.gate.is_some() {
            self.begin_use(rx.now, rx.wall, prefix);
        }
        self.suspect_kept_session(rx.now, prefix);
    }

    /// A known participant announces itself. Returns whether anything of that is believed.
    fn hear_again(&mut self, rx: &Reception<'_>, found: ParticipantData) -> bool {
        let prefix = found.prefix;
        let Some(found) = self.weigh_terms(rx.now, found) else { return false };
        match self.remotes.get_mut(&prefix) {
            Some(remote) if remote.data == found => {
                remote.renew(rx.now);
                self.review_ways(rx.now, prefix);
            }
            _ => self.change_participant(rx, found),
        }
        true
    }

    /// A known participant announces something else. The gate may answer otherwise then.
    fn change_participant(&mut self, rx: &Reception<'_>, found: ParticipantData) {
        let admission = self.config.gate.as_deref().map(|gate| gate.announced(&found, Some(rx.source)));
        let prefix = found.prefix;
        self.update_participant(rx.now, rx.wall, found);
        if let Some(admission) = admission {
            self.set_admission(rx.now, rx.wall, prefix, admission);
        }
    }

    /// The groups and initial peers, the known participants that are reached by connections, and with `known` all other
    /// known participants with verified addresses.
    fn everyone(&self, known: bool) -> Arc<[Locator]> {
        let mut to: Vec<Locator> = Vec::new();
        let Addresses { metatraffic_multicast, initial_peers, paths, .. } = &self.config.addresses;
        let trusted = self.remotes.values().filter(|r| r.is_trusted());
        let known = trusted.flat_map(|r| r.metatraffic.iter()).filter(|locator| known || paths.is_stream(locator));
        let all = metatraffic_multicast.iter().chain(initial_peers).chain(known);
        for locator in all {
            if !to.contains(locator) {
                to.push(*locator);
            }
        }
        to.into()
    }

    pub(super) fn announcement(&mut self, wall: Timestamp, to: Option<GuidPrefix>) -> Vec<u8> {
        let mut payload = Vec::new();
        self.data().emit_with_summaries(self.summaries().as_ref(), &mut payload);
        let number = self.announcer.number_of(&payload);
        self.message(wall, to, number, &InlineQos::default(), PayloadKind::Data, &payload)
    }

    pub(super) fn message(
        &self,
        wall: Timestamp,
        to: Option<GuidPrefix>,
        sequence_number: SequenceNumber,
        qos: &InlineQos,
        kind: PayloadKind,
        payload: &[u8],
    ) -> Vec<u8> {
        let mut out = Vec::new();
        Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: self.config.prefix }
            .emit(&mut out);
        // For all participants, this INFO_DST has no effect. It is present so that the answer to an announcement need
        // not be longer than the announcement.
        InfoDestination { prefix: to.unwrap_or(GuidPrefix::UNKNOWN) }.emit(ENDIANNESS, &mut out);
        InfoTimestamp { timestamp: Some(wall) }.emit(ENDIANNESS, &mut out);
        let mut inline_qos = Vec::new();
        qos.emit(ENDIANNESS, &mut inline_qos);
        let head = DataHead {
            reader: EntityId::SPDP_READER,
            writer: EntityId::SPDP_WRITER,
            sequence_number,
            inline_qos: &inline_qos,
            payload: kind,
        };
        head.emit(ENDIANNESS, payload.len(), &mut out);
        out.extend_from_slice(payload);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }
}
