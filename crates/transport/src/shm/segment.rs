//! Segments: mapped memory that slots keep alive.

use super::memory::Memory;
use super::return_queue::{ReturnQueue, SlotId};
use super::ring::SLOT_ALIGN;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// Slot sizes between two powers of two: a slot is at most an eighth larger than its sample.
pub(super) const STEPS: usize = 8;

/// The callback for slots that are given back.
pub(super) struct OnReturn(pub(super) Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for OnReturn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnReturn")
    }
}

/// Part of a segment that its slots keep alive.
#[derive(Debug)]
pub(super) struct SegmentMemory {
    pub(super) mapping: Memory,
    pub(super) place: u32,
    /// Number of the segment, as readers know it; never reused.
    pub(super) number: u32,
    pub(super) stride: usize,
    pub(super) return_queue: Arc<ReturnQueue>,
    /// The callback of the slots' lender, called when slots are given back. Identifies the lender.
    pub(super) on_return: Arc<OnReturn>,
}

impl SegmentMemory {
    /// Capacity of each slot, in bytes.
    #[inline]
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    #[inline]
    pub(super) fn id(&self, index: u32) -> SlotId {
        SlotId { place: self.place, index }
    }

    /// Number of the segment, as readers know it.
    #[inline]
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Start of a slot in the segment, in units of [`SLOT_ALIGN`].
    #[inline]
    pub(super) fn offset_of(&self, index: u32) -> Option<u32> {
        u32::try_from((index as usize).checked_mul(self.stride)? / SLOT_ALIGN).ok()
    }

    /// Start of a slot: aligned to [`SLOT_ALIGN`], and writable for [`Self::stride`] bytes as long as this value lives.
    /// `None` if the segment has no slot with this number.
    #[inline]
    pub(super) fn start_of(&self, index: u32) -> Option<NonNull<u8>> {
        let offset = (index as usize).checked_mul(self.stride)?;
        if offset.checked_add(self.stride)? > self.mapping.len() {
            return None;
        }
        // SAFETY: within the mapping, as just checked.
        Some(unsafe { self.mapping.start().add(offset) })
    }
}

/// Distance of slots for samples of this length, in bytes.
#[inline]
pub(super) fn stride_of(len: usize) -> Option<usize> {
    let len = len.max(1);
    let step = (len.checked_next_power_of_two()? / (2 * STEPS)).max(SLOT_ALIGN);
    let stride = len.checked_next_multiple_of(step)?;
    // Offsets have 32 bits in a descriptor.
    (stride / SLOT_ALIGN <= u32::MAX as usize).then_some(stride)
}
