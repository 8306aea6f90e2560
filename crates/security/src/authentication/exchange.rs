//! The messages of handshakes: what arrives, what jobs make of it, and what is repeated.

use core::net::IpAddr;
use std::sync::Arc;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::time::{Instant, Span};

use super::agreement::SEED_BYTES;
use super::authenticator::{Authenticator, Input};
use super::contents::{Final, Hash, Reply, Request, hash};
use super::event::{AuthenticatedPeer, Event, Expulsion};
use super::job::{Accepted, Answer, Candidate, Check, Concluded, Job, JobDone, Maker, Outcome, Sent, Work};
use super::pair::{Kind, LastMessage, Message, Open, Phase, Resend, Running, Session, Waiting};
use super::refusal::Refusal;
use crate::crypto::{ExchangeRole, KeyMaterial};
use crate::limits::{CANDIDATE_TIME, HANDSHAKE_TIME, RESTART_SILENCE};
use crate::message::{DataHolder, GenericMessage, MessageIdentity, auth_request_token, future_challenge, names};
use crate::secret::Secret;

/// The class and the tokens of a message follow the fields of fixed length. Repetitions differ before.
const AFTER_HEAD: usize = 100;
/// Of 256: the part of the budget that is kept for first messages.
const RESERVE_OF_REPETITIONS: u8 = 128;
/// A message for which the peer has not paid is tried again after this time, and later after longer ones.
const HELD_BACK: Span = Span::from_millis(100);
/// When the budget is used up, a message is tried again after this time.
const POSTPONED: Span = Span::from_millis(50);

impl Authenticator {
    /// A message of the writer of stateless messages of a participant. `source` is the address of the datagram.
    pub fn handle_message(&mut self, input: &mut Input<'_>, source: IpAddr, sender: GuidPrefix, octets: &[u8]) {
        self.set_clock(input);
        let Ok((head, class_id)) = GenericMessage::parse_head(octets) else { return self.count_malformed() };
        let to = head.destination_participant;
        if to != Guid::new(self.local.prefix(), EntityId::PARTICIPANT) && to != Guid::default() {
            self.statistics.for_others = self.statistics.for_others.saturating_add(1);
            return;
        }
        let is_handshake = class_id == names::AUTH_MESSAGE;
        let is_ours = is_handshake || class_id == names::AUTH_REQUEST_MESSAGE;
        if !is_ours || head.identity.source.prefix != sender || sender == self.local.prefix() {
            return self.count_malformed();
        }
        if !self.pairs.contains_key(&sender) {
            if is_handshake && !self.early.keep(input.now, sender, source, octets) {
                self.statistics.not_examined = self.statistics.not_examined.saturating_add(1);
            }
            return;
        }
        let digest = hash(octets.get(AFTER_HEAD..).unwrap_or_default());
        if is_handshake && self.is_repetition(input.now, sender, &digest, head.identity) {
            return self.count_ignored();
        }
        let Ok(message) = GenericMessage::parse(octets) else { return self.count_malformed() };
        let [token] = message.data.as_slice() else { return self.count_malformed() };
        if !is_handshake {
            return self.handle_auth_request(input, sender, token);
        }
        let parsed = match token.class_id.as_str() {
            names::HANDSHAKE_REQUEST => Request::parse(token).map(|request| Message::Request(Box::new(request))),
            names::HANDSHAKE_REPLY => Reply::parse(token).map(|reply| Message::Reply(Box::new(reply))),
            names::HANDSHAKE_FINAL => Final::parse(token).map(|last| Message::Final(Box::new(last))),
            _ => return self.count_malformed(),
        };
        let Ok(message) = parsed else { return self.count_malformed() };
        let waiting = Waiting { message, digest, identity: head.identity, source, bytes: octets.len() };
        if self.accepts(input, sender, &waiting) {
            self.set_waiting(sender, Some(waiting));
            self.enqueue(sender);
        }
        self.set_timer(sender);
    }

    /// The next job to run, if another one may be under way. The caller hands back the result of each job.
    pub fn poll_job(&mut self, input: &mut Input<'_>) -> Option<Job> {
        self.set_clock(input);
        while self.may_hand_out() {
            let peer = self.queue.pop()?;
            if let Some(job) = self.job_of(input, peer) {
                return Some(job);
            }
            self.enqueue(peer);
        }
        None
    }

    /// A job is done.
    pub fn handle_job_done(&mut self, input: &mut Input<'_>, done: JobDone) {
        self.set_clock(input);
        let JobDone { id, outcome } = done;
        // A plug-in may number its jobs as this authentication does.
        if id.maker != Maker::Builtin || !self.take_back(id) {
            return;
        }
        let Some(pair) = self.pairs.get_mut(&id.peer) else { return };
        let Some(running) = pair.job.filter(|running| running.number == id.number) else { return };
        pair.job = None;
        let is_current = running.trust == self.trust_number;
        match outcome {
            Ok(Outcome::Begun(sent)) => self.begun(input.now, id.peer, *sent),
            // The message will be repeated, and examined by what is trusted then.
            Ok(Outcome::Answered(_) | Outcome::Concluded(_) | Outcome::Accepted(_)) if !is_current => {}
            Ok(Outcome::Answered(candidate)) => self.answered(input.now, id.peer, running, *candidate),
            Ok(Outcome::Concluded(concluded)) => self.concluded(input.now, id.peer, running, *concluded),
            Ok(Outcome::Accepted(accepted)) => self.accepted(id.peer, *accepted),
            Ok(Outcome::Reviewed | Outcome::Plugin(_)) => {}
            Err(refusal) => self.refused(input.now, id.peer, running, refusal),
        }
        self.enqueue(id.peer);
        self.set_timer(id.peer);
    }

    /// Announces the challenge of a handshake that the peer begins.
    pub(super) fn announce_challenge(&mut self, now: Instant, peer: GuidPrefix) {
        let Some(pair) = self.pairs.get(&peer) else { return };
        let Some(attempt) = pair.attempt.as_ref().filter(|attempt| !attempt.passive) else { return };
        if pair.role != ExchangeRole::Replier {
            return;
        }
        let token = auth_request_token(&attempt.challenge);
        let identity = self.next_identity();
        let payload = Self::payload(peer, identity, MessageIdentity::default(), names::AUTH_REQUEST_MESSAGE, token);
        self.send_unproven(now, peer, payload, 0);
    }

    /// The message that begins the handshake with a peer was not sent, since the peer has sent too little to get it. It
    /// is tried again later, and counts as no repetition. A reply counts as lost: the next request pays for it.
    pub fn message_held_back(&mut self, input: &mut Input<'_>, peer: GuidPrefix, bytes: usize) {
        self.set_clock(input);
        let Some(pair) = self.pairs.get_mut(&peer) else { return };
        if !pair.is_proven() {
            self.unproven.give_back(u64::try_from(bytes).unwrap_or(u64::MAX));
        }
        if let Some(attempt) = pair.attempt.as_mut().filter(|attempt| attempt.repeats()) {
            let pause = input.now.since(attempt.began).divided_by(2).max(HELD_BACK);
            attempt.resend.postpone(input.now, pause, true);
        }
        self.set_timer(peer);
    }

    /// Repeats what is due with a peer, and ends what took too long.
    pub(super) fn serve_timer(&mut self, input: &mut Input<'_>, peer: GuidPrefix) {
        let now = input.now;
        let Some(pair) = self.pairs.get_mut(&peer) else { return };
        if let Some(session) = &mut pair.session {
            session.last = session.last.take().filter(|last| now < last.until);
        }
        let suspected = pair.restart_suspected.filter(|at| now >= *at + RESTART_SILENCE);
        if suspected.is_some() {
            pair.restart_suspected = None;
            if pair.attempt.is_none() && pair.session.is_some() && now >= pair.not_before {
                self.begin(input, peer, false);
            }
        }
        let Some(attempt) = self.pairs.get_mut(&peer).and_then(|pair| pair.attempt.as_mut()) else { return };
        attempt.expire_candidates(now);
        let is_over = attempt.repeats() && attempt.resend.is_over(now);
        if now >= attempt.until || is_over {
            return self.give_up(now, peer);
        }
        if attempt.repeats() && attempt.resend.is_due(now) {
            self.repeat(now, peer);
        }
        self.repeat_replies(now, peer);
    }

    fn repeat(&mut self, now: Instant, peer: GuidPrefix) {
        let Some(attempt) = self.pairs.get_mut(&peer).and_then(|pair| pair.attempt.as_mut()) else { return };
        let reserve = if attempt.resend.is_unsent { 0 } else { RESERVE_OF_REPETITIONS };
        attempt.resend.repeat(now);
        match &attempt.phase {
            Phase::Sent { sent, identity } => {
                let (sent, identity) = (Arc::clone(sent), *identity);
                self.send_request(now, peer, &sent, identity, reserve);
            }
            Phase::Wait(_) => self.announce_challenge(now, peer),
            Phase::Prepare => {}
        }
    }

    fn repeat_replies(&mut self, now: Instant, peer: GuidPrefix) {
        let Some(attempt) = self.pairs.get_mut(&peer).and_then(|pair| pair.attempt.as_mut()) else { return };
        let Phase::Wait(candidates) = &mut attempt.phase else { return };
        let mut due = Vec::new();
        for open in candidates.iter_mut().filter(|open| open.resend.is_due(now)) {
            open.resend.repeat(now);
            due.push((Arc::clone(&open.candidate), open.identity, open.related));
        }
        for (candidate, identity, related) in due {
            self.send_reply(peer, &candidate, identity, related);
        }
    }

    /// Whether a message was received before. If the answer to it may have been lost, it is sent again.
    fn is_repetition(&mut self, now: Instant, peer: GuidPrefix, digest: &Hash, identity: MessageIdentity) -> bool {
        let Some(pair) = self.pairs.get_mut(&peer) else { return true };
        if pair.refused.contains(digest) || pair.is_examined(digest) {
            return true;
        }
        let candidates = match pair.attempt.as_mut().map(|attempt| &mut attempt.phase) {
            Some(Phase::Wait(candidates)) => candidates.as_mut_slice(),
            _ => &mut [],
        };
        if let Some(open) = candidates.iter_mut().find(|open| open.candidate.digest == *digest) {
            open.related = identity;
            if open.resend.answer(now) {
                let (candidate, own, related) = (Arc::clone(&open.candidate), open.identity, open.related);
                self.send_reply(peer, &candidate, own, related);
                self.set_timer(peer);
            }
            return true;
        }
        let Some(session) = pair.session.as_mut().filter(|session| session.digest == *digest) else { return false };
        if let Some(last) = &mut session.last
            && last.resend.answer(now)
        {
            let payload = last.payload.clone();
            self.send(peer, payload);
        }
        true
    }

    /// A peer announced the challenge of its next handshake. The announcement is not signed; both challenges are, so
    /// that a handshake with another challenge is as good as one with this.
    fn handle_auth_request(&mut self, input: &mut Input<'_>, peer: GuidPrefix, token: &DataHolder) {
        let Some(challenge) = future_challenge(token) else { return self.count_malformed() };
        let Some(pair) = self.pairs.get_mut(&peer) else { return };
        if let Some(session) = &pair.session {
            // The announcement of the handshake that led to the session may arrive late. A peer that has never received
            // the last message announces the same challenge again.
            let is_new = session.challenge != challenge || !session.is_confirmed;
            if is_new && pair.role == ExchangeRole::Initiator && pair.attempt.is_none() && input.now >= pair.not_before
            {
                pair.restart_suspected.get_or_insert(input.now);
            }
        } else if pair.attempt.is_none() && input.now >= pair.not_before {
            self.begin(input, peer, false);
        }
        self.set_timer(peer);
    }

    /// Whether a message belongs to the state of its handshake, and is to be examined.
    fn accepts(&mut self, input: &mut Input<'_>, peer: GuidPrefix, new: &Waiting) -> bool {
        let Some(pair) = self.pairs.get_mut(&peer) else { return false };
        let has_proof = pair.waiting.as_ref().is_some_and(|old| old.message.is_proof());
        if has_proof {
            self.count_ignored();
            return false;
        }
        match (&new.message, pair.attempt.as_ref().map(|attempt| &attempt.phase)) {
            (Message::Reply(reply), Some(Phase::Sent { sent, .. })) => {
                if !sent.is_answered_by(reply) {
                    self.count_ignored();
                    return false;
                }
                true
            }
            (Message::Final(last), Some(Phase::Wait(candidates))) => {
                let is_of = |open: &Open| open.candidate.confirms(last);
                let known = candidates.iter().any(is_of);
                if !known {
                    self.count_ignored();
                }
                known
            }
            (Message::Request(_), phase) if pair.role == ExchangeRole::Replier => {
                let is_idle = phase.is_none();
                // A request from where the peer was first seen does not give way to one from elsewhere.
                let is_first_source = |source| source == pair.source;
                let keeps = !is_first_source(new.source)
                    && pair.waiting.as_ref().is_some_and(|old| is_first_source(old.source));
                let reserve = pair.reserve_against(new.source);
                if keeps || !pair.requests.take(input.now, 1, reserve) {
                    self.statistics.not_examined = self.statistics.not_examined.saturating_add(1);
                    return false;
                }
                !is_idle || self.begin(input, peer, true)
            }
            _ => {
                self.count_ignored();
                false
            }
        }
    }

    fn job_of(&mut self, input: &mut Input<'_>, peer: GuidPrefix) -> Option<Job> {
        let check = Check { trust: Arc::clone(&self.trust), now: input.wall };
        let local = Arc::clone(&self.local);
        let pair = self.pairs.get_mut(&peer).filter(|pair| pair.job.is_none())?;
        let waiting = pair.waiting.take();
        if let Some(waiting) = &waiting {
            self.half_open.return_bytes(waiting.source, waiting.bytes);
        }
        let mut running = Running {
            number: 0,
            kind: Kind::Message,
            digest: waiting.as_ref().map(|waiting| waiting.digest),
            identity: waiting.as_ref().map(|waiting| waiting.identity).unwrap_or_default(),
            source: waiting.as_ref().map_or(pair.source, |waiting| waiting.source),
            trust: self.trust_number,
            is_partial: false,
        };
        let attempt = pair.attempt.as_ref();
        let work = match (waiting.map(|waiting| waiting.message), attempt.map(|attempt| &attempt.phase)) {
            (None, Some(Phase::Prepare)) => {
                running.kind = Kind::Begin;
                let challenge1 = attempt.map(|attempt| attempt.challenge).unwrap_or_default();
                Work::Begin { local, challenge1, seed: Secret::random(SEED_BYTES, input.random) }
            }
            (Some(Message::Request(request)), Some(Phase::Wait(_))) => {
                let challenge2 = attempt.map(|attempt| attempt.challenge).unwrap_or_default();
                let (digest, seed) = (running.digest?, Secret::random(SEED_BYTES, input.random));
                Work::Answer(Box::new(Answer { local, check, request: *request, digest, challenge2, seed }))
            }
            (Some(Message::Reply(reply)), Some(Phase::Sent { sent, .. })) => {
                Work::Conclude { local, check, sent: Arc::clone(sent), reply }
            }
            (Some(Message::Final(last)), Some(Phase::Wait(_))) => {
                let (candidates, left_out) = pair.candidates_for(input.now, &last, running.source, self.trust_number);
                running.is_partial = left_out > 0;
                if running.is_partial {
                    self.statistics.not_examined = self.statistics.not_examined.saturating_add(1);
                }
                if candidates.is_empty() {
                    // The candidate has ended while the message waited.
                    return None;
                }
                Work::Accept { check, candidates, last }
            }
            _ => {
                // A message that waited for a handshake that has ended gives way to the review.
                let credential = Arc::clone(&pair.session.as_ref().filter(|_| pair.review)?.credential);
                pair.review = false;
                running.kind = Kind::Review;
                Work::Review { check, credential }
            }
        };
        let id = self.next_job(peer);
        running.number = id.number;
        self.pairs.get_mut(&peer)?.job = Some(running);
        Some(Job { id, work })
    }

    fn begun(&mut self, now: Instant, peer: GuidPrefix, sent: Sent) {
        let identity = self.next_identity();
        let sent = Arc::new(sent);
        let Some(attempt) = self.pairs.get_mut(&peer).and_then(|pair| pair.attempt.as_mut()) else { return };
        // The attempt for which the key was generated may have ended, and another one with its challenge begun. The key
        // serves that one as well.
        if !matches!(attempt.phase, Phase::Prepare) || attempt.challenge != sent.request.challenge1 {
            return;
        }
        attempt.phase = Phase::Sent { sent: Arc::clone(&sent), identity };
        attempt.resend = Resend::first(now);
        self.send_request(now, peer, &sent, identity, 0);
    }

    fn answered(&mut self, now: Instant, peer: GuidPrefix, running: Running, candidate: Candidate) {
        let identity = self.next_identity();
        let Some(attempt) = self.pairs.get_mut(&peer).and_then(|pair| pair.attempt.as_mut()) else { return };
        if attempt.challenge != candidate.transcript.challenge2 {
            return;
        }
        let candidate = Arc::new(candidate);
        let until = now + CANDIDATE_TIME;
        let Running { identity: related, source, trust, .. } = running;
        let resend = Resend::first(now);
        attempt.until = attempt.until.max(until);
        let kept = Arc::clone(&candidate);
        attempt.open(Open { candidate: kept, identity, related, source, resend, until, trust, checks: 0 });
        self.send_reply(peer, &candidate, identity, related);
    }

    fn concluded(&mut self, now: Instant, peer: GuidPrefix, running: Running, concluded: Concluded) {
        let Concluded { credential, transcript, signature, exchange_key } = concluded;
        let phase = self.pairs.get(&peer).and_then(|pair| pair.attempt.as_ref()).map(|attempt| &attempt.phase);
        let is_current = matches!(phase, Some(Phase::Sent { sent, .. })
            if sent.request.challenge1 == transcript.challenge1);
        if !is_current {
            return;
        }
        let token = transcript.final_token(&signature);
        let identity = self.next_identity();
        let payload = Self::payload(peer, identity, running.identity, names::AUTH_MESSAGE, token);
        self.send(peer, payload.clone());
        let last = Some(LastMessage { payload, resend: Resend::first(now), until: now + HANDSHAKE_TIME });
        let (challenge, digest) = (transcript.challenge2, running.digest.unwrap_or_default());
        self.establish(peer, Session { credential, challenge, digest, last, is_confirmed: false }, exchange_key);
    }

    fn accepted(&mut self, peer: GuidPrefix, Accepted { request, exchange_key }: Accepted) {
        let attempt = self.pairs.get(&peer).and_then(|pair| pair.attempt.as_ref());
        let candidates = attempt.map(|attempt| attempt.candidates()).unwrap_or_default();
        let Some(open) = candidates.iter().find(|open| open.candidate.digest == request) else { return };
        let (credential, digest) = (Arc::clone(&open.candidate.credential), open.candidate.digest);
        let challenge = open.candidate.transcript.challenge1;
        // The peer has concluded the handshake, and will state another challenge too.
        self.challenges.use_up(peer);
        self.establish(peer, Session { credential, challenge, digest, last: None, is_confirmed: true }, exchange_key);
    }

    fn establish(&mut self, peer: GuidPrefix, session: Session, exchange_key: KeyMaterial) {
        self.end_attempt(peer);
        let Some(pair) = self.pairs.get_mut(&peer) else { return };
        let credential = Arc::clone(&session.credential);
        let old = pair.session.replace(session);
        pair.restart_suspected = None;
        let role = pair.role;
        let expiry = old.as_ref().map(|old| old.credential.valid_until());
        self.set_expiry(peer, expiry, credential.valid_until());
        let replaces = old.is_some();
        let authenticated = AuthenticatedPeer { peer, role, exchange_key, credential, replaces };
        self.emit(Event::Authenticated(Box::new(authenticated)));
    }

    fn refused(&mut self, now: Instant, peer: GuidPrefix, running: Running, refusal: Refusal) {
        self.statistics.refused = self.statistics.refused.saturating_add(1);
        let Some(pair) = self.pairs.get_mut(&peer) else { return };
        match running.kind {
            Kind::Review => return self.expel(now, peer, Expulsion::Refused(refusal)),
            // Only if the library fails.
            Kind::Begin => return self.give_up(now, peer),
            // A repetition may be verified by the candidates that were left out.
            Kind::Message if running.is_partial => {}
            Kind::Message => pair.refused.insert(running.digest.unwrap_or_default()),
        }
        if pair.is_half_open() {
            self.half_open.mark_refused(pair.source, pair.number, peer);
        }
        let Some(attempt) = &mut pair.attempt else { return };
        attempt.refusals = attempt.refusals.saturating_add(1);
        let is_first = attempt.last_refusal.replace(refusal.clone()).is_none();
        if is_first {
            self.refuse(peer, refusal);
        }
    }

    fn send_request(&mut self, now: Instant, to: GuidPrefix, sent: &Sent, identity: MessageIdentity, reserve: u8) {
        let token = sent.request.token();
        // Some peers accept no request that answers an announced challenge.
        let payload = Self::payload(to, identity, MessageIdentity::default(), names::AUTH_MESSAGE, token);
        if !self.send_unproven(now, to, payload, reserve)
            && let Some(attempt) = self.pairs.get_mut(&to).and_then(|pair| pair.attempt.as_mut())
        {
            attempt.resend.postpone(now, POSTPONED, reserve == 0);
        }
    }

    fn send_reply(
        &mut self,
        to: GuidPrefix,
        candidate: &Candidate,
        identity: MessageIdentity,
        related: MessageIdentity,
    ) {
        let credentials = candidate.local.credentials(&candidate.agreement_algorithm);
        let token = candidate.transcript.reply_token(&credentials, &candidate.signature);
        let payload = Self::payload(to, identity, related, names::AUTH_MESSAGE, token);
        self.send(to, payload);
    }

    const fn count_malformed(&mut self) {
        self.statistics.malformed = self.statistics.malformed.saturating_add(1);
    }

    const fn count_ignored(&mut self) {
        self.statistics.ignored = self.statistics.ignored.saturating_add(1);
    }
}
