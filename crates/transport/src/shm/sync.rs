//! Atomics and locks of this module: those of the standard library, or those of loom for the models (`RUSTFLAGS="--cfg
//! loom" cargo test -p peregrine-transport --lib shm::models`).

#[cfg(not(all(loom, test)))]
pub(super) use cell::UnsafeCell;
#[cfg(all(loom, test))]
pub(super) use loom::{
    cell::UnsafeCell,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
    },
};
#[cfg(not(all(loom, test)))]
pub(super) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(not(all(loom, test)))]
mod cell {
    /// With the interface of loom's cell.
    #[derive(Debug)]
    pub(in crate::shm) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(in crate::shm) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(in crate::shm) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
            change(self.0.get())
        }
    }
}
