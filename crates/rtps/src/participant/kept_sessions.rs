//! Peers that keep a session which this participant has lost.
//!
//! A process that was stopped for longer than its lease reads what has come meanwhile, and finds no lease of a peer at
//! its end. Fast DDS then takes this participant for authenticated as before, ignores its new handshakes, and protects
//! its messages with keys that this participant has dropped with the lease. A goodbye in clear makes Fast DDS forget
//! this participant, and discover and authenticate it anew.
//!
//! The goodbye is sent if no handshake succeeds in time after the peer is discovered again. See [`super::rejoin`].

use alloc::collections::VecDeque;

use super::Participant;
use super::relocation::Relocation;
use super::remote::RemoteParticipant;
use crate::id::GuidPrefix;
use crate::limits::LOST_SESSIONS_MAX;
use crate::time::Instant;
use crate::vendor::Quirks;

/// Peers that may keep a session, the oldest first. The oldest gives way.
#[derive(Debug, Default)]
pub(super) struct LostSessions(VecDeque<GuidPrefix>);

impl LostSessions {
    /// The lease of this peer has ended.
    pub(super) fn note(&mut self, peer: &RemoteParticipant) {
        if !peer.is_authenticated() || !Quirks::of(peer.data.vendor).keeps_sessions {
            return;
        }
        self.take(peer.data.prefix);
        if self.0.len() >= LOST_SESSIONS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(peer.data.prefix);
    }

    /// Whether the peer was noted. It is no longer.
    pub(super) fn take(&mut self, peer: GuidPrefix) -> bool {
        let at = self.0.iter().position(|lost| *lost == peer);
        at.and_then(|at| self.0.remove(at)).is_some()
    }
}

impl Participant {
    /// A peer was discovered. If its session was lost with its lease, the peer gets a goodbye unless it is authenticated
    /// soon.
    pub(super) fn suspect_kept_session(&mut self, now: Instant, peer: GuidPrefix) {
        if self.lost_sessions.take(peer)
            && let Some(remote) = self.remotes.get_mut(&peer)
        {
            remote.relocation = Relocation::discovered(now);
            self.heal_later(peer);
        }
    }

    /// A peer is authenticated: it does not keep a former session.
    pub(super) fn note_new_session(&mut self, peer: GuidPrefix) {
        if let Some(remote) = self.remotes.get_mut(&peer)
            && remote.relocation.is_open()
            && remote.relocation.from().is_none()
        {
            remote.relocation = Relocation::Settled;
            remote.answer_repetitions.end();
        }
    }
}
