//! A condition on all readers that a single reader decides.
//!
//! An acknowledgement of one reader usually releases no sample, because another reader still lacks the oldest one. A
//! check of every reader makes the acknowledgements of n readers cost n² steps. The reader that decided the last check,
//! the witness, usually decides the next one.

use crate::box_list::BoxList;

use super::proxy::ReaderProxy;

/// The place of the reader that decided the last check.
#[derive(Debug, Default)]
pub(super) struct Witness(usize);

impl Witness {
    /// Whether `is_meant` holds for any reader. The search begins with the last witness, so a series of searches checks
    /// each reader once if the witnesses cease to match one after the other.
    pub(super) fn find(&mut self, readers: &BoxList<ReaderProxy>, is_meant: impl Fn(&ReaderProxy) -> bool) -> bool {
        let start = self.0.min(readers.len());
        let mut places = (start..readers.len()).chain(0..start);
        let found = places.find(|place| {
            count_looks(1);
            readers.get(*place).is_some_and(&is_meant)
        });
        self.0 = found.unwrap_or(0);
        found.is_some()
    }
}

#[cfg(test)]
std::thread_local! {
    static LOOKS: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
    static REGROUPED: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

/// Counts readers that the writer looked at to find the oldest sample that one of them lacks, for tests that bound the
/// work.
#[inline]
pub(super) fn count_looks(readers: usize) {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + readers);
    let _ = readers;
}

/// Counts readers that the writer looked at to find the destinations of messages for all readers, for tests that bound
/// the work.
pub(super) fn count_regrouped(readers: usize) {
    #[cfg(test)]
    REGROUPED.set(REGROUPED.get() + readers);
    let _ = readers;
}

/// The readers [counted](count_regrouped) on the calling thread since the last call.
#[cfg(test)]
pub(super) fn take_regrouped() -> usize {
    REGROUPED.take()
}

/// The looks of the calling thread since the last call.
#[cfg(test)]
pub(super) fn take_looks() -> usize {
    LOOKS.take()
}
