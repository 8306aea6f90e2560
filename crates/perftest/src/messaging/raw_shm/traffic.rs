//! Counting the traffic of this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Traffic of this process.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) sent: Counts,
    pub(super) received: Counts,
}

/// One counter for each endpoint, so that no two threads share one.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<Vec<Arc<AtomicU64>>>);

impl Counts {
    pub(super) fn count(&self) -> Count {
        let count = Arc::<AtomicU64>::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&count));
        Count(count)
    }

    pub(super) fn sum(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// Counts the slots of one endpoint, on one thread at a time.
#[derive(Debug)]
pub(super) struct Count(Arc<AtomicU64>);

impl Count {
    #[inline]
    pub(super) fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
