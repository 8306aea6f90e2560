//! A map that any number of threads read without locks while one thread changes it.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::sync::Arc;

use arc_swap::ArcSwap;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

type Entries<K, V> = HashTable<(K, Arc<V>)>;

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
        let hash = hash_of(key);
        let entries = self.part(hash)?.load();
        entries.find(hash, |(known, _)| known == key).map(|(_, value)| read(value))
    }

    pub(super) fn get(&self, key: &K) -> Option<Arc<V>> {
        let hash = hash_of(key);
        let entries = self.part(hash)?.load();
        entries.find(hash, |(known, _)| known == key).map(|(_, value)| Arc::clone(value))
    }

    /// Sets the value of this key. Only one thread at a time may change the table.
    pub(super) fn insert(&self, key: K, value: Arc<V>) {
        self.change(&key, Some(value));
    }

    pub(super) fn remove(&self, key: &K) {
        self.change(key, None);
    }

    /// Replaces the values for which `replacement` returns another one, and returns their number. Only one thread at a
    /// time may change the table.
    pub(super) fn replace(&self, replacement: impl Fn(&V) -> Option<V>) -> usize {
        let mut replaced = 0;
        for part in &self.parts {
            let entries = part.load();
            let changed = entries.iter().filter_map(|(key, value)| Some((*key, Arc::new(replacement(value)?))));
            let changed: Vec<(K, Arc<V>)> = changed.collect();
            if changed.is_empty() {
                continue;
            }
            replaced += changed.len();
            let mut entries = Entries::clone(&entries);
            for (key, value) in changed {
                if let Some((_, known)) = entries.find_mut(hash_of(&key), |(known, _)| *known == key) {
                    *known = value;
                }
            }
            part.store(Arc::new(entries));
        }
        replaced
    }

    fn change(&self, key: &K, value: Option<Arc<V>>) {
        let hash = hash_of(key);
        let Some(part) = self.part(hash) else { return };
        let mut entries = Entries::clone(&part.load());
        if let Ok(known) = entries.find_entry(hash, |(known, _)| known == key) {
            known.remove();
        }
        if let Some(value) = value {
            entries.insert_unique(hash, (*key, value), |(key, _)| hash_of(key));
        }
        part.store(Arc::new(entries));
    }

    fn part(&self, hash: u64) -> Option<&ArcSwap<Entries<K, V>>> {
        // Bits in the middle: a hash table uses the lowest and the highest ones.
        let hash = (hash >> 32) as usize & 0xff_ffff;
        self.parts.get(hash.checked_rem(self.parts.len())?)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.load().len()).sum()
    }
}

fn hash_of(key: &impl Hash) -> u64 {
    FixedState::default().hash_one(key)
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

    #[test]
    fn values_are_replaced_in_place() {
        let table = Table::with_parts(4);
        (0..100u32).for_each(|key| table.insert(key, Arc::new(key)));
        table.replace(|value| (value % 2 == 0).then_some(value + 1000));
        assert_eq!((table.len(), table.get(&7).as_deref(), table.get(&8).as_deref()), (100, Some(&7), Some(&1008)));
    }
}
