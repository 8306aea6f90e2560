//! The samples that a thread writes: a thread that writes between its waits takes part in an exchange.

use std::cell::Cell;

use super::system::thread_local;

thread_local! {
    static WRITES: Cell<u32> = const { Cell::new(0) };
}

/// The number of samples that the calling thread had written at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) struct Writes(u32);

impl Writes {
    pub(in crate::driver) fn so_far() -> Self {
        Self(WRITES.with(Cell::get))
    }

    #[cfg(test)]
    pub(in crate::driver) const fn of_test(count: u32) -> Self {
        Self(count)
    }

    /// Records a sample.
    #[inline]
    pub(in crate::driver) fn note() {
        WRITES.with(|writes| writes.set(writes.get().wrapping_add(1)));
    }
}
