//! The fast queue: new samples in front of the cache, for the common case.
//!
//! A sample needs no entry in the cache while no policy requires more than the order of arrival, the instance is alive
//! and its writer is registered: [`ReaderHistory::select`] returns it from the queue. An operation that needs entries
//! (another kind of change, another selection, the removal of a sample) first flushes the queue to the end of the
//! cache. Operations that only count consider the samples of both.

use alloc::vec::Vec;

use super::cache_bytes::CacheBytes;
use super::fast_sample::FastSample;
use super::{Arrival, ReaderHistory, SampleInfo, Selected, Selector};
use crate::history::instance::{Instance, ViewState};
use crate::history::{ChangeKind, HistoryKind, WriterSlot};
use crate::payload::BufferPool;
use crate::time::Instant;

impl FastSample {
    /// The sample as selected, with `behind` later samples in the same collection.
    #[inline]
    fn select(self, instance: &Instance, behind: u32) -> Selected {
        let info = SampleInfo {
            read_before: false,
            view_state: instance.view,
            instance_state: instance.state,
            instance: instance.key,
            writer: self.writer,
            sequence_number: self.sequence_number,
            source_timestamp: self.source_timestamp,
            reception_timestamp: self.reception_timestamp,
            disposed_generation_count: instance.disposed_generations,
            no_writers_generation_count: instance.no_writers_generations,
            sample_rank: behind,
            generation_rank: 0,
            absolute_generation_rank: 0,
            valid_data: true,
        };
        Selected { info, payload: self.payload }
    }
}

impl ReaderHistory {
    /// Whether [`Self::push_fast`] may take one value of a topic without keys from this writer. The answer holds for
    /// the next sample only.
    #[must_use]
    #[inline]
    pub fn can_fast_queue(&self, slot: WriterSlot) -> bool {
        self.fast_queue_room(slot) > 0
    }

    /// How many consecutive values of a topic without keys [`Self::push_fast`] may take from this writer, provided that
    /// no other operation comes between.
    #[must_use]
    #[inline]
    pub fn fast_queue_room(&self, slot: WriterSlot) -> usize {
        if !self.is_plain || self.instances.len != 1 {
            return 0;
        }
        let Some(instance) = self.instances.get(self.last_instance) else { return 0 };
        if !instance.is_plainly_written_by(slot) || !self.separation.due.is_empty() {
            return 0;
        }
        let (held, most) = (self.samples.len.saturating_add(self.fast_queue.len()), self.most_of_one());
        match self.config.history {
            HistoryKind::KeepAll => most.saturating_sub(held),
            // A full queue drops its oldest sample, which therefore must not be in the cache.
            HistoryKind::KeepLast(depth) if self.samples.len == 0 && depth.max(1) as usize <= most => usize::MAX,
            HistoryKind::KeepLast(depth) => most.min(depth.max(1) as usize).saturating_sub(held),
        }
    }

    /// Whether [`Self::push_fast`] may take a value that occupies this number of bytes.
    #[must_use]
    #[inline]
    pub fn has_room_for_bytes(&self, bytes: usize) -> bool {
        self.bytes.has_room_for(CacheBytes::of_len(bytes))
    }

    /// Adds a sample for which [`Self::can_fast_queue`] and [`Self::has_room_for_bytes`] returned true.
    #[inline]
    pub fn push_fast(&mut self, now: Instant, sample: FastSample, pool: &mut BufferPool) {
        if let HistoryKind::KeepLast(depth) = self.config.history
            && self.samples.len.saturating_add(self.fast_queue.len()) >= depth.max(1) as usize
            && let Some(oldest) = self.fast_queue.pop_front()
        {
            self.bytes.remove(CacheBytes::of(&oldest.payload));
            pool.recycle(oldest.payload);
        }
        self.bytes.add(CacheBytes::of(&sample.payload));
        if let Some(instance) = self.instances.get_mut(self.last_instance) {
            instance.last_accepted = Some(now);
        }
        self.fast_queue.push_back(sample);
    }

    /// Returns the oldest samples of the queue, if these are what the selector selects.
    #[inline]
    pub(super) fn take_fast(&mut self, selector: &Selector, out: &mut Vec<Selected>) -> bool {
        if self.samples.len > 0 || self.fast_queue.is_empty() || !selector.not_read || selector.instance.is_some() {
            return false;
        }
        let Some(instance) = self.instances.get_mut(self.last_instance) else { return false };
        if !selector.wants_instance(instance) {
            return false;
        }
        let count = self.fast_queue.len().min(selector.max_samples);
        out.reserve(count);
        for behind in (0..count).rev() {
            let Some(sample) = self.fast_queue.pop_front() else { break };
            self.bytes.remove(CacheBytes::of(&sample.payload));
            // The queue holds less than 2^32 samples.
            out.push(sample.select(instance, behind as u32));
        }
        if count > 0 {
            instance.view = ViewState::NotNew;
        }
        true
    }

    /// Returns a sample for which [`Self::can_fast_queue`] returned true without queuing it, if a taking selection
    /// would return this sample and no other. Otherwise `None`. `sample` is called only in the first case; if it
    /// returns `None`, the cache does not change.
    #[inline]
    pub fn pass_through(
        &mut self,
        now: Instant,
        selector: &Selector,
        sample: impl FnOnce() -> Option<FastSample>,
    ) -> Option<Selected> {
        let is_empty = self.samples.len == 0 && self.fast_queue.is_empty();
        if !is_empty || !selector.not_read || selector.instance.is_some() || selector.max_samples == 0 {
            return None;
        }
        let instance = self.instances.get_mut(self.last_instance)?;
        if !selector.wants_instance(instance) {
            return None;
        }
        let selected = sample()?.select(instance, 0);
        instance.last_accepted = Some(now);
        instance.view = ViewState::NotNew;
        Some(selected)
    }

    /// Whether the selector selects a sample of the queue.
    pub(super) fn fast_queue_matches(&self, selector: &Selector) -> bool {
        let instance =
            self.instances.get(self.last_instance).filter(|_| !self.fast_queue.is_empty() && selector.not_read);
        instance.is_some_and(|instance| {
            selector.wants_instance(instance) && selector.instance.is_none_or(|key| key == instance.key)
        })
    }

    /// Moves the samples of the queue into the cache.
    #[inline]
    pub(super) fn flush_fast_queue(&mut self) {
        if !self.fast_queue.is_empty() {
            self.flush_fast_queue_cold();
        }
    }

    #[cold]
    fn flush_fast_queue_cold(&mut self) {
        let index = self.last_instance;
        let Some(key) = self.instances.get(index).map(|instance| instance.key) else { return };
        while let Some(sample) = self.fast_queue.pop_front() {
            let FastSample { writer, slot, sequence_number, source_timestamp, reception_timestamp, payload } = sample;
            // The cache counts the sample again.
            self.bytes.remove(CacheBytes::of(&payload));
            let mut arrival = Arrival {
                kind: ChangeKind::Alive,
                instance: key,
                writer,
                slot,
                strength: 0,
                sequence_number,
                source_timestamp,
                reception_timestamp,
                order_timestamp: source_timestamp,
                expires_at: Instant::FAR_FUTURE,
                payload,
            };
            self.link(index, &mut arrival);
        }
    }

    /// Inserts all samples into the cache directly, for tests that compare the two.
    #[cfg(test)]
    pub(crate) const fn disable_fast_queue(&mut self) {
        self.is_plain = false;
    }

    const fn most_of_one(&self) -> usize {
        let limits = &self.config.limits;
        let most = if limits.max_samples < limits.max_samples_per_instance {
            limits.max_samples
        } else {
            limits.max_samples_per_instance
        };
        most as usize
    }
}

#[cfg(test)]
mod tests;
