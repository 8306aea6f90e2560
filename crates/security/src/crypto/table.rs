//! A map that any number of threads read without locks while one thread changes it.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::sync::Arc;

use arc_swap::ArcSwap;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

type Entries<K, V> = HashMap<K, Arc<V>, FixedState>;

/// Each change replaces one part of the table. With more parts, a change copies less.
pub(super) struct Table<K, V> {
    parts: Box<[ArcSwap<Entries<K, V>>]>,
}

impl<K: Eq + Hash + Copy, V> Table<K, V> {
    pub(super) fn with_parts(parts: usize) -> Self {
        Self { parts: (0..parts).map(|_| ArcSwap::from_pointee(Entries::default())).collect() }
    }

    /// Calls `read` with the value of this key.
    pub(super) fn with<R>(&self, key: &K, read: impl FnOnce(&V) -> R) -> Option<R> {
        self.part(key)?.load().get(key).map(|value| read(value))
    }

    pub(super) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.part(key)?.load().get(key).cloned()
    }

    /// Sets the value of this key. Only one thread at a time may change the table.
    pub(super) fn insert(&self, key: K, value: Arc<V>) {
        self.change(&key, |entries| drop(entries.insert(key, value)));
    }

    pub(super) fn remove(&self, key: &K) {
        self.change(key, |entries| drop(entries.remove(key)));
    }

    fn change(&self, key: &K, change: impl FnOnce(&mut Entries<K, V>)) {
        if let Some(part) = self.part(key) {
            let mut entries = Entries::clone(&part.load());
            change(&mut entries);
            part.store(Arc::new(entries));
        }
    }

    fn part(&self, key: &K) -> Option<&ArcSwap<Entries<K, V>>> {
        // The high bits: the maps use the low ones.
        let hash = (FixedState::default().hash_one(key) >> 32) as usize;
        self.parts.get(hash.checked_rem(self.parts.len())?)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.load().len()).sum()
    }
}

impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: usize = self.parts.iter().map(|part| part.load().len()).sum();
        write!(f, "Table({entries} entries)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_until_they_are_removed() {
        let table = Table::with_parts(64);
        (0..1000u32).for_each(|key| table.insert(key, Arc::new(key + 1)));
        assert!((0..1000).all(|key| table.with(&key, |value| *value) == Some(key + 1)));
        assert!(table.parts.iter().all(|part| part.load().len() < 100), "the parts are of similar size");
        (0..1000).step_by(2).for_each(|key| table.remove(&key));
        assert_eq!(table.len(), 500);
        assert_eq!((table.get(&2), table.get(&3).as_deref()), (None, Some(&4)));
    }
}
