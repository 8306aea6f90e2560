//! The writer's memory: slots of a few sizes, in segments that are allocated and freed as a whole.
//!
//! Only the writer's process knows the uses of a slot, in ordinary memory: how many channels have it waiting or held,
//! and whether the writer's side keeps it. Shared memory holds only the samples.

use super::memory::{Memory, whole_pages};
pub(super) use super::return_queue::{ReturnQueue, SlotId};
use super::segment::{OnReturn, SegmentMemory, stride_of};
use super::slot::Slot;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

/// Number of slots in the first segment of a class, within the next two bounds. Each further segment is twice as large.
/// A writer that only signals which samples are available needs one slot, and a process may have hundreds of such
/// writers.
const FIRST_SEGMENT_SLOTS: usize = 16;
const FIRST_SEGMENT_BYTES_MAX: usize = 64 << 10;
const LARGEST_SHARED_SEGMENT_BYTES: usize = 4 << 20;
/// More doublings reach the bound from one page.
const DOUBLINGS_MAX: u32 = 16;

/// Most segments of a writer: each costs a descriptor.
pub(super) const MAX_SEGMENTS: usize = 256;

#[derive(Debug)]
struct Segment {
    memory: Arc<SegmentMemory>,
    /// Number of uses of each slot.
    uses: Vec<u32>,
    used: usize,
    /// No slot of this segment has been in use since the last trim.
    is_idle: bool,
}

#[derive(Debug)]
struct Class {
    stride: usize,
    /// A stack: the slot that was freed last is warm in the caches.
    free: Vec<SlotId>,
    segments: u32,
}

/// Memory of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Holdings {
    pub(super) segments: usize,
    pub(super) bytes: usize,
    pub(super) slots: usize,
    pub(super) slots_in_use: usize,
}

/// Result of a trim: unused segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Trimmed {
    pub(super) given_up: usize,
    /// Segments that the next trim gives up, unless one of their slots is used again.
    pub(super) idle: usize,
}

#[derive(Debug)]
pub(super) struct Pool {
    /// Sorted by stride.
    classes: Vec<Class>,
    segments: Vec<Option<Segment>>,
    next_number: u32,
    bytes: usize,
    bytes_max: usize,
    /// Index in `classes` of the class used last; a hint.
    last_class: usize,
    return_queue: Arc<ReturnQueue>,
    on_return: Arc<OnReturn>,
}

/// Why no slot was found.
#[derive(Debug)]
pub(super) enum NoSlot {
    /// All slots are in use, and the bound allows no more memory.
    Exhausted,
    /// A sample of this length exceeds the bound by itself.
    TooLong,
    System(io::Error),
}

impl Segment {
    #[inline]
    fn hold(&mut self, index: u32) {
        let Some(uses) = self.uses.get_mut(index as usize) else { return };
        if *uses == 0 {
            self.used += 1;
            self.is_idle = false;
        }
        *uses += 1;
    }
}

impl Pool {
    pub(super) fn new(bytes_max: usize, on_return: Arc<OnReturn>) -> Self {
        Self {
            classes: Vec::new(),
            segments: Vec::new(),
            next_number: 1,
            bytes: 0,
            bytes_max,
            last_class: 0,
            return_queue: Arc::default(),
            on_return,
        }
    }

    pub(super) fn return_queue(&self) -> &Arc<ReturnQueue> {
        &self.return_queue
    }

    /// An existing free slot for `len` bytes. It starts with one use.
    pub(super) fn take(&mut self, len: usize) -> Result<Option<SlotId>, NoSlot> {
        Ok(self.take_of(stride_of(len).ok_or(NoSlot::TooLong)?))
    }

    /// An existing free slot of this size. It starts with one use.
    #[inline]
    pub(super) fn take_of(&mut self, stride: usize) -> Option<SlotId> {
        let slot = self.class_mut(stride)?.free.pop()?;
        self.hold(slot);
        Some(slot)
    }

    #[inline]
    fn class_mut(&mut self, stride: usize) -> Option<&mut Class> {
        if self.classes.get(self.last_class).is_none_or(|class| class.stride != stride) {
            self.last_class = self.classes.binary_search_by_key(&stride, |class| class.stride).ok()?;
        }
        self.classes.get_mut(self.last_class)
    }

    /// Allocates a segment for slots of `len` bytes.
    pub(super) fn grow(&mut self, len: usize) -> Result<(), NoSlot> {
        let stride = stride_of(len).ok_or(NoSlot::TooLong)?;
        let at = match self.classes.binary_search_by_key(&stride, |class| class.stride) {
            Ok(at) => at,
            Err(at) => {
                self.classes.insert(at, Class { stride, free: Vec::new(), segments: 0 });
                at
            }
        };
        let Some(class) = self.classes.get_mut(at) else { return Err(NoSlot::Exhausted) };
        let mut bytes = whole_pages(shared_segment_bytes(stride, class.segments).max(stride)).ok_or(NoSlot::TooLong)?;
        let room = self.bytes_max.saturating_sub(self.bytes);
        if bytes > room {
            // A segment with a single slot is better than none.
            bytes = whole_pages(stride).ok_or(NoSlot::TooLong)?;
        }
        if bytes > self.bytes_max {
            return Err(NoSlot::TooLong);
        }
        let used_places = self.segments.iter().flatten().count();
        if bytes > room || used_places >= MAX_SEGMENTS {
            return Err(NoSlot::Exhausted);
        }
        let number = self.next_number;
        self.next_number = number.checked_add(1).ok_or(NoSlot::Exhausted)?;
        let mapping = Memory::new("peregrine-samples", bytes).map_err(NoSlot::System)?;
        let count = u32::try_from(mapping.len() / stride).unwrap_or(u32::MAX);
        let place = self.segments.iter().position(Option::is_none).unwrap_or(self.segments.len());
        if place == self.segments.len() {
            self.segments.push(None);
        }
        let place_number = u32::try_from(place).map_err(|_| NoSlot::Exhausted)?;
        class.free.extend((0..count).rev().map(|index| SlotId { place: place_number, index }));
        class.segments += 1;
        self.bytes += mapping.len();
        let uses = vec![0; count as usize];
        let (return_queue, on_return) = (Arc::clone(&self.return_queue), Arc::clone(&self.on_return));
        let memory = Arc::new(SegmentMemory { mapping, place: place_number, number, stride, return_queue, on_return });
        if let Some(empty) = self.segments.get_mut(place) {
            *empty = Some(Segment { memory, uses, used: 0, is_idle: false });
        }
        Ok(())
    }

    /// Counts one more use of a slot in use.
    #[inline]
    pub(super) fn hold(&mut self, slot: SlotId) {
        if let Some(segment) = segment_mut(&mut self.segments, slot) {
            segment.hold(slot.index);
        }
    }

    /// Counts one use less. The slot is free after the last one.
    #[inline]
    pub(super) fn release(&mut self, slot: SlotId) {
        let Some(segment) = segment_mut(&mut self.segments, slot) else { return };
        let Some(uses) = segment.uses.get_mut(slot.index as usize) else { return };
        debug_assert!(*uses > 0, "every use is given back once");
        *uses = uses.saturating_sub(1);
        if *uses > 0 {
            return;
        }
        segment.used -= 1;
        let stride = segment.memory.stride;
        if let Some(class) = self.class_mut(stride) {
            class.free.push(slot);
        }
    }

    /// Counts the slots that other threads returned.
    pub(super) fn take_returns(&mut self) {
        for slot in self.return_queue.take() {
            self.release(slot);
        }
    }

    /// Frees segments without a used slot; with `only_idle` only segments that had no used slot since the last call.
    /// `may` gets the place and the number of each segment, notifies the readers, and returns false to keep the
    /// segment.
    pub(super) fn trim(&mut self, only_idle: bool, mut may: impl FnMut(u32, u32) -> bool) -> Trimmed {
        let mut trimmed = Trimmed::default();
        for (place, entry) in self.segments.iter_mut().enumerate() {
            let Some(segment) = entry.as_mut().filter(|segment| segment.used == 0) else { continue };
            if only_idle && !std::mem::replace(&mut segment.is_idle, true) {
                trimmed.idle += 1;
                continue;
            }
            let place = place as u32;
            if !may(place, segment.memory.number) {
                continue;
            }
            if let Ok(at) = self.classes.binary_search_by_key(&segment.memory.stride, |class| class.stride)
                && let Some(class) = self.classes.get_mut(at)
            {
                class.free.retain(|slot| slot.place != place);
                class.segments -= 1;
            }
            self.bytes -= segment.memory.mapping.len();
            *entry = None;
            trimmed.given_up += 1;
        }
        self.classes.retain(|class| class.segments > 0);
        trimmed
    }

    /// The slot for a sample of `len` bytes. The caller has counted one use.
    pub(super) fn slot(&self, id: SlotId, len: usize) -> Option<Slot> {
        Slot::new(Arc::clone(&self.segments.get(id.place as usize)?.as_ref()?.memory), id.index, len)
    }

    /// An existing free slot of the same size, usually from the same segment. It starts with one use.
    #[inline]
    pub(super) fn take_like(&mut self, other: Arc<SegmentMemory>) -> Option<Slot> {
        let id = self.class_mut(other.stride)?.free.pop()?;
        let segment = segment_mut(&mut self.segments, id)?;
        segment.hold(id.index);
        // Reusing the `Arc` of the spent slot saves two atomic counts.
        let memory = if Arc::ptr_eq(&segment.memory, &other) { other } else { Arc::clone(&segment.memory) };
        let len = memory.stride;
        Slot::new(memory, id.index, len)
    }

    /// Descriptor and length that a reader needs to map the segment at this place.
    pub(super) fn segment(&self, place: u32) -> Option<(BorrowedFd<'_>, usize)> {
        let segment = self.segments.get(place as usize)?.as_ref()?;
        Some((segment.memory.mapping.as_fd(), segment.memory.mapping.len()))
    }

    /// Size of all segments, in bytes.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn holdings(&self) -> Holdings {
        let all = self.segments.iter().flatten();
        all.fold(Holdings { bytes: self.bytes, ..Default::default() }, |sum, segment| Holdings {
            segments: sum.segments + 1,
            slots: sum.slots + segment.uses.len(),
            slots_in_use: sum.slots_in_use + segment.used,
            ..sum
        })
    }
}

#[inline]
fn segment_mut(segments: &mut [Option<Segment>], slot: SlotId) -> Option<&mut Segment> {
    let segment = segments.get_mut(slot.place as usize).and_then(Option::as_mut);
    debug_assert!(segment.is_some(), "a slot in use keeps its segment");
    segment
}

/// Bytes of the next segment of a class that has `segments` already, before rounding up to whole pages.
fn shared_segment_bytes(stride: usize, segments: u32) -> usize {
    let first =
        stride.saturating_mul(FIRST_SEGMENT_SLOTS).clamp(whole_pages(1).unwrap_or(4096), FIRST_SEGMENT_BYTES_MAX);
    (first << segments.min(DOUBLINGS_MAX)).min(LARGEST_SHARED_SEGMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::super::ring::SLOT_ALIGN;
    use super::super::segment::STEPS;
    use super::*;
    use proptest::prelude::*;

    fn pool(bytes_max: usize) -> Pool {
        Pool::new(bytes_max, Arc::new(OnReturn(Box::new(|| {}))))
    }

    /// Start and capacity of a slot, and the end of its segment.
    fn place_of(pool: &Pool, slot: SlotId) -> (usize, usize, usize) {
        let memory = &pool.segments[slot.place as usize].as_ref().unwrap().memory;
        let start = memory.start_of(slot.index).unwrap().addr().get();
        assert_eq!(
            start,
            memory.mapping.start().addr().get() + memory.offset_of(slot.index).unwrap() as usize * SLOT_ALIGN
        );
        (start, memory.stride(), memory.mapping.start().addr().get() + memory.mapping.len())
    }

    fn take(pool: &mut Pool, len: usize) -> SlotId {
        if let Some(slot) = pool.take(len).unwrap() {
            return slot;
        }
        pool.grow(len).unwrap();
        pool.take(len).unwrap().expect("the pool has grown")
    }

    #[test]
    fn small_and_large_samples_fit_without_configuration() {
        let mut pool = pool(1 << 30);
        for len in [0, 1, 32, 64, 65, 1000, 63_000, 4 << 20, 52_428_800] {
            let slot = take(&mut pool, len);
            let (start, room, end) = place_of(&pool, slot);
            assert!(room >= len && start % SLOT_ALIGN == 0 && start + room <= end);
        }
        assert_eq!(pool.holdings().slots_in_use, 9);
    }

    #[test]
    fn segments_of_a_class_double_from_sixteen_slots_to_four_mebibytes() {
        let bytes = |stride, segments| shared_segment_bytes(stride, segments);
        assert_eq!([64, 256, 1024, 4096, 16 << 10].map(|stride| bytes(stride, 0) >> 10), [4, 4, 16, 64, 64]);
        assert_eq!([1, 2, 3, 9, 10, 11].map(|segments| bytes(64, segments) >> 10), [8, 16, 32, 2048, 4096, 4096]);
        assert!((10..256).all(|segments| bytes(64, segments) == LARGEST_SHARED_SEGMENT_BYTES));
    }

    #[test]
    fn segment_without_used_slot_is_freed() {
        let mut pool = pool(1 << 30);
        let slots = [take(&mut pool, 32), take(&mut pool, 100_000)];
        pool.release(slots[0]);
        let trimmed = |given_up, idle| Trimmed { given_up, idle };
        assert_eq!(pool.trim(true, |_, _| true), trimmed(0, 1), "used since the last trim");
        assert_eq!(pool.trim(true, |_, _| false), trimmed(0, 0), "`may` refused");
        assert_eq!(pool.trim(true, |_, _| true), trimmed(1, 0));
        assert_eq!(pool.holdings().segments, 1);
        pool.return_queue().push(slots[1]);
        pool.take_returns();
        assert_eq!(pool.trim(false, |_, _| true), trimmed(1, 0));
        assert_eq!(pool.holdings(), Holdings::default());
        assert!(pool.take(32).unwrap().is_none());
    }

    #[test]
    fn allocation_past_the_bound_is_refused() {
        let mut pool = pool(200_000);
        assert!(matches!(pool.grow(200_001), Err(NoSlot::TooLong)));
        take(&mut pool, 100_000);
        assert!(matches!(pool.grow(150_000), Err(NoSlot::Exhausted)));
        take(&mut pool, 32);
        assert!(pool.holdings().bytes <= 200_000);
        assert!(matches!(pool.grow(usize::MAX), Err(NoSlot::TooLong)));
    }

    proptest! {
        #[test]
        fn slot_is_at_most_an_eighth_larger_than_its_sample(len in 0_usize..1 << 40) {
            let stride = stride_of(len).unwrap_or(len);
            prop_assert!(stride >= len);
            prop_assert!(stride < SLOT_ALIGN + len + len.div_ceil(STEPS));
        }

        /// Slots in use never overlap, and takes and releases add up.
        #[test]
        fn slots_in_use_never_overlap(steps in proptest::collection::vec((0_usize..9000, any::<bool>()), 1..200)) {
            let mut pool = pool(1 << 24);
            let mut used: Vec<(SlotId, usize, usize)> = Vec::new();
            for (number, release) in steps {
                if release && !used.is_empty() {
                    let (slot, ..) = used.swap_remove(number % used.len());
                    pool.release(slot);
                } else {
                    let slot = take(&mut pool, number);
                    let (start, room, _) = place_of(&pool, slot);
                    let end = start + room;
                    prop_assert!(used.iter().all(|&(_, from, to)| end <= from || to <= start));
                    used.push((slot, start, end));
                }
                if number % 7 == 0 {
                    pool.trim(false, |_, _| true);
                }
                prop_assert_eq!(pool.holdings().slots_in_use, used.len());
            }
        }
    }
}
