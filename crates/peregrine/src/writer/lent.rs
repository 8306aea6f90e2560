//! Memory of a writer in which the application builds a sample.

use std::ops::Range;
use std::sync::Arc;

use peregrine_rtps::payload::Payload;

use crate::driver::endpoint::writer::{PayloadSlot, WriterCore};

/// Memory for a payload, beginning with the encapsulation header. Dropping it unwritten returns the memory to the
/// writer.
pub(super) enum Lent {
    Buffer(LentBuffer),
    /// In shared memory, at its beginning.
    Slot(LentSlot),
}

/// A buffer of a writer without other references, and the place of the payload in it.
pub(super) struct LentBuffer {
    core: Arc<WriterCore>,
    /// `None` once the sample is written.
    buffer: Option<Arc<Vec<u8>>>,
    range: Range<usize>,
}

/// `None` once the sample is written.
pub(super) struct LentSlot(Option<PayloadSlot>);

impl Lent {
    /// Memory in a slot; `None` if `place` does not put the payload at the beginning of the slot, where readers expect
    /// it.
    #[inline]
    pub(super) fn in_slot(mut slot: PayloadSlot, place: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Self> {
        if place(slot.octets_mut()) != Some(0) {
            return None;
        }
        Some(Self::Slot(LentSlot(Some(slot))))
    }

    /// Memory for a payload of `len` bytes at any offset in a buffer.
    pub(super) fn in_buffer(
        core: &Arc<WriterCore>,
        mut buffer: Arc<Vec<u8>>,
        len: usize,
        place: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<Self> {
        let start = place(Arc::get_mut(&mut buffer)?)?;
        let range = start..start.checked_add(len)?;
        Some(Self::Buffer(LentBuffer { core: Arc::clone(core), buffer: Some(buffer), range }))
    }

    #[inline]
    pub(super) fn is_of(&self, core: &Arc<WriterCore>) -> bool {
        match self {
            Self::Buffer(lent) => Arc::ptr_eq(&lent.core, core),
            Self::Slot(lent) => lent.0.as_ref().is_some_and(|slot| core.has_lent(slot)),
        }
    }

    #[inline]
    pub(super) fn octets(&self) -> &[u8] {
        let octets = match self {
            Self::Buffer(lent) => lent.buffer.as_ref().and_then(|buffer| buffer.get(lent.range.clone())),
            Self::Slot(lent) => lent.0.as_ref().map(PayloadSlot::octets),
        };
        octets.unwrap_or_default()
    }

    #[inline]
    pub(super) fn octets_mut(&mut self) -> &mut [u8] {
        let octets = match self {
            Self::Buffer(LentBuffer { buffer, range, .. }) => {
                buffer.as_mut().and_then(Arc::get_mut).and_then(|buffer| buffer.get_mut(range.clone()))
            }
            Self::Slot(lent) => lent.0.as_mut().map(PayloadSlot::octets_mut),
        };
        octets.unwrap_or_default()
    }

    /// Shortens the payload to `len` bytes.
    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Self::Buffer(LentBuffer { range, .. }) => range.end = range.end.min(range.start.saturating_add(len)),
            Self::Slot(LentSlot(Some(slot))) => slot.truncate(len),
            Self::Slot(LentSlot(None)) => {}
        }
    }

    #[inline]
    pub(super) fn into_filled(self) -> Filled {
        let payload = match self {
            Self::Slot(mut lent) => match lent.0.take() {
                Some(slot) => return Filled::Slot(slot),
                None => None,
            },
            Self::Buffer(mut lent) => {
                let range = lent.range.clone();
                lent.buffer.take().and_then(|buffer| Payload::new(buffer, range))
            }
        };
        Filled::Payload(payload.unwrap_or_default())
    }
}

/// Memory that holds a payload.
pub(super) enum Filled {
    Payload(Payload),
    /// In shared memory.
    Slot(PayloadSlot),
}

impl Filled {
    pub(super) fn into_payload(self) -> Payload {
        match self {
            Self::Payload(payload) => payload,
            Self::Slot(slot) => slot.into_payload(),
        }
    }
}

impl Drop for LentBuffer {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.core.lock().writer.give_back_buffer(buffer);
        }
    }
}

impl Drop for LentSlot {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.give_back();
        }
    }
}
