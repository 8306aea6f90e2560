//! Collections of selected samples, kept for reuse: a take allocates none in a steady flow.
//!
//! The thread that returns a collection keeps it if it keeps none. The reader keeps further ones, for threads that take
//! samples which other threads return.

use std::cell::Cell;

use arrayvec::ArrayVec;
use peregrine_rtps::history::Selected;

/// Number of collections that a reader keeps: this many concurrent threads and loans allocate nothing.
const COLLECTIONS_MAX: usize = 8;
/// Samples that a kept collection has room for. A larger one costs little for each of its samples, and readers that
/// have once returned many samples would keep that memory.
const KEPT_SAMPLES_MAX: usize = 256;

thread_local! {
    static SPARE: Cell<Vec<Selected>> = const { Cell::new(Vec::new()) };
}

/// The empty collections that a reader keeps.
#[derive(Debug, Default)]
pub(super) struct Collections(ArrayVec<Vec<Selected>, COLLECTIONS_MAX>);

impl Collections {
    /// An empty collection.
    #[inline]
    pub(super) fn take(&mut self) -> Vec<Selected> {
        let own = SPARE.try_with(Cell::take).unwrap_or_default();
        if own.capacity() > 0 { own } else { self.0.pop().unwrap_or_default() }
    }

    /// Keeps the collection for a thread that keeps none, if there is room.
    pub(super) fn keep(&mut self, collection: Vec<Selected>) {
        debug_assert!(collection.is_empty(), "the samples were returned before");
        if collection.capacity() <= KEPT_SAMPLES_MAX {
            // Beyond the bound, the collection is dropped.
            drop(self.0.try_push(collection));
        }
    }
}

/// Keeps the collection for the next take of this thread. Returns the collection if the thread keeps one already.
#[inline]
pub(super) fn keep_for_thread(collection: Vec<Selected>) -> Option<Vec<Selected>> {
    debug_assert!(collection.is_empty(), "the samples were returned before");
    if collection.capacity() > KEPT_SAMPLES_MAX {
        return None;
    }
    // The thread is ending if it has no spare collection any more.
    let kept = SPARE.try_with(Cell::take).ok()?;
    let (kept, other) = if kept.capacity() > 0 { (kept, Some(collection)) } else { (collection, None) };
    SPARE.try_with(|spare| spare.set(kept)).ok();
    other
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn thread_keeps_one_collection_and_reader_keeps_eight() {
        assert_eq!(keep_for_thread(Vec::with_capacity(1)).map(|other| other.capacity()), None);
        assert_eq!(keep_for_thread(Vec::with_capacity(2)).map(|other| other.capacity()), Some(2));
        let mut collections = Collections::default();
        (0..=COLLECTIONS_MAX).for_each(|_| collections.keep(Vec::with_capacity(3)));
        let taken: Vec<usize> = (0..COLLECTIONS_MAX + 2).map(|_| collections.take().capacity()).collect();
        let mut expected = vec![3; COLLECTIONS_MAX + 2];
        (expected[0], expected[COLLECTIONS_MAX + 1]) = (1, 0);
        assert_eq!(taken, expected);
    }

    #[test]
    fn large_collection_is_kept_by_neither_thread_nor_reader() {
        let large = || Vec::with_capacity(KEPT_SAMPLES_MAX + 1);
        assert!(keep_for_thread(large()).is_none(), "dropped");
        let mut collections = Collections::default();
        collections.keep(large());
        assert_eq!(collections.take().capacity(), 0);
    }
}
