//! Memory of a writer that the application makes a sample in.

use std::ops::Range;
use std::sync::Arc;

use peregrine_rtps::payload::Payload;
use peregrine_xtypes::{DdsType, plain};

use super::WriterInner;
use crate::driver::writer::{PayloadSlot, WriterCore};
use crate::error::Error;

/// Room for a payload, encapsulation header first. What is dropped unwritten goes back.
pub(super) struct Lent {
    memory: Memory,
}

enum Memory {
    /// In a buffer of this writer that nobody else refers to, at this place.
    Buffer(Arc<WriterCore>, Arc<Vec<u8>>, Range<usize>),
    /// In shared memory, at its beginning.
    Slot(PayloadSlot),
    /// It is written.
    Nothing,
}

impl Lent {
    /// Memory for a payload of `len` octets which begins where `place` says; with a slot, that is the beginning.
    #[inline]
    fn placed(mut memory: Memory, len: usize, place: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Self> {
        match &mut memory {
            Memory::Buffer(_, buffer, range) => {
                let start = place(Arc::get_mut(buffer)?)?;
                *range = start..start.checked_add(len)?;
            }
            // Where readers look for it.
            Memory::Slot(slot) => _ = place(slot.octets_mut()).filter(|start| *start == 0)?,
            Memory::Nothing => return None,
        }
        Some(Self { memory })
    }

    pub(super) fn is_of(&self, core: &Arc<WriterCore>) -> bool {
        match &self.memory {
            Memory::Buffer(own, ..) => Arc::ptr_eq(own, core),
            Memory::Slot(slot) => core.has_lent(slot),
            Memory::Nothing => false,
        }
    }

    pub(super) fn octets(&self) -> &[u8] {
        let octets = match &self.memory {
            Memory::Buffer(_, buffer, range) => buffer.get(range.clone()),
            Memory::Slot(slot) => Some(slot.octets()),
            Memory::Nothing => None,
        };
        octets.unwrap_or_default()
    }

    pub(super) fn octets_mut(&mut self) -> &mut [u8] {
        let octets = match &mut self.memory {
            Memory::Buffer(_, buffer, range) => Arc::get_mut(buffer).and_then(|buffer| buffer.get_mut(range.clone())),
            Memory::Slot(slot) => Some(slot.octets_mut()),
            Memory::Nothing => None,
        };
        octets.unwrap_or_default()
    }

    /// The payload has become shorter than what was asked for.
    pub(super) fn truncate(&mut self, len: usize) {
        match &mut self.memory {
            Memory::Buffer(.., range) => range.end = range.end.min(range.start.saturating_add(len)),
            Memory::Slot(slot) => slot.truncate(len),
            Memory::Nothing => {}
        }
    }

    pub(super) fn into_filled(mut self) -> Filled {
        match std::mem::replace(&mut self.memory, Memory::Nothing) {
            Memory::Buffer(_, buffer, range) => Filled::Payload(Payload::new(buffer, range).unwrap_or_default()),
            Memory::Slot(slot) => Filled::Slot(slot),
            Memory::Nothing => Filled::Payload(Payload::default()),
        }
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

impl Drop for Lent {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.memory, Memory::Nothing) {
            Memory::Buffer(core, buffer, _) => core.lock().writer.give_back_buffer(buffer),
            Memory::Slot(slot) => slot.give_back(),
            Memory::Nothing => {}
        }
    }
}

impl<T: DdsType> WriterInner<T> {
    /// Memory for a payload of `len` octets: such as readers in other processes of the host see, if there are any that do, else
    /// a buffer. `place` prepares it and says where in the memory the payload begins.
    pub(super) fn lend(&self, len: usize, place: impl Fn(&mut [u8]) -> Option<usize>) -> Result<Option<Lent>, Error> {
        let core = &self.core;
        if core.is_closed() {
            return Err(Error::AlreadyDeleted);
        }
        self.enabled()?;
        if core.has_readers_by_slot() {
            let slot = core.loan_slot(len).map(Memory::Slot);
            if let Some(lent) = slot.and_then(|memory| Lent::placed(memory, len, &place)) {
                return Ok(Some(lent));
            }
        }
        let mut state = core.lock();
        let buffer = state.writer.take_buffer(len.saturating_add(plain::ALIGNMENT_MAX));
        drop(state);
        Ok(Lent::placed(Memory::Buffer(Arc::clone(core), buffer, 0..0), len, place))
    }

    /// Whether it lies in memory of this writer.
    pub(super) fn check_own(&self, sample: &Lent) -> Result<(), Error> {
        if sample.is_of(&self.core) {
            return Ok(());
        }
        Err(Error::PreconditionNotMet("the loan is another writer's".to_owned()))
    }
}
