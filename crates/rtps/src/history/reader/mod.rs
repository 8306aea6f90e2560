//! The samples that a reader holds for the application, in order and by instance (DDS 1.4 §2.2.2.5.1).

mod cache_bytes;
mod fast_queue;
mod fast_sample;
mod key_digests;
mod lifetime;
mod lifetime_state;
mod sample;
mod schedule;
mod selection;
mod separation;
mod separation_state;
mod slab;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use cache_bytes::CacheBytes;
pub use fast_sample::FastSample;
use lifetime_state::Lifetime;
pub use sample::{Arrival, FilterReason, Inserted, RejectReason, SampleInfo};
pub use selection::{Peeked, Selected, Selector};
pub use separation_state::Released;
use separation_state::Separation;
use slab::Slab;

use super::instance::{Instance, InstanceState, Owner, WriterSlot};
use super::{ChangeKind, HistoryKind, ResourceLimits};
use crate::id::{Guid, KeyHash};
use crate::limits::CACHED_BYTES_MAX;
use crate::memory_account::MemoryAccount;
use crate::payload::{BufferPool, Payload};
use crate::seq::SequenceNumber;
use crate::time::{Instant, Span, Timestamp};

/// The configuration of a reader's cache. Fixed, except where a method says otherwise.
#[derive(Clone, Debug)]
pub struct ReaderHistoryConfig {
    /// The history policy.
    pub history: HistoryKind,
    /// The resource limits.
    pub limits: ResourceLimits,
    /// Bytes of the samples. One sample always fits.
    pub max_bytes: usize,
    /// The account that is charged for them.
    pub account: Arc<MemoryAccount>,
    /// Whether the reader accepts only the strongest writer of an instance (OWNERSHIP EXCLUSIVE).
    pub exclusive_ownership: bool,
    /// Whether samples are ordered by source timestamp (DESTINATION_ORDER BY_SOURCE_TIMESTAMP).
    pub by_source_timestamp: bool,
    /// Whether a selection keeps samples of all instances in one order (PRESENTATION scope TOPIC or GROUP) instead of
    /// instance by instance.
    pub topic_order: bool,
    /// The least time between two samples of an instance (TIME_BASED_FILTER).
    pub minimum_separation: Span,
    /// How long an instance without writers is kept (READER_DATA_LIFECYCLE).
    pub autopurge_no_writers: Span,
    /// How long a disposed instance is kept (READER_DATA_LIFECYCLE).
    pub autopurge_disposed: Span,
    /// Computes the serialized key of a new instance from its first sample, kept for [`ReaderHistory::key_of`]. Without
    /// this function, the reader keeps no keys.
    pub key_holder: Option<KeyHolder>,
    /// Computes the digests of keys, for [`ReaderHistory::instance_with_digest`]. Needs [`Self::key_holder`], or keys
    /// that are [set](ReaderHistory::set_key).
    pub key_digest: Option<KeyDigest>,
    /// Seed that makes hash tables unpredictable to peers.
    pub seed: u64,
}

/// Computes the serialized key from a serialized sample, or, with `true`, from a serialized key. `None` when the bytes
/// cannot be decoded.
#[derive(Clone, Copy, Debug)]
pub struct KeyHolder(pub fn(&[u8], bool) -> Option<Vec<u8>>);

/// Computes the MD5 digest of a key from the serialized key. `None` when the bytes cannot be decoded.
#[derive(Clone, Copy, Debug)]
pub struct KeyDigest(pub fn(&[u8]) -> Option<KeyHash>);

impl ReaderHistoryConfig {
    /// Whether the policies keep all samples of a live instance in order of arrival.
    fn is_plain(&self) -> bool {
        !self.exclusive_ownership && !self.by_source_timestamp && self.minimum_separation == Span::ZERO
    }
}

impl Default for ReaderHistoryConfig {
    fn default() -> Self {
        Self {
            history: HistoryKind::KeepLast(1),
            limits: ResourceLimits::UNLIMITED,
            max_bytes: CACHED_BYTES_MAX,
            account: Arc::default(),
            exclusive_ownership: false,
            by_source_timestamp: false,
            topic_order: false,
            minimum_separation: Span::ZERO,
            autopurge_no_writers: Span::INFINITE,
            autopurge_disposed: Span::INFINITE,
            key_holder: None,
            key_digest: None,
            seed: 0,
        }
    }
}

#[derive(Debug)]
struct Cached {
    arrival: Arrival,
    read: bool,
    disposed_generations: u32,
    no_writers_generations: u32,
    instance: u32,
    previous: Option<u32>,
    next: Option<u32>,
    previous_of_instance: Option<u32>,
    next_of_instance: Option<u32>,
}

/// Indices of instances.
type InstanceMap = HashMap<KeyHash, u32, foldhash::quality::FixedState>;

/// The samples of one reader.
///
/// Every operation is constant in time per sample, whatever the cache holds, except ordering by source timestamp
/// (proportional to the lateness of a sample). The cache does not allocate once it has reached its working size.
#[derive(Debug)]
pub struct ReaderHistory {
    config: ReaderHistoryConfig,
    samples: Slab<Cached>,
    instances: Slab<Instance>,
    by_key: InstanceMap,
    /// The instances by the digests of their keys, if samples are encrypted.
    by_digest: Option<InstanceMap>,
    /// The index of the last sample's instance, which is often the next one's as well.
    last_instance: u32,
    head: Option<u32>,
    tail: Option<u32>,
    not_read: usize,
    /// The newest samples, all of one instance, not yet in the cache.
    fast_queue: VecDeque<FastSample>,
    /// Whether no policy requires more than the order of arrival.
    is_plain: bool,
    separation: Separation,
    visit: u64,
    lifetime: Lifetime,
    bytes: CacheBytes,
    /// Sample and instance of the current selection.
    picked: Vec<(u32, u32)>,
}

impl ReaderHistory {
    /// An empty cache.
    #[must_use]
    pub fn new(config: ReaderHistoryConfig) -> Self {
        let by_key = Self::map(config.seed);
        Self {
            is_plain: config.is_plain(),
            bytes: CacheBytes::new(config.max_bytes, Arc::clone(&config.account)),
            fast_queue: VecDeque::new(),
            config,
            samples: Slab::default(),
            instances: Slab::default(),
            by_key,
            by_digest: None,
            last_instance: 0,
            head: None,
            tail: None,
            not_read: 0,
            separation: Separation::default(),
            visit: 0,
            lifetime: Lifetime::default(),
            picked: Vec::new(),
        }
    }

    /// The number of held samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.samples.len.saturating_add(self.fast_queue.len())
    }

    /// Whether no sample is held.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.samples.len == 0 && self.fast_queue.is_empty()
    }

    /// Bytes of the held samples, with those of their records.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.bytes.held()
    }

    /// The number of samples that have not been read.
    #[must_use]
    pub fn not_read(&self) -> usize {
        self.not_read.saturating_add(self.fast_queue.len())
    }

    /// The number of known instances.
    #[must_use]
    pub const fn instances(&self) -> usize {
        self.instances.len
    }

    /// Changes the READER_DATA_LIFECYCLE delays for instances that end later.
    pub const fn set_autopurge(&mut self, no_writers: Span, disposed: Span) {
        self.config.autopurge_no_writers = no_writers;
        self.config.autopurge_disposed = disposed;
    }

    /// Adds a sample and makes room according to the history policy. Moves the payload out of `arrival`, unless the
    /// sample is rejected.
    ///
    /// # Errors
    /// The limit that prevents the addition. The caller may offer the sample again later.
    pub fn insert(
        &mut self,
        now: Instant,
        arrival: &mut Arrival,
        pool: &mut BufferPool,
    ) -> Result<Inserted, RejectReason> {
        self.flush_fast_queue();
        let filtered = |reason, arrival: &mut Arrival, pool: &mut BufferPool| {
            pool.recycle(core::mem::take(&mut arrival.payload));
            Ok(Inserted::Filtered(reason))
        };
        if arrival.expires_at <= now {
            return filtered(FilterReason::Expired, arrival, pool);
        }
        let known = self.find(&arrival.instance);
        if known.is_none() {
            if matches!(arrival.kind, ChangeKind::Unregistered) {
                return filtered(FilterReason::NothingChanged, arrival, pool);
            }
            if self.instances.len >= self.config.limits.max_instances as usize && !self.replace_instance() {
                return Err(RejectReason::Instances);
            }
        }
        if let Some(index) = known
            && let Some(reason) = self.instances.get(index).and_then(|i| self.filter(now, index, i, arrival))
        {
            if reason == FilterReason::TimeBasedFilter && !self.is_late(index, arrival) {
                return self.hold(index, arrival, pool);
            }
            if reason == FilterReason::NothingChanged {
                self.update_writers(index, arrival);
                self.update_newest_stamp(index, arrival);
                self.drop_idle_instance(index);
            } else if arrival.kind.unregisters() {
                self.remove_instance_writer_silently(index, arrival.slot);
            }
            return filtered(reason, arrival, pool);
        }
        let instance = match known {
            Some(index) => index,
            None => self.add_instance(arrival),
        };
        if let Err(reason) = self.make_room(instance, CacheBytes::of(&arrival.payload), pool) {
            self.drop_idle_instance(instance);
            return Err(reason);
        }
        if !matches!(arrival.kind, ChangeKind::Unregistered) {
            self.discard_held(instance, pool);
        }
        self.apply(now, instance, arrival);
        self.link(instance, arrival);
        Ok(Inserted::Stored)
    }

    /// Removes a writer that is unmatched or no longer alive from all its instances. Returns whether the application
    /// has something new to read.
    pub fn writer_gone(&mut self, now: Instant, writer: Guid, slot: WriterSlot, at: Timestamp) -> bool {
        self.flush_fast_queue();
        let mut news = false;
        for index in 0..self.instances.slots.len() as u32 {
            news |= self.remove_instance_writer(now, index, writer, slot, at);
        }
        news
    }

    /// Changes the strength of a writer. The next sample of an instance then decides its owner.
    pub fn strength_changed(&mut self, slot: WriterSlot, strength: i32) {
        for instance in self.instances.slots.iter_mut().flatten() {
            if let Some(owner) = instance.owner.as_mut().filter(|owner| owner.slot == slot) {
                owner.strength = strength;
            }
        }
    }

    /// Under order by source timestamp: the samples of this writer in an instance count as no later than `place`.
    pub fn lower_order(&mut self, key: &KeyHash, writer: Guid, place: Timestamp) {
        self.flush_fast_queue();
        let lowered = |stamp: (Timestamp, Guid)| if stamp.1 == writer { (stamp.0.min(place), writer) } else { stamp };
        let Some(&index) = self.by_key.get(key) else { return };
        let Some(instance) = self.instances.get_mut(index) else { return };
        for held in self.separation.held.slots.iter_mut().flatten().filter(|held| held.instance == index) {
            held.arrival.order_timestamp = lowered(held.arrival.stamp()).0;
        }
        let mut newest = instance.newest.map(lowered);
        instance.last_taken = instance.last_taken.map(lowered);
        let mut at = instance.tail;
        while let Some(sample) = at.and_then(|index| self.samples.get_mut(index)) {
            sample.arrival.order_timestamp = lowered(sample.arrival.stamp()).0;
            newest = newest.max(Some(sample.arrival.stamp()));
            at = sample.previous_of_instance;
        }
        instance.newest = newest;
    }

    /// Removes the owner of an instance after a missed deadline: any writer may become the owner.
    pub fn owner_missed_deadline(&mut self, key: &KeyHash) {
        if let Some(instance) = self.by_key.get(key).copied().and_then(|i| self.instances.get_mut(i)) {
            instance.owner = None;
        }
    }

    /// Whether the instance is known and alive.
    #[must_use]
    pub fn is_alive(&self, key: &KeyHash) -> bool {
        let instance = self.by_key.get(key).and_then(|&index| self.instances.get(index));
        instance.is_some_and(|instance| instance.state == InstanceState::Alive)
    }

    /// Whether the instance is known.
    #[must_use]
    pub fn knows(&self, key: &KeyHash) -> bool {
        self.by_key.contains_key(key)
    }

    /// The serialized key of a known instance, if known.
    #[must_use]
    pub fn key_of(&self, key: &KeyHash) -> Option<&[u8]> {
        self.by_key.get(key).and_then(|&i| self.instances.get(i))?.key_holder.as_deref()
    }

    /// Sets the serialized key of a known instance without one.
    pub fn set_key(&mut self, instance: &KeyHash, serialized_key: Option<Vec<u8>>) {
        if let Some(index) = self.by_key.get(instance).copied()
            && let Some(known) = self.instances.get_mut(index)
            && known.key_holder.is_none()
        {
            known.key_holder = serialized_key;
            self.add_digest(index);
        }
    }

    /// Removes an instance without samples, as if it had never been written.
    pub fn forget_instance(&mut self, key: &KeyHash) {
        self.flush_fast_queue();
        let Some(index) = self.by_key.get(key).copied() else { return };
        if self.instances.get(index).is_some_and(|i| i.samples == 0) {
            self.drop_instance(index);
        }
    }

    fn map(seed: u64) -> InstanceMap {
        HashMap::with_hasher(foldhash::quality::FixedState::with_seed(seed))
    }

    fn find(&mut self, key: &KeyHash) -> Option<u32> {
        if self.instances.get(self.last_instance).is_none_or(|last| last.key != *key) {
            self.last_instance = self.by_key.get(key).copied()?;
        }
        Some(self.last_instance)
    }

    fn filter(&self, now: Instant, index: u32, instance: &Instance, arrival: &Arrival) -> Option<FilterReason> {
        if self.config.exclusive_ownership
            && let Some(owner) = instance.owner
            && owner.slot != arrival.slot
            && !owner.yields_to(arrival.strength, arrival.writer)
        {
            return Some(FilterReason::Ownership);
        }
        match arrival.kind {
            ChangeKind::Alive => {
                if self.is_superseded(instance, arrival) {
                    return Some(FilterReason::Superseded);
                }
                self.comes_too_soon(now, index, arrival).then_some(FilterReason::TimeBasedFilter)
            }
            kind if kind.disposes() => {
                if self.is_late(index, arrival) {
                    return Some(FilterReason::Superseded);
                }
                (instance.state == InstanceState::NotAliveDisposed).then_some(FilterReason::NothingChanged)
            }
            _ => (instance.state != InstanceState::Alive).then_some(FilterReason::NothingChanged),
        }
    }

    /// Under order by source timestamp: whether the instance was written or disposed later than that.
    fn is_late(&self, index: u32, arrival: &Arrival) -> bool {
        self.config.by_source_timestamp && self.instances.get(index).is_some_and(|i| i.newest > Some(arrival.stamp()))
    }

    /// Under order by source timestamp: whether the application took a later value, or the history is full of later
    /// ones.
    fn is_superseded(&self, instance: &Instance, arrival: &Arrival) -> bool {
        if !self.config.by_source_timestamp {
            return false;
        }
        let stamp = arrival.stamp();
        if instance.last_taken > Some(stamp) {
            return true;
        }
        let HistoryKind::KeepLast(depth) = self.config.history else { return false };
        let oldest = instance.head.and_then(|i| self.samples.get(i));
        instance.samples >= depth.max(1) && oldest.is_some_and(|oldest| oldest.arrival.stamp() > stamp)
    }

    /// Makes room for a sample that counts for this number of bytes. Removes nothing if a limit prevents the addition.
    fn make_room(&mut self, index: u32, bytes: usize, pool: &mut BufferPool) -> Result<(), RejectReason> {
        let Some(instance) = self.instances.get(index) else { return Ok(()) };
        let surplus = match self.config.history {
            HistoryKind::KeepLast(depth) => instance.samples.saturating_add(1).saturating_sub(depth.max(1)),
            HistoryKind::KeepAll => 0,
        };
        if instance.samples.saturating_sub(surplus) >= self.config.limits.max_samples_per_instance {
            return Err(RejectReason::SamplesPerInstance);
        }
        if self.samples.len.saturating_sub(surplus as usize) >= self.config.limits.max_samples as usize {
            return Err(RejectReason::Samples);
        }
        if !self.bytes.has_room_for(bytes)
            && !self.bytes.has_room_in_place_of(self.bytes_of_oldest(index, surplus), bytes)
        {
            return Err(RejectReason::Memory);
        }
        for _ in 0..surplus {
            let Some(oldest) = self.instances.get(index).and_then(|instance| instance.head) else { break };
            self.remove_keeping_instance(oldest, pool);
        }
        Ok(())
    }

    /// Bytes of the oldest samples of an instance.
    fn bytes_of_oldest(&self, index: u32, count: u32) -> usize {
        let first = self.instances.get(index).and_then(|instance| instance.head).and_then(|i| self.samples.get(i));
        let all = core::iter::successors(first, |sample| self.samples.get(sample.next_of_instance?));
        all.take(count as usize).map(|sample| CacheBytes::of(&sample.arrival.payload)).sum()
    }

    /// Applies the effect of the sample to its instance.
    fn apply(&mut self, now: Instant, index: u32, arrival: &Arrival) {
        self.update_writers(index, arrival);
        // A sample written before the instance was disposed does not revive the instance.
        let is_late = self.is_late(index, arrival);
        let Some(instance) = self.instances.get_mut(index) else { return };
        if arrival.kind.is_alive() {
            if !is_late || instance.state != InstanceState::NotAliveDisposed {
                instance.revive();
            }
            instance.last_accepted = Some(now);
            self.update_newest_stamp(index, arrival);
            return;
        }
        let delay = if arrival.kind.disposes() {
            instance.state = InstanceState::NotAliveDisposed;
            self.update_newest_stamp(index, arrival);
            self.config.autopurge_disposed
        } else if instance.writers.is_empty() {
            instance.state = InstanceState::NotAliveNoWriters;
            self.config.autopurge_no_writers
        } else {
            return;
        };
        self.schedule_purge(index, now + delay);
    }

    /// Updates the writers of the instance, and its owner, after this sample.
    fn update_writers(&mut self, index: u32, arrival: &Arrival) {
        let Some(instance) = self.instances.get_mut(index) else { return };
        if arrival.kind.unregisters() {
            instance.writers.remove(arrival.slot);
            if instance.owner.is_some_and(|owner| owner.slot == arrival.slot) {
                instance.owner = None;
            }
        } else {
            instance.writers.add(arrival.slot);
            if self.config.exclusive_ownership {
                let Arrival { slot, strength, writer, .. } = *arrival;
                instance.owner = Some(Owner { slot, strength, writer });
            }
        }
    }

    /// Updates the source timestamp of the instance's last write or dispose.
    fn update_newest_stamp(&mut self, index: u32, arrival: &Arrival) {
        if self.config.by_source_timestamp
            && let Some(instance) = self.instances.get_mut(index)
            && !matches!(arrival.kind, ChangeKind::Unregistered)
        {
            instance.newest = instance.newest.max(Some(arrival.stamp()));
        }
    }

    /// Removes a writer from an instance without a sample for the application.
    fn remove_instance_writer_silently(&mut self, index: u32, slot: WriterSlot) {
        let Some(instance) = self.instances.get_mut(index) else { return };
        instance.writers.remove(slot);
        if instance.owner.is_some_and(|owner| owner.slot == slot) {
            instance.owner = None;
        }
        self.drop_idle_instance(index);
    }

    /// Removes one writer from one instance. Returns whether the application has something new to read. The state
    /// change is stored beyond the limits, because no writer would repeat it. There is at most one such entry: the
    /// instance revives only with a sample for which there was room.
    fn remove_instance_writer(
        &mut self,
        now: Instant,
        index: u32,
        writer: Guid,
        slot: WriterSlot,
        at: Timestamp,
    ) -> bool {
        let Some(instance) = self.instances.get_mut(index) else { return false };
        if instance.owner.is_some_and(|owner| owner.slot == slot) {
            instance.owner = None;
        }
        if !instance.writers.remove(slot) || !instance.writers.is_empty() {
            return false;
        }
        if instance.state != InstanceState::Alive {
            self.drop_idle_instance(index);
            return false;
        }
        instance.state = InstanceState::NotAliveNoWriters;
        let key = instance.key;
        self.schedule_purge(index, now + self.config.autopurge_no_writers);
        let mut arrival = Arrival {
            kind: ChangeKind::Unregistered,
            instance: key,
            writer,
            slot,
            strength: 0,
            sequence_number: SequenceNumber::UNKNOWN,
            source_timestamp: at,
            reception_timestamp: at,
            order_timestamp: at,
            expires_at: Instant::FAR_FUTURE,
            payload: Payload::default(),
        };
        self.link(index, &mut arrival);
        true
    }

    fn add_instance(&mut self, arrival: &Arrival) -> u32 {
        let key = arrival.instance;
        let mut instance = Instance::new(key);
        instance.key_holder =
            self.config.key_holder.filter(|_| !arrival.payload.is_empty()).and_then(|KeyHolder(make)| {
                arrival.payload.key().or_else(|| make(&arrival.payload, !arrival.kind.is_alive()))
            });
        let index = self.instances.insert(instance);
        self.by_key.insert(key, index);
        self.add_digest(index);
        index
    }

    fn drop_instance(&mut self, index: u32) {
        self.unlist(index);
        if let Some(instance) = self.instances.remove(index) {
            self.by_key.remove(&instance.key);
            self.remove_digest(&instance);
            if let Some(held) = instance.held.and_then(|place| self.separation.discard(place)) {
                self.bytes.remove(CacheBytes::of(&held.payload));
            }
            self.clean_purges();
        }
    }

    /// Drops an instance without writers and samples.
    fn drop_idle_instance(&mut self, index: u32) {
        let idle = |i: &Instance| i.samples == 0 && i.writers.is_empty() && i.held.is_none();
        if self.instances.get(index).is_some_and(idle) {
            self.drop_instance(index);
        }
    }

    fn link(&mut self, index: u32, arrival: &mut Arrival) {
        let Some(instance) = self.instances.get(index) else { return };
        let mut after = self.tail;
        let mut after_of_instance = instance.tail;
        if self.config.by_source_timestamp {
            let stamp = arrival.stamp();
            let later = |s: &Cached| s.arrival.stamp() > stamp;
            while let Some(sample) = after.and_then(|i| self.samples.get(i)).filter(|s| later(s)) {
                after = sample.previous;
            }
            while let Some(sample) = after_of_instance.and_then(|i| self.samples.get(i)).filter(|s| later(s)) {
                after_of_instance = sample.previous_of_instance;
            }
        }
        let next = match after {
            None => self.head,
            Some(i) => self.samples.get(i).and_then(|s| s.next),
        };
        let next_of_instance = match after_of_instance {
            None => instance.head,
            Some(i) => self.samples.get(i).and_then(|s| s.next_of_instance),
        };
        let payload = core::mem::take(&mut arrival.payload);
        self.bytes.add(CacheBytes::of(&payload));
        let (disposed_generations, no_writers_generations) =
            (instance.disposed_generations, instance.no_writers_generations);
        let new = Some(self.samples.insert_with(|| Cached {
            read: false,
            disposed_generations,
            no_writers_generations,
            instance: index,
            previous: after,
            next,
            previous_of_instance: after_of_instance,
            next_of_instance,
            arrival: Arrival { payload, ..*arrival },
        }));
        self.not_read += 1;
        new.into_iter().for_each(|new| self.schedule_expiry(new, arrival.expires_at));
        self.point_forward(after, new);
        self.point_backward(next, new);
        let Some(instance) = self.instances.get_mut(index) else { return };
        instance.samples += 1;
        match after_of_instance {
            None => instance.head = new,
            Some(i) => self.samples.get_mut(i).into_iter().for_each(|s| s.next_of_instance = new),
        }
        match next_of_instance {
            None => instance.tail = new,
            Some(i) => self.samples.get_mut(i).into_iter().for_each(|s| s.previous_of_instance = new),
        }
        self.update_replaceable(index);
    }

    /// Returns the payload, and the index of the instance.
    fn unlink(&mut self, index: u32) -> Option<(Payload, u32)> {
        let sample = self.samples.get_mut(index)?;
        let payload = core::mem::take(&mut sample.arrival.payload);
        let Cached { read, instance, previous, next, previous_of_instance, next_of_instance, .. } = *sample;
        self.samples.release(index);
        self.bytes.remove(CacheBytes::of(&payload));
        self.not_read -= usize::from(!read);
        self.point_forward(previous, next);
        self.point_backward(next, previous);
        let Some(entry) = self.instances.get_mut(instance) else { return Some((payload, instance)) };
        entry.samples -= 1;
        match previous_of_instance {
            None => entry.head = next_of_instance,
            Some(i) => self.samples.get_mut(i).into_iter().for_each(|s| s.next_of_instance = next_of_instance),
        }
        match next_of_instance {
            None => entry.tail = previous_of_instance,
            Some(i) => self.samples.get_mut(i).into_iter().for_each(|s| s.previous_of_instance = previous_of_instance),
        }
        self.clean_expiry();
        self.update_replaceable(instance);
        Some((payload, instance))
    }

    fn point_forward(&mut self, from: Option<u32>, to: Option<u32>) {
        match from {
            None => self.head = to,
            Some(i) => self.samples.get_mut(i).into_iter().for_each(|s| s.next = to),
        }
    }

    fn point_backward(&mut self, from: Option<u32>, to: Option<u32>) {
        match from {
            None => self.tail = to,
            Some(i) => self.samples.get_mut(i).into_iter().for_each(|s| s.previous = to),
        }
    }

    fn remove_keeping_instance(&mut self, index: u32, pool: &mut BufferPool) {
        if let Some((payload, _)) = self.unlink(index) {
            pool.recycle(payload);
        }
    }

    fn remove(&mut self, index: u32, pool: &mut BufferPool) {
        if let Some((payload, instance)) = self.unlink(index) {
            pool.recycle(payload);
            self.drop_idle_instance(instance);
        }
    }
}
