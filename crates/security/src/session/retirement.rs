//! Keys of peers that were replaced, and remain for some time: what they protect may still be under way.

use std::collections::{BTreeMap, BTreeSet};

use peregrine_rtps::id::{Guid, GuidPrefix};
use peregrine_rtps::time::Instant;

/// Identifies a key: its owner and its number.
type KeyOf = (Guid, [u8; 4]);

/// Keys by the time at which they are dropped. There are at most as many as peers have keys.
#[derive(Debug, Default)]
pub(super) struct Retirement {
    by_time: BTreeSet<(Instant, KeyOf)>,
    by_key: BTreeMap<KeyOf, Instant>,
}

impl Retirement {
    /// Drops a key at this time. An earlier time remains.
    pub(super) fn schedule(&mut self, at: Instant, key: KeyOf) {
        let at = *self.by_key.entry(key).or_insert(at);
        self.by_time.insert((at, key));
    }

    /// Keeps a key that its owner sent again.
    pub(super) fn cancel(&mut self, key: KeyOf) {
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// Forgets the keys of a participant.
    pub(super) fn forget(&mut self, peer: GuidPrefix) {
        self.by_key.retain(|(owner, _), _| owner.prefix != peer);
        self.by_time.retain(|(_, (owner, _))| owner.prefix != peer);
    }

    /// The next key that is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<KeyOf> {
        let &(at, key) = self.by_time.first().filter(|(at, _)| *at <= now)?;
        self.by_time.remove(&(at, key));
        self.by_key.remove(&key);
        Some(key)
    }

    /// When the next key is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use peregrine_rtps::id::EntityId;

    use super::*;

    fn key(peer: u8, number: u8) -> KeyOf {
        (Guid::new(GuidPrefix([peer; 12]), EntityId::PARTICIPANT), [0, 0, 0, number])
    }

    #[test]
    fn keys_are_due_at_their_first_time_unless_they_are_cancelled() {
        let mut keys = Retirement::default();
        keys.schedule(Instant(20), key(1, 1));
        keys.schedule(Instant(90), key(1, 1));
        keys.schedule(Instant(10), key(1, 2));
        keys.schedule(Instant(10), key(2, 1));
        keys.cancel(key(1, 2));
        assert_eq!((keys.next(), keys.len()), (Some(Instant(10)), 2));
        keys.forget(GuidPrefix([2; 12]));
        assert_eq!((keys.pop(Instant(19)), keys.pop(Instant(20)), keys.len()), (None, Some(key(1, 1)), 0));
    }
}
