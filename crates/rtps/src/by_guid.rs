//! A list whose items are found by GUID.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use hashbrown::HashMap;

use crate::box_list::BoxList;
use crate::id::Guid;

/// Items, each with its GUID: in the order in which they were added, until one is removed. The caller bounds their
/// number.
#[derive(Debug)]
pub(crate) struct ByGuid<T> {
    items: BoxList<T>,
    /// The GUID of each item.
    guids: Vec<Guid>,
    positions: HashMap<Guid, usize, foldhash::quality::FixedState>,
}

impl<T> ByGuid<T> {
    /// No items. `seed` makes the hashes unpredictable to peers.
    pub(crate) fn new(seed: u64) -> Self {
        let hasher = foldhash::quality::FixedState::with_seed(seed);
        Self { items: BoxList::new(), guids: Vec::new(), positions: HashMap::with_hasher(hasher) }
    }

    /// Makes hashes unpredictable to peers.
    pub(crate) fn hasher(&self) -> &foldhash::quality::FixedState {
        self.positions.hasher()
    }

    /// The position of an item.
    #[inline]
    pub(crate) fn position(&self, guid: Guid) -> Option<usize> {
        // One item is the usual case, and comparing its GUID is cheaper than a hash.
        if let [only] = self.guids.as_slice() {
            return (*only == guid).then_some(0);
        }
        self.positions.get(&guid).copied()
    }

    pub(crate) fn find(&self, guid: Guid) -> Option<&T> {
        self.items.get(self.position(guid)?)
    }

    pub(crate) fn find_mut(&mut self, guid: Guid) -> Option<&mut T> {
        let position = self.position(guid)?;
        self.items.get_mut(position)
    }

    /// Adds an item that is not in the list.
    pub(crate) fn push(&mut self, guid: Guid, item: T) {
        let known = self.positions.insert(guid, self.items.len());
        debug_assert!(known.is_none(), "the GUID is already in the list");
        self.items.push(item);
        self.guids.push(guid);
    }

    /// Removes an item, and puts the last one in its place. `None` if the list does not have it.
    pub(crate) fn remove(&mut self, guid: Guid) -> Option<T> {
        let index = self.positions.remove(&guid)?;
        let removed = self.items.swap_remove(index);
        self.guids.swap_remove(index);
        if let Some(moved) = self.guids.get(index) {
            self.positions.insert(*moved, index);
        }
        removed
    }
}

impl<T> Deref for ByGuid<T> {
    type Target = BoxList<T>;

    fn deref(&self) -> &BoxList<T> {
        &self.items
    }
}

impl<T> DerefMut for ByGuid<T> {
    fn deref_mut(&mut self) -> &mut BoxList<T> {
        &mut self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{EntityId, GuidPrefix};
    use proptest::prelude::*;

    fn guid(key: u32) -> Guid {
        Guid::new(GuidPrefix([7; 12]), EntityId::user_reader(key, false))
    }

    proptest! {
        #[test]
        fn index_finds_same_items_as_linear_search(steps in prop::collection::vec((0_u32..6, any::<bool>()), 0..60)) {
            let mut list = ByGuid::new(1);
            for (key, is_added) in steps {
                let is_known = list.iter().any(|item| *item == key);
                if !is_added {
                    prop_assert_eq!(list.remove(guid(key)), is_known.then_some(key));
                } else if !is_known {
                    list.push(guid(key), key);
                }
                for key in 0..6 {
                    prop_assert_eq!(list.position(guid(key)), list.iter().position(|item| *item == key));
                    prop_assert_eq!(list.find_mut(guid(key)).copied(), list.iter().copied().find(|item| *item == key));
                }
            }
        }
    }
}
