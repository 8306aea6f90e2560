//! A place for one value that any thread can take without the lock of the thread that put it there.

use super::sync::{AtomicBool, AtomicU32, Ordering, UnsafeCell};
use std::sync::Arc;

const EMPTY: u32 = 0;
const FULL: u32 = 1;
/// A thread is taking the value.
const BUSY: u32 = 2;

/// A place for one value: one side [puts](SlotCacheProducer::put) it, any thread takes it.
#[derive(Debug)]
pub(super) struct SlotCache<T> {
    state: AtomicU32,
    /// A [`SlotCacheProducer`] exists.
    is_claimed: AtomicBool,
    thing: UnsafeCell<Option<T>>,
}

// SAFETY: only the thread that changed `FULL` to `BUSY` accesses the value until it stores `EMPTY`; while the state is
// `EMPTY`, only the single `SlotCacheProducer` accesses the value, and only it ends that state.
unsafe impl<T: Send> Sync for SlotCache<T> {}

impl<T> Default for SlotCache<T> {
    fn default() -> Self {
        Self { state: AtomicU32::new(EMPTY), is_claimed: AtomicBool::new(false), thing: UnsafeCell::new(None) }
    }
}

impl<T> SlotCache<T> {
    /// Whether a value was there at the moment of the call.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FULL
    }

    /// Takes the value.
    #[inline]
    pub(super) fn take(&self) -> Option<T> {
        if self.state.compare_exchange(FULL, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return None;
        }
        // SAFETY: no other thread accesses the value before the state is `EMPTY`.
        let thing = self.thing.with_mut(|thing| unsafe { (*thing).take() });
        self.state.store(EMPTY, Ordering::Release);
        thing
    }
}

/// The right to put values into the place; one exists at a time. Dropping it takes the value out.
#[derive(Debug)]
pub(super) struct SlotCacheProducer<T>(Arc<SlotCache<T>>);

impl<T> SlotCacheProducer<T> {
    /// `None` while another producer exists.
    pub(super) fn claim(cache: &Arc<SlotCache<T>>) -> Option<Self> {
        let claimed = cache.is_claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok().then(|| Self(Arc::clone(cache)))
    }

    /// Puts a value into the place. Returns the value if the place holds one or a thread is taking one.
    #[inline]
    pub(super) fn put(&mut self, thing: T) -> Result<(), T> {
        if self.0.state.load(Ordering::Acquire) != EMPTY {
            return Err(thing);
        }
        // SAFETY: the state is `EMPTY` until this call stores `FULL`: there is one `SlotCacheProducer`, and it is
        // borrowed mutably.
        self.0.thing.with_mut(|place| unsafe { *place = Some(thing) });
        self.0.state.store(FULL, Ordering::Release);
        Ok(())
    }

    /// Takes the value out.
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
