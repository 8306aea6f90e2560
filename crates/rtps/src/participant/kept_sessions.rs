//! Peers that keep a session which this participant has lost.
//!
//! A process that was stopped for longer than its lease reads what has come meanwhile, and finds no lease of a peer at
//! its end. Fast DDS then takes this participant for authenticated as before, ignores its new handshakes, and protects
//! its messages with keys that this participant has dropped with the lease. A goodbye in clear makes Fast DDS forget
//! this participant, and discover and authenticate it anew.
//!
//! The goodbye is sent if no handshake succeeds in time after the peer is discovered again. See [`super::rejoin`].

use super::Participant;
use super::relocation::Relocation;
use super::remote::RemoteParticipant;
use crate::id::GuidPrefix;
use crate::time::Instant;
use crate::vendor::Quirks;

impl Participant {
    /// The lease of this peer has ended.
    pub(super) fn note_lost_session(&mut self, peer: &RemoteParticipant) {
        if peer.is_authenticated() && Quirks::of(peer.data.vendor).keeps_sessions {
            self.lost_sessions.note(peer.data.prefix);
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
