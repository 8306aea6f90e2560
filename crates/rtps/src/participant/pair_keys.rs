//! Which keys are there, of which pairs of a local and a remote endpoint.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::id::EntityId;
use crate::limits::EARLY_KEYS_PER_PARTICIPANT;

/// A local entity, and one of the remote participant.
pub(super) type Pair = (EntityId, EntityId);

/// The keys of one remote participant.
#[derive(Debug, Default)]
pub(super) struct PairKeys {
    /// The pairs that need keys, and whether those of the remote side are there.
    wanted: BTreeMap<Pair, bool>,
    /// Keys for pairs that do not need them yet: the announcement of the endpoint may come later.
    early: BTreeSet<Pair>,
}

/// The state of a pair that needs keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Want {
    /// Keys have not been asked for before.
    pub(super) is_new: bool,
    /// The keys of the remote side are there.
    pub(super) is_ready: bool,
}

/// The use of keys that are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrived {
    /// The pair needs them.
    Wanted,
    /// The pair may need them later.
    Early,
    /// There are too many of those.
    Dropped,
}

impl PairKeys {
    /// A pair needs keys.
    pub(super) fn want(&mut self, pair: Pair) -> Want {
        if let Some(is_ready) = self.wanted.get(&pair) {
            return Want { is_new: false, is_ready: *is_ready };
        }
        let is_ready = self.early.remove(&pair);
        self.wanted.insert(pair, is_ready);
        Want { is_new: true, is_ready }
    }

    /// The keys of the remote side of a pair are there.
    pub(super) fn arrive(&mut self, pair: Pair) -> Arrived {
        if let Some(is_ready) = self.wanted.get_mut(&pair) {
            *is_ready = true;
            return Arrived::Wanted;
        }
        if self.early.len() >= EARLY_KEYS_PER_PARTICIPANT && !self.early.contains(&pair) {
            return Arrived::Dropped;
        }
        self.early.insert(pair);
        Arrived::Early
    }

    pub(super) fn is_ready(&self, pair: Pair) -> bool {
        self.wanted.get(&pair) == Some(&true)
    }

    /// A pair matches no longer. Its next match needs an answer of its own.
    pub(super) fn forget(&mut self, pair: Pair) {
        self.wanted.remove(&pair);
    }

    /// A local endpoint is gone.
    pub(super) fn forget_local(&mut self, local: EntityId) {
        self.wanted.retain(|pair, _| pair.0 != local);
        self.early.retain(|pair| pair.0 != local);
    }

    /// A remote endpoint is gone.
    pub(super) fn forget_remote(&mut self, remote: EntityId) {
        self.wanted.retain(|pair, _| pair.1 != remote);
        self.early.retain(|pair| pair.1 != remote);
    }

    pub(super) fn clear(&mut self) {
        self.wanted.clear();
        self.early.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(local: u32, remote: u32) -> Pair {
        (EntityId::user_writer(local, false), EntityId::user_reader(remote, false))
    }

    #[test]
    fn keys_are_asked_for_once() {
        let mut keys = PairKeys::default();
        assert_eq!(keys.want(pair(1, 1)), Want { is_new: true, is_ready: false });
        assert_eq!(keys.want(pair(1, 1)), Want { is_new: false, is_ready: false });
        assert_eq!(keys.arrive(pair(1, 1)), Arrived::Wanted);
        assert_eq!(keys.want(pair(1, 1)), Want { is_new: false, is_ready: true });
    }

    #[test]
    fn early_keys_are_bounded_and_dropped_ones_are_asked_for() {
        let mut keys = PairKeys::default();
        let all = EARLY_KEYS_PER_PARTICIPANT as u32 + 10;
        let early = (0..all).filter(|n| keys.arrive(pair(1, *n)) == Arrived::Early).count();
        assert_eq!(early, EARLY_KEYS_PER_PARTICIPANT);
        assert_eq!(keys.arrive(pair(1, 0)), Arrived::Early, "a repetition needs no room");
        assert_eq!(keys.want(pair(1, 0)), Want { is_new: true, is_ready: true });
        assert_eq!(keys.want(pair(1, all - 1)), Want { is_new: true, is_ready: false });
    }

    #[test]
    fn keys_of_an_endpoint_that_is_gone_are_forgotten() {
        let mut keys = PairKeys::default();
        for n in 1..=3 {
            keys.want(pair(n, n));
            keys.arrive(pair(n, n));
            keys.arrive(pair(n, n + 10));
        }
        keys.forget_local(pair(1, 0).0);
        keys.forget_remote(pair(0, 2).1);
        assert_eq!([1, 2, 3].map(|n| keys.is_ready(pair(n, n))), [false, false, true]);
        assert_eq!((keys.wanted.len(), keys.early.len()), (1, 2));
        keys.clear();
        assert!(!keys.is_ready(pair(3, 3)) && keys.early.is_empty());
    }
}
