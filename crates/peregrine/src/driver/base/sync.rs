//! Locks whose holder may have panicked: their state is still consistent, because user code runs under none of them
//! (see [`user_code`](super::user_code)).

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

use super::system::{Mutex, MutexGuard};
use super::user_code::{HeldLock, assert_locks_are_allowed};

/// A lock that the calling thread holds. User code that becomes due meanwhile runs after the thread's last lock is
/// released.
pub(crate) struct Guard<'m, T> {
    // Dropped in this order.
    guard: MutexGuard<'m, T>,
    _held: HeldLock,
}

#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
    assert_locks_are_allowed();
    Guard { guard: lock_leaf(mutex), _held: HeldLock::new() }
}

/// The lock, if no other thread holds it.
#[inline]
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<Guard<'_, T>> {
    assert_locks_are_allowed();
    try_lock_leaf(mutex).map(|guard| Guard { guard, _held: HeldLock::new() })
}

/// A lock under which no user code becomes due: no value of the application is dropped, no waker is woken and nothing
/// is logged.
#[inline]
pub(crate) fn lock_leaf<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Such a lock, if no other thread holds it. Also for a lock of a thread that [defers](super::user_code::Deferring)
/// user code as long as the thread holds the lock.
#[inline]
pub(crate) fn try_lock_leaf<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
