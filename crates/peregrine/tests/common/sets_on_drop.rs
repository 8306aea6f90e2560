//! How a test ends its other threads.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets the flag by which other threads of a test end, also after a failed check.
pub(crate) struct SetsOnDrop<'f>(pub(crate) &'f AtomicBool);

impl Drop for SetsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
