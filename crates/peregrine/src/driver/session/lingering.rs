//! The deleted writers of a participant that wait for acknowledgements of their last samples.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use peregrine_rtps::id::EntityId;
use peregrine_rtps::time::Instant;

/// Deleted writers of one participant that wait for acknowledgements: each keeps its history. One more makes the
/// participant give up on the writer that has the least time left. Besides them, the list has at most one writer for
/// each thread that counts what readers miss.
pub(super) const LINGERING_MAX: usize = 1024;

/// The samples of deleted writers that readers miss.
#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    pub(crate) writers: AtomicUsize,
    pub(crate) samples: AtomicU64,
}

/// See the [module](self). `W` is the writer.
#[derive(Debug)]
pub(super) struct Lingering<W> {
    writers: BTreeMap<EntityId, Entry<W>>,
}

#[derive(Debug)]
struct Entry<W> {
    writer: W,
    abandoned: Arc<Abandoned>,
    /// `None`: a thread has given up on the writer and counts its samples. The writer stays in the list until then,
    /// because a thread in `close` waits for the count.
    until: Option<Instant>,
}

impl<W> Default for Lingering<W> {
    fn default() -> Self {
        Self { writers: BTreeMap::new() }
    }
}

impl<W: Clone> Lingering<W> {
    /// Adds a deleted writer, which waits until this moment. If there are too many, the caller gives up on the returned
    /// one: see [`Self::give_up`].
    pub(super) fn add(
        &mut self,
        entity: EntityId,
        writer: W,
        abandoned: Arc<Abandoned>,
        until: Instant,
    ) -> Option<(W, Arc<Abandoned>)> {
        let given_up = if self.waiting().count() >= LINGERING_MAX { self.give_up_on_first() } else { None };
        self.writers.insert(entity, Entry { writer, abandoned, until: Some(until) });
        debug_assert!(self.waiting().count() <= LINGERING_MAX);
        given_up
    }

    /// The writers that no thread has given up on, with their deadlines.
    fn waiting(&self) -> impl Iterator<Item = (Instant, EntityId)> {
        self.writers.iter().filter_map(|(entity, entry)| Some((entry.until?, *entity)))
    }

    /// Gives up at once, so that another thread does not give up on the same writer.
    fn give_up_on_first(&mut self) -> Option<(W, Arc<Abandoned>)> {
        let (_, first) = self.waiting().min()?;
        self.writers.get_mut(&first).map(Entry::give_up)
    }

    /// The writer, if it waits for acknowledgements.
    pub(super) fn get(&self, entity: EntityId) -> Option<&W> {
        self.writers.get(&entity).map(|entry| &entry.writer)
    }

    pub(super) fn remove(&mut self, entity: EntityId) {
        self.writers.remove(&entity);
    }

    /// Whether this writer, or any one for `None`, is in the list.
    pub(super) fn has(&self, writer: Option<EntityId>) -> bool {
        writer.map_or(!self.writers.is_empty(), |entity| self.writers.contains_key(&entity))
    }

    /// When the first of them has waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting().map(|(until, _)| until).min()
    }

    /// The writers of which `is_meant` wait until this moment. Returns them, and what readers miss of each then.
    pub(super) fn extend(
        &mut self,
        until: Instant,
        is_meant: impl Fn(&W) -> bool,
    ) -> Vec<(EntityId, W, Arc<Abandoned>)> {
        let meant = self.writers.iter_mut().filter(|(_, entry)| is_meant(&entry.writer));
        let extended = meant.map(|(entity, entry)| {
            // A thread that counts already is not held up.
            entry.until = entry.until.map(|_| until);
            (*entity, entry.writer.clone(), Arc::clone(&entry.abandoned))
        });
        extended.collect()
    }

    /// The caller gives up on the writers of which `is_over`, by number and deadline: it counts what readers miss of
    /// them, and removes them.
    pub(super) fn give_up(&mut self, is_over: impl Fn(EntityId, Instant) -> bool) -> Vec<(W, Arc<Abandoned>)> {
        let waiting = self.writers.iter_mut();
        let over = waiting.filter(|(entity, entry)| entry.until.is_some_and(|until| is_over(**entity, until)));
        over.map(|(_, entry)| entry.give_up()).collect()
    }
}

impl<W: Clone> Entry<W> {
    fn give_up(&mut self) -> (W, Arc<Abandoned>) {
        self.until = None;
        (self.writer.clone(), Arc::clone(&self.abandoned))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const START: Instant = Instant(1_000_000_000);

    fn entity(key: usize) -> EntityId {
        EntityId::user_writer(u32::try_from(key).unwrap(), false)
    }

    fn add(lingering: &mut Lingering<usize>, key: usize, until: u64) -> Option<usize> {
        lingering.add(entity(key), key, Arc::default(), Instant(START.0 + until)).map(|(writer, _)| writer)
    }

    #[test]
    fn list_that_is_full_gives_up_on_the_writer_with_the_least_time_left() {
        let mut lingering = Lingering::default();
        for key in 0..LINGERING_MAX {
            // The one in the middle has the least time.
            let until = key.abs_diff(LINGERING_MAX / 2) as u64;
            assert_eq!(add(&mut lingering, key, until), None, "{key}");
        }
        // Nothing is removed meanwhile: several threads delete writers.
        for more in 0..3 {
            let first = add(&mut lingering, LINGERING_MAX + more, 1_000_000).expect("one is given up");
            assert_eq!(first.abs_diff(LINGERING_MAX / 2), more.div_ceil(2));
            assert!(lingering.has(Some(entity(first))), "its samples are not counted yet");
            assert!(lingering.give_up(|key, _| key == entity(first)).is_empty(), "another thread counts them");
            assert_eq!(lingering.waiting().count(), LINGERING_MAX);
        }
        assert_eq!(lingering.writers.len(), LINGERING_MAX + 3);
    }

    #[test]
    fn writer_that_is_counted_waits_no_longer_and_stays_until_removed() {
        let mut lingering = Lingering::default();
        add(&mut lingering, 1, 10);
        add(&mut lingering, 2, 20);
        assert_eq!(lingering.deadline(), Some(Instant(START.0 + 10)));
        assert_eq!(lingering.give_up(|_, until| until.0 <= START.0 + 10).len(), 1);
        assert_eq!(lingering.deadline(), Some(Instant(START.0 + 20)));
        let extended = lingering.extend(Instant(START.0 + 50), |_| true);
        assert_eq!(extended.len(), 2);
        assert_eq!(lingering.deadline(), Some(Instant(START.0 + 50)), "only the second waits");
        lingering.remove(entity(2));
        assert_eq!((lingering.deadline(), lingering.has(None)), (None, true));
        lingering.remove(entity(1));
        assert!(!lingering.has(None) && lingering.get(entity(1)).is_none());
    }
}
