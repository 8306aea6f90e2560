//! Times at which participants were last heard by shared memory, whose samples renew no lease by themselves.

use peregrine_rtps::id::GuidPrefix;
use peregrine_rtps::time::Instant;

/// Maximum number of participants noted at a time. The next round notes further ones.
const PEERS_MAX: usize = 64;

/// The peers that one endpoint has heard since the last call of [`Self::take`]. The participant calls `take` before it
/// ends leases.
#[derive(Debug, Default)]
pub(in crate::driver) struct LastHeard {
    peers: Vec<(GuidPrefix, Instant)>,
}

impl LastHeard {
    #[inline]
    pub(in crate::driver) fn note(&mut self, peer: GuidPrefix, now: Instant) {
        match self.peers.iter_mut().find(|(known, _)| *known == peer) {
            Some((_, at)) => *at = now,
            None => self.add(peer, now),
        }
    }

    #[cold]
    fn add(&mut self, peer: GuidPrefix, now: Instant) {
        if self.peers.len() < PEERS_MAX {
            self.peers.push((peer, now));
        }
    }

    pub(in crate::driver) fn take(&mut self) -> Vec<(GuidPrefix, Instant)> {
        std::mem::take(&mut self.peers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_time_of_each_peer_is_taken_once() {
        let mut heard = LastHeard::default();
        let peer = |number| GuidPrefix([number; 12]);
        heard.note(peer(1), Instant(1));
        heard.note(peer(2), Instant(2));
        heard.note(peer(1), Instant(3));
        assert_eq!(heard.take(), [(peer(1), Instant(3)), (peer(2), Instant(2))]);
        assert_eq!(heard.take(), []);
    }

    #[test]
    fn peers_noted_at_once_are_bounded() {
        let mut heard = LastHeard::default();
        (0..=PEERS_MAX as u8).for_each(|number| heard.note(GuidPrefix([number; 12]), Instant(1)));
        assert_eq!(heard.take().len(), PEERS_MAX);
    }
}
