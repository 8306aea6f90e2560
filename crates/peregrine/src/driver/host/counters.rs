//! Counters of the samples in shared memory.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct Counters {
    pub(in crate::driver) writers: AtomicU64,
    pub(in crate::driver) sent: AtomicU64,
    pub(in crate::driver) received: AtomicU64,
    pub(in crate::driver) copied_in: AtomicU64,
    pub(in crate::driver) fallbacks: AtomicU64,
}

impl Counters {
    /// A reader of this process has lost its channel.
    pub(in crate::driver) fn note_detached(&self) {
        self.writers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts received samples. Only the thread that holds the receiver's lock may call this: load and store are
    /// separate.
    #[inline]
    pub(in crate::driver) fn note_received(&self, samples: u64) {
        self.received.store(self.received.load(Ordering::Relaxed) + samples, Ordering::Relaxed);
    }
}
