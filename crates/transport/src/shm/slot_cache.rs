//! One thing at hand for whoever comes first, without the lock of who has put it there.

use super::sync::{AtomicBool, AtomicU32, Ordering, UnsafeCell};
use std::sync::Arc;

const EMPTY: u32 = 0;
const FULL: u32 = 1;
/// Somebody is just taking it.
const BUSY: u32 = 2;

/// A place for one thing: [put](SlotCacheProducer::put) by one side, taken by any thread.
#[derive(Debug)]
pub(super) struct SlotCache<T> {
    state: AtomicU32,
    /// There is a [`SlotCacheProducer`].
    is_claimed: AtomicBool,
    thing: UnsafeCell<Option<T>>,
}

// SAFETY: the thing is touched by the thread alone that has made `FULL` into `BUSY`, until it makes it `EMPTY`; and while it is
// `EMPTY`, by the only `SlotCacheProducer`, which alone changes that.
unsafe impl<T: Send> Sync for SlotCache<T> {}

impl<T> Default for SlotCache<T> {
    fn default() -> Self {
        Self { state: AtomicU32::new(EMPTY), is_claimed: AtomicBool::new(false), thing: UnsafeCell::new(None) }
    }
}

impl<T> SlotCache<T> {
    /// Whether something lies there, as far as can be said without taking it.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FULL
    }

    /// What lies there, and does no more.
    #[inline]
    pub(super) fn take(&self) -> Option<T> {
        if self.state.compare_exchange(FULL, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return None;
        }
        // SAFETY: nobody else touches it before it is `EMPTY`.
        let thing = self.thing.with_mut(|thing| unsafe { (*thing).take() });
        self.state.store(EMPTY, Ordering::Release);
        thing
    }
}

/// The right to lay something there, which one side has at a time. Dropped, it takes back what lies there.
#[derive(Debug)]
pub(super) struct SlotCacheProducer<T>(Arc<SlotCache<T>>);

impl<T> SlotCacheProducer<T> {
    /// `None` while somebody else has it.
    pub(super) fn claim(cache: &Arc<SlotCache<T>>) -> Option<Self> {
        let claimed = cache.is_claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok().then(|| Self(Arc::clone(cache)))
    }

    /// Puts it there. It comes back where something lies already, or is just being taken.
    #[inline]
    pub(super) fn put(&mut self, thing: T) -> Result<(), T> {
        if self.0.state.load(Ordering::Acquire) != EMPTY {
            return Err(thing);
        }
        // SAFETY: it is `EMPTY`, and stays so until this makes it `FULL`: there is one `SlotCacheProducer`, and it is borrowed mutably.
        self.0.thing.with_mut(|place| unsafe { *place = Some(thing) });
        self.0.state.store(FULL, Ordering::Release);
        Ok(())
    }

    /// Takes back what lies there.
    pub(super) fn take_back(&mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Drop for SlotCacheProducer<T> {
    fn drop(&mut self) {
        drop(self.take_back());
        self.0.is_claimed.store(false, Ordering::Release);
    }
}
