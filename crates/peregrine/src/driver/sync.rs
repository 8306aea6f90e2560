//! Locks whose holder may have panicked: their state is still consistent, because user code runs under none of them.
//! Debug builds assert that.

use std::sync::{PoisonError, TryLockError};

#[cfg(debug_assertions)]
use super::system::thread_local;
use super::system::{Mutex, MutexGuard};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock, if no other thread holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(debug_assertions)]
thread_local! {
    /// The locks of entities that the thread holds.
    static HELD: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Exists as long as the thread holds the lock of an entity. Costs nothing in release builds.
pub(crate) struct HeldLock {
    /// A lock is released by the thread that took it.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl HeldLock {
    #[inline]
    pub(crate) fn new() -> Self {
        #[cfg(debug_assertions)]
        HELD.with(|held| held.set(held.get() + 1));
        Self { _not_send: std::marker::PhantomData }
    }
}

#[cfg(debug_assertions)]
impl Drop for HeldLock {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get() - 1));
    }
}

/// To be called before user code runs.
#[inline]
pub(crate) fn assert_no_lock_is_held() {
    #[cfg(debug_assertions)]
    assert!(std::thread::panicking() || HELD.with(std::cell::Cell::get) == 0, "user code would run under a lock");
}
