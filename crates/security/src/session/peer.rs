//! The state of a session with one peer.

use std::collections::BTreeMap;
use std::sync::Arc;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::time::{Instant, Span};

use super::early::EarlyTokens;
use super::step::Admission;
use crate::authentication::PeerCredential;
use crate::crypto::secure_entity as secure;
use crate::documents::SecurityMasks;
use crate::limits::{TOKEN_ANSWER_INTERVAL, TOKEN_ANSWERS, TOKEN_RESENDS};

/// Numbers of keys that are remembered: of two generations.
const SEEN_KEYS: usize = 4;

/// A peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) admission: Admission,
    /// The protection that SPDP announced, without a signature.
    pub(super) announced: Option<SecurityMasks>,
    /// The credential that the handshake verified.
    pub(super) credential: Option<Arc<PeerCredential>>,
    /// Endpoints whose rights were accepted, with their topics.
    pub(super) endpoints: BTreeMap<EntityId, String>,
    /// By the local and the remote entity. The participants themselves are a pair too.
    pub(super) matches: BTreeMap<(EntityId, EntityId), Match>,
    pub(super) early: EarlyTokens,
}

/// A pair of a local and a remote entity that share keys.
#[derive(Debug)]
pub(super) struct Match {
    /// Whether keys of the peer are required.
    pub(super) needs: bool,
    /// Whether there are keys to send.
    pub(super) gives: bool,
    pub(super) sent: bool,
    pub(super) received: bool,
    /// Whether it was reported that the keys are ready.
    pub(super) is_ready: bool,
    /// Whether the match has ended, and its keys wait for the next one.
    is_suspended: bool,
    /// Whether the pair is in the queue of pairs with something to do.
    pub(super) is_queued: bool,
    pub(super) sending: Sending,
    /// When the keys of the peer are asked for.
    pub(super) ask_at: Option<Instant>,
    ask_after: Span,
    pub(super) last_sent: Option<Instant>,
    resends: u8,
    answers: u8,
    /// The numbers of the latest keys that were received, the newest last.
    seen: Vec<[u8; 4]>,
}

/// Keys that are to be sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Sending {
    /// None.
    #[default]
    Nothing,
    /// The keys of a renewal.
    Renewed,
    /// All.
    All,
}

/// Identifies a pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PairKey {
    pub(super) peer: GuidPrefix,
    pub(super) local: EntityId,
    pub(super) remote: EntityId,
}

impl PairKey {
    pub(super) const PARTICIPANTS: (EntityId, EntityId) = (EntityId::PARTICIPANT, EntityId::PARTICIPANT);

    pub(super) const fn participants(peer: GuidPrefix) -> Self {
        Self { peer, local: EntityId::PARTICIPANT, remote: EntityId::PARTICIPANT }
    }

    pub(super) const fn remote_guid(self) -> Guid {
        Guid::new(self.peer, self.remote)
    }
}

impl Peer {
    pub(super) fn new() -> Self {
        Self {
            admission: Admission::Pending,
            announced: None,
            credential: None,
            endpoints: BTreeMap::new(),
            matches: BTreeMap::new(),
            early: EarlyTokens::default(),
        }
    }

    /// Forgets all endpoints and keys.
    pub(super) fn clear(&mut self) {
        self.endpoints.clear();
        self.matches.clear();
        self.early = EarlyTokens::default();
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.admission == Admission::Authenticated
    }
}

impl Match {
    pub(super) const fn new(needs: bool, gives: bool, ask_after: Span) -> Self {
        Self {
            needs,
            gives,
            sent: false,
            received: false,
            is_ready: false,
            is_suspended: false,
            is_queued: false,
            sending: if gives { Sending::All } else { Sending::Nothing },
            ask_at: None,
            ask_after,
            last_sent: None,
            resends: 0,
            answers: 0,
            seen: Vec::new(),
        }
    }

    /// The match has ended.
    pub(super) fn suspend(&mut self) {
        self.is_suspended = true;
        self.sending = Sending::Nothing;
        self.ask_at = None;
    }

    /// The endpoints match, perhaps again. The peer may have dropped the keys since, so that they are sent again.
    /// Returns whether that is necessary.
    pub(super) fn resume(&mut self) -> bool {
        let was_suspended = core::mem::replace(&mut self.is_suspended, false);
        if was_suspended {
            self.resends = 0;
            self.answers = 0;
            self.sending = if self.gives { Sending::All } else { Sending::Nothing };
        }
        was_suspended
    }

    /// Whether the pair may use its keys.
    pub(super) const fn has_keys(&self) -> bool {
        self.is_ready && !self.is_suspended
    }

    /// Whether the keys of this pair alone are exchanged.
    pub(super) const fn is_exchanged(&self) -> bool {
        (self.sent || !self.gives) && (self.received || !self.needs)
    }

    /// Notes that keys were sent. Returns when to ask for those of the peer, if they are missing.
    pub(super) fn note_sent(&mut self, now: Instant) -> Option<Instant> {
        self.sent = true;
        self.last_sent = Some(now);
        self.sending = Sending::Nothing;
        let waits = self.needs && !self.received && self.resends < TOKEN_RESENDS;
        self.ask_at = waits.then(|| now + self.ask_after);
        self.ask_at
    }

    /// The time to ask for the keys of the peer has come. Returns whether to ask.
    pub(super) fn ask(&mut self) -> bool {
        self.ask_at = None;
        if self.received || self.resends >= TOKEN_RESENDS {
            return false;
        }
        self.resends = self.resends.saturating_add(1);
        self.ask_after = self.ask_after.times(2);
        self.sending = Sending::All;
        true
    }

    /// Whether the last question has been asked, without an answer.
    pub(super) const fn is_given_up(&self) -> bool {
        self.needs && !self.received && self.resends >= TOKEN_RESENDS
    }

    /// Whether keys were sent, so that renewed ones must be sent too.
    pub(super) fn renew(&mut self) -> bool {
        let renews = self.sent && !self.is_suspended;
        if renews {
            self.sending = self.sending.max(Sending::Renewed);
        }
        renews
    }

    /// Whether keys with these numbers were received before.
    pub(super) fn has_seen(&self, key_ids: &[[u8; 4]]) -> bool {
        self.received && key_ids.iter().all(|id| self.seen.contains(id))
    }

    /// Notes that keys were accepted. Returns whether they replace others.
    pub(super) fn note_received(&mut self, key_ids: &[[u8; 4]]) -> bool {
        let replaces = self.received;
        self.received = true;
        self.ask_at = None;
        self.seen.retain(|id| !key_ids.contains(id));
        self.seen.extend_from_slice(key_ids);
        self.seen.drain(..self.seen.len().saturating_sub(SEEN_KEYS));
        replaces
    }

    /// Whether a repetition of the peer's keys is answered now.
    pub(super) fn answer(&mut self, now: Instant) -> bool {
        let is_due = self.last_sent.is_none_or(|at| now.since(at) >= TOKEN_ANSWER_INTERVAL);
        let answers = self.gives && self.sent && !self.is_suspended && is_due && self.answers < TOKEN_ANSWERS;
        if answers {
            self.answers = self.answers.saturating_add(1);
            self.sending = Sending::All;
        }
        answers
    }
}

/// The protected built-in endpoints: the bit of the remote one in the set that a participant announces, the local and
/// the remote endpoint (DDS Security 1.2 §7.5.9).
pub(super) const BUILTIN_PAIRS: [(u32, EntityId, EntityId); 8] = [
    (16, secure::PUBLICATIONS_READER, secure::PUBLICATIONS_WRITER),
    (17, secure::PUBLICATIONS_WRITER, secure::PUBLICATIONS_READER),
    (18, secure::SUBSCRIPTIONS_READER, secure::SUBSCRIPTIONS_WRITER),
    (19, secure::SUBSCRIPTIONS_WRITER, secure::SUBSCRIPTIONS_READER),
    (20, secure::MESSAGE_READER, secure::MESSAGE_WRITER),
    (21, secure::MESSAGE_WRITER, secure::MESSAGE_READER),
    (26, secure::PARTICIPANT_READER, secure::PARTICIPANT_WRITER),
    (27, secure::PARTICIPANT_WRITER, secure::PARTICIPANT_READER),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::TOKEN_RESEND_FIRST;

    #[test]
    fn questions_for_keys_end_after_their_number() {
        let mut pair = Match::new(true, true, TOKEN_RESEND_FIRST);
        let mut now = Instant(0);
        let mut questions = 0;
        while let Some(at) = pair.note_sent(now) {
            assert!(at > now);
            now = at;
            assert!(pair.ask());
            questions += 1;
        }
        assert_eq!(questions, TOKEN_RESENDS);
        assert!(pair.is_given_up() && !pair.ask());
        assert!(now.since(Instant(0)) < Span::from_secs(120));
    }

    #[test]
    fn repetitions_are_answered_within_their_bounds() {
        let mut pair = Match::new(true, true, TOKEN_RESEND_FIRST);
        let mut now = Instant(0);
        pair.note_sent(now);
        assert!(!pair.note_received(&[[1; 4]]) && pair.has_seen(&[[1; 4]]) && !pair.has_seen(&[[2; 4]]));
        assert!(!pair.answer(now + Span::from_millis(1)), "too early");
        for _ in 0..TOKEN_ANSWERS {
            now = now + TOKEN_ANSWER_INTERVAL;
            assert!(pair.answer(now));
            pair.note_sent(now);
        }
        assert!(!pair.answer(now + TOKEN_ANSWER_INTERVAL), "too many");
    }

    #[test]
    fn numbers_of_two_generations_are_remembered() {
        let mut pair = Match::new(true, true, TOKEN_RESEND_FIRST);
        assert!(!pair.note_received(&[[1; 4], [2; 4]]));
        assert!(pair.note_received(&[[3; 4], [4; 4]]) && pair.has_seen(&[[1; 4], [2; 4]]));
        assert!(pair.note_received(&[[5; 4], [6; 4]]) && !pair.has_seen(&[[1; 4]]) && pair.has_seen(&[[3; 4]]));
    }
}
