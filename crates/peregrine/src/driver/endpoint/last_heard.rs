//! Times at which participants were last heard by shared memory, whose samples renew no lease by themselves.

use peregrine_rtps::id::{Guid, GuidPrefix};
use peregrine_rtps::time::Instant;

/// The participants that one endpoint has heard by shared memory. Each has an endpoint that matches, which bounds their
/// number. The participant looks here before it ends their leases.
#[derive(Debug, Default)]
pub(in crate::driver) struct LastHeard {
    /// Sorted by prefix.
    peers: Vec<(GuidPrefix, Instant)>,
    /// The place of the participant that was heard last, and so probably is heard next.
    last: usize,
}

impl LastHeard {
    /// A participant was heard. No effect unless an endpoint of it is in `matched`, which is sorted.
    #[inline]
    pub(in crate::driver) fn note(&mut self, peer: GuidPrefix, now: Instant, matched: &[Guid]) {
        match self.peers.get_mut(self.last) {
            Some((known, at)) if *known == peer => *at = now,
            _ => self.note_other(peer, now, matched),
        }
    }

    #[inline(never)]
    fn note_other(&mut self, peer: GuidPrefix, now: Instant, matched: &[Guid]) {
        // Peers are often heard in turns.
        let next = self.last.saturating_add(1);
        let is_next = self.peers.get(next).is_some_and(|(known, _)| *known == peer);
        let place = if is_next { Ok(next) } else { self.find(peer) };
        if let Err(place) = place
            && has_match(peer, matched)
        {
            self.peers.insert(place, (peer, now));
            debug_assert!(self.peers.len() <= matched.len());
        }
        let (Ok(place) | Err(place)) = place;
        if let Some((_, at)) = self.peers.get_mut(place).filter(|(known, _)| *known == peer) {
            *at = now;
            self.last = place;
        }
    }

    /// When the participant was last heard.
    pub(in crate::driver) fn at(&self, peer: GuidPrefix) -> Option<Instant> {
        let place = self.find(peer).ok()?;
        self.peers.get(place).map(|(_, at)| *at)
    }

    /// Forgets a participant if none of its endpoints is in `matched` any more.
    pub(in crate::driver) fn forget_unmatched(&mut self, peer: GuidPrefix, matched: &[Guid]) {
        if let Ok(place) = self.find(peer)
            && !has_match(peer, matched)
        {
            self.peers.remove(place);
        }
    }

    fn find(&self, peer: GuidPrefix) -> Result<usize, usize> {
        self.peers.binary_search_by_key(&peer, |(known, _)| *known)
    }
}

fn has_match(peer: GuidPrefix, matched: &[Guid]) -> bool {
    let first = matched.partition_point(|guid| guid.prefix < peer);
    matched.get(first).is_some_and(|guid| guid.prefix == peer)
}

#[cfg(test)]
mod tests {
    use peregrine_rtps::id::EntityId;

    use super::*;

    fn peer(number: u8) -> GuidPrefix {
        GuidPrefix([number; 12])
    }

    fn endpoint(number: u8, key: u32) -> Guid {
        Guid::new(peer(number), EntityId::user_writer(key, false))
    }

    #[test]
    fn last_time_of_each_of_many_peers_is_kept() {
        let matched: Vec<_> = (0..200).flat_map(|number| [endpoint(number, 1), endpoint(number, 2)]).collect();
        let mut heard = LastHeard::default();
        let mut expected = [None; 200];
        // In turns, repeated, and in another order.
        let order = (0..200).chain(0..200).chain([7, 7, 199, 0, 3]).chain((0..200).rev());
        for (time, number) in order.enumerate() {
            let now = Instant(time as u64);
            heard.note(peer(number), now, &matched);
            expected[usize::from(number)] = Some(now);
            assert_eq!(heard.at(peer(number)), Some(now));
        }
        assert!((0..200).all(|number| heard.at(peer(number)) == expected[usize::from(number)]));
    }

    #[test]
    fn peer_without_a_match_is_not_kept() {
        let matched = [endpoint(1, 1), endpoint(3, 1), endpoint(3, 2)];
        let mut heard = LastHeard::default();
        for number in [0, 1, 2, 3, 4] {
            heard.note(peer(number), Instant(1), &matched);
        }
        let known = |heard: &LastHeard| (0..5).filter(|number| heard.at(peer(*number)).is_some()).collect::<Vec<_>>();
        assert_eq!(known(&heard), [1, 3]);
        heard.forget_unmatched(peer(3), &matched[..2]);
        heard.forget_unmatched(peer(1), &matched[1..]);
        assert_eq!(known(&heard), [3]);
        heard.note(peer(3), Instant(2), &matched[..2]);
        assert_eq!(heard.at(peer(3)), Some(Instant(2)));
        heard.forget_unmatched(peer(3), &[]);
        assert_eq!(known(&heard), []);
    }
}
