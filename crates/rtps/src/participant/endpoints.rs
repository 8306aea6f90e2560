//! SEDP: the endpoints of this participant and of others, and their matches (RTPS 2.5 §8.5.4).

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use crate::address_budget::AddressBudget;
use crate::discovery::data::{
    DiscoveryDataError, ParticipantMessageData, ParticipantMessageKind, PublicationData, SubscriptionData,
    emit_endpoint_key,
};
use crate::history::{Change, ChangeKind, Selected};
use crate::id::{EntityId, Guid, GuidPrefix, KeyHash};
use crate::locator::Locator;
use crate::memory_account::MemoryAccount;
use crate::payload::Payload;
use crate::qos::{Durability, IgnoreLocal, LivelinessKind, NonMatch, ReliabilityKind, check_compatibility};
use crate::reader::{MatchedWriter, Reception};
use crate::receiver::{Envelope, Input};
use crate::seq::SequenceNumber;
use crate::time::{Instant, Timestamp};
use crate::vendor::VendorId;
use crate::writer::{MatchedReader, OwedAnswers};

use super::builtin::Topic;
use super::drops::Fault;
use super::healing::{PUBLICATIONS, SUBSCRIPTIONS, passes_over};
use super::inventory::Digests;
use super::local_endpoint::{LocalReader, LocalWriter, ReasonHash};
use super::paths::Path;
use super::{Addresses, Participant, ParticipantEvent};

impl Participant {
    /// Announces a new or changed writer, and finds its matches.
    pub fn put_writer(&mut self, now: Instant, wall: Timestamp, mut data: PublicationData) {
        if let Some(rules) = self.rules_of(&data.topic_name) {
            data.security.info = Some(rules.info);
        }
        let mut payload = Vec::new();
        let tags = data.security.data_tags.take_if(|_| !self.is_secure(&data.topic_name));
        data.emit(&mut payload);
        if tags.is_some() {
            data.security.data_tags = tags;
        }
        let entity = data.guid.entity;
        let before = self.writers.get(&entity).map(|known| known.data.topic_name.clone());
        if let Some(before) = before.filter(|before| self.is_secure(before) != self.is_secure(&data.topic_name)) {
            let (topic, announced) = self.publications_for(&before);
            dispose(topic, announced, now, wall, data.guid);
        }
        let (topic, announced) = self.publications_for(&data.topic_name);
        announce(topic, announced, now, wall, data.guid, payload);
        if data.qos.reliability.kind == ReliabilityKind::BestEffort {
            // Nothing repairs a sample that arrives before its writer is known.
            topic.writer.flush(now);
        }
        self.index_local_writer(&data);
        match self.writers.get_mut(&entity) {
            Some(known) => known.data = data,
            None => {
                let (matched, refused, waiting) = Default::default();
                let local = LocalWriter { data, matched, refused, waiting };
                self.writers.insert(entity, local);
            }
        }
        self.schedule_liveliness(now);
        self.match_local_writer(entity);
    }

    /// Announces a new or changed reader, and finds its matches.
    pub fn put_reader(&mut self, now: Instant, wall: Timestamp, mut data: SubscriptionData) {
        if let Some(rules) = self.rules_of(&data.topic_name) {
            data.security.info = Some(rules.info);
        }
        let entity = data.guid.entity;
        let before = self.readers.get(&entity).map(|known| known.data.topic_name.clone());
        if let Some(before) = before.filter(|before| self.is_secure(before) != self.is_secure(&data.topic_name)) {
            let (topic, announced) = self.subscriptions_for(&before);
            dispose(topic, announced, now, wall, data.guid);
        }
        self.announce_reader(now, wall, &data);
        self.index_local_reader(&data);
        match self.readers.get_mut(&entity) {
            Some(known) => known.data = data,
            None => {
                let (matched, refused, waiting) = Default::default();
                let local = LocalReader { data, matched, refused, waiting };
                self.readers.insert(entity, local);
            }
        }
        self.match_local_reader(entity);
    }

    /// Announces readers with addresses of their own again, with the new addresses of this host.
    pub(super) fn announce_moved_readers(&mut self, now: Instant, wall: Timestamp) {
        let moved: Vec<SubscriptionData> =
            self.readers.values().filter(|r| !r.data.multicast.is_empty()).map(|r| r.data.clone()).collect();
        moved.iter().for_each(|data| self.announce_reader(now, wall, data));
    }

    /// A reader that announces a group must announce its unicast addresses too: with any address of its own, those of
    /// the participant do not apply (RTPS 2.5 §8.5.4.3).
    fn announce_reader(&mut self, now: Instant, wall: Timestamp, data: &SubscriptionData) {
        let mut payload = Vec::new();
        let needs_unicast = data.unicast.is_empty() && !data.multicast.is_empty();
        let hides_tags = data.security.data_tags.is_some() && !self.is_secure(&data.topic_name);
        if needs_unicast || hides_tags {
            let mut announced = data.clone();
            if needs_unicast {
                announced.unicast.clone_from(&self.config.addresses.default_unicast);
            }
            if hides_tags {
                announced.security.data_tags = None;
            }
            announced.emit(&mut payload);
        } else {
            data.emit(&mut payload);
        }
        let (topic, announced) = self.subscriptions_for(&data.topic_name);
        announce(topic, announced, now, wall, data.guid, payload);
    }

    /// Whether the endpoints of a topic are announced to authenticated participants only.
    fn is_secure(&self, topic: &str) -> bool {
        self.rules_of(topic).is_some_and(|rules| rules.is_discovery_protected)
    }

    /// The built-in topic that announces the writers of a topic, and what it has announced. The secure one summarizes
    /// nothing: no other host can forge its announcements.
    fn publications_for(&mut self, topic: &str) -> (&mut Topic, Option<&mut Digests>) {
        let is_secure = self.is_secure(topic);
        let [announced, _] = &mut self.announced;
        match &mut self.builtin.secure {
            Some(secure) if is_secure => (&mut secure.publications, None),
            _ => (&mut self.builtin.publications, Some(announced)),
        }
    }

    /// Like [`Self::publications_for`], for readers.
    fn subscriptions_for(&mut self, topic: &str) -> (&mut Topic, Option<&mut Digests>) {
        let is_secure = self.is_secure(topic);
        let [_, announced] = &mut self.announced;
        match &mut self.builtin.secure {
            Some(secure) if is_secure => (&mut secure.subscriptions, None),
            _ => (&mut self.builtin.subscriptions, Some(announced)),
        }
    }

    /// Removes a local writer.
    pub fn remove_writer(&mut self, now: Instant, wall: Timestamp, writer: EntityId) {
        let Some(local) = self.writers.remove(&writer) else { return };
        self.known_levels.forget(writer);
        let guid = Guid::new(self.config.prefix, writer);
        let (topic, announced) = self.publications_for(&local.data.topic_name);
        dispose(topic, announced, now, wall, guid);
        self.leases_of(&local.data.topic_name).remove(local.data.qos.liveliness);
        self.unmatch_writer(guid, &local.data.topic_name, false);
        self.schedule_liveliness(now);
    }

    /// Removes a local reader.
    pub fn remove_reader(&mut self, now: Instant, wall: Timestamp, reader: EntityId) {
        let Some(local) = self.readers.remove(&reader) else { return };
        self.known_levels.forget(reader);
        let guid = Guid::new(self.config.prefix, reader);
        let (topic, announced) = self.subscriptions_for(&local.data.topic_name);
        dispose(topic, announced, now, wall, guid);
        for writer in local.matched.iter() {
            self.drop_route(writer, reader);
        }
        self.unmatch_reader(guid, &local.data.topic_name);
    }

    /// Asserts the liveliness of the MANUAL_BY_PARTICIPANT writers, after the application has written or asserted it.
    pub const fn assert_liveliness(&mut self) {
        self.manual_liveliness_asserted = true;
    }

    pub(super) fn handle_builtin(&mut self, rx: &Reception<'_>, envelope: &Envelope, input: &Input<'_>) {
        let from = envelope.from;
        self.record_source_address(rx.now, from.prefix, rx.source);
        if from.entity == EntityId::SPDP_WRITER {
            if let Input::Data(meta, data) = input {
                self.handle_announcement(rx, envelope, meta, data);
            }
            return;
        }
        if matches!(from.entity, EntityId::STATELESS_MESSAGE_WRITER | EntityId::SPDP_SECURE_WRITER) {
            self.note_secure_source(from.prefix, rx.source);
        }
        if from.entity == EntityId::STATELESS_MESSAGE_WRITER {
            self.handle_handshake(rx, envelope, input);
        }
        if !self.remotes.contains_key(&from.prefix) {
            // An unknown participant knows this one. Its next announcement will identify it.
            return;
        }
        if envelope.is_addressed {
            self.verify(rx.now, from.prefix);
        }
        if from.entity == EntityId::STATELESS_MESSAGE_WRITER {
            return;
        }
        if self.keys.as_deref_mut().is_some_and(|keys| keys.handle(rx, envelope, input)) {
            self.hear_of_keys(rx, from.prefix);
            return;
        }
        if passes_over(input) {
            self.handle_passing_over(rx, envelope, input);
        } else if !self.builtin.handle(rx, envelope, input) {
            self.count_fault(from.prefix, Fault::NoSuchEndpoint);
        }
        self.hear_answer(rx, from, input);
        self.hear_of_relocation(rx, from, input);
        match input {
            Input::Heartbeat(heartbeat) => self.weigh_heartbeat(rx, from, heartbeat),
            Input::AckNack(acknack) => self.answer_question(rx, from, envelope.vendor, acknack),
            _ => {}
        }
    }

    /// Passes a HEARTBEAT or GAP to a built-in reader. If that reader goes on, the result is compared later.
    fn handle_passing_over(&mut self, rx: &Reception<'_>, envelope: &Envelope, input: &Input<'_>) {
        let from = envelope.from;
        let topic = self.topic_of(from.entity);
        let mut next = || self.position(topic?, from.prefix).map(|position| position.next);
        let before = next();
        if !self.builtin.handle(rx, envelope, input) {
            self.count_fault(from.prefix, Fault::NoSuchEndpoint);
        }
        let mut next = || self.position(topic?, from.prefix).map(|position| position.next);
        if let Some(topic) = topic.filter(|_| next() != before) {
            self.compare_later(rx.now, from.prefix, topic);
        }
    }

    /// Handles the samples of the built-in readers.
    pub(super) fn process_discovery(&mut self, now: Instant, wall: Timestamp) {
        // The built-in readers forget samples that are not stored here: a peer could name further instances without
        // end.
        for sample in self.builtin.publications.take(now, wall) {
            match sample.info.valid_data {
                true => self.take_publication(now, wall, &sample, false),
                false => self.take_disposal(PUBLICATIONS, &sample, false),
            }
            self.note_sample(now, PUBLICATIONS, &sample);
            let instance = sample.info.instance;
            if self.remote_publication(&Guid::from_bytes(instance.0)).is_none() {
                self.builtin.publications.reader.forget_instance(&instance);
            }
        }
        for sample in self.builtin.subscriptions.take(now, wall) {
            match sample.info.valid_data {
                true => self.take_subscription(now, wall, &sample, false),
                false => self.take_disposal(SUBSCRIPTIONS, &sample, false),
            }
            self.note_sample(now, SUBSCRIPTIONS, &sample);
            let instance = sample.info.instance;
            if self.remote_subscription(&Guid::from_bytes(instance.0)).is_none() {
                self.builtin.subscriptions.reader.forget_instance(&instance);
            }
        }
        let messages = self.builtin.messages.take(now, wall);
        self.take_messages(&messages, false);
        for sample in messages {
            self.builtin.messages.reader.forget_instance(&sample.info.instance);
        }
        if self.builtin.secure.is_some() {
            self.process_secure_discovery(now, wall);
        }
    }

    /// Removes an endpoint that its own participant has disposed. `is_secure`: by a secure endpoint of discovery.
    pub(super) fn take_disposal(&mut self, topic: usize, sample: &Selected, is_secure: bool) {
        if sample.info.sequence_number == SequenceNumber::UNKNOWN {
            // Not a sample: the reader has lost the writer.
            return;
        }
        let guid = Guid::from_bytes(sample.info.instance.0);
        let sender = sample.info.writer.prefix;
        if guid.prefix != sender {
            self.count_fault(sender, Fault::Forged);
        } else if self.remotes.get(&sender).is_some_and(|remote| !remote.may_announce(guid.entity, is_secure)) {
            self.count_unauthenticated(sender);
        } else {
            self.remove_known(guid, topic);
        }
    }

    pub(super) fn remove_remote_endpoint(&mut self, _now: Instant, _wall: Timestamp, guid: Guid) {
        let Some(remote) = self.remotes.get_mut(&guid.prefix) else { return };
        let publication = remote.publications.remove(&mut self.writers_by_topic, guid.entity);
        let subscription = remote.subscriptions.remove(&mut self.readers_by_topic, guid.entity);
        remote.free_room(&mut self.discovery_memory, guid.entity);
        if let Some(data) = publication {
            self.events.push_back(ParticipantEvent::PublicationLost(guid));
            self.unmatch_writer(guid, &data.topic_name, false);
            self.lose_keys_of(guid);
        }
        if let Some(data) = subscription {
            self.events.push_back(ParticipantEvent::SubscriptionLost(guid));
            self.unmatch_reader(guid, &data.topic_name);
            self.lose_keys_of(guid);
        }
    }

    /// Matches the endpoints of a participant again after a change of its addresses.
    pub(super) fn rematch_participant(&mut self, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get(&prefix) else { return };
        let writers: Vec<Guid> = remote.publications.values().map(|data| data.guid).collect();
        let readers: Vec<Guid> = remote.subscriptions.values().map(|data| data.guid).collect();
        writers.into_iter().for_each(|writer| self.match_remote_writer(writer));
        readers.into_iter().for_each(|reader| self.match_remote_reader(reader));
    }

    /// Asserts the liveliness of the writers whose liveliness the participant maintains.
    pub(super) fn show_liveliness(&mut self, now: Instant, wall: Timestamp) {
        let kinds = [
            (LivelinessKind::Automatic, ParticipantMessageKind::AUTOMATIC, true),
            (
                LivelinessKind::ManualByParticipant,
                ParticipantMessageKind::MANUAL_BY_PARTICIPANT,
                core::mem::take(&mut self.manual_liveliness_asserted),
            ),
        ];
        for (kind, message_kind, _) in kinds.into_iter().filter(|(_, _, is_alive)| *is_alive) {
            let message = ParticipantMessageData { prefix: self.config.prefix, kind: message_kind, data: Vec::new() };
            let mut payload = Vec::new();
            message.emit(&mut payload);
            let change = Change {
                kind: ChangeKind::Alive,
                instance: message.key_hash(),
                source_timestamp: wall,
                payload: Payload::copy_of(&payload),
            };
            // A KEEP_LAST writer without limits never refuses a write.
            if let Some(secure) = self.builtin.secure.as_deref_mut()
                && self.secure_leases.shortest(kind).is_some()
            {
                secure.messages.write_at_once(now, change.clone());
            }
            if self.leases.shortest(kind).is_some() {
                self.builtin.messages.write_at_once(now, change);
            }
        }
        self.next_liveliness = None;
        self.schedule_liveliness(now);
    }

    fn schedule_liveliness(&mut self, now: Instant) {
        let kinds = [LivelinessKind::Automatic, LivelinessKind::ManualByParticipant];
        let all = [&self.leases, &self.secure_leases];
        let shortest = kinds.into_iter().flat_map(|kind| all.map(|leases| leases.shortest(kind))).flatten().min();
        // Three times per lease, to tolerate one lost message and one late timer.
        let next = shortest.map(|lease| now + lease.divided_by(3));
        self.next_liveliness = match (self.next_liveliness, next) {
            (Some(old), Some(new)) => Some(old.min(new)),
            (_, new) => new,
        };
    }

    /// Renews the liveliness of the writers that participant messages assert, each writer once however many of the
    /// messages assert it. `is_secure`: of those whose liveliness is protected.
    pub(super) fn take_messages(&mut self, samples: &[Selected], is_secure: bool) {
        let asserted: BTreeSet<(GuidPrefix, LivelinessKind)> =
            samples.iter().filter(|sample| sample.info.valid_data).filter_map(|s| self.take_message(s)).collect();
        for (prefix, kind) in asserted {
            self.assert_liveliness_of(prefix, kind, is_secure);
        }
    }

    /// The participant whose writers a message asserts, and of which kind.
    fn take_message(&mut self, sample: &Selected) -> Option<(GuidPrefix, LivelinessKind)> {
        let prefix = sample.info.writer.prefix;
        let Ok(message) = ParticipantMessageData::parse(&sample.payload) else {
            self.count_fault(prefix, Fault::DiscoveryMalformed);
            return None;
        };
        if message.prefix != prefix {
            self.count_fault(prefix, Fault::Forged);
            return None;
        }
        match message.kind {
            ParticipantMessageKind::AUTOMATIC => Some((prefix, LivelinessKind::Automatic)),
            ParticipantMessageKind::MANUAL_BY_PARTICIPANT => Some((prefix, LivelinessKind::ManualByParticipant)),
            _ => None,
        }
    }

    fn assert_liveliness_of(&mut self, prefix: GuidPrefix, kind: LivelinessKind, is_secure: bool) {
        let Some(remote) = self.remotes.get(&prefix) else { return };
        for data in remote.publications.values().filter(|data| data.qos.liveliness.kind == kind) {
            let is_protected = self.rules_of(&data.topic_name).is_some_and(|rules| rules.is_liveliness_protected);
            if data.qos.liveliness.lease_duration.is_infinite() || is_protected != is_secure {
                continue;
            }
            let writer = data.guid;
            for reader in self.routes.get(&writer).map_or(&[][..], Vec::as_slice) {
                self.events.push_back(ParticipantEvent::WriterAlive { reader: *reader, writer });
            }
        }
    }

    pub(super) fn take_publication(&mut self, now: Instant, wall: Timestamp, sample: &Selected, is_secure: bool) {
        let parsed = self.take_endpoint(
            now,
            wall,
            sample,
            PublicationData::parse,
            |data| (data.guid, &data.topic_name),
            is_secure,
        );
        let Some(data) = parsed else { return };
        let guid = data.guid;
        let is_newly_secure = self.note_announced(guid, is_secure);
        if self.remote_publication(&guid) == Some(&data) && !is_newly_secure {
            return;
        }
        self.store_publication(data);
        self.events.push_back(ParticipantEvent::PublicationFound(guid));
        self.match_remote_writer(guid);
    }

    pub(super) fn take_subscription(&mut self, now: Instant, wall: Timestamp, sample: &Selected, is_secure: bool) {
        let parsed = self.take_endpoint(
            now,
            wall,
            sample,
            SubscriptionData::parse,
            |data| (data.guid, &data.topic_name),
            is_secure,
        );
        let Some(data) = parsed else { return };
        let guid = data.guid;
        let is_newly_secure = self.note_announced(guid, is_secure);
        if self.remote_subscription(&guid) == Some(&data) && !is_newly_secure {
            return;
        }
        self.store_subscription(data);
        self.events.push_back(ParticipantEvent::SubscriptionFound(guid));
        self.match_remote_reader(guid);
    }

    /// Notes how an endpoint was announced. Returns whether that was without protection before.
    fn note_announced(&mut self, guid: Guid, is_secure: bool) -> bool {
        self.remotes.get_mut(&guid.prefix).is_some_and(|remote| remote.note_announced(guid.entity, is_secure))
    }

    /// Parses the announcement of an endpoint by its own participant, and reserves room for it.
    fn take_endpoint<D>(
        &mut self,
        now: Instant,
        wall: Timestamp,
        sample: &Selected,
        parse: impl FnOnce(&[u8], VendorId) -> Result<D, DiscoveryDataError>,
        name: impl for<'d> FnOnce(&'d D) -> (Guid, &'d str),
        is_secure: bool,
    ) -> Option<D> {
        let sender = sample.info.writer.prefix;
        let remote = self.remotes.get_mut(&sender)?;
        let Ok(data) = parse(&sample.payload, remote.data.vendor) else {
            *remote.drops.get_or_default().of(Fault::DiscoveryMalformed) += 1;
            return None;
        };
        let (guid, topic) = name(&data);
        if guid.prefix != sender {
            *remote.drops.get_or_default().of(Fault::Forged) += 1;
            return None;
        }
        if !remote.may_announce(guid.entity, is_secure) {
            *remote.drops.get_or_default().of(Fault::Unauthenticated) += 1;
            return None;
        }
        if self.ignored.contains(&guid) || self.ignored_topics.contains(topic) {
            // The endpoint may be known under another topic.
            self.remove_remote_endpoint(now, wall, guid);
            return None;
        }
        if !remote.take_room(&mut self.discovery_memory, guid.entity, sample.payload.len()) {
            *remote.drops.get_or_default().of(Fault::NoRoom) += 1;
            let (writer, number) = (sample.info.writer.entity, sample.info.sequence_number);
            remote.note_refused(now, writer, number, sample.payload.len());
            self.heal_later(sender);
            return None;
        }
        Some(data)
    }

    /// Decides whether a writer and a reader match, at least one of which is local, and reports changes.
    /// Returns whether they match now, or as soon as their keys are there.
    pub(super) fn consider(&mut self, writer: Guid, reader: Guid) -> bool {
        let own = self.config.prefix;
        let (Some(offered), Some(requested)) = (self.publication(&writer), self.subscription(&reader)) else {
            return false;
        };
        if offered.topic_name != requested.topic_name {
            return false;
        }
        let rules = self.rules_of(&offered.topic_name);
        let verdict = self
            .check_local(offered, requested)
            .and_then(|()| check_compatibility(offered, requested))
            .and_then(|()| self.check_gate(offered, requested, rules));
        let to_reader = (writer.prefix == own).then(|| self.matched_reader(requested));
        let to_writer = (reader.prefix == own).then(|| self.matched_writer(offered));
        let verdict = match verdict {
            Ok(()) => self.find_way(offered, requested, to_reader.as_ref(), to_writer.as_ref()),
            refused => refused,
        };
        if let Err(NonMatch::Unreachable { .. }) = verdict {
            self.unreached.insert(if writer.prefix == own { reader.prefix } else { writer.prefix });
            if self.is_matched(writer, reader) {
                // The match and its current path stay.
                return true;
            }
        }
        match verdict.and_then(|()| self.want_keys(writer, reader, rules)) {
            // When the keys come, the caller makes this participant consider the pair again.
            Ok(false) => true,
            Ok(true) if !self.reserve_match(writer, reader) => false,
            Ok(true) => {
                self.note_proved(if writer.prefix == own { reader.prefix } else { writer.prefix });
                if let (Some(local), Some(matched)) = (self.writers.get_mut(&writer.entity), to_reader) {
                    local.matched.insert(reader);
                    local.refused.remove(&reader);
                    local.waiting.remove(&reader);
                    let event = ParticipantEvent::ReaderMatched { writer: writer.entity, reader: matched };
                    self.events.push_back(event);
                }
                if let (Some(local), Some(matched)) = (self.readers.get_mut(&reader.entity), to_writer) {
                    local.refused.remove(&writer);
                    local.waiting.remove(&writer);
                    if local.matched.insert(writer) {
                        self.routes.entry(writer).or_default().push(reader.entity);
                    }
                    let event = ParticipantEvent::WriterMatched { reader: reader.entity, writer: matched };
                    self.events.push_back(event);
                }
                true
            }
            Err(reason) => {
                let was_matched = self.is_matched(writer, reader);
                self.refuse(writer, reader, &reason);
                if was_matched {
                    self.fill_places(writer, reader);
                }
                false
            }
        }
    }

    /// Refuses endpoints of the same participant or process that one of both ignores.
    fn check_local(&self, offered: &PublicationData, requested: &SubscriptionData) -> Result<(), NonMatch> {
        let (writer, reader) = (offered.guid.prefix, requested.guid.prefix);
        let (offered, requested) = (offered.ignore_local, requested.ignore_local);
        let is_ignored = match offered.max(requested) {
            IgnoreLocal::None => false,
            IgnoreLocal::Participant => writer == reader,
            IgnoreLocal::Process => {
                let own = self.config.prefix;
                let other = if writer == own { reader } else { writer };
                other == own || (self.config.is_in_process)(&other)
            }
        };
        if is_ignored { Err(NonMatch::IgnoreLocal { offered, requested }) } else { Ok(()) }
    }

    /// Whether what has to travel between them can: samples to a remote reader, acknowledgements to a remote writer.
    fn find_way(
        &self,
        offered: &PublicationData,
        requested: &SubscriptionData,
        to_reader: Option<&MatchedReader>,
        to_writer: Option<&MatchedWriter>,
    ) -> Result<(), NonMatch> {
        let own = self.config.prefix;
        let acknowledges = requested.qos.reliability.kind == ReliabilityKind::Reliable;
        let (prefix, named) = match (to_reader, to_writer) {
            (Some(to), _) if requested.guid.prefix != own && to.to.is_empty() && to.group.is_none() => {
                (requested.guid.prefix, &requested.unicast)
            }
            (_, Some(to)) if offered.guid.prefix != own && to.to.is_empty() && acknowledges => {
                (offered.guid.prefix, &offered.unicast)
            }
            _ => return Ok(()),
        };
        let of_participant = self.remotes.get(&prefix).map_or(&[][..], |r| &r.data.default_unicast);
        let named = if named.is_empty() { of_participant } else { named };
        Err(NonMatch::Unreachable { named: named.to_vec() })
    }

    pub(super) fn is_matched(&self, writer: Guid, reader: Guid) -> bool {
        let own = self.config.prefix;
        let at_writer = self.writers.get(&writer.entity).filter(|_| writer.prefix == own);
        let at_reader = self.readers.get(&reader.entity).filter(|_| reader.prefix == own);
        at_writer.is_some_and(|w| w.matched.contains(&reader)) || at_reader.is_some_and(|r| r.matched.contains(&writer))
    }

    pub(super) fn refuse(&mut self, writer: Guid, reader: Guid, reason: &NonMatch) {
        let own = self.config.prefix;
        let hasher = foldhash::quality::FixedState::with_seed(self.config.seed);
        let reason_hash = ReasonHash(hasher.hash_one(reason));
        if let Some(local) = self.writers.get_mut(&writer.entity).filter(|_| writer.prefix == own) {
            if local.matched.remove(&reader) {
                self.events.push_back(ParticipantEvent::ReaderUnmatched { writer: writer.entity, reader });
            }
            local.waiting.remove(&reader);
            if local.refused.insert(reader, reason_hash) != Some(reason_hash) {
                let (local, remote) = (writer.entity, reader);
                self.events.push_back(ParticipantEvent::NotMatched { local, remote, reason: reason.clone() });
            }
        }
        if let Some(local) = self.readers.get_mut(&reader.entity).filter(|_| reader.prefix == own) {
            let was_matched = local.matched.remove(&writer);
            if was_matched {
                // An endpoint that gives way to another one may get its place again. A false statement is taken back.
                let may_return = matches!(reason, NonMatch::TooManyMatches { .. }) || reason.is_of_lasting_property();
                let reader = reader.entity;
                self.events.push_back(ParticipantEvent::WriterUnmatched { reader, writer, may_return });
            }
            local.waiting.remove(&writer);
            if local.refused.insert(writer, reason_hash) != Some(reason_hash) {
                let (local, remote) = (reader.entity, writer);
                self.events.push_back(ParticipantEvent::NotMatched { local, remote, reason: reason.clone() });
            }
            if was_matched {
                self.drop_route(&writer, reader.entity);
            }
        }
        self.suspend_keys(writer, reader);
    }

    pub(super) fn drop_route(&mut self, writer: &Guid, reader: EntityId) {
        if let Some(routes) = self.routes.get_mut(writer) {
            routes.retain(|r| *r != reader);
            if routes.is_empty() {
                self.remove_route(writer);
            }
        }
    }

    /// A participant without a matched writer keeps no memory for copies of samples.
    pub(super) fn remove_route(&mut self, writer: &Guid) {
        self.routes.remove(writer);
        if self.routes.is_empty() {
            self.copies.get_mut().clear();
        }
    }

    pub(super) fn publication(&self, guid: &Guid) -> Option<&PublicationData> {
        if guid.prefix == self.config.prefix {
            return self.writers.get(&guid.entity).map(|w| &w.data);
        }
        self.remote_publication(guid)
    }

    pub(super) fn subscription(&self, guid: &Guid) -> Option<&SubscriptionData> {
        if guid.prefix == self.config.prefix {
            return self.readers.get(&guid.entity).map(|r| &r.data);
        }
        self.remote_subscription(guid)
    }

    fn matched_reader(&self, data: &SubscriptionData) -> MatchedReader {
        let (path, vendor) = self.path_to(data.guid.prefix, &data.unicast);
        // Datagrams, including those to a group, do not arrive at a peer that is reached by a connection.
        let is_by_stream = path.to.iter().any(|locator| self.config.addresses.paths.is_stream(locator));
        let group = if is_by_stream { None } else { self.group_of(data) };
        let max_message_bytes = match group {
            None => path.max_message_bytes,
            Some(_) => path.max_message_bytes.min(self.config.addresses.paths.multicast_message_bytes()),
        };
        MatchedReader {
            address_budget: self
                .address_budget_of(data.guid.prefix, if path.to.is_empty() { group.as_slice() } else { &path.to }),
            guid: data.guid,
            reliable: data.qos.reliability.kind == ReliabilityKind::Reliable,
            wants_history: data.qos.durability >= Durability::TransientLocal,
            to: path.to,
            group,
            max_message_bytes,
            expects_inline_qos: data.expects_inline_qos,
            positive_acks_disabled: data.positive_acks_disabled,
            vendor,
            filter: None,
            owed_answers: self.owed_answers_of(data.guid.prefix),
        }
    }

    fn matched_writer(&self, data: &PublicationData) -> MatchedWriter {
        let (path, vendor) = self.path_to(data.guid.prefix, &data.unicast);
        MatchedWriter {
            address_budget: self.address_budget_of(data.guid.prefix, &path.to),
            guid: data.guid,
            reliable: data.qos.reliability.kind == ReliabilityKind::Reliable,
            has_history: data.qos.durability >= Durability::TransientLocal,
            strength: data.qos.ownership_strength.0,
            lifespan: data.qos.lifespan.duration,
            liveliness_lease: data.qos.liveliness.lease_duration,
            to: path.to,
            max_message_bytes: path.max_message_bytes,
            vendor,
            memory: self.memory_of(data.guid.prefix),
        }
    }

    /// The answers that the readers of a remote participant owe. Readers of the local participant share nothing.
    fn owed_answers_of(&self, prefix: GuidPrefix) -> Arc<OwedAnswers> {
        self.remotes.get(&prefix).map_or_else(Arc::default, |r| Arc::clone(&r.owed_answers))
    }

    /// The budget of a remote endpoint that is reached at these addresses. Local endpoints share nothing.
    fn address_budget_of(&self, prefix: GuidPrefix, to: &[Locator]) -> Arc<AddressBudget> {
        match prefix == self.config.prefix {
            true => Arc::default(),
            false => self.address_budgets.borrow_mut().of(to),
        }
    }

    /// The account of memory for a remote participant. The account of the local participant is unbounded.
    fn memory_of(&self, prefix: GuidPrefix) -> Arc<MemoryAccount> {
        self.remotes.get(&prefix).map_or_else(Arc::default, |r| Arc::clone(&r.memory))
    }

    /// The group of a reader: its own, or, if the reader announces no address, that of its participant.
    fn group_of(&self, data: &SubscriptionData) -> Option<Locator> {
        let paths = &self.config.addresses.paths;
        if !(data.unicast.is_empty() && data.multicast.is_empty()) {
            return paths.choose_group(&data.multicast);
        }
        let remote = self.remotes.get(&data.guid.prefix);
        paths.choose_group(remote.map_or(&self.config.addresses.default_multicast, |r| &r.data.default_multicast))
    }

    /// The path to an endpoint: to its own addresses, or else to those of its participant. Of a remote participant,
    /// only verified addresses.
    fn path_to(&self, prefix: GuidPrefix, unicast: &[Locator]) -> (Path, VendorId) {
        let Addresses { paths, default_unicast, .. } = &self.config.addresses;
        let Some(remote) = self.remotes.get(&prefix) else {
            let own = paths.choose(unicast);
            let path = if own.to.is_empty() { paths.choose(default_unicast) } else { own };
            return (path, VendorId::PEREGRINE);
        };
        (remote.shared_way_to(paths, unicast), remote.data.vendor)
    }
}

fn announce(
    topic: &mut Topic,
    announced: Option<&mut Digests>,
    now: Instant,
    wall: Timestamp,
    guid: Guid,
    payload: Vec<u8>,
) {
    if let Some(announced) = announced {
        announced.insert(guid.entity, &payload);
    }
    let change = Change {
        kind: ChangeKind::Alive,
        instance: KeyHash(guid.to_bytes()),
        source_timestamp: wall,
        payload: Payload::copy_of(&payload),
    };
    topic.write(now, change);
}

fn dispose(topic: &mut Topic, announced: Option<&mut Digests>, now: Instant, wall: Timestamp, guid: Guid) {
    if let Some(announced) = announced {
        announced.remove(guid.entity);
    }
    let mut payload = Vec::new();
    emit_endpoint_key(guid, &mut payload);
    let change = Change {
        kind: ChangeKind::DisposedUnregistered,
        instance: KeyHash(guid.to_bytes()),
        source_timestamp: wall,
        payload: Payload::copy_of(&payload),
    };
    topic.write(now, change);
}
