//! Comparing the endpoints known of a participant with what the participant says about all of them (see
//! `inventory.rs`), and putting right what differs.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::discovery::data::EndpointSummary;
use crate::history::Selected;
use crate::id::{EntityId, Guid, GuidPrefix, KeyHash};
use crate::limits::{CONTRADICTION_INTERVAL, HEALING_INTERVAL, REFUTATION_MAX, REFUTATION_MIN, SUMMARY_INTERVAL};
use crate::reader::Reception;
use crate::receiver::Input;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Timestamp};
use crate::vendor::{Quirks, VendorId};
use crate::wire::{AckNack, Heartbeat};

use super::builtin::{Builtin, Topic};
use super::drops::Fault;
use super::inventory::{Digests, Inventory, Position, Reread, Verdict};
use super::remote::RemoteParticipant;
use super::{Participant, ParticipantEvent};

/// The places of the built-in topics.
pub(super) const PUBLICATIONS: usize = 0;
pub(super) const SUBSCRIPTIONS: usize = 1;
/// Participant messages come all the time, and a lost one is followed by the next: there is nothing to compare, but a
/// HEARTBEAT may deny the newest ones.
const MESSAGES: usize = 2;

/// Header and ACKNACK of a question for a summary.
const HEARD_QUESTION_BYTES: usize = 20 + 32;

impl Participant {
    /// The writers and readers of this participant in short. With security there is none: announcements cannot
    /// be forged.
    pub(super) fn summaries(&self) -> Option<[EndpointSummary; 2]> {
        let Self { builtin: Builtin { publications, subscriptions, .. }, announced: [writers, readers], .. } = self;
        let summary =
            |topic: &Topic, announced: &Digests| EndpointSummary { last: topic.writer.last(), digest: announced.sum() };
        let summaries = [summary(publications, writers), summary(subscriptions, readers)];
        self.config.protection.is_none().then_some(summaries)
    }

    /// A sample of discovery has been taken.
    pub(super) fn note_sample(&mut self, now: Instant, topic: usize, sample: &Selected) {
        let (guid, prefix) = (Guid::from_bytes(sample.info.instance.0), sample.info.writer.prefix);
        let is_secure = self.remotes.get(&prefix).is_some_and(|remote| !remote.may_announce(guid.entity, false));
        if guid.prefix != prefix || sample.info.sequence_number == SequenceNumber::UNKNOWN || is_secure {
            return;
        }
        self.with_inventory(prefix, topic, |inventory| match sample.info.valid_data {
            true => inventory.announce(guid.entity, sample.info.sequence_number, &sample.payload),
            false => inventory.dispose(guid.entity),
        });
        self.compare_later(now, prefix, topic);
    }

    /// How far the built-in reader of a topic has come.
    pub(super) fn position(&mut self, topic: usize, prefix: GuidPrefix) -> Option<Position> {
        let topic = self.builtin.topics().into_iter().nth(topic)?;
        let writer = Guid::new(prefix, topic.writer.guid().entity);
        let (next, received) = (topic.reader.next_number(writer)?, topic.reader.newest_received(writer)?);
        let round_trip = topic.writer.round_trip_to(Guid::new(prefix, topic.reader.guid().entity));
        let patience = CONTRADICTION_INTERVAL + round_trip.patience(0, REFUTATION_MIN, REFUTATION_MAX);
        Some(Position { next, received, patience })
    }

    /// The built-in topic of this writer or reader.
    pub(super) fn topic_of(&mut self, entity: EntityId) -> Option<usize> {
        let is_of = |guid: Guid| guid.entity == entity;
        self.builtin.topics().iter().position(|t| is_of(t.writer.guid()) || is_of(t.reader.guid()))
    }

    /// Compares soon: the reader of this topic has gone on, or may have missed something.
    pub(super) fn compare_later(&mut self, now: Instant, prefix: GuidPrefix, topic: usize) {
        if topic != MESSAGES && self.remotes.get(&prefix).is_some_and(|remote| remote.answers()) {
            self.with_inventory(prefix, topic, |inventory| inventory.ask(now));
            self.heal_later(prefix);
        }
    }

    /// Compares all endpoints of a participant soon.
    pub(super) fn compare_all_later(&mut self, now: Instant, prefix: GuidPrefix) {
        [PUBLICATIONS, SUBSCRIPTIONS].into_iter().for_each(|topic| self.compare_later(now, prefix, topic));
    }

    /// A HEARTBEAT of a built-in writer may deny that samples were written.
    pub(super) fn weigh_heartbeat(&mut self, rx: &Reception<'_>, from: Guid, heartbeat: &Heartbeat) {
        let Some(topic) = self.topic_of(from.entity) else { return };
        // The answer to a question is compared with all that came before it.
        self.process_discovery(rx.now, rx.wall);
        let Some(position) = self.position(topic, from.prefix) else { return };
        let Some(remote) = self.remotes.get(&from.prefix).filter(|remote| remote.answers()) else { return };
        let (statement, is_summarized) = ((heartbeat.count, heartbeat.last), remote.is_summarized);
        let verdict = self.with_inventory(from.prefix, topic, |inventory| {
            inventory.hear_heartbeat(rx.now, statement, position, is_summarized)
        });
        self.carry_out(topic, from.prefix, verdict.unwrap_or(Verdict::Nothing));
        self.heal_later(from.prefix);
    }

    /// A participant has summarized its endpoints, or has announced itself without a summary.
    pub(super) fn weigh_summaries(
        &mut self,
        rx: &Reception<'_>,
        prefix: GuidPrefix,
        stated: Option<[EndpointSummary; 2]>,
    ) {
        // With security, announcements of participants are the only messages that can be forged.
        let stated = stated.filter(|_| self.config.protection.is_none());
        self.process_discovery(rx.now, rx.wall);
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        // An announcement without a summary is forged if others have one. It does not make HEARTBEATs confirm what was
        // received, which are easier to forge.
        let always_summarizes = remote.is_summarized && remote.data.vendor == VendorId::PEREGRINE;
        remote.is_summarized = stated.is_some() || always_summarizes;
        let questions = remote.inventories.iter_mut().filter(|_| stated.is_none());
        questions.for_each(|inventory| inventory.hear_announcement(rx.now));
        for (topic, stated) in stated.into_iter().flatten().enumerate() {
            let Some(position) = self.position(topic, prefix) else { continue };
            let verdict =
                self.with_inventory(prefix, topic, |inventory| inventory.hear_summary(rx.now, stated, position));
            self.carry_out(topic, prefix, verdict.unwrap_or(Verdict::Nothing));
        }
        self.heal_later(prefix);
    }

    fn carry_out(&mut self, topic: usize, prefix: GuidPrefix, verdict: Verdict) {
        match verdict {
            Verdict::Nothing => {}
            Verdict::Reread(Reread { numbers, last }) => {
                self.healed.rereads += 1;
                if let Some(topic) = self.builtin.topics().into_iter().nth(topic) {
                    let writer = Guid::new(prefix, topic.writer.guid().entity);
                    topic.reader.receive_again(writer, &numbers, last);
                    topic.reader.ask_for_heartbeat(writer);
                }
            }
            Verdict::Agreed(gone) => {
                if let Some(topic) = self.builtin.topics().into_iter().nth(topic) {
                    topic.reader.confirm_received(Guid::new(prefix, topic.writer.guid().entity));
                }
                // Endpoints that were announced securely meanwhile are not the subject of this topic any more.
                let remote = self.remotes.get(&prefix);
                let is_plain = |e: &EntityId| remote.is_some_and(|remote| remote.may_announce(*e, false));
                for endpoint in gone.into_iter().filter(is_plain).collect::<Vec<_>>() {
                    self.healed.endpoints_removed += u64::from(self.remove_known(Guid::new(prefix, endpoint), topic));
                }
            }
        }
    }

    /// Removes an endpoint that its participant has announced in this topic. Readers keep their place, in case that it
    /// returns. Returns whether it was known.
    pub(super) fn remove_known(&mut self, guid: Guid, topic: usize) -> bool {
        let Some(remote) = self.remotes.get_mut(&guid.prefix) else { return false };
        let may_return = remote.answers();
        if topic == PUBLICATIONS {
            let Some(data) = remote.publications.remove(&mut self.writers_by_topic, guid.entity) else { return false };
            remote.free_room(&mut self.discovery_memory, guid.entity);
            self.events.push_back(ParticipantEvent::PublicationLost(guid));
            self.unmatch_writer(guid, &data.topic_name, may_return);
            self.lose_keys_of(guid);
        } else {
            let Some(data) = remote.subscriptions.remove(&mut self.readers_by_topic, guid.entity) else { return false };
            remote.free_room(&mut self.discovery_memory, guid.entity);
            self.events.push_back(ParticipantEvent::SubscriptionLost(guid));
            self.unmatch_reader(guid, &data.topic_name);
            self.lose_keys_of(guid);
        }
        if let Some(topic) = self.builtin.topics().into_iter().nth(topic) {
            topic.reader.forget_instance(&KeyHash(guid.to_bytes()));
        }
        true
    }

    /// A participant that has all announcements asks for a summary of them.
    pub(super) fn answer_question(&mut self, rx: &Reception<'_>, from: Guid, vendor: VendorId, acknack: &AckNack) {
        let is_question =
            !acknack.is_final && acknack.state.is_empty() && acknack.state.base() == SequenceNumber::FIRST;
        if !is_question || vendor != VendorId::PEREGRINE || self.config.protection.is_some() {
            return;
        }
        let Some(topic) = self.topic_of(from.entity).filter(|topic| *topic != MESSAGES) else { return };
        let [publications, subscriptions, _] = self.builtin.topics();
        let writer = if topic == PUBLICATIONS { &publications.writer } else { &subscriptions.writer };
        let has_all = writer.is_acknowledged_by(from, writer.last());
        let Some(remote) = self.remotes.get_mut(&from.prefix) else { return };
        let is_due = remote.summarized_at.is_none_or(|at| rx.now.since(at) >= SUMMARY_INTERVAL);
        if !(has_all && is_due && remote.is_trusted()) {
            return;
        }
        remote.summarized_at = Some(rx.now);
        let (to, origin) = (Arc::clone(&remote.metatraffic), remote.origin);
        let message = self.announcement(rx.wall, None);
        self.answers.pay(rx.now, origin, HEARD_QUESTION_BYTES);
        if self.answers.spend(rx.now, origin, message.len()) {
            self.say(&message, to);
        } else {
            self.count_fault(from.prefix, Fault::HeldBack);
        }
    }

    /// Applies `f` to the inventory of a topic.
    fn with_inventory<T>(
        &mut self,
        prefix: GuidPrefix,
        topic: usize,
        f: impl FnOnce(&mut Inventory) -> T,
    ) -> Option<T> {
        let remote = self.remotes.get_mut(&prefix)?;
        let before = remote.held_bytes();
        let result = f(remote.inventories.get_mut(topic)?);
        self.discovery_memory.change(remote.origin, before, remote.held_bytes());
        Some(result)
    }

    /// Handles the timers of inventories, doubts, new terms, answers and refused endpoints.
    pub(super) fn heal(&mut self, now: Instant, wall: Timestamp) {
        if self.next_healing.is_none_or(|at| at > now) {
            return;
        }
        self.heals_from = now + HEALING_INTERVAL;
        for prefix in self.healing.iter().copied().collect::<Vec<_>>() {
            self.pursue_doubt(now, prefix);
            self.pursue_new_terms(now, prefix);
            self.pursue_process_end(now, prefix);
            self.repeat_answer(now, wall, prefix);
            self.pursue_relocation(now, wall, prefix);
            self.retry_refused(now, prefix);
            let Some(remote) = self.remotes.get_mut(&prefix) else { continue };
            // One question is enough for a summary of all endpoints. A denial takes a HEARTBEAT of that writer, and a
            // participant answers with a summary only if all samples of the topic in question are acknowledged.
            let mut has_asked = false;
            for (inventory, topic) in remote.inventories.iter_mut().zip(self.builtin.topics()) {
                let is_due = inventory.handle_timeout(now);
                if is_due && !(has_asked && remote.is_summarized && !inventory.is_contradicted()) {
                    topic.reader.ask_for_heartbeat(Guid::new(prefix, topic.writer.guid().entity));
                    has_asked = true;
                }
            }
        }
        let Self { healing, remotes, .. } = self;
        healing.retain(|prefix| remotes.get(prefix).is_some_and(|remote| remote.heals_at().is_some()));
        let next = healing.iter().filter_map(|prefix| remotes.get(prefix)?.heals_at()).min();
        self.next_healing = next.map(|at| at.max(self.heals_from));
    }

    /// The timers of a participant have changed: sees to it that they are handled.
    pub(super) fn heal_later(&mut self, prefix: GuidPrefix) {
        let Some(at) = self.remotes.get(&prefix).and_then(|remote| remote.heals_at()) else { return };
        self.healing.insert(prefix);
        let at = at.max(self.heals_from);
        self.next_healing = Some(self.next_healing.map_or(at, |next| next.min(at)));
    }
}

/// Whether an input may make a built-in reader pass over samples.
pub(super) const fn passes_over(input: &Input<'_>) -> bool {
    matches!(input, Input::Gap(_) | Input::Heartbeat(_))
}

impl RemoteParticipant {
    /// Whether it answers a question by a HEARTBEAT whose last number is the last sample that it has written.
    pub(super) fn answers(&self) -> bool {
        Quirks::of(self.data.vendor).heartbeat_names_last_written
    }

    /// The bytes that its inventories count for.
    pub(super) fn inventory_bytes(&self) -> usize {
        self.inventories.iter().map(Inventory::bytes).fold(0, usize::saturating_add)
    }

    fn heals_at(&self) -> Option<Instant> {
        let doubts = [self.doubt_due(), self.new_terms_due(), self.process_end_due()];
        let refused = self.refused.as_ref().and_then(|refused| refused.look_at);
        let others = [self.answer_repetitions.next(), self.relocation.next(), refused];
        let others = doubts.into_iter().chain(others).flatten();
        self.inventories.iter().filter_map(Inventory::poll_timeout).chain(others).min()
    }
}
