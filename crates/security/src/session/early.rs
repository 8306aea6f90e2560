//! Keys that arrived before the endpoints for which they are.

use std::collections::BTreeMap;

use peregrine_rtps::id::EntityId;

use crate::crypto::KeyMaterial;
use crate::limits::{EARLY_TOKENS_PER_PAIR, EARLY_TOKENS_PER_PEER};

/// Keys of one peer that arrived early, by the local and the remote endpoint.
#[derive(Debug, Default)]
pub(super) struct EarlyTokens {
    messages: BTreeMap<(EntityId, EntityId), Vec<Vec<KeyMaterial>>>,
    count: usize,
    /// Whether a message was dropped.
    pub(super) dropped: bool,
}

impl EarlyTokens {
    /// Keeps the keys of one message. Returns whether there was room; otherwise the message, or the oldest one of the
    /// pair, is dropped.
    pub(super) fn keep(&mut self, pair: (EntityId, EntityId), keys: Vec<KeyMaterial>) -> bool {
        let of_pair = self.messages.get(&pair).map_or(0, Vec::len);
        let is_pair_full = of_pair >= EARLY_TOKENS_PER_PAIR;
        if self.count >= EARLY_TOKENS_PER_PEER && !is_pair_full {
            self.dropped = true;
            return false;
        }
        let messages = self.messages.entry(pair).or_default();
        messages.push(keys);
        if is_pair_full {
            messages.remove(0);
            self.dropped = true;
        } else {
            self.count = self.count.saturating_add(1);
        }
        !is_pair_full
    }

    /// Takes the messages of a pair, the oldest first.
    pub(super) fn take(&mut self, pair: (EntityId, EntityId)) -> Vec<Vec<KeyMaterial>> {
        let messages = self.messages.remove(&pair).unwrap_or_default();
        self.count = self.count.saturating_sub(messages.len());
        messages
    }

    /// Drops what was for pairs with this local or this remote endpoint.
    pub(super) fn remove(&mut self, is_gone: impl Fn(EntityId, EntityId) -> bool) {
        self.messages.retain(|(local, remote), _| !is_gone(*local, *remote));
        self.count = self.messages.values().map(Vec::len).sum();
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(number: u32) -> (EntityId, EntityId) {
        (EntityId::user_reader(number, false), EntityId::user_writer(number, false))
    }

    #[test]
    fn messages_beyond_the_bounds_are_dropped() {
        let mut early = EarlyTokens::default();
        let kept = |early: &mut EarlyTokens, number: u32| early.keep(pair(number), vec![KeyMaterial::none()]);
        assert!((0..EARLY_TOKENS_PER_PEER).all(|number| kept(&mut early, number as u32)));
        assert!(!early.dropped);
        assert!(!kept(&mut early, u32::MAX), "one pair more");
        assert!(early.dropped);
        assert_eq!(early.len(), EARLY_TOKENS_PER_PEER);
        assert_eq!(early.take(pair(7)).len(), 1);
        assert!(kept(&mut early, u32::MAX), "the taken one made room");
        assert_eq!(early.take(pair(u32::MAX)).len(), 1);
    }

    #[test]
    fn newest_messages_of_one_pair_remain() {
        let mut early = EarlyTokens::default();
        for number in 0..=EARLY_TOKENS_PER_PAIR {
            let key_id = [0, 0, 0, number as u8];
            let is_kept = early.keep(pair(1), vec![KeyMaterial { key_id, ..KeyMaterial::none() }]);
            assert_eq!(is_kept, number < EARLY_TOKENS_PER_PAIR);
        }
        assert_eq!(early.len(), EARLY_TOKENS_PER_PAIR);
        let first = early.take(pair(1))[0][0].key_id;
        assert_eq!(first, [0, 0, 0, 1]);
        assert_eq!(early.len(), 0);
    }

    #[test]
    fn messages_for_removed_endpoints_are_dropped() {
        let mut early = EarlyTokens::default();
        (0..4).for_each(|number| assert!(early.keep(pair(number), vec![KeyMaterial::none()])));
        early.remove(|local, _| local == pair(0).0);
        early.remove(|_, remote| remote == pair(1).1);
        assert_eq!((early.len(), early.take(pair(0)).len(), early.take(pair(2)).len()), (2, 0, 1));
    }
}
