//! Lifetime of samples and instances: LIFESPAN, READER_DATA_LIFECYCLE, and the replacement of instances by new ones.

use super::{Cached, ReaderHistory, Released};
use crate::history::instance::{Instance, InstanceState, Links};
use crate::payload::BufferPool;
use crate::time::Instant;

impl ReaderHistory {
    /// Discards expired samples and instances, and stores the samples of the time-based filter that are due.
    /// [`Self::next_timeout`] returns when to call this again.
    pub fn handle_timeout(&mut self, now: Instant, pool: &mut BufferPool) -> Released {
        if self.next_timeout().is_none_or(|at| at > now) {
            return self.release_due(now, pool);
        }
        self.flush_fast_queue();
        while let Some((at, index)) = self.lifetime.samples.pop_due(now) {
            if self.samples.get(index).is_some_and(|sample| sample.arrival.expires_at == at) {
                self.remove(index, pool);
            }
        }
        while let Some((at, index)) = self.lifetime.instances.pop_due(now) {
            if self.instances.get(index).is_some_and(|instance| instance.purge_at == Some(at)) {
                self.purge(index, pool);
            }
        }
        self.release_due(now, pool)
    }

    /// The earliest end of a sample or instance, or due time of a sample that the time-based filter holds.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        [self.lifetime.samples.next(), self.lifetime.instances.next(), self.separation.next_due()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn schedule_expiry(&mut self, index: u32, at: Instant) {
        if at != Instant::FAR_FUTURE {
            self.lifetime.samples.push(at, index);
        }
    }

    /// Cleans the schedule after the release of a sample.
    #[inline]
    pub(super) fn clean_expiry(&mut self) {
        if !self.lifetime.samples.is_empty() {
            self.clean_expiry_schedule();
        }
    }

    #[cold]
    fn clean_expiry_schedule(&mut self) {
        let samples = &self.samples;
        let expires_at = |sample: &Cached| sample.arrival.expires_at;
        self.lifetime.samples.drop_stale(|at, index| samples.get(index).is_some_and(|s| expires_at(s) == at));
        if self.lifetime.samples.is_crowded(samples.len) {
            // The list is as long as the number of samples; the slab keeps its greatest length.
            let mut at = self.head;
            let listed = core::iter::from_fn(|| {
                let index = at?;
                let sample = samples.get(index)?;
                at = sample.next;
                Some((expires_at(sample), index))
            });
            self.lifetime.samples.replace(listed.filter(|(at, _)| *at != Instant::FAR_FUTURE));
        }
    }

    pub(super) fn schedule_purge(&mut self, index: u32, at: Instant) {
        if at == Instant::FAR_FUTURE {
            return;
        }
        if let Some(instance) = self.instances.get_mut(index) {
            instance.purge_at = Some(at);
        }
        self.lifetime.instances.push(at, index);
        self.clean_purges();
    }

    /// Bounds the schedule of purges. Called when the schedule has grown, and when an instance has been dropped.
    pub(super) fn clean_purges(&mut self) {
        if self.lifetime.instances.is_crowded(self.instances.len) {
            let instances = &self.instances;
            let known = self.by_key.values().copied();
            let known = known.filter_map(|index| Some((instances.get(index)?.purge_at?, index)));
            self.lifetime.instances.replace(known);
        }
    }

    fn purge(&mut self, index: u32, pool: &mut BufferPool) {
        while let Some(oldest) = self.instances.get(index).and_then(|i| i.head) {
            self.remove_keeping_instance(oldest, pool);
        }
        self.drop_instance(index);
    }

    /// Makes room for a new instance by dropping one that is not alive and has no samples. `false` if there is none.
    pub(super) fn replace_instance(&mut self) -> bool {
        let Some(index) = self.lifetime.replaceable.head else { return false };
        #[cfg(test)]
        {
            self.lifetime.looked_at += 1;
        }
        self.drop_instance(index);
        true
    }

    /// Lists an instance as replaceable or unlists it. Called after a change of its samples or state.
    #[inline]
    pub(super) fn update_replaceable(&mut self, index: u32) {
        let Some(instance) = self.instances.get(index) else { return };
        if instance.is_replaceable() != instance.links.is_listed {
            if instance.links.is_listed { self.unlist(index) } else { self.list(index) }
        }
    }

    fn list(&mut self, index: u32) {
        let previous = self.lifetime.replaceable.tail.replace(index);
        match previous.and_then(|previous| self.instances.get_mut(previous)) {
            Some(previous) => previous.links.next = Some(index),
            None => self.lifetime.replaceable.head = Some(index),
        }
        if let Some(instance) = self.instances.get_mut(index) {
            instance.links = Links { is_listed: true, previous, next: None };
        }
    }

    /// Removes an instance from the list if it is listed.
    pub(super) fn unlist(&mut self, index: u32) {
        let Some(instance) = self.instances.get_mut(index).filter(|instance| instance.links.is_listed) else { return };
        let Links { previous, next, .. } = core::mem::take(&mut instance.links);
        match previous.and_then(|previous| self.instances.get_mut(previous)) {
            Some(previous) => previous.links.next = next,
            None => self.lifetime.replaceable.head = next,
        }
        match next.and_then(|next| self.instances.get_mut(next)) {
            Some(next) => next.links.previous = previous,
            None => self.lifetime.replaceable.tail = previous,
        }
    }
}

impl Instance {
    /// Whether the application no longer needs the instance, so that a new one may replace it.
    const fn is_replaceable(&self) -> bool {
        self.samples == 0 && !matches!(self.state, InstanceState::Alive) && self.held.is_none()
    }
}

#[cfg(test)]
mod tests;
