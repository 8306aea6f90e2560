//! The state of a remote participant.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::net::IpAddr;

use crate::discovery::data::{
    BuiltinEndpointSet, ParticipantData, PublicationData, STREAM_LOCATORS_MAX, SubscriptionData,
};
use crate::id::EntityId;
use crate::limits::{
    ANSWER_CREDIT_FACTOR, ANSWER_CREDIT_MAX, HANDSHAKE_CREDIT_FACTOR, HANDSHAKE_CREDIT_MAX, MEMORY_PER_PARTICIPANT_MAX,
    OVERTAKEN_WITHIN, SHOWN_ADDRESSES_MAX,
};
use crate::locator::{Locator, Source};
use crate::memory_account::MemoryAccount;
use crate::rare::Rare;
use crate::seq::SequenceNumber;
use crate::time::Instant;
use crate::vendor::Quirks;
use crate::writer::OwedAnswers;

use super::answer_budget::AnswerBudgets;
use super::answer_repetitions::AnswerRepetitions;
use super::drops::Drops;
use super::inventory::Inventory;
use super::new_terms::{NewTerms, are_same};
use super::origin::Origin;
use super::paths::{Path, Paths};
use super::process_end::ProcessEnd;
use super::refused_endpoints::RefusedEndpoints;
use super::relocation::Relocation;
use super::remote_endpoints::RemoteEndpoints;
use super::remote_security::RemoteSecurity;
use super::ways::{Doubt, Ways};

#[derive(Debug)]
pub(super) struct RemoteParticipant {
    pub(super) data: ParticipantData,
    /// Its addresses for discovery.
    pub(super) metatraffic: Arc<[Locator]>,
    /// The addresses of the path that was chosen last for an endpoint, which most endpoints share.
    endpoint_way: RefCell<Arc<[Locator]>>,
    pub(super) found_at: Instant,
    /// Where it was found.
    pub(super) origin: Origin,
    /// When the participant was last noted to be there: see [`super::sign_of_life`].
    pub(super) heard_at: Instant,
    /// The participant has shown that it hears us.
    pub(super) is_verified: bool,
    /// A local endpoint has matched one of its endpoints, or the participant was authenticated: see
    /// [`super::eviction`].
    pub(super) is_proved: bool,
    /// Whether a message has come from its addresses for discovery.
    pub(super) is_reachable: bool,
    /// The last [`SHOWN_ADDRESSES_MAX`] addresses from which its messages came.
    pub(super) shown: VecDeque<IpAddr>,
    /// The last [`STREAM_LOCATORS_MAX`] connections on which its messages came.
    pub(super) shown_streams: VecDeque<Locator>,
    /// Bytes of announcements that came from it, minus bytes of the answers.
    pub(super) credit_bytes: usize,
    /// The credit for messages of the handshake, in bytes.
    pub(super) handshake_credit_bytes: usize,
    /// Whether it was sent a message of the handshake for which it had not paid.
    has_had_free_handshake: bool,
    /// Its drops, if it had any.
    pub(super) drops: Rare<Drops>,
    /// Announcements that were refused for lack of room.
    pub(super) refused: Rare<RefusedEndpoints>,
    /// The memory that local readers hold for its writers.
    pub(super) memory: Arc<MemoryAccount>,
    /// The acknowledgements that its readers owe.
    pub(super) owed_answers: Arc<OwedAnswers>,
    /// The number of its last announcement, and when the first one with this number came.
    pub(super) announced: Option<(SequenceNumber, Instant)>,
    /// When the last announcement was sent to it alone.
    pub(super) answered_at: Option<Instant>,
    pub(super) answer_repetitions: AnswerRepetitions,
    /// Whether it has the present addresses of this participant.
    pub(super) relocation: Relocation,
    /// When it was last asked whether it hears us.
    pub(super) questioned_at: Option<Instant>,
    pub(super) publications: RemoteEndpoints<PublicationData>,
    pub(super) subscriptions: RemoteEndpoints<SubscriptionData>,
    /// Bytes of its discovery data, by endpoint.
    pub(super) kept_bytes: BTreeMap<EntityId, usize>,
    pub(super) kept_bytes_total: usize,
    /// The addresses among which the ways to it are chosen. They differ from the announced ones if it announces others
    /// and still answers at these.
    pub(super) ways: Ways,
    pub(super) doubt: Option<Doubt>,
    pub(super) new_terms: Option<NewTerms>,
    /// When it was last sent the announcement at addresses that it had announced in clear, although authenticated.
    pub(super) announced_elsewhere_at: Option<Instant>,
    /// Set while its process seems to have ended.
    pub(super) process_end: Option<ProcessEnd>,
    /// When the last doubt began.
    pub(super) doubted_at: Option<Instant>,
    /// Its announcements, for each built-in topic.
    pub(super) inventories: [Inventory; 3],
    /// Whether it summarizes them.
    pub(super) is_summarized: bool,
    /// When the last summary was sent to it because it asked.
    pub(super) summarized_at: Option<Instant>,
    /// Its admission by the gate; `None` without a gate.
    pub(super) security: Option<Box<RemoteSecurity>>,
}

impl RemoteParticipant {
    pub(super) fn new(now: Instant, data: ParticipantData, source: Source, address: Arc<MemoryAccount>) -> Self {
        let mut remote = Self {
            ways: Ways::of(&data),
            doubt: None,
            new_terms: None,
            announced_elsewhere_at: None,
            process_end: None,
            doubted_at: None,
            data,
            metatraffic: Arc::new([]),
            endpoint_way: RefCell::new(Arc::new([])),
            found_at: now,
            origin: Origin::of(source),
            heard_at: now,
            is_verified: false,
            is_proved: false,
            is_reachable: false,
            shown: VecDeque::new(),
            shown_streams: VecDeque::new(),
            credit_bytes: 0,
            handshake_credit_bytes: 0,
            has_had_free_handshake: false,
            drops: Rare::default(),
            refused: Rare::default(),
            memory: Arc::new(MemoryAccount::below(address, MEMORY_PER_PARTICIPANT_MAX)),
            owed_answers: Arc::default(),
            announced: None,
            answered_at: None,
            answer_repetitions: AnswerRepetitions::default(),
            relocation: Relocation::default(),
            questioned_at: None,
            publications: RemoteEndpoints::default(),
            subscriptions: RemoteEndpoints::default(),
            kept_bytes: BTreeMap::new(),
            kept_bytes_total: 0,
            inventories: Default::default(),
            is_summarized: false,
            summarized_at: None,
            security: None,
        };
        remote.show(source);
        remote
    }

    /// Forgets what belongs to its endpoints, which are gone.
    pub(super) fn forget_endpoints(&mut self) {
        self.kept_bytes.clear();
        self.kept_bytes_total = 0;
        self.inventories = Default::default();
        self.refused.clear();
        if let Some(security) = &mut self.security {
            security.begin();
        }
    }

    /// Whether an announcement of an endpoint may be believed: one without protection cannot change what was announced
    /// with it.
    pub(super) fn may_announce(&self, entity: EntityId, is_secure: bool) -> bool {
        is_secure || !self.security.as_deref().is_some_and(|security| security.secure.contains(&entity))
    }

    /// Notes how an endpoint was announced. Returns whether that was without protection before.
    pub(super) fn note_announced(&mut self, entity: EntityId, is_secure: bool) -> bool {
        is_secure && self.security.as_deref_mut().is_some_and(|security| security.secure.insert(entity))
    }

    pub(super) fn renew(&mut self, now: Instant) {
        self.heard_at = self.heard_at.max(now);
        self.process_end = self.process_end.and_then(|end| end.after_message(now));
    }

    /// Whether it hears this participant, and its addresses are no hearsay.
    pub(super) const fn is_trusted(&self) -> bool {
        self.is_verified && self.is_reachable
    }

    /// Adds the credit for announcements of this length from the participant.
    pub(super) fn earn_credit(&mut self, bytes: usize) {
        let credit = bytes.saturating_mul(ANSWER_CREDIT_FACTOR);
        self.credit_bytes = self.credit_bytes.saturating_add(credit).min(ANSWER_CREDIT_MAX);
    }

    /// Adds the credit for messages of the handshake that bytes from the participant pay for.
    pub(super) fn earn_handshake_credit(&mut self, bytes: usize) {
        let credit = bytes.saturating_mul(HANDSHAKE_CREDIT_FACTOR);
        self.handshake_credit_bytes = self.handshake_credit_bytes.saturating_add(credit).min(HANDSHAKE_CREDIT_MAX);
    }

    /// Takes the bytes of a message of the handshake from its credit, and missing ones from those that its address is
    /// sent without payment. Returns whether there is enough. One message is free for a participant that hears this
    /// one: its own messages may be much shorter. An authenticated participant pays nothing.
    pub(super) fn spend_on_handshake(&mut self, unpaid: &mut AnswerBudgets, now: Instant, bytes: usize) -> bool {
        if self.is_authenticated() {
            return true;
        }
        let missing = bytes.saturating_sub(self.handshake_credit_bytes);
        if missing > 0 {
            if self.is_trusted() && !self.has_had_free_handshake {
                self.has_had_free_handshake = true;
                return true;
            }
            // A forger may be heard at many addresses, and name one.
            let address = self.metatraffic.first().and_then(|l| l.to_socket_addr()).map(Source::Datagram);
            if !unpaid.spend(now, address.map_or(self.origin, Origin::of), missing) {
                return false;
            }
        }
        self.handshake_credit_bytes = self.handshake_credit_bytes.saturating_sub(bytes);
        true
    }

    /// Whether its handshake is complete.
    pub(super) fn is_authenticated(&self) -> bool {
        self.security.as_deref().is_some_and(RemoteSecurity::is_authenticated)
    }

    /// Takes the bytes of an answer from its credit or, if its addresses are no hearsay, from the budget of its origin.
    /// Returns whether there is enough.
    pub(super) fn spend_on_answer(&mut self, budgets: &mut AnswerBudgets, now: Instant, bytes: usize) -> bool {
        if self.is_trusted() { budgets.spend(now, self.origin, bytes) } else { self.spend_credit(bytes) }
    }

    /// Sends this much to it, unless its address is hearsay and less has come from there.
    pub(super) const fn spend_credit(&mut self, bytes: usize) -> bool {
        if self.is_trusted() {
            return true;
        }
        let Some(rest) = self.credit_bytes.checked_sub(bytes) else { return false };
        self.credit_bytes = rest;
        true
    }

    /// Whether a later announcement has overtaken this one with its number. Datagrams overtake each other on their way,
    /// and so do those of two threads of the sender. An impostor may number as it likes: the number does not decide
    /// between contradictory terms or summaries, nor while the addresses are in doubt.
    pub(super) fn has_overtaken(&self, now: Instant, number: SequenceNumber, found: &ParticipantData) -> bool {
        let is_contradicted = self.inventories.iter().any(Inventory::is_contradicted);
        let is_doubtful = self.doubt.is_some() || self.new_terms.is_some() || is_contradicted;
        !is_doubtful
            && are_same(&self.data, found)
            && self.announced.is_some_and(|(last, at)| number < last && now.since(at) <= OVERTAKEN_WITHIN)
    }

    /// Notes the number of an announcement that is believed. The number counts only once the participant is
    /// verified: an impostor may have announced itself first.
    pub(super) fn note_announced_number(&mut self, now: Instant, number: SequenceNumber) {
        if self.is_trusted() && self.announced.is_none_or(|(last, _)| last != number) {
            self.announced = Some((number, now));
        }
    }

    /// When it counts as gone, if nothing more is heard of it.
    pub(super) fn lease_until(&self) -> Instant {
        let by_lease = self.heard_at + self.data.lease_duration;
        self.process_end.and_then(|end| end.lost_at()).map_or(by_lease, |lost_at| lost_at.min(by_lease))
    }

    /// Whether the source is one that this participant names, or that it was heard from by discovery.
    pub(super) fn is_at(&self, source: Source, paths: &Paths) -> bool {
        let host = match source {
            Source::Datagram(address) => address.ip().to_canonical(),
            Source::Stream(locator) => {
                return self.shown_streams.contains(&locator) || self.names_stream(&locator);
            }
        };
        self.shown.contains(&host)
            || self.named().filter_map(|l| l.to_socket_addr()).any(|address| paths.is_same_host(host, address.ip()))
    }

    /// Records the source of a message. Returns whether the source is new.
    pub(super) fn show(&mut self, source: Source) -> bool {
        match source {
            Source::Datagram(address) => show(&mut self.shown, address.ip().to_canonical(), SHOWN_ADDRESSES_MAX),
            Source::Stream(locator) => show(&mut self.shown_streams, locator, STREAM_LOCATORS_MAX),
        }
    }

    /// Whether the participant or one of its endpoints announces this source as its address.
    pub(super) fn names(&self, source: Source, paths: &Paths) -> bool {
        let host = match source {
            Source::Datagram(address) => address.ip().to_canonical(),
            Source::Stream(locator) => return self.names_stream(&locator),
        };
        let own = self.named();
        let of_writers = self.publications.values().flat_map(|p| &p.unicast);
        let of_readers = self.subscriptions.values().flat_map(|s| &s.unicast);
        let mut all = own.chain(of_writers).chain(of_readers).filter_map(|l| l.to_socket_addr());
        all.any(|address| paths.is_same_host(host, address.ip()))
    }

    /// The addresses that it announces, and those in use.
    fn named(&self) -> impl Iterator<Item = &Locator> {
        let announced = self.data.metatraffic_unicast.iter().chain(&self.data.default_unicast);
        announced.chain(&self.ways.metatraffic_unicast).chain(&self.ways.default_unicast)
    }

    pub(super) fn names_stream(&self, locator: &Locator) -> bool {
        self.data.streams.contains(locator) || self.ways.streams.contains(locator)
    }

    /// Chooses the addresses for discovery. A verified one stays when there is no other.
    pub(super) fn choose_way(&mut self, paths: &Paths) {
        let named = &self.ways.metatraffic_unicast;
        let shown = or_else(paths.choose_shown(named, self.shown.make_contiguous()), || self.shown_stream(paths)).to;
        if !shown.is_empty() {
            self.metatraffic = shown;
            self.is_reachable = true;
        } else if !self.is_reachable {
            self.metatraffic = paths.choose(named).to;
        }
    }

    /// [`Self::way_to`], whose addresses all endpoints with the same path share.
    pub(super) fn shared_way_to(&self, paths: &Paths, unicast: &[Locator]) -> Path {
        let Path { to, max_message_bytes } = self.way_to(paths, unicast);
        let mut shared = self.endpoint_way.borrow_mut();
        if *to != **shared {
            *shared = to;
        }
        Path { to: Arc::clone(&shared), max_message_bytes }
    }

    /// The path to endpoints with these addresses of their own, which may be none.
    pub(super) fn way_to(&self, paths: &Paths, unicast: &[Locator]) -> Path {
        let shown: Vec<IpAddr> = self.shown.iter().copied().collect();
        let of_participant = || paths.choose_shown(&self.ways.default_unicast, &shown);
        or_else(or_else(paths.choose_shown(unicast, &shown), of_participant), || self.shown_stream(paths))
    }

    /// The path by a connection, used when no datagrams reach the participant.
    fn shown_stream(&self, paths: &Paths) -> Path {
        let shown: Vec<Locator> = self.shown_streams.iter().copied().collect();
        paths.choose_stream(&self.ways.streams, &shown)
    }

    /// Its built-in endpoints to match.
    pub(super) const fn builtin_endpoints(&self) -> BuiltinEndpointSet {
        let announced = self.data.builtin_endpoints;
        if Quirks::of(self.data.vendor).assume_participant_message {
            return announced
                .with(BuiltinEndpointSet::PARTICIPANT_MESSAGE_READER)
                .with(BuiltinEndpointSet::PARTICIPANT_MESSAGE_WRITER);
        }
        announced
    }
}

/// Records a source as the last one. Returns whether it is new.
fn show<T: PartialEq>(shown: &mut VecDeque<T>, source: T, max: usize) -> bool {
    if shown.contains(&source) {
        return false;
    }
    if shown.len() >= max {
        shown.pop_front();
    }
    shown.push_back(source);
    true
}

fn or_else(path: Path, other: impl FnOnce() -> Path) -> Path {
    if path.to.is_empty() { other() } else { path }
}
