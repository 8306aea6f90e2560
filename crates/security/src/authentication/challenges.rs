//! The challenges that this participant has stated to peers, until a handshake has used them.
//!
//! A peer may keep the first challenge that it sees, whether announced (`future_challenge`) or in a message of a
//! handshake, and refuse messages with another one for as long as it knows this participant (DDS Security 1.2
//! §10.3.2.4), as Cyclone DDS does. So a handshake that begins anew states the challenge of the former one, even if
//! this participant has forgotten the peer meanwhile. Each signature covers a fresh public key beside the challenge.

use std::collections::BTreeMap;

use peregrine_rtps::id::GuidPrefix;

use super::contents::Challenge;
use crate::limits::CHALLENGES;

/// The challenges of the peers to which they were stated last.
#[derive(Debug, Default)]
pub(super) struct Challenges {
    by_peer: BTreeMap<GuidPrefix, (u64, Challenge)>,
    /// The peers in the order in which their challenges were stated last.
    by_age: BTreeMap<u64, GuidPrefix>,
    number: u64,
}

impl Challenges {
    /// The challenge that was stated to a peer, or a new one. When there is no room, the one that was stated longest
    /// ago is forgotten.
    pub(super) fn of(&mut self, peer: GuidPrefix, new: impl FnOnce() -> Challenge) -> Challenge {
        let known = self.by_peer.remove(&peer);
        if let Some((number, _)) = &known {
            self.by_age.remove(number);
        } else if self.by_peer.len() >= CHALLENGES
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.by_peer.remove(&oldest);
        }
        let challenge = known.map_or_else(new, |(_, challenge)| challenge);
        self.number += 1;
        self.by_peer.insert(peer, (self.number, challenge));
        self.by_age.insert(self.number, peer);
        debug_assert!(self.by_peer.len() == self.by_age.len() && self.by_age.len() <= CHALLENGES);
        challenge
    }

    /// A handshake with a peer is complete at both ends: the next one has another challenge.
    pub(super) fn use_up(&mut self, peer: GuidPrefix) {
        if let Some((number, _)) = self.by_peer.remove(&peer) {
            self.by_age.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u16) -> GuidPrefix {
        let mut prefix = [0; 12];
        prefix[..2].copy_from_slice(&number.to_be_bytes());
        GuidPrefix(prefix)
    }

    fn unused() -> Challenge {
        panic!("a challenge was stated before")
    }

    #[test]
    fn challenge_of_a_peer_stays_until_a_handshake_has_used_it() {
        let mut challenges = Challenges::default();
        assert_eq!(challenges.of(peer(1), || [1; 32]), [1; 32]);
        assert_eq!(challenges.of(peer(2), || [2; 32]), [2; 32]);
        assert_eq!(challenges.of(peer(1), unused), [1; 32]);
        challenges.use_up(peer(1));
        challenges.use_up(peer(1));
        assert_eq!(challenges.of(peer(1), || [3; 32]), [3; 32]);
        assert_eq!(challenges.of(peer(2), unused), [2; 32]);
    }

    #[test]
    fn challenge_that_was_stated_longest_ago_gives_way() {
        let mut challenges = Challenges::default();
        let count = u16::try_from(CHALLENGES).unwrap();
        for number in 0..count {
            challenges.of(peer(number), || [1; 32]);
        }
        assert_eq!(challenges.of(peer(0), unused), [1; 32]);
        assert_eq!(challenges.of(peer(count), || [2; 32]), [2; 32]);
        assert_eq!(challenges.by_peer.len(), CHALLENGES);
        assert_eq!(challenges.of(peer(0), unused), [1; 32]);
        assert_eq!(challenges.of(peer(1), || [3; 32]), [3; 32]);
    }
}
