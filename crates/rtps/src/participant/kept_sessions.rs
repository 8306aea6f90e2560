//! Peers that keep a session which this participant has lost.
//!
//! A process that was stopped for longer than its lease reads what has come meanwhile, and finds no lease of a peer at
//! its end. Fast DDS then takes this participant for authenticated as before, ignores its new handshakes, and protects
//! its messages with keys that this participant has dropped with the lease. A goodbye in clear makes Fast DDS forget
//! this participant, and discover and authenticate it anew.
//!
//! The goodbye is sent if no handshake succeeds in time after the peer is discovered again. See [`super::rejoin`].
//!
//! The reverse: this process was stopped for longer than its lease, so that peers have forgotten it, and takes them for
//! authenticated as before. Most peers begin a handshake then, or announce a challenge. Fast DDS waits for a request if
//! the other side begins handshakes. This participant then ends the session as if the lease of the peer had ended.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Participant;
use super::event::LostReason;
use super::relocation::Relocation;
use super::remote::RemoteParticipant;
use crate::id::GuidPrefix;
use crate::limits::REJOIN_SILENCE;
use crate::time::{Instant, Timestamp};
use crate::vendor::Quirks;

impl Participant {
    /// The lease of this peer has ended.
    pub(super) fn note_lost_session(&mut self, peer: &RemoteParticipant) {
        if peer.is_authenticated() && Quirks::of(peer.data.vendor).keeps_sessions {
            self.lost_sessions.note(peer.data.prefix);
        }
    }

    /// Whether an authenticated peer may believe a goodbye in clear.
    pub(super) fn may_keep_lost_session(&self, peer: GuidPrefix) -> bool {
        let remote = self.remotes.get(&peer).filter(|remote| Quirks::of(remote.data.vendor).keeps_sessions);
        remote.is_some_and(|remote| remote.is_authenticated())
    }

    /// Lets such a peer discover this participant anew: this participant has moved, and the peer does not answer. The
    /// goodbye is repeated until the peer is authenticated again, as after the end of its lease. Fast DDS 2.9 announces
    /// endpoints for secure announcements, and has none: a peer with such endpoints gets both kinds of goodbye.
    pub(super) fn rejoin_in_clear(&mut self, now: Instant, wall: Timestamp, peer: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&peer) else { return };
        let to = Arc::clone(&remote.metatraffic);
        if to.is_empty() {
            remote.relocation.put_off(Some(now));
            return;
        }
        self.lost_sessions.note(peer);
        self.rejoin_securely(now, wall, peer);
        if self.remotes.contains_key(&peer) {
            self.rejoins += 1;
            self.remove_participant(now, wall, peer, LostReason::Moved);
        }
        for message in [self.goodbye(wall, Some(peer)), self.announcement(wall, Some(peer))] {
            self.say(&message, Arc::clone(&to));
        }
        self.announcer.be_silent(now, REJOIN_SILENCE);
    }

    /// If this participant has announced nothing for longer than its lease, peers have forgotten it.
    pub(super) fn notice_silence(&mut self, now: Instant, wall: Timestamp) {
        if self.announcer.take_silence(now, self.config.lease) {
            self.end_forgotten_sessions(now, wall);
        }
    }

    fn end_forgotten_sessions(&mut self, now: Instant, wall: Timestamp) {
        let own = self.config.prefix;
        let waits_for_request = |remote: &RemoteParticipant| {
            // The participant with the lower GUID begins handshakes.
            let begins = own < remote.data.prefix;
            begins && remote.is_authenticated() && !Quirks::of(remote.data.vendor).announces_challenges
        };
        let ended = self.remotes.iter().filter(|(_, remote)| waits_for_request(remote)).map(|(peer, _)| *peer);
        for peer in ended.collect::<Vec<_>>() {
            self.remove_participant(now, wall, peer, LostReason::LeaseExpired);
        }
    }

    /// A peer was discovered. If its session was lost with its lease, the peer gets a goodbye unless it is
    /// authenticated soon. The note stays until then: the peer may be lost again, or an impostor may announce it.
    pub(super) fn suspect_kept_session(&mut self, now: Instant, peer: GuidPrefix) {
        if self.lost_sessions.contains(peer)
            && let Some(remote) = self.remotes.get_mut(&peer)
            && Quirks::of(remote.data.vendor).keeps_sessions
        {
            remote.relocation = Relocation::discovered(now);
            self.heal_later(peer);
        }
    }

    /// A peer is authenticated: it does not keep a former session.
    pub(super) fn note_new_session(&mut self, peer: GuidPrefix) {
        self.lost_sessions.remove(peer);
        if let Some(remote) = self.remotes.get_mut(&peer)
            && remote.relocation.is_open()
            && remote.relocation.from().is_none()
        {
            remote.relocation = Relocation::Settled;
            remote.answer_repetitions.end();
        }
    }
}
