//! Authenticated peers that take no notice of a move of this participant.
//!
//! Such a peer believes only a goodbye under the keys of the secure announcements. This participant sends it, forgets
//! the peer, and announces itself to the addresses of the peer. Both discover and authenticate each other anew. Fast
//! DDS gets a goodbye in clear as well: see [`super::kept_sessions`].
//!
//! The goodbye has the number after the last announcement. A GAP before it passes over announcements that the peer has
//! not received: its requests for them go to the former addresses. This participant then writes its announcement once
//! more, under that number, which leaves before the goodbye: other participants take a copy of the goodbye for a
//! repetition.
//!
//! A peer that has received no goodbye ignores new handshakes. The goodbye is therefore repeated until the peer is
//! authenticated again. A peer that has received it has forgotten the keys, and cannot open the repetitions.

use alloc::sync::Arc;

use super::event::LostReason;
use super::rejoin_steps::{SecureRejoin, Step};
use super::sealed_announcement::Said;
use super::{Admission, Participant};
use crate::history::ChangeKind;
use crate::id::GuidPrefix;
use crate::limits::{PARTICIPANTS_MAX, REJOIN_SILENCE};
use crate::time::{Instant, Timestamp};

impl Participant {
    /// Lets an authenticated peer discover this participant anew.
    pub(super) fn rejoin_securely(&mut self, now: Instant, wall: Timestamp, peer: GuidPrefix) {
        let Some(remote) = self.remotes.get(&peer) else { return };
        let to = Arc::clone(&remote.metatraffic);
        self.secure_rejoins.retain(|rejoin| rejoin.peer != peer);
        let goodbye = self.sealed_announcement(wall, peer, &to, Said::Goodbye).filter(|_| !to.is_empty());
        let Some(goodbye) = goodbye.filter(|_| self.secure_rejoins.len() < PARTICIPANTS_MAX) else {
            if let Some(remote) = self.remotes.get_mut(&peer) {
                remote.relocation.put_off(Some(now));
            }
            return;
        };
        self.rejoins += 1;
        self.secure_rejoins.push(SecureRejoin::new(now, peer, to, goodbye));
        self.remove_participant(now, wall, peer, LostReason::Moved);
        self.must_repeat_announcement = true;
    }

    /// Writes the announcement once more, under the number of the goodbyes that were made since the last one.
    pub(super) fn consume_number_of_goodbyes(&mut self, now: Instant, wall: Timestamp) {
        if core::mem::take(&mut self.must_repeat_announcement) && !self.said_securely.is_empty() {
            let announcement = core::mem::take(&mut self.said_securely);
            self.write_securely(now, wall, ChangeKind::Alive, &announcement);
            self.said_securely = announcement;
        }
    }

    /// Sends the goodbyes and announcements that are due.
    pub(super) fn continue_secure_rejoins(&mut self, now: Instant, wall: Timestamp) {
        if self.next_secure_rejoin().is_none_or(|at| at > now) {
            return;
        }
        let mut rejoins = core::mem::take(&mut self.secure_rejoins);
        rejoins.retain(|rejoin| rejoin.goes_on() && self.awaits_handshake(rejoin.peer));
        for rejoin in rejoins.iter_mut().filter(|rejoin| rejoin.next <= now) {
            let found = self.remotes.get(&rejoin.peer).map(|remote| &remote.metatraffic);
            let to = Arc::clone(found.filter(|to| !to.is_empty()).unwrap_or(&rejoin.to));
            match rejoin.take_step(now) {
                Step::Goodbye => {
                    self.announcer.be_silent(now, REJOIN_SILENCE);
                    self.outbox.push_message(&rejoin.goodbye, to);
                }
                Step::Announcement => {
                    let announcement = self.announcement(wall, Some(rejoin.peer));
                    self.say(&announcement, to);
                }
            }
        }
        debug_assert!(rejoins.len() <= PARTICIPANTS_MAX);
        self.secure_rejoins = rejoins;
    }

    /// Whether a peer is unknown, or known and neither authenticated nor refused nor used without that.
    fn awaits_handshake(&self, peer: GuidPrefix) -> bool {
        !self.remotes.contains_key(&peer) || matches!(self.admission(&peer), Some(Admission::Pending))
    }

    /// When [`Self::continue_secure_rejoins`] is due.
    pub(super) fn next_secure_rejoin(&self) -> Option<Instant> {
        self.secure_rejoins.iter().map(|rejoin| rejoin.next).min()
    }

    /// This participant has other addresses again: it sends the goodbyes and announcements to these peers soon.
    pub(super) fn hurry_secure_rejoins(&mut self, now: Instant) {
        self.secure_rejoins.iter_mut().for_each(|rejoin| rejoin.begin_again(now));
    }
}
