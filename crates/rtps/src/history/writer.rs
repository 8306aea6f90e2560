//! The changes that a writer holds for repair, for late joiners and for readers that have not acknowledged them.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::{Change, ChangeKind, HistoryKind, ResourceLimits};
use crate::id::KeyHash;
use crate::payload::{BufferPool, Payload};
use crate::protection::SealError;
use crate::protection::payload::{PayloadSealer, SealedPayload};
use crate::seq::SequenceNumber;
use crate::time::{Instant, Timestamp};

/// A change in a writer's cache.
#[derive(Debug)]
pub struct CacheChange {
    /// Its sequence number.
    pub sequence_number: SequenceNumber,
    /// The effect on its instance.
    pub kind: ChangeKind,
    /// The instance.
    pub instance: KeyHash,
    /// When it happened.
    pub source_timestamp: Timestamp,
    /// When its lifespan ends.
    pub expires_at: Instant,
    /// The serialized sample or key.
    pub payload: Payload,
    /// The payload bytes of one DATA_FRAG, or 0 when the sample fits into one DATA. Receivers reassemble samples by
    /// this size, also from repairs. The size changes only when a reader is matched that requires smaller messages.
    pub fragment_size: u32,
    /// The protected payload, once sent: repairs send the same bytes.
    sealed: Option<Box<SealedPayload>>,
    /// Payload bytes of all changes before this one, since the writer was created.
    offset: u64,
    next_of_instance: SequenceNumber,
    live: bool,
}

/// The limit that prevents a change from being accepted. The same change may succeed later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// `max_samples`.
    Samples,
    /// `max_instances`.
    Instances,
    /// `max_samples_per_instance`.
    SamplesPerInstance,
    /// The bound of unacknowledged samples, of a writer for which HISTORY and RESOURCE_LIMITS set none.
    Unacknowledged,
    /// [`SEND_QUEUE_BYTES_MAX`](crate::limits::SEND_QUEUE_BYTES_MAX): another thread still sends the earlier samples.
    SendQueue,
}

#[derive(Debug, Default)]
struct Instance {
    samples: u32,
    oldest: SequenceNumber,
    newest: SequenceNumber,
    registered: bool,
}

/// The changes of one writer, in ascending order of sequence numbers.
///
/// Adding, removing from either end and finding by number are constant in time while no change was removed from the
/// middle, and logarithmic otherwise. The cache does not allocate once it has reached its working size.
#[derive(Debug)]
pub struct WriterHistory {
    kind: HistoryKind,
    limits: ResourceLimits,
    changes: VecDeque<CacheChange>,
    live: usize,
    last: SequenceNumber,
    bytes: u64,
    boxes: SpareBoxes,
    keyless: Instance,
    instances: HashMap<KeyHash, Instance, foldhash::quality::FixedState>,
}

impl CacheChange {
    /// The protected payload.
    pub(crate) fn sealed(&self) -> Option<&SealedPayload> {
        self.sealed.as_deref()
    }
}

impl WriterHistory {
    /// An empty cache. `seed` makes the instance table's hashes unpredictable to peers.
    #[must_use]
    pub fn new(kind: HistoryKind, limits: ResourceLimits, seed: u64) -> Self {
        Self {
            kind,
            limits,
            changes: VecDeque::new(),
            live: 0,
            last: SequenceNumber::ZERO,
            bytes: 0,
            boxes: SpareBoxes::default(),
            keyless: Instance::default(),
            instances: HashMap::with_hasher(foldhash::quality::FixedState::with_seed(seed)),
        }
    }

    /// The number of the newest change ever added.
    #[must_use]
    pub const fn last(&self) -> SequenceNumber {
        self.last
    }

    /// The number of the oldest held change, or the number after the newest if none is held.
    #[must_use]
    pub fn first(&self) -> SequenceNumber {
        self.changes.front().map_or(self.last.next(), |c| c.sequence_number)
    }

    /// The number of held changes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.live
    }

    /// Whether no change is held.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Assigns a number to a change that is not held, because no reader will ever request it.
    pub const fn skip(&mut self) -> SequenceNumber {
        self.last = self.last.next();
        self.last
    }

    /// The history policy.
    #[must_use]
    #[inline]
    pub const fn kind(&self) -> HistoryKind {
        self.kind
    }

    /// The resource limits.
    #[must_use]
    #[inline]
    pub const fn limits(&self) -> &ResourceLimits {
        &self.limits
    }

    /// Adds a change under a number that [`Self::skip`] has assigned, after the numbers of all held changes. `false`
    /// when there is no room.
    pub fn restore(
        &mut self,
        number: SequenceNumber,
        change: Change,
        fragment_size: u32,
        expires_at: Instant,
        pool: &mut BufferPool,
    ) -> bool {
        let last = core::mem::replace(&mut self.last, number.previous());
        let added = self.add(change, fragment_size, expires_at, || SequenceNumber::ZERO, pool);
        self.last = last;
        added.is_ok()
    }

    /// Adds a change under the next number and makes room according to the history policy.
    ///
    /// `acknowledged_below` returns the number before which every reader has acknowledged; called once for each limit
    /// that is reached. These changes may be removed.
    ///
    /// # Errors
    /// The limit that prevents the addition, and the change.
    pub fn add(
        &mut self,
        change: Change,
        fragment_size: u32,
        expires_at: Instant,
        acknowledged_below: impl Fn() -> SequenceNumber,
        pool: &mut BufferPool,
    ) -> Result<SequenceNumber, (Full, Change)> {
        if !self.has_room_anyway(&change.instance)
            && let Err(full) = self.make_room(&change.instance, acknowledged_below, pool)
        {
            return Err((full, change));
        }
        let sequence_number = self.last.next();
        let kind = change.kind;
        let instance = change.instance;
        let previous = {
            let entry = self.instance_entry(instance);
            let previous = (entry.samples > 0).then_some(entry.newest);
            debug_assert!(previous.is_none_or(|p| p < sequence_number));
            if previous.is_none() {
                entry.oldest = sequence_number;
            }
            entry.newest = sequence_number;
            entry.samples += 1;
            entry.registered = !kind.unregisters();
            previous
        };
        if let Some(previous) = previous {
            // With one instance, the previous change of the instance is the newest of all.
            let newest = self.changes.back_mut().filter(|c| c.sequence_number == previous);
            match newest {
                Some(newest) => newest.next_of_instance = sequence_number,
                None => {
                    let index = self.index_of(previous);
                    let previous = index.and_then(|i| self.changes.get_mut(i));
                    previous.into_iter().for_each(|p| p.next_of_instance = sequence_number);
                }
            }
        }
        let offset = self.bytes;
        self.bytes += change.payload.known_len().unwrap_or(0) as u64;
        self.changes.push_back(CacheChange {
            sequence_number,
            kind,
            instance,
            source_timestamp: change.source_timestamp,
            expires_at,
            payload: change.payload,
            fragment_size,
            sealed: None,
            offset,
            next_of_instance: SequenceNumber::UNKNOWN,
            live: true,
        });
        self.last = sequence_number;
        self.live += 1;
        Ok(sequence_number)
    }

    /// The change with this number, if it is still held.
    #[must_use]
    pub fn get(&self, number: SequenceNumber) -> Option<&CacheChange> {
        self.changes.get(self.index_of(number)?).filter(|c| c.live)
    }

    /// The first change at or after `number`. Constant in time for the newest one.
    #[must_use]
    pub fn next_from(&self, number: SequenceNumber) -> Option<&CacheChange> {
        match self.changes.back() {
            Some(newest) if newest.sequence_number == number => Some(newest).filter(|c| c.live),
            _ => self.iter_from(number).next(),
        }
    }

    /// Protects the payload of the first change at or after `number`, unless it is already protected with the current
    /// key.
    ///
    /// # Errors
    /// Why the payload must not be sent.
    pub(crate) fn seal_from(
        &mut self,
        number: SequenceNumber,
        sealer: PayloadSealer<'_>,
        pool: &mut BufferPool,
    ) -> Result<(), SealError> {
        let index =
            self.next_from(number).map(|change| change.sequence_number).and_then(|number| self.index_of(number));
        let Some(change) = index.and_then(|index| self.changes.get_mut(index)) else { return Ok(()) };
        let generation = sealer.generation();
        let is_current =
            |sealed: &SealedPayload| sealed.fragment_size == change.fragment_size && sealed.generation == generation;
        if !change.sealed.as_deref().is_some_and(is_current) && !change.payload.is_empty() {
            if change.sealed.is_some() {
                self.boxes.put_away(change.sealed.take(), pool);
            }
            let sealed = sealer.seal(&change.payload, change.fragment_size, pool)?;
            change.sealed = Some(self.boxes.boxed(sealed));
        }
        Ok(())
    }

    /// Frees the memory for changes if there are none.
    pub(crate) fn release_memory(&mut self) {
        if self.changes.is_empty() {
            self.changes = VecDeque::new();
            self.boxes = SpareBoxes::default();
        }
    }

    /// Payload bytes of all held changes, and of changes removed since after the oldest held one.
    #[must_use]
    pub fn bytes_held(&self) -> u64 {
        self.changes.front().map_or(0, |oldest| self.bytes - oldest.offset)
    }

    /// Payload bytes of all changes so far, held or not.
    #[must_use]
    #[inline]
    pub const fn bytes_written(&self) -> u64 {
        self.bytes
    }

    /// The number of held changes from `number` on. Constant in time while no change was removed from the middle.
    #[must_use]
    pub fn count_from(&self, number: SequenceNumber) -> usize {
        if self.live < self.changes.len() {
            return self.iter_from(number).count();
        }
        let start = match self.position(number) {
            Ok(i) | Err(i) => i,
        };
        self.changes.len().saturating_sub(start)
    }

    /// Whether a new change of this instance replaces an older one (KEEP_LAST).
    #[must_use]
    pub fn replaces(&self, instance: &KeyHash) -> bool {
        matches!(self.kind, HistoryKind::KeepLast(depth) if self.instance_samples(instance) >= depth.max(1))
    }

    /// The number of the change that a new one of this instance would replace.
    #[must_use]
    pub fn replaced_by(&self, instance: &KeyHash) -> Option<SequenceNumber> {
        self.instance(instance).filter(|_| self.replaces(instance)).map(|i| i.oldest)
    }

    /// The changes from `number` on, ascending.
    pub fn iter_from(&self, number: SequenceNumber) -> impl Iterator<Item = &CacheChange> {
        let start = match self.position(number) {
            Ok(i) | Err(i) => i,
        };
        self.changes.range(start..).filter(|c| c.live)
    }

    /// Payload bytes of the changes from `from` up to, not including, `to`. Removed changes count as long as an earlier
    /// change is held.
    #[must_use]
    pub fn bytes_between(&self, from: SequenceNumber, to: SequenceNumber) -> usize {
        if to <= from {
            return 0;
        }
        usize::try_from(self.offset_of(to).saturating_sub(self.offset_of(from))).unwrap_or(usize::MAX)
    }

    /// Removes all changes before `number`.
    pub fn remove_below(&mut self, number: SequenceNumber, pool: &mut BufferPool) {
        while self.changes.front().is_some_and(|c| c.sequence_number < number) {
            self.pop_front(pool);
        }
        self.drop_dead_front();
    }

    /// Removes expired changes at the front; returns when the next one expires.
    ///
    /// With one lifespan per writer, changes expire in order.
    pub fn remove_expired(&mut self, now: Instant, pool: &mut BufferPool) -> Option<Instant> {
        while let Some(front) = self.changes.front() {
            if front.live && front.expires_at > now {
                return (front.expires_at != Instant::FAR_FUTURE).then_some(front.expires_at);
            }
            self.remove_front(pool);
        }
        None
    }

    /// Computes the fragment size of each change again.
    pub fn refit(&mut self, fragment_size: impl Fn(&CacheChange) -> u32) {
        for change in self.changes.iter_mut().filter(|c| c.live) {
            change.fragment_size = fragment_size(change);
        }
    }

    /// The number of held samples of this instance.
    #[must_use]
    pub fn instance_samples(&self, instance: &KeyHash) -> u32 {
        self.instance(instance).map_or(0, |i| i.samples)
    }

    /// Whether this writer has registered the instance, by writing it or explicitly, and has not unregistered it since.
    #[must_use]
    pub fn is_registered(&self, instance: &KeyHash) -> bool {
        self.instance(instance).is_some_and(|i| i.registered)
    }

    /// Registers an instance without writing it.
    ///
    /// # Errors
    /// When `max_instances` is reached.
    pub fn register(&mut self, instance: KeyHash) -> Result<(), Full> {
        self.check_instances(&instance)?;
        self.instance_entry(instance).registered = true;
        Ok(())
    }

    /// Whether [`Self::register`] would succeed.
    #[must_use]
    pub fn can_register(&self, instance: &KeyHash) -> bool {
        self.check_instances(instance).is_ok()
    }

    /// The instances that this writer has registered. The instance with hash zero, the only one of a topic without
    /// keys, is included.
    pub fn registered_instances(&self) -> impl Iterator<Item = KeyHash> {
        let zero = self.keyless.registered.then_some(KeyHash::NIL);
        zero.into_iter().chain(self.instances.iter().filter(|(_, i)| i.registered).map(|(key, _)| *key))
    }

    /// Whether a change of this instance fits without removing another one: the usual case, and cheap to check.
    fn has_room_anyway(&self, instance: &KeyHash) -> bool {
        matches!(self.kind, HistoryKind::KeepAll)
            && *instance == KeyHash::NIL
            && self.live < self.limits.max_samples as usize
            && self.keyless.samples < self.limits.max_samples_per_instance
    }

    /// Whether a change of this instance would be accepted.
    #[must_use]
    pub fn has_room(&self, instance: &KeyHash, acknowledged_below: SequenceNumber) -> bool {
        if self.check_instances(instance).is_err() {
            return false;
        }
        let of_instance = self.instance_samples(instance);
        let replaces = matches!(self.kind, HistoryKind::KeepLast(depth) if of_instance >= depth.max(1));
        let oldest = self.instance(instance).map_or(SequenceNumber::UNKNOWN, |i| i.oldest);
        let room_in_instance = of_instance < self.limits.max_samples_per_instance || oldest < acknowledged_below;
        let room = self.live < self.limits.max_samples as usize || self.first() < acknowledged_below;
        replaces || (room_in_instance && room)
    }

    fn make_room(
        &mut self,
        instance: &KeyHash,
        acknowledged_below: impl Fn() -> SequenceNumber,
        pool: &mut BufferPool,
    ) -> Result<(), Full> {
        self.check_instances(instance)?;
        if let HistoryKind::KeepLast(depth) = self.kind {
            while self.instance_samples(instance) >= depth.max(1) {
                self.remove_oldest_of(instance, pool);
            }
        }
        if self.instance_samples(instance) >= self.limits.max_samples_per_instance {
            let oldest = self.instance(instance).map_or(SequenceNumber::UNKNOWN, |i| i.oldest);
            if oldest >= acknowledged_below() {
                return Err(Full::SamplesPerInstance);
            }
            self.remove_oldest_of(instance, pool);
        }
        if self.live >= self.limits.max_samples as usize {
            if self.first() >= acknowledged_below() {
                return Err(Full::Samples);
            }
            self.remove_front(pool);
        }
        Ok(())
    }

    fn check_instances(&self, instance: &KeyHash) -> Result<(), Full> {
        let known = *instance == KeyHash::NIL || self.instances.contains_key(instance);
        if !known && self.instances.len() >= self.limits.max_instances as usize {
            return Err(Full::Instances);
        }
        Ok(())
    }

    fn instance(&self, instance: &KeyHash) -> Option<&Instance> {
        if *instance == KeyHash::NIL { Some(&self.keyless) } else { self.instances.get(instance) }
    }

    fn instance_entry(&mut self, instance: KeyHash) -> &mut Instance {
        if instance == KeyHash::NIL { &mut self.keyless } else { self.instances.entry(instance).or_default() }
    }

    fn remove_oldest_of(&mut self, instance: &KeyHash, pool: &mut BufferPool) {
        let Some(oldest) = self.instance(instance).filter(|i| i.samples > 0).map(|i| i.oldest) else { return };
        let Some(index) = self.index_of(oldest) else { return };
        self.bury(index, pool);
        self.drop_dead_front();
        // Removed entries in the middle occupy memory until they are a quarter of the cache; then one pass drops them
        // all, so that the cost per change stays constant.
        if self.changes.len() > 64 && self.live * 4 < self.changes.len() * 3 {
            self.changes.retain(|c| c.live);
        }
    }

    fn remove_front(&mut self, pool: &mut BufferPool) {
        self.pop_front(pool);
        self.drop_dead_front();
    }

    /// Removes the oldest change. If it is held, it is also the oldest of its instance.
    fn pop_front(&mut self, pool: &mut BufferPool) {
        let Some(change) = self.changes.pop_front() else { return };
        if change.live {
            pool.put_away(change.payload);
            if change.sealed.is_some() {
                self.boxes.put_away(change.sealed, pool);
            }
            self.unlink_oldest(change.instance, change.next_of_instance);
        }
    }

    fn drop_dead_front(&mut self) {
        while self.changes.front().is_some_and(|c| !c.live) {
            self.changes.pop_front();
        }
    }

    /// Releases the memory of a change and unlinks it from its instance, whose oldest change it must be.
    fn bury(&mut self, index: usize, pool: &mut BufferPool) {
        let Some(change) = self.changes.get_mut(index).filter(|c| c.live) else { return };
        change.live = false;
        pool.put_away(core::mem::take(&mut change.payload));
        if change.sealed.is_some() {
            self.boxes.put_away(change.sealed.take(), pool);
        }
        let (key, next) = (change.instance, change.next_of_instance);
        self.unlink_oldest(key, next);
    }

    /// Marks the instance as unregistered without writing a change.
    pub fn unregister(&mut self, instance: &KeyHash) {
        let is_held = match self.instance_entry_of(instance) {
            None => return,
            Some(entry) => {
                entry.registered = false;
                entry.samples > 0
            }
        };
        if !is_held {
            self.instances.remove(instance);
        }
    }

    fn instance_entry_of(&mut self, instance: &KeyHash) -> Option<&mut Instance> {
        if *instance == KeyHash::NIL { Some(&mut self.keyless) } else { self.instances.get_mut(instance) }
    }

    /// Updates an instance after the removal of its oldest change; `next` is its oldest now.
    fn unlink_oldest(&mut self, key: KeyHash, next: SequenceNumber) {
        self.live -= 1;
        let entry = self.instance_entry(key);
        entry.oldest = next;
        entry.samples = entry.samples.saturating_sub(1);
        if entry.samples == 0 && !entry.registered {
            self.instances.remove(&key);
        }
    }

    fn offset_of(&self, number: SequenceNumber) -> u64 {
        let index = match self.position(number) {
            Ok(i) | Err(i) => i,
        };
        self.changes.get(index).map_or(self.bytes, |c| c.offset)
    }

    fn index_of(&self, number: SequenceNumber) -> Option<usize> {
        self.position(number).ok()
    }

    fn position(&self, number: SequenceNumber) -> Result<usize, usize> {
        let Some(front) = self.changes.front() else { return Err(0) };
        if number < front.sequence_number {
            return Err(0);
        }
        // Without holes, the number determines the index; with holes, this is an upper bound of the index.
        let guess = usize::try_from(number.distance_from(front.sequence_number)).unwrap_or(usize::MAX);
        if self.changes.get(guess).is_some_and(|c| c.sequence_number == number) {
            return Ok(guess);
        }
        self.changes.binary_search_by_key(&number, |c| c.sequence_number)
    }
}

/// Boxes of protected payloads that have left the cache, for the next ones: a steady flow allocates none.
#[derive(Debug, Default)]
struct SpareBoxes(#[expect(clippy::vec_box, reason = "the boxes themselves are reused")] Vec<Box<SealedPayload>>);

/// The most spare boxes. If readers acknowledge more samples at once, later ones are allocated.
const SPARE_BOXES_MAX: usize = 64;

impl SpareBoxes {
    #[cold]
    fn put_away(&mut self, sealed: Option<Box<SealedPayload>>, pool: &mut BufferPool) {
        let Some(mut sealed) = sealed else { return };
        pool.put_away(core::mem::take(&mut sealed.payload));
        if self.0.len() < SPARE_BOXES_MAX {
            self.0.push(sealed);
        }
    }

    fn boxed(&mut self, sealed: SealedPayload) -> Box<SealedPayload> {
        match self.0.pop() {
            Some(mut spare) => {
                *spare = sealed;
                spare
            }
            None => Box::new(sealed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn boxes_of_protected_payloads_are_reused_up_to_a_number() {
        let sealed = |plain_len| SealedPayload {
            payload: Payload::copy_of(&[7; 100]),
            plain_len,
            fragment_size: 0,
            overhead: 0,
            generation: 0,
        };
        let (mut boxes, mut pool) = (SpareBoxes::default(), BufferPool::new(1000));
        let first = boxes.boxed(sealed(1));
        let address = core::ptr::from_ref(&*first);
        boxes.put_away(Some(first), &mut pool);
        assert!(boxes.0[0].payload.is_empty(), "a spare box holds no buffer");
        let second = boxes.boxed(sealed(2));
        assert_eq!((core::ptr::from_ref(&*second), second.plain_len), (address, 2));
        let many: Vec<_> = (0..SPARE_BOXES_MAX + 1).map(|_| boxes.boxed(sealed(3))).collect();
        many.into_iter().for_each(|one| boxes.put_away(Some(one), &mut pool));
        assert_eq!(boxes.0.len(), SPARE_BOXES_MAX);
    }

    fn change(key: u8, value: u8) -> Change {
        let mut hash = KeyHash::NIL;
        hash.0[0] = key;
        Change {
            kind: ChangeKind::Alive,
            instance: hash,
            source_timestamp: Timestamp::INVALID,
            payload: Payload::copy_of(&[value]),
        }
    }

    fn numbers(history: &WriterHistory) -> Vec<i64> {
        history.iter_from(SequenceNumber::ZERO).map(|c| c.sequence_number.0).collect()
    }

    struct Cache {
        history: WriterHistory,
        pool: BufferPool,
    }

    impl Cache {
        fn new(kind: HistoryKind, limits: ResourceLimits) -> Self {
            Self { history: WriterHistory::new(kind, limits, 1), pool: BufferPool::new(1 << 16) }
        }
        fn add(&mut self, key: u8, acknowledged_below: i64) -> Result<i64, Full> {
            self.history
                .add(change(key, key), 0, Instant::FAR_FUTURE, || SequenceNumber(acknowledged_below), &mut self.pool)
                .map(|n| n.0)
                .map_err(|(full, _)| full)
        }
    }

    #[test]
    fn keep_last_replaces_oldest_of_same_instance_only() {
        let mut cache = Cache::new(HistoryKind::KeepLast(2), ResourceLimits::UNLIMITED);
        for key in [1, 2, 1, 1, 2, 1] {
            cache.add(key, 0).unwrap();
        }
        assert_eq!(numbers(&cache.history), [2, 4, 5, 6]);
        assert_eq!(cache.history.first(), SequenceNumber(2));
        assert!(cache.history.get(SequenceNumber(3)).is_none());
    }

    #[test]
    fn keep_all_at_limit_refuses_until_acknowledged() {
        let limits = ResourceLimits { max_samples: 2, ..ResourceLimits::UNLIMITED };
        let mut cache = Cache::new(HistoryKind::KeepAll, limits);
        assert_eq!(cache.add(0, 0), Ok(1));
        assert_eq!(cache.add(0, 0), Ok(2));
        assert_eq!(cache.add(0, 1), Err(Full::Samples));
        assert_eq!(cache.add(0, 2), Ok(3));
        assert_eq!(numbers(&cache.history), [2, 3]);
    }

    #[test]
    fn unregistered_instance_makes_room_under_limit() {
        let limits = ResourceLimits { max_instances: 1, max_samples_per_instance: 2, ..ResourceLimits::UNLIMITED };
        let mut cache = Cache::new(HistoryKind::KeepAll, limits);
        cache.add(1, 0).unwrap();
        assert_eq!(cache.add(2, 0), Err(Full::Instances));
        let mut gone = change(1, 0);
        gone.kind = ChangeKind::Unregistered;
        cache.history.add(gone, 0, Instant::FAR_FUTURE, || SequenceNumber::ZERO, &mut cache.pool).unwrap();
        assert_eq!(cache.add(1, 0), Err(Full::SamplesPerInstance));
        cache.history.remove_below(SequenceNumber(3), &mut cache.pool);
        assert!(cache.history.is_empty());
        assert_eq!(cache.add(2, 0), Ok(3));
    }

    #[test]
    fn key_with_zero_hash_is_registered_like_others() {
        let mut cache = Cache::new(HistoryKind::KeepLast(1), ResourceLimits::UNLIMITED);
        cache.add(0, 0).unwrap();
        cache.add(3, 0).unwrap();
        let registered: Vec<u8> = cache.history.registered_instances().map(|key| key.0[0]).collect();
        assert_eq!(registered, [0, 3]);
    }

    #[test]
    fn expired_changes_are_removed_from_front() {
        let mut cache = Cache::new(HistoryKind::KeepAll, ResourceLimits::UNLIMITED);
        for at in [10, 20, 30] {
            cache.history.add(change(0, 0), 0, Instant(at), || SequenceNumber::ZERO, &mut cache.pool).unwrap();
        }
        assert_eq!(cache.history.remove_expired(Instant(20), &mut cache.pool), Some(Instant(30)));
        assert_eq!(numbers(&cache.history), [3]);
        assert_eq!(cache.history.remove_expired(Instant(99), &mut cache.pool), None);
        assert_eq!(cache.history.first(), SequenceNumber(4));
    }

    #[test]
    fn unwritten_instance_does_not_grow_cache() {
        let mut cache = Cache::new(HistoryKind::KeepLast(1), ResourceLimits::UNLIMITED);
        cache.add(1, 0).unwrap();
        for _ in 0..10_000 {
            cache.add(2, 0).unwrap();
        }
        assert_eq!(numbers(&cache.history), [1, 10_001]);
        assert!(cache.history.changes.len() <= 128, "{} entries", cache.history.changes.len());
    }

    proptest! {
        #[test]
        fn keep_last_equals_simple_model(depth in 1u32..4, keys in proptest::collection::vec(0u8..5, 0..300)) {
            let mut cache = Cache::new(HistoryKind::KeepLast(depth), ResourceLimits::UNLIMITED);
            let mut model: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
            for key in keys {
                let number = cache.add(key, 0).unwrap();
                let kept = model.entry(key).or_default();
                kept.push(number);
                if kept.len() > depth as usize {
                    kept.remove(0);
                }
                let mut expected: Vec<i64> = model.values().flatten().copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(numbers(&cache.history), expected.clone());
                prop_assert_eq!(cache.history.len(), expected.len());
                for n in 0..=number + 1 {
                    prop_assert_eq!(cache.history.get(SequenceNumber(n)).is_some(), expected.contains(&n));
                }
            }
        }
    }
}
