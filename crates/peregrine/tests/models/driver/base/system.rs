//! The locks, atomics and thread functions of loom, with the interface that the driver uses.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LockResult, TryLockError, TryLockResult};

use loom::sync::atomic::Ordering;
pub(in crate::driver) use loom::sync::atomic::fence;
use peregrine_transport::clock::MonotonicNs;

pub(in crate::driver) use super::kernel::{Datagrams, Poller, Receiver, Socket, Timer, Waker};

/// Thread-local variables of loom, whose macro accepts no `const` block.
macro_rules! thread_locals {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = const $init:block;)+) => {
        loom::thread_local! { $($(#[$attribute])* static $name: $type = $init;)+ }
    };
    ($($any:tt)+) => {
        loom::thread_local! { $($any)+ }
    };
}
pub(in crate::driver) use thread_locals as thread_local;

/// A load or store with `SeqCst` needs a fence: loom makes it acquire or release only. A change in one step needs none,
/// because it sees the latest value.
fn fence_if_ordered(order: Ordering) {
    if order == Ordering::SeqCst {
        fence(Ordering::SeqCst);
    }
}

macro_rules! atomics {
    ($($name:ident of $value:ty { $($method:ident),* })*) => {
        $(
            #[derive(Debug, Default)]
            pub(in crate::driver) struct $name(loom::sync::atomic::$name);

            impl $name {
                pub(in crate::driver) fn new(value: $value) -> Self {
                    Self(loom::sync::atomic::$name::new(value))
                }

                pub(in crate::driver) fn load(&self, order: Ordering) -> $value {
                    fence_if_ordered(order);
                    self.0.load(order)
                }

                pub(in crate::driver) fn store(&self, value: $value, order: Ordering) {
                    self.0.store(value, order);
                    fence_if_ordered(order);
                }

                $(
                    pub(in crate::driver) fn $method(&self, value: $value, order: Ordering) -> $value {
                        self.0.$method(value, order)
                    }
                )*
            }
        )*
    };
}

atomics! {
    AtomicBool of bool { swap }
    AtomicU32 of u32 { swap }
    AtomicU64 of u64 { swap, fetch_add, fetch_sub, fetch_or, fetch_and, fetch_min }
    AtomicUsize of usize { fetch_add, fetch_sub }
}

impl AtomicU64 {
    pub(in crate::driver) fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange(current, new, success, failure)
    }

    pub(in crate::driver) fn fetch_update(
        &self,
        set: Ordering,
        fetch: Ordering,
        update: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        self.0.fetch_update(set, fetch, update)
    }
}

/// A lock. Loom's own lock blocks in `try_lock`, and orders a thread that fails there after the owner's accesses.
#[derive(Debug, Default)]
pub(in crate::driver) struct Mutex<T> {
    is_locked: loom::sync::atomic::AtomicBool,
    /// Held by a thread that finds the lock taken, until it sleeps.
    queue: loom::sync::Mutex<()>,
    released: loom::sync::Condvar,
    value: std::sync::Mutex<T>,
}

impl<T> Mutex<T> {
    pub(in crate::driver) fn new(value: T) -> Self {
        Self {
            is_locked: loom::sync::atomic::AtomicBool::new(false),
            queue: loom::sync::Mutex::new(()),
            released: loom::sync::Condvar::new(),
            value: std::sync::Mutex::new(value),
        }
    }

    pub(in crate::driver) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        if !self.try_acquire() {
            let mut queue = self.queue.lock().unwrap();
            while !self.try_acquire() {
                queue = self.released.wait(queue).unwrap();
            }
        }
        Ok(self.guard())
    }

    pub(in crate::driver) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        // A failing thread may have read an old value.
        if self.is_locked.load(Ordering::Relaxed) || !self.try_acquire() {
            return Err(TryLockError::WouldBlock);
        }
        Ok(self.guard())
    }

    fn try_acquire(&self) -> bool {
        self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, value: Some(self.value.try_lock().expect("one thread has the lock")) }
    }

    fn release(&self) {
        // Not stored: loom orders only changes in one step.
        self.is_locked.swap(false, Ordering::Release);
        drop(self.queue.lock().unwrap());
        self.released.notify_one();
    }
}

#[derive(Debug)]
pub(in crate::driver) struct MutexGuard<'m, T> {
    mutex: &'m Mutex<T>,
    value: Option<std::sync::MutexGuard<'m, T>>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("the guard has the lock")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("the guard has the lock")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        self.mutex.release();
    }
}

/// A condition of one lock.
#[derive(Debug, Default)]
pub(in crate::driver) struct Condvar {
    /// The number of notifications.
    notified: loom::sync::Mutex<u32>,
    changed: loom::sync::Condvar,
}

impl Condvar {
    pub(in crate::driver) fn notify_all(&self) {
        *self.notified.lock().unwrap() += 1;
        self.changed.notify_all();
    }
}

pub(in crate::driver) fn wait_for<'m, T>(
    condition: &Condvar,
    mutex: &'m Mutex<T>,
    guard: MutexGuard<'m, T>,
) -> MutexGuard<'m, T> {
    let mut notified = condition.notified.lock().unwrap();
    let before = *notified;
    drop(guard);
    while *notified == before {
        notified = condition.changed.wait(notified).unwrap();
    }
    drop(notified);
    mutex.lock().unwrap()
}

/// A cell that is set once, as a lock: loom has no such cell.
#[derive(Debug)]
pub(in crate::driver) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: AtomicBool,
}

impl<T> OnceLock<T> {
    pub(in crate::driver) fn get(&self) -> Option<&T> {
        self.is_set.load(Ordering::Acquire).then(|| self.value.get()).flatten()
    }

    pub(in crate::driver) fn set(&self, value: T) -> Result<(), T> {
        self.value.set(value)?;
        self.is_set.store(true, Ordering::Release);
        Ok(())
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self { value: std::sync::OnceLock::new(), is_set: AtomicBool::default() }
    }
}

/// The handle of a thread that [sleeps](park_until). Loom's own handle would also wake a thread that waits for a lock.
#[derive(Clone)]
pub(in crate::driver) struct Thread(Arc<Token>);

struct Token {
    thread: loom::thread::ThreadId,
    is_available: loom::sync::Mutex<bool>,
    changed: loom::sync::Condvar,
}

impl Thread {
    pub(in crate::driver) fn id(&self) -> loom::thread::ThreadId {
        self.0.thread
    }

    pub(in crate::driver) fn unpark(&self) {
        *self.0.is_available.lock().unwrap() = true;
        self.0.changed.notify_one();
    }
}

pub(in crate::driver) fn current_thread() -> Thread {
    loom::thread_local! {
        static CURRENT: Thread = Thread(Arc::new(Token {
            thread: loom::thread::current().id(),
            is_available: loom::sync::Mutex::new(false),
            changed: loom::sync::Condvar::new(),
        }));
    }
    CURRENT.with(Clone::clone)
}

/// Sleeps until the thread is unparked. The deadline is never reached.
pub(in crate::driver) fn park_until(_end: MonotonicNs, _is_woken: &Arc<AtomicBool>) {
    let thread = current_thread();
    let mut is_available = thread.0.is_available.lock().unwrap();
    while !std::mem::take(&mut *is_available) {
        is_available = thread.0.changed.wait(is_available).unwrap();
    }
}
