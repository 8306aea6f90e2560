//! One thing at hand for several: who has it, and what its next owner sees of what the last one did.

use super::{Slots, bounded, thread};
use crate::shm::ahead::{Ahead, Laying};
use std::sync::Arc;

/// Two threads take what a third lays, which takes back what is left: everything that was laid is had once.
#[test]
fn what_is_laid_is_had_once() {
    bounded(3).check(|| {
        let (ahead, slots) = (Arc::new(Ahead::default()), Slots::new(2));
        let takers = [(); 2].map(|()| {
            let (ahead, slots) = (Arc::clone(&ahead), Arc::clone(&slots));
            thread::spawn(move || {
                let had = ahead.take();
                // It is the owner's alone, and what the one before has written is there.
                had.inspect(|slot| {
                    assert_eq!(slots.read(*slot), 7);
                    slots.write(*slot, 8);
                })
            })
        });
        let mut laying = Laying::claim(&ahead).unwrap();
        let mut had = Vec::new();
        for slot in [0, 1] {
            slots.write(slot, 7);
            had.extend(laying.lay(slot).err());
        }
        had.extend(laying.take_back());
        had.extend(takers.into_iter().filter_map(|taker| taker.join().unwrap()));
        had.sort_unstable();
        // Nothing is taken back that somebody is just taking, and nothing is left behind by that.
        assert_eq!(had, [0, 1]);
    });
}

/// The right to lay passes to the next one, with an empty place.
#[test]
fn one_lays_at_a_time() {
    bounded(3).check(|| {
        let ahead = Arc::new(Ahead::default());
        let layers = [1, 2].map(|thing| {
            let ahead = Arc::clone(&ahead);
            thread::spawn(move || {
                let Some(mut laying) = Laying::claim(&ahead) else { return };
                assert_eq!(laying.lay(thing), Ok(()));
                assert_eq!(laying.take_back(), Some(thing));
                assert_eq!(laying.lay(thing), Ok(()));
            })
        });
        layers.into_iter().for_each(|layer| layer.join().unwrap());
        assert_eq!(ahead.take(), None);
        assert!(Laying::claim(&ahead).is_some());
    });
}
