//! Authentication of one participant with all others.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::time::{Instant, Span};

use super::budget::Budget;
use super::challenges::Challenges;
use super::early::EarlyMessages;
use super::event::{Event, Expulsion, Failure, Statistics, Transmit};
use super::half_open::{HalfOpen, Room};
use super::job::JobId;
use super::local::{LocalParticipant, SharedLocal};
use super::pair::{Attempt, Pair, Waiting};
use super::queue::{Class, FairQueue};
use super::refusal::Refusal;
use super::trust::Trust;
use crate::crypto::ExchangeRole;
use crate::crypto::secure_entity::STATELESS_WRITER;
use crate::limits::{
    CALENDAR_INTERVAL, HALF_OPEN_MIN, HANDSHAKE_PAUSE, PEERS, REFUSALS_OF_PROVEN, REPORTS, TRANSMITS, UNPROVEN_BYTES,
};
use crate::message::{DataHolder, GenericMessage, MessageHead, MessageIdentity, is_identity_token};
use crate::wall_time::WallTime;

/// The state of authentication with all peers.
///
/// ```text
/// handle_announcement, handle_message  ─┐                      ┌─> poll_transmit  messages to send
/// handle_job_done, handle_timeout      ─┼─>  Authenticator  ───┼─> poll_job       work for another thread
/// handle_authentic, set_trust          ─┘                      ├─> poll_event     reports
///                                                              └─> poll_timeout   when to call handle_timeout
/// ```
///
/// The caller drains all `poll_*` functions after each call. Each job is run on any thread, and its result is handed
/// back; a [`JobTicket`](super::job::JobTicket) gives the result of one that panicked. The participant with the lower
/// GUID begins.
#[derive(Debug)]
pub struct Authenticator {
    pub(super) local: SharedLocal,
    pub(super) trust: Arc<Trust>,
    /// Counts the changes of what is trusted.
    pub(super) trust_number: u64,
    config: AuthenticationConfig,
    pub(super) pairs: BTreeMap<GuidPrefix, Box<Pair>>,
    pub(super) half_open: HalfOpen,
    pub(super) queue: FairQueue,
    pub(super) early: EarlyMessages,
    pub(super) challenges: Challenges,
    /// Peers with nothing that is worth keeping, in the order in which their latest handshakes began.
    idle: BTreeSet<(u64, GuidPrefix)>,
    timers: BTreeSet<(Instant, GuidPrefix)>,
    expiries: BTreeSet<(WallTime, GuidPrefix)>,
    /// The numbers of the jobs that are handed out.
    jobs: BTreeSet<u64>,
    job_number: u64,
    attempt_number: u64,
    sequence_number: i64,
    pub(super) unproven: Budget,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    pub(super) statistics: Statistics,
    /// The latest times that were stated.
    clock: (Instant, WallTime),
}

/// Settings of authentication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuthenticationConfig {
    /// Whether participants that are not authenticated may take part in what is not protected.
    pub allow_unauthenticated: bool,
    /// Jobs that are handed out and not yet handed back. At least one.
    pub jobs: usize,
}

/// Inputs of each call: the times, and a source of random bytes that cannot be predicted.
pub struct Input<'a> {
    /// The monotonic clock.
    pub now: Instant,
    /// The calendar.
    pub wall: WallTime,
    /// Fills a slice with random bytes.
    pub random: &'a mut dyn FnMut(&mut [u8]),
}

/// Bytes and numbers that are in use, for diagnosis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Participants that are known.
    pub peers: usize,
    /// Handshakes with participants that are not authenticated.
    pub half_open: usize,
    /// Bytes of messages that wait for a job.
    pub waiting_bytes: usize,
    /// Messages of participants that discovery does not know.
    pub early_messages: usize,
    /// Jobs that are handed out.
    pub jobs: usize,
}

impl Default for AuthenticationConfig {
    fn default() -> Self {
        Self { allow_unauthenticated: false, jobs: 4 }
    }
}

impl Authenticator {
    /// Nothing is known about any peer.
    #[must_use]
    pub fn new(local: LocalParticipant, trust: Trust, config: AuthenticationConfig, now: Instant) -> Self {
        Self {
            local: Arc::new(local),
            trust: Arc::new(trust),
            trust_number: 0,
            config,
            pairs: BTreeMap::new(),
            half_open: HalfOpen::default(),
            queue: FairQueue::default(),
            early: EarlyMessages::default(),
            challenges: Challenges::default(),
            idle: BTreeSet::new(),
            timers: BTreeSet::new(),
            expiries: BTreeSet::new(),
            jobs: BTreeSet::new(),
            job_number: 0,
            attempt_number: 0,
            sequence_number: 0,
            unproven: Budget::new(UNPROVEN_BYTES, UNPROVEN_BYTES, now),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            statistics: Statistics::default(),
            clock: (now, WallTime(i64::MIN)),
        }
    }

    /// This participant, for an authentication of the application that states the same certificate, permissions and
    /// discovery data.
    #[must_use]
    pub fn local(&self) -> Arc<LocalParticipant> {
        Arc::clone(&self.local)
    }

    /// Requests and replies that are made from now on contain this announcement. Handshakes under way go on with the
    /// former one: discovery makes peers learn the present one afterwards. An announcement that does not fit into a
    /// message has no effect.
    pub fn set_participant_data(&mut self, participant_data: Vec<u8>) {
        if let Ok(local) = self.local.with_participant_data(participant_data) {
            self.local = Arc::new(local);
        }
    }

    /// The authorities that are trusted at present.
    #[must_use]
    pub fn trust(&self) -> Arc<Trust> {
        Arc::clone(&self.trust)
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> AuthenticationConfig {
        self.config
    }

    /// Discovery received an announcement of a participant, for the first time or again. `source` is the address of the
    /// datagram.
    pub fn handle_announcement(
        &mut self,
        input: &mut Input<'_>,
        peer: GuidPrefix,
        source: IpAddr,
        identity_token: Option<&DataHolder>,
    ) {
        self.set_clock(input);
        if peer == self.local.prefix() {
            return;
        }
        let has_identity = identity_token.is_some_and(is_identity_token);
        let known = self.pairs.get(&peer);
        // Announcements are not signed: they neither end a session nor disturb a handshake.
        if known.is_some_and(|pair| !pair.is_idle() || input.now < pair.not_before) {
            return;
        }
        let is_known = known.is_some();
        if !has_identity {
            if !is_known && self.insert(input.now, peer, source) {
                self.fail(peer, Failure::NoIdentity);
            }
            return;
        }
        if !is_known && !self.insert(input.now, peer, source) {
            return;
        }
        if self.begin(input, peer, false)
            && let Some(early) = self.early.take(input.now, peer)
        {
            self.handle_message(input, early.source, peer, &early.octets);
        }
    }

    /// A message of this peer was opened with its keys: the peer is alive, and has the keys of the handshake.
    pub fn handle_authentic(&mut self, peer: GuidPrefix) {
        let Some(pair) = self.pairs.get_mut(&peer) else { return };
        pair.restart_suspected = None;
        let Some(session) = pair.session.as_mut().filter(|session| !session.is_confirmed) else { return };
        session.is_confirmed = true;
        session.last = None;
        self.challenges.use_up(peer);
        self.set_timer(peer);
    }

    /// Discovery knows the participant no longer: it left, or its lease expired.
    pub fn remove_participant(&mut self, peer: GuidPrefix) {
        self.early.remove(peer);
        self.remove(peer);
    }

    /// Replaces what is trusted, for example because of a new revocation list. The certificates of all authenticated
    /// peers are verified again.
    pub fn set_trust(&mut self, input: &mut Input<'_>, trust: Trust) {
        self.set_clock(input);
        self.trust = Arc::new(trust);
        self.trust_number = self.trust_number.saturating_add(1);
        let peers: Vec<GuidPrefix> = self.pairs.keys().copied().collect();
        for peer in peers {
            let Some(pair) = self.pairs.get_mut(&peer) else { continue };
            pair.review = pair.session.is_some();
            self.enqueue(peer);
            self.set_timer(peer);
        }
    }

    /// Begins a new handshake with an authenticated peer, for example because this participant lost its keys. The
    /// session remains until it is complete. Without effect if the peer is the one to begin.
    pub fn authenticate_again(&mut self, input: &mut Input<'_>, peer: GuidPrefix) {
        self.set_clock(input);
        let Some(pair) = self.pairs.get(&peer) else { return };
        if pair.attempt.is_none() && pair.session.is_some() && pair.role == ExchangeRole::Initiator {
            self.begin(input, peer, false);
        }
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next report.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let (now, wall) = self.clock;
        let expiry = self.expiries.first().map(|(until, _)| {
            let seconds = until.0.saturating_sub(wall.0).saturating_add(1).max(0).unsigned_abs();
            now + Span::from_secs(seconds).min(CALENDAR_INTERVAL)
        });
        [self.timers.first().map(|(at, _)| *at), expiry].into_iter().flatten().min()
    }

    /// The time of [`Self::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, input: &mut Input<'_>) {
        self.set_clock(input);
        while let Some(&(until, peer)) = self.expiries.first().filter(|(until, _)| *until < input.wall) {
            self.expel(input.now, peer, Expulsion::Expired(until));
            self.expiries.remove(&(until, peer));
        }
        // Each peer is served once, so that a timer that is set to the present does not hold this call.
        let due: Vec<_> = self.timers.iter().take_while(|(at, _)| *at <= input.now).map(|(_, peer)| *peer).collect();
        for peer in due {
            self.serve_timer(input, peer);
            self.set_timer(peer);
        }
    }

    /// Counters.
    #[must_use]
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Numbers and bytes that are in use.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            peers: self.pairs.len(),
            half_open: self.half_open.len(),
            waiting_bytes: self.half_open.bytes(),
            early_messages: self.early.len(),
            jobs: self.jobs.len(),
        }
    }

    /// Whether a handshake with a peer that is not authenticated is under way.
    #[must_use]
    pub fn is_half_open(&self, peer: GuidPrefix) -> bool {
        self.pairs.get(&peer).is_some_and(|pair| pair.is_half_open())
    }

    /// The peer that has been without a handshake for longest.
    #[must_use]
    pub fn oldest_idle(&self) -> Option<GuidPrefix> {
        self.idle.first().map(|(_, peer)| *peer)
    }

    pub(super) const fn set_clock(&mut self, input: &Input<'_>) {
        self.clock = (input.now, input.wall);
    }

    /// Adds a peer without a handshake. When there is no room, an idle one gives way.
    fn insert(&mut self, now: Instant, peer: GuidPrefix, source: IpAddr) -> bool {
        if self.pairs.len() >= PEERS {
            let Some(&(_, oldest)) = self.idle.first() else {
                self.statistics.no_room = self.statistics.no_room.saturating_add(1);
                return false;
            };
            self.remove(oldest);
        }
        let is_lower = self.local.prefix() < peer;
        let role = if is_lower { ExchangeRole::Initiator } else { ExchangeRole::Replier };
        self.attempt_number = self.attempt_number.saturating_add(1);
        self.pairs.insert(peer, Box::new(Pair::new(role, source, self.attempt_number, now)));
        self.set_timer(peer);
        true
    }

    /// Begins a handshake with a known peer if there is room for it. A passive one waits for what the peer sends.
    pub(super) fn begin(&mut self, input: &mut Input<'_>, peer: GuidPrefix, passive: bool) -> bool {
        let Some(pair) = self.pairs.get(&peer) else { return false };
        let (source, is_known) = (pair.source, pair.session.is_some());
        if !is_known && !self.make_room(input.now, source) {
            self.statistics.no_room = self.statistics.no_room.saturating_add(1);
            return false;
        }
        self.attempt_number = self.attempt_number.saturating_add(1);
        let number = self.attempt_number;
        let Some(pair) = self.pairs.get_mut(&peer) else { return false };
        let challenge = self.challenges.of(peer, || {
            let mut challenge = [0; 32];
            (input.random)(&mut challenge);
            challenge
        });
        pair.number = number;
        pair.attempt = Some(Attempt::new(challenge, pair.role, passive, input.now));
        if !is_known {
            self.half_open.insert(source, number, peer);
        }
        self.announce_challenge(input.now, peer);
        self.enqueue(peer);
        self.set_timer(peer);
        true
    }

    fn make_room(&mut self, now: Instant, source: IpAddr) -> bool {
        let victim = match self.half_open.room(source) {
            Room::Free => return true,
            Room::Instead(peer) => Some(peer),
            Room::Full(of) => {
                let is_unproven = |peer: &GuidPrefix| self.pairs.get(peer).is_some_and(|pair| !pair.is_proven());
                let began = |peer: &GuidPrefix| Some(self.pairs.get(peer)?.attempt.as_ref()?.began);
                let is_old = |peer: &GuidPrefix| began(peer).is_some_and(|began| now.since(began) >= HALF_OPEN_MIN);
                let refused = self.half_open.refused(of).find(is_unproven);
                refused.or_else(|| self.half_open.oldest(of).find(is_unproven).filter(is_old))
            }
        };
        let Some(victim) = victim else { return false };
        self.statistics.gave_way = self.statistics.gave_way.saturating_add(1);
        self.end_attempt(victim);
        self.set_timer(victim);
        true
    }

    /// Ends the handshake with a peer, without a report.
    pub(super) fn end_attempt(&mut self, peer: GuidPrefix) {
        self.set_waiting(peer, None);
        let Some(pair) = self.pairs.get_mut(&peer) else { return };
        if pair.is_half_open() {
            self.half_open.remove(pair.source, pair.number, peer);
        }
        pair.attempt = None;
        if !pair.has_work() {
            self.queue.remove(peer);
        }
    }

    /// Ends the handshake with a peer after too long a time.
    pub(super) fn give_up(&mut self, now: Instant, peer: GuidPrefix) {
        let Some(pair) = self.pairs.get_mut(&peer) else { return };
        pair.not_before = now + HANDSHAKE_PAUSE;
        let attempt = pair.attempt.as_mut();
        let is_report = attempt.as_ref().is_some_and(|attempt| !attempt.passive) && pair.session.is_none();
        let refusal = attempt.and_then(|attempt| attempt.last_refusal.take());
        self.end_attempt(peer);
        if is_report {
            self.fail(peer, Failure::TimedOut(refusal));
        }
    }

    /// Ends the session with a peer.
    pub(super) fn expel(&mut self, now: Instant, peer: GuidPrefix, cause: Expulsion) {
        self.end_attempt(peer);
        let Some(pair) = self.pairs.get_mut(&peer) else { return };
        pair.review = false;
        pair.not_before = now + HANDSHAKE_PAUSE;
        if let Some(session) = pair.session.take() {
            self.expiries.remove(&(session.credential.valid_until(), peer));
            self.events.push_back(Event::Expelled { peer, cause });
        }
        self.queue.remove(peer);
        self.set_timer(peer);
    }

    fn remove(&mut self, peer: GuidPrefix) {
        self.end_attempt(peer);
        let Some(pair) = self.pairs.remove(&peer) else { return };
        self.queue.remove(peer);
        if let Some(number) = pair.idle {
            self.idle.remove(&(number, peer));
        }
        if let Some(at) = pair.timer {
            self.timers.remove(&(at, peer));
        }
        if let Some(session) = pair.session {
            self.expiries.remove(&(session.credential.valid_until(), peer));
        }
    }

    /// Sets the message that waits for a job, in place of the one that waits now. Returns whether there was room.
    pub(super) fn set_waiting(&mut self, peer: GuidPrefix, waiting: Option<Waiting>) -> bool {
        let Some(pair) = self.pairs.get_mut(&peer) else { return false };
        if let Some(old) = pair.waiting.take() {
            self.half_open.return_bytes(old.source, old.bytes);
        }
        let Some(waiting) = waiting else { return true };
        if !self.half_open.take_bytes(waiting.source, waiting.bytes) {
            self.statistics.not_examined = self.statistics.not_examined.saturating_add(1);
            return false;
        }
        pair.waiting = Some(waiting);
        true
    }

    pub(super) fn enqueue(&mut self, peer: GuidPrefix) {
        let Some(pair) = self.pairs.get(&peer).filter(|pair| pair.has_work()) else { return };
        let waiting = pair.waiting.as_ref();
        let refusals = pair.attempt.as_ref().map_or(0, |attempt| attempt.refusals);
        let proves = waiting.is_some_and(|waiting| waiting.message.is_proof()) && refusals < REFUSALS_OF_PROVEN;
        let class = if proves || pair.review { Class::Proven } else { Class::Stranger };
        let source = waiting.map_or(pair.source, |waiting| waiting.source);
        self.queue.push(peer, class, source);
    }

    /// Sets the timer of a peer after its state has changed, and counts it among the idle ones if it is.
    pub(super) fn set_timer(&mut self, peer: GuidPrefix) {
        let Some(pair) = self.pairs.get_mut(&peer) else { return };
        let idle = (pair.is_idle() && pair.job.is_none()).then_some(pair.number);
        let before = core::mem::replace(&mut pair.idle, idle);
        if before != idle {
            before.map(|number| self.idle.remove(&(number, peer)));
            idle.map(|number| self.idle.insert((number, peer)));
        }
        let deadline = pair.deadline();
        if deadline == pair.timer {
            return;
        }
        if let Some(old) = pair.timer {
            self.timers.remove(&(old, peer));
        }
        pair.timer = deadline;
        if let Some(new) = deadline {
            self.timers.insert((new, peer));
        }
    }

    pub(super) fn set_expiry(&mut self, peer: GuidPrefix, old: Option<WallTime>, new: WallTime) {
        if let Some(old) = old {
            self.expiries.remove(&(old, peer));
        }
        self.expiries.insert((new, peer));
    }

    pub(super) fn next_job(&mut self, peer: GuidPrefix) -> JobId {
        self.job_number = self.job_number.saturating_add(1);
        self.jobs.insert(self.job_number);
        JobId::of_builtin(peer, self.job_number)
    }

    pub(super) fn may_hand_out(&self) -> bool {
        self.jobs.len() < self.config.jobs.max(1)
    }

    /// Whether a job was handed out, and not yet handed back.
    pub(super) fn take_back(&mut self, job: JobId) -> bool {
        self.jobs.remove(&job.number)
    }

    pub(super) fn next_identity(&mut self) -> MessageIdentity {
        self.sequence_number = self.sequence_number.saturating_add(1);
        let source = Guid::new(self.local.prefix(), STATELESS_WRITER);
        MessageIdentity { source, sequence_number: self.sequence_number }
    }

    /// A message to a peer.
    pub(super) fn payload(
        to: GuidPrefix,
        identity: MessageIdentity,
        related: MessageIdentity,
        class_id: &str,
        token: DataHolder,
    ) -> Vec<u8> {
        let destination_participant = Guid::new(to, EntityId::PARTICIPANT);
        let head = MessageHead { identity, related, destination_participant, ..MessageHead::default() };
        GenericMessage { head, class_id: class_id.to_owned(), data: vec![token] }.to_bytes()
    }

    pub(super) fn send(&mut self, to: GuidPrefix, payload: Vec<u8>) {
        if self.transmits.len() >= TRANSMITS {
            self.statistics.not_sent = self.statistics.not_sent.saturating_add(1);
            return;
        }
        self.transmits.push_back(Transmit { to, payload });
    }

    /// Sends to a peer that has not shown that it receives anything, within the budget for all of these.
    pub(super) fn send_unproven(&mut self, now: Instant, to: GuidPrefix, payload: Vec<u8>, reserve: u8) -> bool {
        let bytes = u64::try_from(payload.len()).unwrap_or(u64::MAX);
        let is_known = self.pairs.get(&to).is_some_and(|pair| pair.is_proven());
        if !is_known && !self.unproven.take(now, bytes, reserve) {
            self.statistics.not_sent = self.statistics.not_sent.saturating_add(1);
            return false;
        }
        self.send(to, payload);
        true
    }

    pub(super) fn fail(&mut self, peer: GuidPrefix, failure: Failure) {
        let unauthenticated_allowed = self.config.allow_unauthenticated;
        self.report(Event::Failed { peer, failure, unauthenticated_allowed });
    }

    pub(super) fn refuse(&mut self, peer: GuidPrefix, refusal: Refusal) {
        self.report(Event::Refused { peer, refusal });
    }

    /// Adds a report that others can provoke.
    fn report(&mut self, event: Event) {
        if self.events.len() >= REPORTS {
            self.statistics.reports_dropped = self.statistics.reports_dropped.saturating_add(1);
        } else {
            self.events.push_back(event);
        }
    }

    /// Adds a report that follows from an accepted certificate.
    pub(super) fn emit(&mut self, event: Event) {
        self.events.push_back(event);
    }
}

impl core::fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Input").field("now", &self.now).field("wall", &self.wall).finish_non_exhaustive()
    }
}
