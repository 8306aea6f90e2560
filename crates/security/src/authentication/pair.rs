//! The state of authentication with one peer.
//!
//! ```text
//! this participant begins     prepare ── Request ──> sent ── Reply, accepted: send Final ──> session
//! the peer begins             wait ── Request, accepted: send Reply ──> candidate ── Final, accepted ──> session
//! ```
//!
//! Requests are not signed, so that each one that was accepted remains a candidate until one of them is confirmed. A
//! session remains until the handshake that replaces it is complete.

use core::net::IpAddr;
use std::sync::Arc;

use peregrine_rtps::time::{Instant, Span};

use super::budget::Budget;
use super::contents::{Challenge, Final, Hash, Reply, Request};
use super::credential::PeerCredential;
use super::job::{Candidate, Sent, ToConfirm};
use super::refusal::Refusal;
use crate::crypto::ExchangeRole;
use crate::limits::{
    ANSWER_INTERVAL, CANDIDATE_TIME, CANDIDATES, HANDSHAKE_TIME, REFUSED_MESSAGES, REQUESTS_PER_PEER, RESEND_FIRST,
    RESEND_MAX, RESENDS, VERIFICATIONS_PER_PEER,
};
use crate::message::MessageIdentity;

#[derive(Debug)]
pub(super) struct Pair {
    pub(super) role: ExchangeRole,
    /// Where the peer was first seen. It may be forged, and decides only how resources are shared.
    pub(super) source: IpAddr,
    /// In the order in which the peers, or their latest handshakes, began.
    pub(super) number: u64,
    pub(super) attempt: Option<Attempt>,
    pub(super) session: Option<Session>,
    /// A message that waits for a job.
    pub(super) waiting: Option<Waiting>,
    /// Whether the certificate of the session is to be verified again.
    pub(super) review: bool,
    pub(super) job: Option<Running>,
    pub(super) refused: Recent,
    /// The budget for requests, of which any host can send any number.
    pub(super) requests: Budget,
    /// The budget for verifications of last messages by more candidates than one.
    verifications: Budget,
    /// No attempt begins before.
    pub(super) not_before: Instant,
    /// The number by which it is among the idle ones.
    pub(super) idle: Option<u64>,
    /// The timer that is set.
    pub(super) timer: Option<Instant>,
    /// When an authenticated peer announced a challenge, as it does after a restart.
    pub(super) restart_suspected: Option<Instant>,
}

/// A handshake.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) challenge: Challenge,
    pub(super) phase: Phase,
    pub(super) resend: Resend,
    /// The attempt began with a request of the peer, and repeats nothing by itself.
    pub(super) passive: bool,
    pub(super) began: Instant,
    pub(super) until: Instant,
    pub(super) refusals: u32,
    pub(super) last_refusal: Option<Refusal>,
}

#[derive(Debug)]
pub(super) enum Phase {
    Prepare,
    Sent { sent: Arc<Sent>, identity: MessageIdentity },
    Wait(Vec<Open>),
}

/// A candidate, and its reply.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) candidate: Arc<Candidate>,
    pub(super) identity: MessageIdentity,
    /// The request as it was received last.
    pub(super) related: MessageIdentity,
    pub(super) source: IpAddr,
    pub(super) resend: Resend,
    pub(super) until: Instant,
    /// The trust by which its certificate was accepted.
    pub(super) trust: u64,
    /// Last messages that were verified by it.
    pub(super) checks: u32,
}

/// A handshake that is complete.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) credential: Arc<PeerCredential>,
    /// Of the peer in the handshake.
    pub(super) challenge: Challenge,
    /// Of the message that completed it, or of the request that began it.
    pub(super) digest: Hash,
    /// The last message, until the peer shows that it has it.
    pub(super) last: Option<LastMessage>,
    /// Whether the peer has shown that the handshake is complete there too.
    pub(super) is_confirmed: bool,
}

#[derive(Debug)]
pub(super) struct LastMessage {
    pub(super) payload: Vec<u8>,
    pub(super) resend: Resend,
    pub(super) until: Instant,
}

/// When a message is repeated, and how often it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resend {
    count: u32,
    next: Instant,
    answered: Instant,
    /// The message was not sent at all yet.
    pub(super) is_unsent: bool,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) message: Message,
    pub(super) digest: Hash,
    pub(super) identity: MessageIdentity,
    pub(super) source: IpAddr,
    /// The bytes that it counts as.
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) enum Message {
    Request(Box<Request>),
    Reply(Box<Reply>),
    Final(Box<Final>),
}

/// A job that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) number: u64,
    pub(super) kind: Kind,
    /// Of the message that it examines.
    pub(super) digest: Option<Hash>,
    pub(super) identity: MessageIdentity,
    pub(super) source: IpAddr,
    /// Its result does not count if the trust has changed.
    pub(super) trust: u64,
    /// Whether the message is verified by fewer candidates than may have led to it.
    pub(super) is_partial: bool,
}

/// The subject of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The key of a request of this participant.
    Begin,
    /// A message of the peer.
    Message,
    /// The certificate of a session.
    Review,
}

/// Messages that were refused lately.
#[derive(Debug, Default)]
pub(super) struct Recent([Hash; REFUSED_MESSAGES], usize);

impl Pair {
    pub(super) fn new(role: ExchangeRole, source: IpAddr, number: u64, now: Instant) -> Self {
        Self {
            role,
            source,
            number,
            attempt: None,
            session: None,
            waiting: None,
            review: false,
            job: None,
            refused: Recent::default(),
            requests: Budget::new(REQUESTS_PER_PEER, REQUESTS_PER_PEER, now),
            verifications: Budget::new(VERIFICATIONS_PER_PEER, VERIFICATIONS_PER_PEER, now),
            not_before: Instant::default(),
            idle: None,
            timer: None,
            restart_suspected: None,
        }
    }

    pub(super) const fn is_half_open(&self) -> bool {
        self.attempt.is_some() && self.session.is_none()
    }

    pub(super) const fn is_idle(&self) -> bool {
        self.attempt.is_none() && self.session.is_none()
    }

    /// Whether the peer has shown a certificate that was accepted.
    pub(super) fn is_proven(&self) -> bool {
        let candidates = self.attempt.as_ref().map(Attempt::candidates).unwrap_or_default();
        self.session.is_some() || !candidates.is_empty()
    }

    /// Of 256: the part of a budget that is kept for messages from where the peer was first seen.
    pub(super) fn reserve_against(&self, source: IpAddr) -> u8 {
        if source == self.source { 0 } else { 128 }
    }

    /// The candidates by which a last message from an address is verified, and the number of those that are left out.
    /// The first verification is free, all others have a budget. The candidates take turns, so that a true one that was
    /// left out verifies a repetition of the message.
    pub(super) fn candidates_for(
        &mut self,
        now: Instant,
        last: &Final,
        source: IpAddr,
        trust: u64,
    ) -> (Vec<ToConfirm>, usize) {
        let reserve = self.reserve_against(source);
        let Some(Phase::Wait(candidates)) = self.attempt.as_mut().map(|attempt| &mut attempt.phase) else {
            return (Vec::new(), 0);
        };
        let mut confirmed: Vec<_> = candidates.iter_mut().filter(|open| open.candidate.confirms(last)).collect();
        confirmed.sort_by_key(|open| (open.checks, open.source != source));
        let all = confirmed.len();
        let paid = (1..all).take_while(|_| self.verifications.take(now, 1, reserve)).count();
        let to_confirm = confirmed.into_iter().take(paid.saturating_add(1)).map(|open| {
            open.checks = open.checks.saturating_add(1);
            ToConfirm { candidate: Arc::clone(&open.candidate), review: open.trust != trust }
        });
        let to_confirm: Vec<_> = to_confirm.collect();
        let left_out = all.saturating_sub(to_confirm.len());
        (to_confirm, left_out)
    }

    /// Whether a message waits or is examined whose bytes are these.
    pub(super) fn is_examined(&self, digest: &Hash) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.digest == *digest)
            || self.job.is_some_and(|job| job.digest.as_ref() == Some(digest))
    }

    pub(super) fn has_work(&self) -> bool {
        let prepares = self.attempt.as_ref().is_some_and(|attempt| matches!(attempt.phase, Phase::Prepare));
        self.job.is_none() && (prepares || self.waiting.is_some() || self.review)
    }

    /// When something is to be done.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let attempt = self.attempt.as_ref().map(Attempt::deadline);
        let last = self.session.as_ref().and_then(|session| session.last.as_ref()).map(|last| last.until);
        let restart = self.restart_suspected.map(|at| at + crate::limits::RESTART_SILENCE);
        [attempt, last, restart].into_iter().flatten().min()
    }
}

impl Attempt {
    pub(super) fn new(challenge: Challenge, role: ExchangeRole, passive: bool, now: Instant) -> Self {
        let phase = match role {
            ExchangeRole::Initiator => Phase::Prepare,
            ExchangeRole::Replier => Phase::Wait(Vec::new()),
        };
        let resend = Resend::first(now);
        let until = now + if passive { CANDIDATE_TIME } else { HANDSHAKE_TIME };
        Self { challenge, phase, resend, passive, began: now, until, refusals: 0, last_refusal: None }
    }

    pub(super) fn candidates(&self) -> &[Open] {
        match &self.phase {
            Phase::Wait(candidates) => candidates,
            Phase::Prepare | Phase::Sent { .. } => &[],
        }
    }

    /// Whether this attempt repeats its own message: the request, or the announcement of the challenge as long as there
    /// is no request.
    pub(super) fn repeats(&self) -> bool {
        match &self.phase {
            Phase::Prepare => false,
            Phase::Sent { .. } => true,
            Phase::Wait(candidates) => !self.passive && candidates.is_empty(),
        }
    }

    /// Keeps a candidate. In place of one more than [`CANDIDATES`], the newest of the address with the most is dropped.
    pub(super) fn open(&mut self, open: Open) {
        let Phase::Wait(candidates) = &mut self.phase else { return };
        if candidates.len() >= CANDIDATES {
            let count = |source| candidates.iter().filter(|open| open.source == source).count();
            let newest = (0..candidates.len()).max_by_key(|at| candidates.get(*at).map(|open| count(open.source)));
            if let Some(newest) = newest {
                candidates.remove(newest);
            }
        }
        candidates.push(open);
    }

    pub(super) fn expire_candidates(&mut self, now: Instant) {
        if let Phase::Wait(candidates) = &mut self.phase {
            candidates.retain(|open| now < open.until);
        }
    }

    fn deadline(&self) -> Instant {
        let own = self.repeats().then_some(self.resend.next);
        let candidates = self.candidates().iter().map(|open| open.until.min(open.resend.due()));
        candidates.chain(own).fold(self.until, Instant::min)
    }
}

impl Resend {
    pub(super) fn first(now: Instant) -> Self {
        Self { count: 0, next: now + RESEND_FIRST, answered: now, is_unsent: false }
    }

    /// When the message is to be repeated; never if it was repeated often enough.
    pub(super) const fn due(&self) -> Instant {
        if self.count < RESENDS { self.next } else { Instant::FAR_FUTURE }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due() <= now
    }

    /// Whether the time after the last repetition has passed, too.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.count >= RESENDS && self.next <= now
    }

    /// Counts a repetition.
    pub(super) fn repeat(&mut self, now: Instant) {
        self.count = self.count.saturating_add(1);
        let factor = 1u64.checked_shl(self.count).unwrap_or(u64::MAX);
        self.next = now + RESEND_FIRST.times(factor).min(RESEND_MAX);
        self.answered = now;
        self.is_unsent = false;
    }

    /// Does what was just counted at another time.
    pub(super) fn postpone(&mut self, now: Instant, by: Span, is_unsent: bool) {
        self.is_unsent = is_unsent;
        self.count = self.count.saturating_sub(1);
        self.next = now + by;
    }

    /// Whether a repetition that the peer asks for is due. It counts as the next repetition.
    pub(super) fn answer(&mut self, now: Instant) -> bool {
        if self.count >= RESENDS || now.since(self.answered) < ANSWER_INTERVAL {
            return false;
        }
        self.repeat(now);
        true
    }
}

impl Message {
    /// Messages that show that their sender has received something come before others.
    pub(super) const fn is_proof(&self) -> bool {
        !matches!(self, Self::Request(_))
    }
}

impl Recent {
    pub(super) fn insert(&mut self, digest: Hash) {
        if let Some(slot) = self.0.get_mut(self.1) {
            *slot = digest;
        }
        self.1 = self.1.saturating_add(1) % REFUSED_MESSAGES;
    }

    pub(super) fn contains(&self, digest: &Hash) -> bool {
        self.0.contains(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_double_their_interval_up_to_a_maximum_and_end() {
        let mut resend = Resend::first(Instant(0));
        let mut times = Vec::new();
        while resend.due() < Instant::FAR_FUTURE {
            let now = resend.due();
            assert!(resend.is_due(now) && !resend.is_due(now - Span(1)));
            resend.repeat(now);
            times.push(now.0 / 1_000_000);
        }
        assert_eq!(times.len(), RESENDS as usize);
        assert_eq!(times[..6], [100, 300, 700, 1500, 3100, 6300]);
        assert_eq!(times[9] - times[8], 5000);
        assert!(Instant(times[9] * 1_000_000) + RESEND_MAX < Instant(0) + HANDSHAKE_TIME);
        assert!(resend.is_over(Instant(0) + HANDSHAKE_TIME) && !resend.is_over(Instant(times[9] * 1_000_000)));
    }

    #[test]
    fn repetitions_on_request_are_bounded_in_rate_and_number() {
        let mut resend = Resend::first(Instant(0));
        let mut now = Instant(0);
        let mut count = 0;
        for _ in 0..10_000 {
            now = now + Span::from_millis(1);
            count += u32::from(resend.answer(now));
            assert!(u64::from(count) * ANSWER_INTERVAL.0 <= now.0);
        }
        assert_eq!(count, RESENDS);
    }

    #[test]
    fn refused_messages_are_remembered_up_to_a_number() {
        let mut recent = Recent::default();
        (1..=REFUSED_MESSAGES as u8 + 1).for_each(|number| recent.insert([number; 32]));
        assert!(!recent.contains(&[1; 32]));
        assert!((2..=REFUSED_MESSAGES as u8 + 1).all(|number| recent.contains(&[number; 32])));
    }
}
