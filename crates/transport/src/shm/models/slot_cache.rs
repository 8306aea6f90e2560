//! One value for several threads: which thread owns it, and that its next owner sees the writes of the last one.

use super::{Slots, bounded, thread};
use crate::shm::slot_cache::{SlotCache, SlotCacheProducer};
use std::sync::Arc;

/// Two threads take what a third one puts; the third takes back the rest. Each value has one owner.
#[test]
fn cached_slot_has_one_owner() {
    bounded(3).check(|| {
        let (cache, slots) = (Arc::new(SlotCache::default()), Slots::new(2));
        let takers = [(); 2].map(|()| {
            let (cache, slots) = (Arc::clone(&cache), Arc::clone(&slots));
            thread::spawn(move || {
                let had = cache.take();
                // This thread owns the slot alone and sees the writes of its previous owner.
                had.inspect(|slot| {
                    assert_eq!(slots.read(*slot), 7);
                    slots.write(*slot, 8);
                })
            })
        });
        let mut producer = SlotCacheProducer::claim(&cache).unwrap();
        let mut had = Vec::new();
        for slot in [0, 1] {
            slots.write(slot, 7);
            had.extend(producer.put(slot).err());
        }
        had.extend(producer.take_back());
        had.extend(takers.into_iter().filter_map(|taker| taker.join().unwrap()));
        had.sort_unstable();
        // A value that another thread is taking is not taken back, and no value is left over.
        assert_eq!(had, [0, 1]);
    });
}

/// The right to put passes to the next thread, with an empty place.
#[test]
fn one_producer_exists_at_a_time() {
    bounded(3).check(|| {
        let cache = Arc::new(SlotCache::default());
        let layers = [1, 2].map(|thing| {
            let cache = Arc::clone(&cache);
            thread::spawn(move || {
                let Some(mut producer) = SlotCacheProducer::claim(&cache) else { return };
                assert_eq!(producer.put(thing), Ok(()));
                assert_eq!(producer.take_back(), Some(thing));
                assert_eq!(producer.put(thing), Ok(()));
            })
        });
        layers.into_iter().for_each(|layer| layer.join().unwrap());
        assert_eq!(cache.take(), None);
        assert!(SlotCacheProducer::claim(&cache).is_some());
    });
}
