//! The least of many keys that change independently.

use alloc::vec::Vec;

/// Keys at positions from 0 on, some without a key, and the least of them.
///
/// A tournament tree: setting a key takes as many steps as the number of positions has binary digits; reading the least
/// key takes one. The memory is two keys for each position up to the highest that had one, rounded up to a power of
/// two.
#[derive(Clone, Debug)]
pub struct MinTree<K> {
    /// The root is at 1, the children of `n` are at `2 n` and `2 n + 1`; the second half holds the keys by position.
    nodes: Vec<Option<K>>,
    /// Nodes read or written, for tests that bound the work.
    #[cfg(test)]
    visited: core::cell::Cell<usize>,
}

impl<K> Default for MinTree<K> {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            #[cfg(test)]
            visited: core::cell::Cell::new(0),
        }
    }
}

impl<K: Copy + Ord> MinTree<K> {
    /// The least key.
    #[inline]
    #[must_use]
    pub fn min(&self) -> Option<K> {
        self.nodes.get(1).copied().flatten()
    }

    /// Sets or removes the key of a position.
    pub fn set(&mut self, position: usize, key: Option<K>) {
        if position >= self.nodes.len() / 2 {
            if key.is_none() {
                return;
            }
            self.grow(position + 1);
        }
        let mut node = self.nodes.len() / 2 + position;
        self.put(node, key);
        while node > 1 {
            node /= 2;
            let least = self.least_child(node);
            if self.nodes.get(node).copied().flatten() == least {
                return;
            }
            self.put(node, least);
        }
    }

    /// Appends the positions whose keys are not after `limit`, ascending.
    pub fn positions_up_to(&self, limit: K, out: &mut Vec<u32>) {
        self.collect(1, limit, out);
    }

    fn collect(&self, node: usize, limit: K, out: &mut Vec<u32>) {
        self.count_visit();
        if self.nodes.get(node).copied().flatten().is_none_or(|key| key > limit) {
            return;
        }
        let leaves = self.nodes.len() / 2;
        if node >= leaves {
            out.push((node - leaves) as u32);
            return;
        }
        self.collect(2 * node, limit, out);
        self.collect(2 * node + 1, limit, out);
    }

    fn grow(&mut self, positions: usize) {
        let (before, leaves) = (self.nodes.len() / 2, positions.next_power_of_two());
        let mut nodes = alloc::vec![None; 2 * leaves];
        for (to, from) in nodes.iter_mut().skip(leaves).zip(self.nodes.iter().skip(before)) {
            *to = *from;
        }
        self.nodes = nodes;
        for node in (1..leaves).rev() {
            let least = self.least_child(node);
            self.put(node, least);
        }
    }

    fn least_child(&self, node: usize) -> Option<K> {
        self.count_visit();
        let child = |child: usize| self.nodes.get(child).copied().flatten();
        match (child(2 * node), child(2 * node + 1)) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (left, right) => left.or(right),
        }
    }

    fn put(&mut self, node: usize, key: Option<K>) {
        if let Some(entry) = self.nodes.get_mut(node) {
            *entry = key;
        }
    }

    #[inline]
    fn count_visit(&self) {
        #[cfg(test)]
        self.visited.set(self.visited.get() + 1);
    }

    /// Nodes read since the last call.
    #[cfg(test)]
    pub(crate) fn take_visited(&self) -> usize {
        self.visited.take()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    use super::*;

    proptest! {
        #[test]
        fn minimum_and_positions_equal_linear_search(
            steps in prop::collection::vec((0_usize..70, prop::option::of(0_u8..20)), 0..200),
            limit in 0_u8..20,
        ) {
            let (mut tree, mut model) = (MinTree::default(), BTreeMap::new());
            for (position, key) in steps {
                tree.set(position, key);
                match key {
                    Some(key) => model.insert(position, key),
                    None => model.remove(&position),
                };
                prop_assert_eq!(tree.min(), model.values().min().copied());
            }
            let mut positions = Vec::new();
            tree.positions_up_to(limit, &mut positions);
            let expected: Vec<u32> =
                model.iter().filter(|(_, key)| **key <= limit).map(|(position, _)| *position as u32).collect();
            prop_assert_eq!(positions, expected);
        }
    }

    #[test]
    fn key_among_four_thousand_is_set_in_twelve_steps() {
        let mut tree = MinTree::default();
        (0..4096).for_each(|position| tree.set(position, Some(position)));
        tree.take_visited();
        for position in 0..4096 {
            tree.set(position, Some(position + 4096));
            assert!(tree.take_visited() <= 12);
        }
        assert_eq!(tree.min(), Some(4096));
    }
}
