//! Peers that take no notice of a move of this participant.
//!
//! Cyclone DDS and Fast DDS keep the addresses that the first announcement of a participant names, and send to the old
//! ones for ever after the participant has moved. After a change of addresses, each peer that may be such a one is
//! asked by a HEARTBEAT, which it answers to the addresses that it knows. A peer that does not answer gets a goodbye,
//! which states that this participant has left, and then its announcement, so that it discovers this participant anew.
//! While this host has no path to the peer, as when a link is down, this participant sends no question and no goodbye.
//!
//! A peer that this participant discovers after a move may have known it all the time: during an outage its lease ended
//! here, and that of this participant not there. Such a peer announces itself, and its answers go to the former
//! addresses. If nothing has come from it for a while, it gets a goodbye too, at its next announcement if its credit
//! does not suffice before.
//!
//! A handshake of DDS Security states the addresses of this participant, and the peer uses them. If this participant
//! has moved while a handshake was under way, the peer is asked after it, of whatever vendor it is.
//!
//! The announcements after a goodbye go to the same addresses of the peer, and for a short time nothing is announced to
//! the groups: Fast DDS receives from each address in a thread of its own, and drops a goodbye if it has processed an
//! announcement with a higher sequence number before. A peer with several addresses gets goodbye and announcement at
//! each, and the first goodbye precedes all announcements.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::discovery::data::BuiltinEndpointSet;
use crate::id::{Guid, GuidPrefix};
use crate::limits::{FORMER_ADDRESSES_STATED, KEYS_EXCHANGED_WITHIN, MOVE_QUESTIONS, REJOIN_SILENCE, RETURN_QUESTIONS};
use crate::locator::Locator;
use crate::reader::Reception;
use crate::receiver::Input;
use crate::time::{Instant, Timestamp};
use crate::vendor::Quirks;

use super::Participant;
use super::addresses::Addresses;
use super::answer_repetitions::AnswerRepetitions;
use super::moves::is_answer_to_question;
use super::relocation::{Relocation, Step};
use super::remote::RemoteParticipant;

impl Participant {
    /// This participant had other addresses before. With security, only authenticated peers are asked.
    pub(super) fn find_peers_left_behind(&mut self, now: Instant, before: &Addresses) {
        let is_secured = self.config.protection.is_some();
        let is_gone = self.config.addresses.lacks_some_of(before);
        self.has_moved |= is_gone;
        self.hurry_secure_rejoins(now);
        let before = Arc::new(before.clone());
        let now_at = &self.config.addresses;
        let mut found = Vec::new();
        for (prefix, remote) in &mut self.remotes {
            // A peer that was discovered after a move has never reached this participant at other addresses.
            let is_concerned = is_gone || remote.relocation.from().is_some();
            if is_gone {
                remote.note_move_before_handshake(now, &before);
            }
            if !remote.is_left_behind() || !is_concerned || is_secured && !remote.is_authenticated() {
                continue;
            }
            let former = Arc::clone(remote.relocation.from().unwrap_or(&before));
            remote.relocation = if !remote.is_verified {
                // Its next announcement begins the steps anew.
                Relocation::Settled
            } else if now_at.are_cut_off(&former, &remote.metatraffic) {
                Relocation::CutOff(former)
            } else if now_at.are_former(&former, &remote.metatraffic, remote.relocation.is_cut_off()) {
                Relocation::asking(now, Some(former), RETURN_QUESTIONS)
            } else {
                Relocation::asking(now, Some(former), MOVE_QUESTIONS)
            };
            found.push(*prefix);
        }
        found.into_iter().for_each(|prefix| self.heal_later(prefix));
    }

    /// A peer that has not shown yet that it hears this participant has announced itself. If this participant has ever
    /// moved, the peer may have known it before, and may send to the former addresses. With security, the peer may keep
    /// a former session. Returns whether the peer was sent a goodbye, and then the announcement.
    pub(super) fn pursue_discovered_peer(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix) -> bool {
        let may_have_known = self.has_moved && self.config.protection.is_none();
        let Some(remote) = self.remotes.get_mut(&prefix) else { return false };
        if !may_have_known && !remote.relocation.is_open() {
            return false;
        }
        debug_assert!(!remote.is_verified, "verified peers are pursued from a move on");
        if !remote.is_left_behind() {
            return false;
        }
        if remote.relocation.is_open() {
            remote.relocation.resume(now);
        } else {
            remote.relocation = Relocation::discovered(now);
        }
        self.heal_later(prefix);
        let rejoins = self.rejoins;
        self.pursue_relocation(now, wall, prefix);
        self.rejoins > rejoins
    }

    /// A peer that was taken for gone is there. This participant may have moved meanwhile.
    pub(super) fn ask_after_return(&mut self, now: Instant, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        if self.has_moved && self.config.protection.is_none() && remote.is_left_behind() {
            let from = remote.relocation.from().cloned();
            remote.relocation = Relocation::asking(now, from, RETURN_QUESTIONS);
            self.heal_later(prefix);
        }
    }

    /// A handshake with a peer is complete. If this participant has moved while the handshake was under way, the peer
    /// is asked, unless a message of the exchange of keys comes from it before.
    pub(super) fn ask_after_handshake(&mut self, now: Instant, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        let Some(security) = remote.security.as_deref_mut() else { return };
        if let Some((_, from)) = security.former_addresses.take_if(|(at, _)| now.since(*at) < FORMER_ADDRESSES_STATED) {
            security.may_use_former = true;
            remote.relocation = Relocation::asking(now + KEYS_EXCHANGED_WITHIN, Some(from), MOVE_QUESTIONS);
            self.heal_later(prefix);
        }
    }

    /// Asks a peer after a move, or makes it discover this participant anew.
    pub(super) fn pursue_relocation(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        if remote.relocation.is_open() && !remote.is_left_behind() {
            remote.relocation = Relocation::Settled;
            if remote.is_verified {
                remote.answer_repetitions.end();
            }
        }
        match remote.relocation.take_due(now) {
            None => (),
            Some(Step::Ask) if self.is_authenticated(prefix) => {
                let reader = self.ask_securely(now, prefix);
                if let Some(remote) = self.remotes.get_mut(&prefix) {
                    remote.relocation.note_asked(reader);
                }
            }
            Some(Step::Rejoin) if self.may_keep_lost_session(prefix) => self.rejoin_in_clear(now, wall, prefix),
            Some(Step::Rejoin) if self.is_authenticated(prefix) => self.rejoin_securely(now, wall, prefix),
            Some(Step::Ask) => self.question(now, prefix),
            Some(Step::Rejoin) => self.rejoin(now, wall, prefix),
        }
    }

    /// Sends a peer a goodbye, and then the announcement of this participant, within the credit of the peer.
    fn rejoin(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix) {
        let messages = [self.goodbye(wall, Some(prefix)), self.announcement(wall, Some(prefix))];
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        let bytes = messages.iter().map(Vec::len).sum();
        if remote.metatraffic.is_empty() || !remote.spend_on_answer(&mut self.answers, now, bytes) {
            remote.relocation.put_off(remote.is_verified.then_some(now));
            return;
        }
        remote.relocation.note_goodbye(now);
        remote.answer_repetitions = AnswerRepetitions::default();
        remote.answer_repetitions.begin(now);
        remote.answered_at = Some(now);
        let to = Arc::clone(&remote.metatraffic);
        messages.iter().for_each(|message| self.say(message, Arc::clone(&to)));
        self.announcer.be_silent(now, REJOIN_SILENCE);
        self.rejoins += 1;
    }

    /// A peer that answers a question has the present addresses of this participant. An impostor elsewhere on the
    /// network cannot answer for it.
    pub(super) fn hear_of_relocation(&mut self, rx: &Reception<'_>, from: Guid, input: &Input<'_>) {
        if let Some(remote) = self.remotes.get_mut(&from.prefix)
            && remote.relocation.is_open()
            && !remote.may_keep_session(self.config.protection.is_some())
            && remote.is_answer(from, input)
            && remote.names(rx.source, &self.config.addresses.paths)
        {
            remote.settle();
        }
    }

    /// A message of the exchange of keys has come from a peer. Only the peer of the handshake has the key of this
    /// channel: it has the present addresses of this participant, even if its answers to questions wait for keys.
    pub(super) fn hear_of_keys(&mut self, rx: &Reception<'_>, from: GuidPrefix) {
        if let Some(remote) = self.remotes.get_mut(&from)
            && remote.relocation.is_open()
            && remote.is_authenticated()
            && remote.may_use_former()
            && remote.names(rx.source, &self.config.addresses.paths)
        {
            remote.settle();
        }
    }
}

impl RemoteParticipant {
    /// It has the present addresses of this participant.
    fn settle(&mut self) {
        self.relocation = Relocation::Settled;
        self.answer_repetitions.end();
        if let Some(security) = self.security.as_deref_mut() {
            security.may_use_former = false;
        }
    }

    /// Whether its handshake may have stated former addresses of this participant.
    fn may_use_former(&self) -> bool {
        self.security.as_deref().is_some_and(|security| security.may_use_former)
    }

    /// Whether this participant pursues it because it may keep a former session: only a new one shows the contrary.
    fn may_keep_session(&self, is_secure: bool) -> bool {
        is_secure && !self.is_authenticated() && self.relocation.from().is_none()
    }

    /// Whether it answers a question by this. An authenticated peer answers with the reader that was asked: others may
    /// have no protection, and an impostor could answer for them.
    fn is_answer(&self, from: Guid, input: &Input<'_>) -> bool {
        match self.is_authenticated() {
            true => self.relocation.has_asked(from.entity) && matches!(input, Input::AckNack(_)),
            false => is_answer_to_question(from, input),
        }
    }

    /// Whether it announces the endpoint for secure announcements. Fast DDS 2.9 does, and does not answer there.
    fn has_secure_announcements(&self) -> bool {
        self.builtin_endpoints().contains(BuiltinEndpointSet::PARTICIPANT_SECURE_READER)
    }

    /// This participant has moved. A handshake may be under way with it, also if it is authenticated already.
    fn note_move_before_handshake(&mut self, now: Instant, former: &Arc<Addresses>) {
        if let Some(security) = self.security.as_deref_mut() {
            security.former_addresses = Some((now, Arc::clone(former)));
        }
    }

    /// Whether it takes no notice of moves, or may have missed the latest one, and can answer a question after one.
    fn is_left_behind(&self) -> bool {
        let asked = BuiltinEndpointSet::PUBLICATIONS_DETECTOR;
        let can_answer = match self.is_authenticated() {
            true => self.has_secure_announcements() || Quirks::of(self.data.vendor).keeps_sessions,
            false => self.builtin_endpoints().contains(asked),
        };
        can_answer && (self.may_use_former() || !Quirks::of(self.data.vendor).follows_moves)
    }
}

impl Addresses {
    /// Whether this host has no path to a peer at these addresses. A goodbye might wait in a queue of the host until
    /// the link is back. The host keeps the address of an interface without a link, and sends there; an address that
    /// the host has no longer is no obstacle.
    fn are_cut_off(&self, former: &Self, peer: &[Locator]) -> bool {
        if peer.iter().filter_map(|l| l.to_socket_addr()).any(|address| former.paths.is_own(address.ip())) {
            return false;
        }
        let has_lost_link = former.paths.attaches(peer, true) && self.paths.attaches(peer, false);
        let has_none = self.default_unicast.iter().all(|locator| locator.is_loopback());
        has_none || has_lost_link && !self.paths.attaches(peer, true)
    }

    /// Whether the peer may answer late because this host is back at its former addresses, for example after its link
    /// was down: at all of them, or after the link to the peer was down (`waited`), at one in the peer's network.
    fn are_former(&self, former: &Self, peer: &[Locator], waited: bool) -> bool {
        !self.lacks_some_of(former) || waited && self.paths.attaches_as_before(&former.paths, peer)
    }

    /// Whether this host is no longer at one of these unicast addresses.
    fn lacks_some_of(&self, before: &Self) -> bool {
        let lacks = |now: &[Locator], before: &[Locator]| before.iter().any(|locator| !now.contains(locator));
        lacks(&self.metatraffic_unicast, &before.metatraffic_unicast)
            || lacks(&self.default_unicast, &before.default_unicast)
    }
}
