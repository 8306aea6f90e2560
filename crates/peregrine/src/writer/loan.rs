//! Plain samples that the application builds in the memory from which they are sent.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use peregrine_rtps::id::KeyHash;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Timestamp};
use peregrine_xtypes::{DdsType, Representation, plain};

use super::lent::{Filled, Lent};
use super::{DataWriter, WriterInner};
use crate::driver::base::clock::{now, wall, wall_at};
use crate::error::{Error, Precondition};
use crate::topic_type::instance_of;

/// A value of a plain type in a buffer of its writer or in shared memory. The writer sends the assigned value. Dropping
/// an unwritten loan returns the memory.
pub struct WriteLoan<T: DdsType> {
    lent: Lent,
    marker: PhantomData<T>,
}

impl<T: DdsType> DataWriter<T> {
    /// Lends memory for one sample. [`Self::write_loan`] writes the sample without copying or encoding: readers of this
    /// process, and matched readers in other processes of the host, read the same memory; messages to other readers are
    /// sent from it. The initial value is unspecified, for example that of an earlier sample: assign all members.
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
    /// [`Error::PreconditionNotMet`] if the type is not [plain](crate::xtypes#plain-types) in the representation that
    /// the writer offers, or has bit patterns that are not a value (such as a `bool`): the error names the member or
    /// the missing attribute; [`Error::NotEnabled`]; [`Error::AlreadyDeleted`].
    pub fn loan(&self) -> Result<WriteLoan<T>, Error> {
        let inner = &self.inner;
        let representation = inner.enabled()?.representation;
        let len = plain::payload_len::<T>(representation).ok_or_else(|| not_plain::<T>(representation))?;
        let lent = inner.lend(len, |octets| plain::place::<T>(octets, representation))?;
        let lent = lent.ok_or_else(|| not_plain::<T>(representation))?;
        Ok(WriteLoan { lent, marker: PhantomData })
    }

    /// A sample to be made in place, like [`Self::loan`], that waits for memory: where readers in other processes of
    /// the host see the samples of this writer and all its shared memory
    /// ([`DataWriterBuilder::shared_memory_bytes`](crate::DataWriterBuilder::shared_memory_bytes)) is in use, the
    /// future is ready when a reader, the history or a dropped loan returns some. [`Self::loan`] takes a buffer then,
    /// whose content is copied into shared memory later. Samples that were written before and wait for memory come
    /// first.
    ///
    /// There is no time limit: a future can be dropped, and leaves nothing behind. A program that keeps all memory in
    /// loans of its own waits until it drops or writes one. Under
    /// [`WaitStrategy::Poll`](crate::WaitStrategy::Poll), a thread of the application has to keep polling.
    ///
    /// ```no_run
    /// # async fn produce() -> Result<(), peregrine::Error> {
    /// # let writer = peregrine::DomainParticipant::new(0)?.topic::<[u64; 4]>("numbers")?.writer()?;
    /// let mut sample = writer.loan_async().await?;
    /// *sample = [1, 2, 3, 4];
    /// writer.write_loan_async(sample).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`Self::loan`]; [`Error::AlreadyDeleted`] also when the writer is deleted meanwhile.
    pub async fn loan_async(&self) -> Result<WriteLoan<T>, Error> {
        let inner = &self.inner;
        let representation = inner.enabled()?.representation;
        let len = plain::payload_len::<T>(representation).ok_or_else(|| not_plain::<T>(representation))?;
        let lent = inner.lend_async(len, |octets| plain::place::<T>(octets, representation)).await?;
        let lent = lent.ok_or_else(|| not_plain::<T>(representation))?;
        Ok(WriteLoan { lent, marker: PhantomData })
    }

    /// Writes a sample that was made in place, as soon as KEEP_ALL and the resource limits leave room. There is no time
    /// limit. A future that is dropped has written the sample or returns its memory.
    ///
    /// # Errors
    /// See [`Self::write_loan`]; never [`Error::Timeout`].
    pub async fn write_loan_async(&self, sample: WriteLoan<T>) -> Result<SequenceNumber, Error> {
        let attempt = {
            let inner = &self.inner;
            inner.check_own(&sample.lent)?;
            let instance = instance_of::<T>(&sample);
            let mut guard = inner.core.lock();
            inner.check_usable(&mut guard)?;
            let (guard, key) = inner.key_if_new(guard, instance, &*sample)?;
            inner.try_put_filled(guard, instance, wall(), sample.lent.into_filled(), key)?
        };
        self.put_when_there_is_room(attempt).await
    }

    /// Writes a sample that was made in place. It blocks like [`Self::write`].
    ///
    /// # Errors
    /// See [`Self::write`]; [`Error::PreconditionNotMet`] for a loan of another writer.
    pub fn write_loan(&self, sample: WriteLoan<T>) -> Result<SequenceNumber, Error> {
        let now = now();
        self.put_loan(sample, wall_at(now), now)
    }

    /// [`Self::write_loan`] with a source timestamp that the application chooses.
    ///
    /// # Errors
    /// See [`Self::write_loan`].
    pub fn write_loan_at(&self, sample: WriteLoan<T>, source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.put_loan(sample, source_timestamp, now())
    }

    fn put_loan(
        &self,
        sample: WriteLoan<T>,
        source_timestamp: Timestamp,
        at: Instant,
    ) -> Result<SequenceNumber, Error> {
        let inner = &self.inner;
        inner.check_own(&sample.lent)?;
        if !T::HAS_KEY {
            return match sample.lent.into_filled() {
                Filled::Slot(slot) => inner.put_slot(inner.core.lock(), source_timestamp, slot, at),
                filled => inner.put_filled(inner.core.lock(), KeyHash::NIL, source_timestamp, filled, None, at),
            };
        }
        let instance = instance_of::<T>(&sample);
        let mut guard = inner.core.lock();
        inner.check_usable(&mut guard)?;
        let (guard, key) = inner.key_if_new(guard, instance, &*sample)?;
        inner.put_filled(guard, instance, source_timestamp, sample.lent.into_filled(), key, at)
    }
}

impl<T: DdsType> WriterInner<T> {
    /// Memory for a payload of `len` bytes: a slot in shared memory if readers in other processes use it, otherwise a
    /// buffer. `place` prepares the memory and returns the offset of the payload.
    #[inline]
    pub(super) fn lend(&self, len: usize, place: impl Fn(&mut [u8]) -> Option<usize>) -> Result<Option<Lent>, Error> {
        let core = &self.core;
        if core.is_closed() {
            return Err(Error::AlreadyDeleted);
        }
        self.enabled()?;
        if let Some(slot) = core.loan_slot(len)
            && let Some(lent) = Lent::in_slot(slot, &place)
        {
            return Ok(Some(lent));
        }
        Ok(self.lend_buffer(len, place))
    }

    /// The same, waiting for memory that readers in other processes of the host see.
    pub(super) async fn lend_async(
        &self,
        len: usize,
        place: impl Fn(&mut [u8]) -> Option<usize>,
    ) -> Result<Option<Lent>, Error> {
        self.check_open()?;
        if let Some(slot) = self.core.loan_slot_async(len).await
            && let Some(lent) = Lent::in_slot(slot, &place)
        {
            return Ok(Some(lent));
        }
        // The writer may have been deleted meanwhile.
        self.check_open()?;
        Ok(self.lend_buffer(len, place))
    }

    fn lend_buffer(&self, len: usize, place: impl Fn(&mut [u8]) -> Option<usize>) -> Option<Lent> {
        let mut state = self.core.lock();
        let buffer = state.writer.take_buffer(len.saturating_add(plain::ALIGNMENT_MAX));
        drop(state);
        Lent::in_buffer(&self.core, buffer, len, place)
    }

    /// Refuses a sample in the memory of another writer.
    #[inline]
    pub(super) fn check_own(&self, sample: &Lent) -> Result<(), Error> {
        if sample.is_of(&self.core) {
            return Ok(());
        }
        Err(Precondition::ForeignLoan.into())
    }
}

#[cold]
fn not_plain<T: DdsType>(representation: Representation) -> Precondition {
    Precondition::NotPlain { type_name: T::TYPE_NAME, representation, obstacle: plain::obstacle::<T>(representation) }
}

/// The value that [`DataWriter::loan`] has placed stays until a write consumes the loan.
const PLACED: &str = "a loan holds a value";

impl<T: DdsType> Deref for WriteLoan<T> {
    type Target = T;

    fn deref(&self) -> &T {
        plain::view(self.lent.octets()).expect(PLACED)
    }
}

impl<T: DdsType> DerefMut for WriteLoan<T> {
    fn deref_mut(&mut self) -> &mut T {
        plain::view_mut(self.lent.octets_mut()).expect(PLACED)
    }
}

impl<T: DdsType + fmt::Debug> fmt::Debug for WriteLoan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteLoan").field(&**self).finish()
    }
}
