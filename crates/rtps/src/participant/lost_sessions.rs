//! Peers whose session was lost with their lease, or ended after a move, and that may keep it: see
//! [`super::kept_sessions`].

use alloc::collections::VecDeque;

use crate::id::GuidPrefix;
use crate::limits::LOST_SESSIONS_MAX;

/// Peers that may keep a session, the oldest first. The oldest gives way.
#[derive(Debug, Default)]
pub(super) struct LostSessions(VecDeque<GuidPrefix>);

impl LostSessions {
    pub(super) fn note(&mut self, peer: GuidPrefix) {
        self.remove(peer);
        if self.0.len() >= LOST_SESSIONS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(peer);
    }

    pub(super) fn contains(&self, peer: GuidPrefix) -> bool {
        self.0.contains(&peer)
    }

    pub(super) fn remove(&mut self, peer: GuidPrefix) {
        self.0.retain(|lost| *lost != peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_that_may_keep_a_session_are_bounded() {
        let peer = |number: usize| {
            let mut bytes = [0; 12];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            GuidPrefix(bytes)
        };
        let mut lost = LostSessions::default();
        for number in 0..=LOST_SESSIONS_MAX {
            lost.note(peer(number));
            lost.note(peer(number));
        }
        assert!(!lost.contains(peer(0)), "the oldest has given way");
        assert!((1..=LOST_SESSIONS_MAX).all(|number| lost.contains(peer(number))));
        lost.remove(peer(1));
        assert!(!lost.contains(peer(1)), "each is there once");
    }
}
