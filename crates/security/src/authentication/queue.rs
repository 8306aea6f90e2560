//! The order in which peers are served.

use core::net::IpAddr;
use std::collections::BTreeMap;

use peregrine_rtps::id::GuidPrefix;

/// How urgent a peer's next job is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Class {
    /// The peer has shown that it received something of this participant, or is authenticated.
    Proven,
    /// All others.
    Stranger,
}

type Key = (Class, u64, u64);

/// Peers with a job to do, each once. Within a class, the addresses take turns.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    peers: BTreeMap<Key, (GuidPrefix, IpAddr)>,
    keys: BTreeMap<GuidPrefix, Key>,
    /// The turn of the last peer of each address.
    turns: BTreeMap<IpAddr, u64>,
    turn: u64,
    serial: u64,
}

impl FairQueue {
    /// Adds a peer, or moves it to a more urgent class.
    pub(super) fn push(&mut self, peer: GuidPrefix, class: Class, source: IpAddr) {
        if let Some(key) = self.keys.get(&peer) {
            if key.0 <= class {
                return;
            }
            self.remove(peer);
        }
        let last = self.turns.entry(source).or_default();
        *last = self.turn.max(*last).saturating_add(1);
        self.serial = self.serial.saturating_add(1);
        let key = (class, *last, self.serial);
        self.peers.insert(key, (peer, source));
        self.keys.insert(peer, key);
    }

    pub(super) fn pop(&mut self) -> Option<GuidPrefix> {
        let (key, (peer, source)) = self.peers.pop_first()?;
        self.keys.remove(&peer);
        self.turn = self.turn.max(key.1);
        self.forget_turn(key.1, source);
        Some(peer)
    }

    pub(super) fn remove(&mut self, peer: GuidPrefix) {
        let Some(key) = self.keys.remove(&peer) else { return };
        if let Some((_, source)) = self.peers.remove(&key) {
            self.forget_turn(key.1, source);
        }
    }

    /// Forgets the turns of an address with its last peer.
    fn forget_turn(&mut self, turn: u64, source: IpAddr) {
        if self.turns.get(&source) == Some(&turn) {
            self.turns.remove(&source);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert!(self.turns.len() <= self.peers.len() && self.keys.len() == self.peers.len());
        self.peers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u16) -> GuidPrefix {
        let [a, b] = number.to_be_bytes();
        GuidPrefix([a, b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    fn source(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    #[test]
    fn addresses_take_turns() {
        let mut queue = FairQueue::default();
        (0..100).for_each(|number| queue.push(peer(number), Class::Stranger, source(1)));
        assert_eq!(queue.pop(), Some(peer(0)));
        queue.push(peer(200), Class::Stranger, source(2));
        queue.push(peer(201), Class::Stranger, source(2));
        let served: Vec<_> = (0..4).filter_map(|_| queue.pop()).collect();
        assert_eq!(served, [peer(1), peer(200), peer(2), peer(201)]);
        assert_eq!(queue.len(), 97);
    }

    #[test]
    fn proven_peers_come_first_and_each_peer_once() {
        let mut queue = FairQueue::default();
        queue.push(peer(1), Class::Stranger, source(1));
        queue.push(peer(2), Class::Stranger, source(1));
        queue.push(peer(2), Class::Stranger, source(1));
        queue.push(peer(2), Class::Proven, source(1));
        queue.push(peer(2), Class::Stranger, source(1));
        assert_eq!(queue.len(), 2);
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(peer(2)), Some(peer(1)), None));
        queue.push(peer(3), Class::Stranger, source(1));
        queue.remove(peer(3));
        assert_eq!((queue.pop(), queue.len(), queue.turns.len()), (None, 0, 0));
    }
}
