//! Room for handshakes with participants that are not authenticated.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use peregrine_rtps::id::GuidPrefix;

use crate::limits::{HALF_OPEN, HALF_OPEN_PER_ADDRESS, WAITING_BYTES};

/// Handshakes with participants that are not authenticated, by address, and the bytes of their waiting messages.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    addresses: BTreeMap<IpAddr, Address>,
    len: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Address {
    /// With the number of the handshake: in the order in which they began.
    peers: BTreeSet<(u64, GuidPrefix)>,
    bytes: usize,
}

/// What must happen before another handshake may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// Nothing.
    Free,
    /// This handshake, the newest of the address with the most, gives way.
    Instead(GuidPrefix),
    /// There is no room, unless a handshake of this address, or of any if `None`, lasts too long or had a message
    /// refused, and its peer has shown no certificate.
    Full(Option<IpAddr>),
}

impl HalfOpen {
    pub(super) fn room(&self, source: IpAddr) -> Room {
        let own = self.count(source);
        if own >= HALF_OPEN_PER_ADDRESS {
            return Room::Full(Some(source));
        }
        if self.len < HALF_OPEN {
            return Room::Free;
        }
        let greedy = self.addresses.values().max_by_key(|address| address.peers.len());
        match greedy.and_then(|greedy| Some((greedy.peers.len(), greedy.peers.last()?.1))) {
            Some((most, newest)) if most > own.saturating_add(1) => Room::Instead(newest),
            _ => Room::Full(None),
        }
    }

    pub(super) fn insert(&mut self, source: IpAddr, number: u64, peer: GuidPrefix) {
        if self.addresses.entry(source).or_default().peers.insert((number, peer)) {
            self.len = self.len.saturating_add(1);
        }
    }

    pub(super) fn remove(&mut self, source: IpAddr, number: u64, peer: GuidPrefix) {
        let Some(address) = self.addresses.get_mut(&source) else { return };
        if address.peers.remove(&(number, peer)) {
            self.len = self.len.saturating_sub(1);
        }
        self.drop_empty(source);
    }

    /// The peers of an address, or of all, the oldest handshake of each address first.
    pub(super) fn peers(&self, source: Option<IpAddr>) -> impl Iterator<Item = (u64, GuidPrefix)> + '_ {
        let is_chosen = move |of: &IpAddr| source.is_none_or(|source| source == *of);
        let chosen = self.addresses.iter().filter(move |(of, _)| is_chosen(of));
        chosen.flat_map(|(_, address)| address.peers.iter().copied())
    }

    /// Takes room for the bytes of a waiting message. An address may have a quarter of all room.
    pub(super) fn take_bytes(&mut self, source: IpAddr, bytes: usize) -> bool {
        let own = self.addresses.get(&source).map_or(0, |address| address.bytes).saturating_add(bytes);
        let all = self.bytes.saturating_add(bytes);
        if all > WAITING_BYTES || own > WAITING_BYTES / 4 {
            return false;
        }
        self.addresses.entry(source).or_default().bytes = own;
        self.bytes = all;
        true
    }

    pub(super) fn return_bytes(&mut self, source: IpAddr, bytes: usize) {
        let Some(address) = self.addresses.get_mut(&source) else { return };
        address.bytes = address.bytes.saturating_sub(bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.drop_empty(source);
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn count(&self, source: IpAddr) -> usize {
        self.addresses.get(&source).map_or(0, |address| address.peers.len())
    }

    fn drop_empty(&mut self, source: IpAddr) {
        if self.addresses.get(&source).is_some_and(|address| address.peers.is_empty() && address.bytes == 0) {
            self.addresses.remove(&source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u64) -> GuidPrefix {
        let mut octets = [0; 12];
        octets[..8].copy_from_slice(&number.to_be_bytes());
        GuidPrefix(octets)
    }

    fn source(number: u64) -> IpAddr {
        let [.., a, b] = number.to_be_bytes();
        IpAddr::from([10, 0, a, b])
    }

    fn fill(half_open: &mut HalfOpen, from: IpAddr, numbers: core::ops::Range<u64>) {
        numbers.for_each(|number| half_open.insert(from, number, peer(number)));
    }

    #[test]
    fn address_with_the_most_handshakes_gives_its_newest_away() {
        let mut half_open = HalfOpen::default();
        let per_address = HALF_OPEN_PER_ADDRESS as u64;
        let addresses = HALF_OPEN as u64 / per_address;
        for number in 0..addresses {
            assert_eq!(half_open.room(source(number)), Room::Free);
            fill(&mut half_open, source(number), number * per_address..(number + 1) * per_address);
        }
        assert_eq!(half_open.len(), HALF_OPEN);
        assert_eq!(half_open.room(source(0)), Room::Full(Some(source(0))));
        let Room::Instead(newest) = half_open.room(source(9999)) else { panic!("no room") };
        assert!((1..=addresses).any(|number| newest == peer(number * per_address - 1)));
    }

    #[test]
    fn addresses_with_one_handshake_each_give_none_away() {
        let mut half_open = HalfOpen::default();
        (0..HALF_OPEN as u64).for_each(|number| half_open.insert(source(number), number, peer(number)));
        assert_eq!(half_open.room(source(9999)), Room::Full(None));
        assert_eq!(half_open.peers(None).count(), HALF_OPEN);
        half_open.remove(source(7), 7, peer(7));
        assert_eq!(half_open.room(source(9999)), Room::Free);
        assert_eq!(half_open.peers(Some(source(7))).count(), 0);
        assert_eq!(half_open.addresses.len(), HALF_OPEN - 1);
    }

    #[test]
    fn bytes_are_bounded_for_each_address_and_in_all() {
        let mut half_open = HalfOpen::default();
        let share = WAITING_BYTES / 4;
        assert!(half_open.take_bytes(source(1), share) && !half_open.take_bytes(source(1), 1));
        for number in 2..=4 {
            assert!(half_open.take_bytes(source(number), share));
        }
        assert!(!half_open.take_bytes(source(5), 1));
        half_open.return_bytes(source(1), share);
        assert!(half_open.take_bytes(source(5), 1));
        assert_eq!((half_open.bytes(), half_open.addresses.len()), (3 * share + 1, 4));
    }
}
