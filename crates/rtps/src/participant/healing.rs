//! Taking back what forged discovery samples did (see `journal.rs`).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use crate::history::Selected;
use crate::id::{EntityId, Guid, GuidPrefix, KeyHash};
use crate::limits::HEALING_INTERVAL;
use crate::reader::{Reception, SampleMeta};
use crate::receiver::Input;
use crate::seq::SequenceNumber;
use crate::time::Instant;
use crate::vendor::Quirks;
use crate::wire::{Gap, Heartbeat};

use super::drops::Fault;
use super::journal::{Change, Entry, Journal, Known, KnownEndpoint, TakenBack, Trace, Verdict};
use super::remote::RemoteParticipant;
use super::{Participant, ParticipantEvent};

/// The places of the built-in topics.
pub(super) const PUBLICATIONS: usize = 0;
pub(super) const SUBSCRIPTIONS: usize = 1;
/// Participant messages come all the time, and a lost one is followed by the next, so that their writer is asked only
/// when it contradicts itself.
pub(super) const MESSAGES: usize = 2;

impl Participant {
    /// Takes back the change of another sample with the same number: the writer has repeated this one.
    pub(super) fn take_back_other(&mut self, topic: usize, sample: &Selected) {
        let prefix = sample.info.writer.prefix;
        let hash = self.hash_of_taken(sample);
        let number = sample.info.sequence_number;
        let other = self.with_journal(prefix, topic, |journal| journal.take_other(number, hash)).flatten();
        if let Some((entity, before)) = other {
            self.restore(Guid::new(prefix, entity), topic, before);
        }
    }

    /// A sample has been taken, and has changed this. Its writer is asked soon whether it has written the sample.
    pub(super) fn note_sample(&mut self, now: Instant, topic: usize, sample: &Selected, change: Change) {
        let (writer, number) = (sample.info.writer, sample.info.sequence_number);
        if number == SequenceNumber::UNKNOWN || !self.has_journals(writer.prefix) {
            return;
        }
        let hash = self.hash_of_taken(sample);
        let endpoint = Guid::from_bytes(sample.info.instance.0).entity;
        let Some(next) = self.next_number(topic, writer) else { return };
        let asks = topic != MESSAGES;
        let is_change = !change.is_nothing();
        self.with_journal(writer.prefix, topic, |journal| {
            journal.note(now, number, next, asks);
            if is_change {
                journal.verify(now, number);
            }
        });
        if asks {
            let entry = Entry { number, endpoint, change, hash, length: sample.payload.len() };
            self.record(writer.prefix, topic, entry);
        }
        self.heal_later(writer.prefix);
    }

    /// Records a change, as far as there is room for the data that it has replaced.
    fn record(&mut self, prefix: GuidPrefix, topic: usize, entry: Entry) {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        let before = remote.held_bytes();
        let Some(journal) = remote.journals.get_mut(topic) else { return };
        let mut without_room = journal.record(entry);
        while !self.discovery_memory.admits(before, remote.held_bytes()) {
            if !remote.journals.get_mut(topic).is_some_and(Journal::finalize_oldest) {
                self.discovery_memory.change(before, remote.held_bytes());
                break;
            }
            without_room += 1;
        }
        self.healed.samples_final_early += without_room as u64;
    }

    /// Handles a sample that contradicts an earlier one: two samples have one number. Says whether the sample is not to
    /// be received: the writer will show which of the two is true.
    pub(super) fn contradicts(&mut self, rx: &Reception<'_>, from: Guid, input: &Input<'_>) -> bool {
        let (number, prefix) = match input {
            Input::Data(_, data) => (data.sequence_number, from.prefix),
            Input::DataFrag(_, frag) => (frag.sequence_number, from.prefix),
            _ => return false,
        };
        let Some(topic) = self.topic_of(from.entity).filter(|topic| *topic != MESSAGES) else { return false };
        if !self.has_journals(prefix) {
            return false;
        }
        let Some(next) = self.next_number(topic, from) else { return false };
        let is_waiting = number >= next;
        let is_contradiction = if is_waiting {
            let differs = |meta: &SampleMeta, payload: &[u8]| differs(input, meta, payload);
            self.builtin.topics().get_mut(topic).is_some_and(|t| t.reader.discard_other(from, number, differs))
        } else {
            self.process_discovery(rx.now, rx.wall);
            let trace = match input {
                Input::Data(meta, data) => {
                    Trace::Whole(self.hash_of(meta.kind.is_alive(), data.payload.as_bytes(), meta.key_hash))
                }
                Input::DataFrag(_, frag) => Trace::Length(frag.sample_size as usize),
                _ => return false,
            };
            self.with_journal(prefix, topic, |journal| journal.has_other(number, trace)).unwrap_or(false)
        };
        if is_contradiction {
            self.with_journal(prefix, topic, |journal| journal.doubt(rx.now, number));
            self.heal_later(prefix);
        }
        is_contradiction && is_waiting
    }

    /// A writer says by a GAP that it does not send samples that were received: they were forged, or something has
    /// replaced them since.
    pub(super) fn weigh_gap(&mut self, rx: &Reception<'_>, from: Guid, gap: &Gap) {
        let Some(topic) = self.topic_of(from.entity).filter(|topic| *topic != MESSAGES) else { return };
        if !self.has_journals(from.prefix) {
            return;
        }
        self.process_discovery(rx.now, rx.wall);
        self.with_journal(from.prefix, topic, |journal| match journal.first_in(gap) {
            Some(number) => journal.doubt(rx.now, number),
            // The GAP may be forged while samples are received again.
            None => journal.verify(rx.now, gap.start),
        });
        self.heal_later(from.prefix);
    }

    /// The reader may have passed over samples in doubt.
    pub(super) fn handle_passed_over(&mut self, rx: &Reception<'_>, from: Guid) {
        if let Some(topic) = self.topic_of(from.entity) {
            self.process_discovery(rx.now, rx.wall);
            self.carry_out_passed_over(rx.now, topic, from);
            self.heal_later(from.prefix);
        }
    }

    /// A HEARTBEAT of a built-in writer may deny that samples were written.
    pub(super) fn weigh_heartbeat(&mut self, rx: &Reception<'_>, from: Guid, heartbeat: &Heartbeat) {
        let prefix = from.prefix;
        if !self.has_journals(prefix) {
            return;
        }
        // Samples that were received must not count as passed over, and must not be taken after they were taken back.
        self.process_discovery(rx.now, rx.wall);
        let Some(topic) = self.topic_of(from.entity) else { return };
        let reader = self.builtin.topics().get(topic).map(|topic| topic.reader.newest_received(from));
        let Some(received) = reader.flatten() else { return };
        let Some(next) = self.next_number(topic, from) else { return };
        let (count, last) = (heartbeat.count, heartbeat.last);
        let verdict = self.with_journal(prefix, topic, |journal| journal.hear(rx.now, count, last, (received, next)));
        match verdict {
            None => return,
            Some(Verdict::Nothing) => {}
            Some(Verdict::Denied(last)) => {
                self.take_back(rx.now, topic, from, last);
                if let Some(topic) = self.builtin.topics().get_mut(topic) {
                    topic.reader.handle_heartbeat(rx, from, heartbeat);
                }
            }
        }
        self.carry_out_passed_over(rx.now, topic, from);
        self.heal_later(prefix);
    }

    fn take_back(&mut self, now: Instant, topic: usize, writer: Guid, last: SequenceNumber) {
        let taken = self.with_journal(writer.prefix, topic, |journal| journal.take_back(now, last));
        let Some(TakenBack { rereads_from, changes }) = taken else { return };
        if let Some(topic) = self.builtin.topics().get_mut(topic) {
            topic.reader.go_back(writer, rereads_from);
        }
        self.healed.samples_taken_back += changes.len() as u64;
        for (entity, before) in changes {
            self.restore(Guid::new(writer.prefix, entity), topic, before);
        }
    }

    /// The writer may have passed over the numbers of samples in doubt.
    fn carry_out_passed_over(&mut self, now: Instant, topic: usize, writer: Guid) {
        let Some(next) = self.next_number(topic, writer) else { return };
        while let Some((entity, before)) =
            self.with_journal(writer.prefix, topic, |journal| journal.take_unconfirmed(now, next)).flatten()
        {
            self.healed.samples_taken_back += 1;
            self.restore(Guid::new(writer.prefix, entity), topic, before);
        }
        let passed = self.with_journal(writer.prefix, topic, |journal| journal.take_passed_over(next));
        for (number, entity) in passed.unwrap_or_default() {
            if let Some(before) = self.remove_known(Guid::new(writer.prefix, entity), topic) {
                let change = Change::Disposed(before);
                self.record(writer.prefix, topic, Entry { number, endpoint: entity, change, hash: 0, length: 0 });
            }
        }
    }

    /// Makes an endpoint known as it was, or unknown if it was.
    fn restore(&mut self, guid: Guid, topic: usize, before: Option<Box<Known>>) {
        let Some(known) = before else {
            self.remove_known(guid, topic);
            return;
        };
        let Known { endpoint, bytes } = *known;
        if self.ignores(guid, endpoint.topic_name()) {
            self.remove_known(guid, topic);
            return;
        }
        let Some(remote) = self.remotes.get_mut(&guid.prefix) else { return };
        if !remote.has_room(&mut self.discovery_memory, guid.entity, bytes) {
            self.count_fault(guid.prefix, Fault::NoRoom);
            return;
        }
        match endpoint {
            KnownEndpoint::Publication(data) => {
                self.store_publication(data);
                self.events.push_back(ParticipantEvent::PublicationFound(guid));
                self.match_remote_writer(guid);
            }
            KnownEndpoint::Subscription(data) => {
                self.store_subscription(data);
                self.events.push_back(ParticipantEvent::SubscriptionFound(guid));
                self.match_remote_reader(guid);
            }
        }
    }

    /// Removes an endpoint that its participant has announced in this topic. Readers keep their place, in case that it
    /// returns.
    pub(super) fn remove_known(&mut self, guid: Guid, topic: usize) -> Option<Box<Known>> {
        let remote = self.remotes.get_mut(&guid.prefix)?;
        let endpoint = if topic == PUBLICATIONS {
            KnownEndpoint::Publication(remote.publications.remove(&mut self.writers_by_topic, guid.entity)?)
        } else {
            KnownEndpoint::Subscription(remote.subscriptions.remove(&mut self.readers_by_topic, guid.entity)?)
        };
        let bytes = remote.kept_bytes.get(&guid.entity).copied().unwrap_or(0);
        let may_return = remote.has_journals();
        remote.free_room(&mut self.discovery_memory, guid.entity);
        if topic == PUBLICATIONS {
            self.events.push_back(ParticipantEvent::PublicationLost(guid));
            self.unmatch_writer(guid, endpoint.topic_name(), may_return);
        } else {
            self.events.push_back(ParticipantEvent::SubscriptionLost(guid));
            self.unmatch_reader(guid, endpoint.topic_name());
        }
        if let Some(topic) = self.builtin.topics().get_mut(topic) {
            topic.reader.forget_instance(&KeyHash(guid.to_bytes()));
        }
        Some(Box::new(Known { endpoint, bytes }))
    }

    /// Receives all discovery samples of a participant that are not final again.
    pub(super) fn doubt_all(&mut self, now: Instant, prefix: GuidPrefix) {
        if !self.has_journals(prefix) {
            return;
        }
        for topic in [PUBLICATIONS, SUBSCRIPTIONS, MESSAGES] {
            self.with_journal(prefix, topic, |journal| journal.doubt_all(now));
        }
        self.heal_later(prefix);
    }

    /// Handles the timers of journals and doubts.
    pub(super) fn heal(&mut self, now: Instant) {
        if self.next_healing.is_none_or(|at| at > now) {
            return;
        }
        self.heals_from = now + HEALING_INTERVAL;
        for prefix in self.healing.iter().copied().collect::<Vec<_>>() {
            self.pursue_doubt(now, prefix);
            for topic in [PUBLICATIONS, SUBSCRIPTIONS, MESSAGES] {
                let due = self.with_journal(prefix, topic, |journal| journal.handle_timeout(now)).unwrap_or_default();
                let [publications, subscriptions, messages] = self.builtin.topics();
                let endpoints = match topic {
                    PUBLICATIONS => publications,
                    SUBSCRIPTIONS => subscriptions,
                    _ => messages,
                };
                let writer = Guid::new(prefix, endpoints.writer.guid().entity);
                if let Some(from) = due.rereads_from {
                    endpoints.reader.go_back(writer, from);
                }
                if due.asks {
                    endpoints.reader.ask_for_heartbeat(writer);
                }
                self.carry_out_passed_over(now, topic, writer);
            }
        }
        let Self { healing, remotes, .. } = self;
        healing.retain(|prefix| remotes.get(prefix).is_some_and(|remote| remote.heals_at().is_some()));
        let next = healing.iter().filter_map(|prefix| remotes.get(prefix)?.heals_at()).min();
        self.next_healing = next.map(|at| at.max(self.heals_from));
    }

    /// The journals of a participant have changed: sees to it that their timers are handled.
    pub(super) fn heal_later(&mut self, prefix: GuidPrefix) {
        let Some(at) = self.remotes.get(&prefix).and_then(RemoteParticipant::heals_at) else { return };
        self.healing.insert(prefix);
        let at = at.max(self.heals_from);
        self.next_healing = Some(self.next_healing.map_or(at, |next| next.min(at)));
    }

    /// Applies `f` to the journal of a participant, whatever its vendor: an announcement may have changed that.
    fn with_journal<T>(&mut self, prefix: GuidPrefix, topic: usize, f: impl FnOnce(&mut Journal) -> T) -> Option<T> {
        let remote = self.remotes.get_mut(&prefix)?;
        let before = remote.held_bytes();
        let result = f(remote.journals.get_mut(topic)?);
        self.discovery_memory.change(before, remote.held_bytes());
        Some(result)
    }

    fn has_journals(&self, prefix: GuidPrefix) -> bool {
        self.remotes.get(&prefix).is_some_and(RemoteParticipant::has_journals)
    }

    fn topic_of(&mut self, writer: EntityId) -> Option<usize> {
        self.builtin.topics().iter().position(|topic| topic.writer.guid().entity == writer)
    }

    fn next_number(&mut self, topic: usize, writer: Guid) -> Option<SequenceNumber> {
        self.builtin.topics().get(topic)?.reader.next_number(writer)
    }

    /// A hash of all that a sample says. Without a payload, the key hash tells its instance.
    fn hash_of(&self, is_alive: bool, payload: &[u8], key_hash: Option<KeyHash>) -> u64 {
        let key_hash = key_hash.filter(|_| payload.is_empty()).map(|key_hash| key_hash.0);
        foldhash::quality::FixedState::with_seed(self.config.seed).hash_one((is_alive, payload, key_hash))
    }

    fn hash_of_taken(&self, sample: &Selected) -> u64 {
        self.hash_of(sample.info.valid_data, &sample.payload, Some(sample.info.instance))
    }
}

/// Whether a message contains another sample than this one, as far as it shows.
fn differs(input: &Input<'_>, meta: &SampleMeta, payload: &[u8]) -> bool {
    match input {
        Input::Data(other, data) => {
            let bytes = data.payload.as_bytes();
            let is_other_instance = bytes.is_empty() && other.key_hash != meta.key_hash;
            other.kind.is_alive() != meta.kind.is_alive() || bytes != payload || is_other_instance
        }
        Input::DataFrag(_, frag) => {
            let before = usize::try_from(frag.starting.0).unwrap_or(usize::MAX).saturating_sub(1);
            let start = before.saturating_mul(usize::from(frag.fragment_size));
            let rest = payload.get(start..).unwrap_or_default();
            // The last fragment may be padded.
            let is_part = rest.iter().zip(frag.payload).all(|(waiting, new)| waiting == new);
            frag.sample_size as usize != payload.len() || !is_part
        }
        _ => false,
    }
}

impl RemoteParticipant {
    /// Whether HEARTBEATs of its vendor show which samples were never written. An impostor may announce another vendor:
    /// a journal in use stays in use.
    pub(super) fn has_journals(&self) -> bool {
        Quirks::of(self.data.vendor).heartbeat_names_last_written || self.journals.iter().any(Journal::is_in_use)
    }

    fn heals_at(&self) -> Option<Instant> {
        self.journals.iter().filter_map(Journal::poll_timeout).chain(self.doubt_due()).min()
    }
}

impl KnownEndpoint {
    fn topic_name(&self) -> &str {
        match self {
            Self::Publication(data) => &data.topic_name,
            Self::Subscription(data) => &data.topic_name,
        }
    }
}
