//! Samples that the application makes in the memory they are sent from.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use peregrine_rtps::history::{Change, ChangeKind};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Timestamp;
use peregrine_xtypes::{DdsType, Representation, plain};

use super::DataWriter;
use crate::driver::writer::{PayloadSlot, WriterCore};
use crate::driver::{now, wall};
use crate::entity::instance_of;
use crate::error::Error;

/// A value of a plain type in a buffer of its writer, or in memory that readers in other processes see: what is assigned to
/// it is what is sent. Dropped unwritten, it gives the memory back.
pub struct WriteLoan<T: DdsType> {
    core: Arc<WriterCore>,
    memory: Memory,
    marker: PhantomData<T>,
}

/// Where a loan lies.
enum Memory {
    /// In a buffer that nobody else refers to, at this place, encapsulation header first.
    Buffer(Arc<Vec<u8>>, Range<usize>),
    /// In shared memory, at its beginning.
    Slot(PayloadSlot),
    /// It is written.
    Nothing,
}

impl Memory {
    fn octets(&self) -> Option<&[u8]> {
        match self {
            Self::Buffer(buffer, range) => buffer.get(range.clone()),
            Self::Slot(slot) => Some(slot.octets()),
            Self::Nothing => None,
        }
    }

    fn octets_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::Buffer(buffer, range) => Arc::get_mut(buffer)?.get_mut(range.clone()),
            Self::Slot(slot) => Some(slot.octets_mut()),
            Self::Nothing => None,
        }
    }

    fn into_payload(self) -> Option<Payload> {
        match self {
            Self::Buffer(buffer, range) => Payload::new(buffer, range),
            Self::Slot(slot) => Some(slot.into_payload()),
            Self::Nothing => None,
        }
    }
}

impl<T: DdsType> DataWriter<T> {
    /// A sample to be made in place and written by [`Self::write_loan`], which neither copies nor encodes it: readers of this
    /// process see the same memory, and, once they match, those in other processes of the host; to others it is sent from there. What it contains at first is some value, perhaps
    /// of an earlier sample: all members have to be assigned.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), peregrine::Error> {
    /// # let writer = peregrine::DomainParticipant::new(0)?.topic::<[u64; 4]>("numbers")?.writer()?;
    /// let mut sample = writer.loan()?;
    /// *sample = [1, 2, 3, 4];
    /// writer.write_loan(sample)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::PreconditionNotMet`] where the type is not [plain](peregrine_xtypes#plain-types) in the representation that
    /// the writer offers, or not all octets are a value of it, as of a `bool`; [`Error::NotEnabled`];
    /// [`Error::AlreadyDeleted`].
    pub fn loan(&self) -> Result<WriteLoan<T>, Error> {
        let inner = &self.inner;
        let representation = inner.enabled()?.representation;
        let not_plain = || {
            let problem = "cannot be lent: it is not plain in the writer's representation, or has members of which not \
                           all octets are a value; use write";
            Error::PreconditionNotMet(format!("type {} {problem}", T::TYPE_NAME))
        };
        let len = plain::payload_len::<T>(representation).ok_or_else(not_plain)?;
        let mut state = inner.core.lock();
        inner.check_usable(&mut state)?;
        if inner.core.has_readers_by_slot() {
            drop(state);
            if let Some(memory) = inner.core.loan_slot(len).and_then(|slot| in_slot::<T>(slot, representation)) {
                return Ok(WriteLoan { core: Arc::clone(&inner.core), memory, marker: PhantomData });
            }
            state = inner.core.lock();
        }
        let mut buffer = state.writer.take_buffer(len + plain::ALIGNMENT_MAX);
        drop(state);
        let start = Arc::get_mut(&mut buffer).and_then(|buffer| plain::place::<T>(buffer, representation));
        let start = start.ok_or_else(not_plain)?;
        let memory = Memory::Buffer(buffer, start..start + len);
        Ok(WriteLoan { core: Arc::clone(&inner.core), memory, marker: PhantomData })
    }

    /// Writes a sample that was made in place. It blocks like [`Self::write`].
    ///
    /// # Errors
    /// See [`Self::write`]; [`Error::PreconditionNotMet`] for a loan of another writer.
    pub fn write_loan(&self, sample: WriteLoan<T>) -> Result<SequenceNumber, Error> {
        self.write_loan_at(sample, wall())
    }

    /// The same with a source time stamp of the application's choosing.
    ///
    /// # Errors
    /// See [`Self::write_loan`].
    pub fn write_loan_at(
        &self,
        mut sample: WriteLoan<T>,
        source_timestamp: Timestamp,
    ) -> Result<SequenceNumber, Error> {
        let inner = &self.inner;
        if !Arc::ptr_eq(&sample.core, &inner.core) {
            return Err(Error::PreconditionNotMet("the loan is another writer's".to_owned()));
        }
        let instance = instance_of::<T>(&sample);
        let mut guard = inner.core.lock();
        inner.check_usable(&mut guard)?;
        if T::HAS_KEY {
            inner.note_instance(&guard, instance, &*sample)?;
        }
        let payload = std::mem::replace(&mut sample.memory, Memory::Nothing).into_payload().unwrap_or_default();
        inner.put(guard, Change { kind: ChangeKind::Alive, instance, source_timestamp, payload }, now())
    }
}

/// The slot with a value placed at its beginning, where readers look for it.
fn in_slot<T: DdsType>(mut slot: PayloadSlot, representation: Representation) -> Option<Memory> {
    let start = plain::place::<T>(slot.octets_mut(), representation)?;
    (start == 0).then_some(Memory::Slot(slot))
}

/// What [`DataWriter::loan`] has placed stays where it is until it is written, which takes the loan.
const PLACED: &str = "a loan holds a value";

impl<T: DdsType> Deref for WriteLoan<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.memory.octets().and_then(plain::view).expect(PLACED)
    }
}

impl<T: DdsType> DerefMut for WriteLoan<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.memory.octets_mut().and_then(plain::view_mut).expect(PLACED)
    }
}

impl<T: DdsType> Drop for WriteLoan<T> {
    fn drop(&mut self) {
        if let Memory::Buffer(buffer, _) = std::mem::replace(&mut self.memory, Memory::Nothing) {
            self.core.lock().writer.give_back_buffer(buffer);
        }
    }
}

impl<T: DdsType + fmt::Debug> fmt::Debug for WriteLoan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteLoan").field(&**self).finish()
    }
}
