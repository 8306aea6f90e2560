//! The counts of a writer's cache: see [`CacheStatus`].

use crate::history::Change;

use super::cache_watch::CacheStatus;
use super::{Writer, WriterEvent};

impl Writer {
    /// The counts of the cache so far. Without [watermarks](super::WriterConfig::watermarks) only `full` and
    /// `unacknowledged` are counted, and no change is reported.
    #[must_use]
    pub fn cache_status(&self) -> CacheStatus {
        CacheStatus { unacknowledged: self.unacknowledged_in_cache(), ..self.cache.counts }
    }

    /// Whether the writer has [watermarks](super::WriterConfig::watermarks), so that acknowledgements matter at once.
    #[must_use]
    pub const fn watches_cache(&self) -> bool {
        self.cache.is_watching()
    }

    /// The number of unacknowledged samples may have changed.
    #[inline]
    pub(super) fn note_cache(&mut self) {
        if self.cache.is_watching() {
            self.look_at_cache();
        }
    }

    /// A change is about to be added.
    #[inline]
    pub(super) fn note_replacement(&mut self, change: &Change) {
        if self.cache.is_watching() {
            self.look_at_replacement(change);
        }
    }

    /// A write has been refused.
    pub(super) fn note_full(&mut self) {
        let last = self.history.last();
        if self.cache.full_at.replace(last) != Some(last) {
            self.cache.counts.full += 1;
            if self.cache.is_watching() {
                self.report_cache();
            }
        }
    }

    #[cold]
    fn look_at_cache(&mut self) {
        if self.cache.set(self.unacknowledged_in_cache()) {
            self.report_cache();
        }
    }

    #[cold]
    fn look_at_replacement(&mut self, change: &Change) {
        let replaced = self.history.replaced_by(&change.instance);
        if replaced.is_some_and(|number| number >= self.acknowledged_below()) {
            self.cache.counts.replaced_unacknowledged += 1;
            self.report_cache();
        }
    }

    fn report_cache(&mut self) {
        if self.events.back() != Some(&WriterEvent::CacheChanged) {
            self.events.push_back(WriterEvent::CacheChanged);
        }
    }

    fn unacknowledged_in_cache(&self) -> u64 {
        self.history.count_from(self.acknowledged_below()) as u64
    }
}
