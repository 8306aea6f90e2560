//! Samples whose instance the caller computes with application code, which must not run under the reader's lock.
//!
//! A sample that is next in order waits in [`Unkeyed`] instead of entering the cache. For the protocol, the sample has
//! been received. The caller takes the payloads with [`Reader::take_unkeyed`], computes the instances without a lock,
//! and passes them to [`Reader::put_keys`] in the same order. One caller at a time does so.

use alloc::vec::Vec;

use super::Reader;
use super::config::FoundInstance;
use super::proxy::OutOfOrderSample;
use super::unkeyed::{Key, Unkeyed, UnkeyedSample};
use crate::id::{Guid, KeyHash};
use crate::limits::UNKEYED_SAMPLES_MAX;
use crate::payload::Payload;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Timestamp};

impl Reader {
    /// Whether samples wait for [`Self::take_unkeyed`].
    #[must_use]
    pub const fn has_unkeyed(&self) -> bool {
        self.unkeyed.unknown > 0
    }

    /// Appends the payload of each sample without an instance, and whether the payload is a serialized key. The caller
    /// answers with [`Self::put_keys`].
    pub fn take_unkeyed(&mut self, out: &mut Vec<(Payload, bool)>) {
        for waiting in self.unkeyed.samples.iter_mut().filter(|waiting| waiting.key == Key::Unknown) {
            waiting.key = Key::Requested;
            out.push((waiting.sample.payload.clone(), !waiting.sample.meta.kind.is_alive()));
        }
        self.unkeyed.unknown = 0;
    }

    /// Sets the instances of the samples of the last [`Self::take_unkeyed`], in order. A sample without a computed
    /// instance belongs to the instance that its writer has stated. Without that, the sample is dropped and counted as
    /// undecodable.
    pub fn put_keys(&mut self, now: Instant, wall: Timestamp, keys: impl IntoIterator<Item = Option<FoundInstance>>) {
        let asked = self.unkeyed.samples.iter_mut().filter(|waiting| waiting.key == Key::Requested);
        for (waiting, found) in asked.zip(keys) {
            let (instance, serialized_key) = found.map(|found| (found.instance, found.key)).unzip();
            waiting.key = instance.or(waiting.sample.meta.key_hash).map_or(Key::Missing, Key::Known);
            waiting.serialized_key = serialized_key.flatten();
        }
        self.insert_keyed(now, wall);
    }

    /// Handles a sample that is next in order. The sample enters the cache at once only if its instance is known and no
    /// sample waits. Returns the sample when no further sample may wait.
    pub(super) fn defer(
        &mut self,
        now: Instant,
        wall: Timestamp,
        index: usize,
        number: SequenceNumber,
        sample: OutOfOrderSample,
    ) -> Result<(), OutOfOrderSample> {
        let Some(writer) = self.writers.get(index).map(|proxy| proxy.info.guid) else { return Ok(()) };
        let is_bare = sample.payload.known_len() == Some(0);
        let certain = sample.meta.key_hash.filter(|_| is_bare || sample.meta.is_instance_certain);
        let lacks_key =
            |instance: &KeyHash| self.config.keeps_found_keys && !is_bare && self.cache.key_of(instance).is_none();
        // The writer computes the key of a shared value.
        let serialized_key = certain.filter(lacks_key).and_then(|_| sample.payload.key());
        let certain = certain.filter(|instance| serialized_key.is_some() || !lacks_key(instance));
        let key = match certain {
            Some(instance) if self.unkeyed.samples.is_empty() && serialized_key.is_some() => {
                self.insert(now, wall, index, number, sample, instance)?;
                self.cache.set_key(&instance, serialized_key);
                return Ok(());
            }
            Some(instance) if self.unkeyed.samples.is_empty() => {
                return self.insert(now, wall, index, number, sample, instance);
            }
            Some(instance) => Key::Known(instance),
            None if is_bare => Key::Missing,
            None => Key::Unknown,
        };
        let bytes = sample.payload.held_bytes();
        let has_room = self.unkeyed.bytes.saturating_add(bytes) <= self.config.memory_per_reader;
        let may_wait =
            self.unkeyed.samples.is_empty() || (has_room && self.unkeyed.samples.len() < UNKEYED_SAMPLES_MAX);
        if !may_wait {
            self.counters.no_room += 1;
            return Err(sample);
        }
        self.unkeyed.bytes += bytes;
        self.unkeyed.unknown += usize::from(key == Key::Unknown);
        self.unkeyed.samples.push_back(UnkeyedSample { writer, number, sample, key, serialized_key });
        debug_assert!(self.unkeyed.samples.len() <= UNKEYED_SAMPLES_MAX);
        self.insert_keyed(now, wall);
        Ok(())
    }

    /// Moves samples whose instance is known into the cache, up to its limits.
    pub(super) fn insert_keyed(&mut self, now: Instant, wall: Timestamp) {
        let is_known = |waiting: &UnkeyedSample| !matches!(waiting.key, Key::Unknown | Key::Requested);
        while let Some(waiting) = self.unkeyed.samples.pop_front_if(|waiting| is_known(waiting)) {
            let UnkeyedSample { writer, number, sample, key, serialized_key } = waiting;
            let bytes = sample.payload.held_bytes();
            let index = self.by_guid.get(&writer).copied();
            let outcome = match (index, key) {
                (Some(index), Key::Known(instance)) => self.insert(now, wall, index, number, sample, instance),
                (_, key) => {
                    self.counters.undecodable += u64::from(key == Key::Missing);
                    self.pool.recycle(sample.payload);
                    Ok(())
                }
            };
            if let Err(sample) = outcome {
                let proxy = index.and_then(|index| self.writers.get(index));
                if proxy.is_some_and(|proxy| proxy.info.reliable) {
                    self.unkeyed.samples.push_front(UnkeyedSample { writer, number, sample, key, serialized_key });
                    self.stalled = true;
                    return;
                }
                self.pool.recycle(sample.payload);
            } else if let Key::Known(instance) = key {
                self.cache.set_key(&instance, serialized_key);
            }
            self.unkeyed.bytes = self.unkeyed.bytes.saturating_sub(bytes);
            self.unmatch_departed(now, wall, writer);
        }
    }

    /// Whether samples of an unmatched writer still wait; the writer is then removed after them.
    pub(super) fn departs_later(&mut self, writer: Guid) -> bool {
        let Unkeyed { samples, departing, .. } = &mut self.unkeyed;
        if !samples.iter().any(|waiting| waiting.writer == writer) {
            return false;
        }
        if !departing.contains(&writer) {
            departing.push(writer);
        }
        true
    }

    /// Cancels the removal of a writer that was matched again.
    pub(super) fn stays(&mut self, writer: Guid) {
        self.unkeyed.departing.retain(|departing| *departing != writer);
    }

    /// Whether a received sample is not in the cache yet.
    pub(super) fn has_deferred(&self) -> bool {
        !self.unkeyed.samples.is_empty()
    }

    fn unmatch_departed(&mut self, now: Instant, wall: Timestamp, writer: Guid) {
        if self.unkeyed.departing.contains(&writer) && !self.departs_later(writer) {
            self.stays(writer);
            self.unmatch_writer(now, wall, writer);
        }
    }
}

#[cfg(test)]
mod tests;
