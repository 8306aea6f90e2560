//! Room for handshakes with participants that are not authenticated.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use peregrine_rtps::id::GuidPrefix;

use crate::limits::{HALF_OPEN, HALF_OPEN_PER_ADDRESS, WAITING_BYTES};

/// Handshakes with participants that are not authenticated, by address, and the bytes of their waiting messages.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    addresses: BTreeMap<IpAddr, Address>,
    /// The addresses by the number of their handshakes.
    by_count: BTreeSet<(usize, IpAddr)>,
    all: Handshakes,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Address {
    handshakes: Handshakes,
    bytes: usize,
}

/// Peers with the numbers of their handshakes: in the order in which they began.
#[derive(Debug, Default)]
struct Handshakes {
    all: BTreeSet<(u64, GuidPrefix)>,
    /// Of these, the handshakes with a refused message.
    refused: BTreeSet<(u64, GuidPrefix)>,
}

/// The condition on which another handshake may begin.
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
        if self.len() < HALF_OPEN {
            return Room::Free;
        }
        let greedy = self.by_count.last().and_then(|(count, source)| {
            let newest = self.addresses.get(source)?.handshakes.all.last()?;
            Some((*count, newest.1))
        });
        match greedy {
            Some((most, newest)) if most > own.saturating_add(1) => Room::Instead(newest),
            _ => Room::Full(None),
        }
    }

    pub(super) fn insert(&mut self, source: IpAddr, number: u64, peer: GuidPrefix) {
        let own = &mut self.addresses.entry(source).or_default().handshakes.all;
        let before = own.len();
        if own.insert((number, peer)) {
            self.all.all.insert((number, peer));
            self.recount(source, before);
        }
    }

    pub(super) fn remove(&mut self, source: IpAddr, number: u64, peer: GuidPrefix) {
        let Some(address) = self.addresses.get_mut(&source) else { return };
        let before = address.handshakes.all.len();
        for handshakes in [&mut address.handshakes, &mut self.all] {
            handshakes.all.remove(&(number, peer));
            handshakes.refused.remove(&(number, peer));
        }
        self.recount(source, before);
        self.drop_empty(source);
    }

    /// A message of this handshake was refused.
    pub(super) fn mark_refused(&mut self, source: IpAddr, number: u64, peer: GuidPrefix) {
        let Some(address) = self.addresses.get_mut(&source) else { return };
        if address.handshakes.all.contains(&(number, peer)) {
            address.handshakes.refused.insert((number, peer));
            self.all.refused.insert((number, peer));
        }
    }

    /// The peers of an address, or of all, the oldest handshake first.
    pub(super) fn oldest(&self, of: Option<IpAddr>) -> impl Iterator<Item = GuidPrefix> + '_ {
        self.handshakes(of).into_iter().flat_map(|handshakes| &handshakes.all).map(|(_, peer)| *peer)
    }

    /// The same, only of handshakes with a refused message.
    pub(super) fn refused(&self, of: Option<IpAddr>) -> impl Iterator<Item = GuidPrefix> + '_ {
        self.handshakes(of).into_iter().flat_map(|handshakes| &handshakes.refused).map(|(_, peer)| *peer)
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

    pub(super) fn len(&self) -> usize {
        self.all.all.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn handshakes(&self, of: Option<IpAddr>) -> Option<&Handshakes> {
        match of {
            None => Some(&self.all),
            Some(source) => self.addresses.get(&source).map(|address| &address.handshakes),
        }
    }

    fn count(&self, source: IpAddr) -> usize {
        self.handshakes(Some(source)).map_or(0, |handshakes| handshakes.all.len())
    }

    fn recount(&mut self, source: IpAddr, before: usize) {
        let after = self.count(source);
        self.by_count.remove(&(before, source));
        if after > 0 {
            self.by_count.insert((after, source));
        }
    }

    fn drop_empty(&mut self, source: IpAddr) {
        let is_empty = |address: &Address| address.handshakes.all.is_empty() && address.bytes == 0;
        if self.addresses.get(&source).is_some_and(is_empty) {
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
        assert_eq!((half_open.oldest(None).count(), half_open.oldest(None).next()), (HALF_OPEN, Some(peer(0))));
        half_open.mark_refused(source(7), 7, peer(7));
        half_open.mark_refused(source(7), 8, peer(8));
        assert_eq!(half_open.refused(None).collect::<Vec<_>>(), [peer(7)]);
        assert_eq!((half_open.refused(Some(source(7))).count(), half_open.refused(Some(source(8))).count()), (1, 0));
        half_open.remove(source(7), 7, peer(7));
        assert_eq!(half_open.room(source(9999)), Room::Free);
        assert_eq!((half_open.oldest(Some(source(7))).count(), half_open.refused(None).count()), (0, 0));
        assert_eq!((half_open.addresses.len(), half_open.by_count.len()), (HALF_OPEN - 1, HALF_OPEN - 1));
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
