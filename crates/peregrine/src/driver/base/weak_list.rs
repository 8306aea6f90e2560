//! Lists that do not keep their items alive.

use std::sync::{Arc, Weak};

/// A list whose ended items are removed when its length has doubled, so that adding n items costs n steps.
pub(crate) struct WeakList<T: ?Sized> {
    items: Vec<Weak<T>>,
    pruning: Pruning,
}

/// When to remove the ended items of a collection.
pub(crate) struct Pruning {
    due_at: usize,
}

/// Fewer items are not looked at.
const PRUNED_FROM: usize = 16;

impl<T: ?Sized> Default for WeakList<T> {
    fn default() -> Self {
        Self { items: Vec::new(), pruning: Pruning::default() }
    }
}

impl<T: ?Sized> WeakList<T> {
    pub(crate) fn push(&mut self, item: Weak<T>) {
        if self.pruning.is_due(self.items.len()) {
            self.items.retain(|item| item.strong_count() > 0);
            self.pruning.done(self.items.len());
        }
        self.items.push(item);
    }

    /// The items that are alive, in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<T>> {
        self.items.iter().filter_map(Weak::upgrade)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.items.len()
    }
}

impl Default for Pruning {
    fn default() -> Self {
        Self { due_at: PRUNED_FROM }
    }
}

impl Pruning {
    /// Whether to look for ended items in a collection of this length, and then to call [`Self::done`].
    pub(crate) const fn is_due(&self, len: usize) -> bool {
        len >= self.due_at
    }

    /// So many items are alive.
    pub(crate) fn done(&mut self, alive: usize) {
        self.due_at = alive.saturating_mul(2).max(PRUNED_FROM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_items_are_not_found_and_at_most_as_many_as_live_ones_are_kept() {
        let mut list = WeakList::default();
        let mut alive = Vec::new();
        for number in 0..10_000_usize {
            let item = Arc::new(number);
            list.push(Arc::downgrade(&item));
            if number % 100 == 0 {
                alive.push(item);
            }
            assert!(list.len() <= 2 * alive.len() + PRUNED_FROM, "{} items of {}", list.len(), alive.len());
        }
        assert!(list.iter().eq(alive));
    }

    #[test]
    fn items_that_live_are_looked_at_a_bounded_number_of_times() {
        let (mut pruning, mut looked_at) = (Pruning::default(), 0);
        for len in 0..100_000 {
            if pruning.is_due(len) {
                looked_at += len;
                pruning.done(len);
            }
        }
        assert!(looked_at <= 200_000, "{looked_at}");
    }
}
