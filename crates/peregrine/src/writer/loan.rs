//! Plain samples that the application makes in the memory they are sent from.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use peregrine_rtps::id::KeyHash;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Timestamp};
use peregrine_xtypes::{DdsType, plain};

use super::lent::{Filled, Lent};
use super::{DataWriter, WriterInner};
use crate::driver::base::clock::{now, wall_at};
use crate::error::{Error, Precondition};
use crate::topic_type::instance_of;

/// A value of a plain type in a buffer of its writer, or in memory that readers in other processes see: what is
/// assigned to it is what is sent. Dropped unwritten, it gives the memory back.
pub struct WriteLoan<T: DdsType> {
    lent: Lent,
    marker: PhantomData<T>,
}

impl<T: DdsType> DataWriter<T> {
    /// A sample to be made in place and written by [`Self::write_loan`], which neither copies nor encodes it: readers
    /// of this process see the same memory, and, once they match, those in other processes of the host; to others it is
    /// sent from there. What it contains at first is some value, perhaps of an earlier sample: all members have to be
    /// assigned.
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
    /// [`Error::PreconditionNotMet`] where the type is not [plain](crate::xtypes#plain-types) in the representation
    /// that the writer offers, or not all bytes are a value of it, as of a `bool`: the error names the member or the
    /// missing attribute; [`Error::NotEnabled`]; [`Error::AlreadyDeleted`].
    pub fn loan(&self) -> Result<WriteLoan<T>, Error> {
        let inner = &self.inner;
        let representation = inner.enabled()?.representation;
        let not_plain = || Precondition::NotPlain {
            type_name: T::TYPE_NAME,
            representation,
            obstacle: plain::obstacle::<T>(representation),
        };
        let len = plain::payload_len::<T>(representation).ok_or_else(not_plain)?;
        let lent = inner.lend(len, |octets| plain::place::<T>(octets, representation))?;
        let lent = lent.ok_or_else(not_plain)?;
        Ok(WriteLoan { lent, marker: PhantomData })
    }

    /// Writes a sample that was made in place. It blocks like [`Self::write`].
    ///
    /// # Errors
    /// See [`Self::write`]; [`Error::PreconditionNotMet`] for a loan of another writer.
    pub fn write_loan(&self, sample: WriteLoan<T>) -> Result<SequenceNumber, Error> {
        let now = now();
        self.put_loan(sample, wall_at(now), now)
    }

    /// The same with a source time stamp of the application's choosing.
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
    /// Memory for a payload of `len` bytes: such as readers in other processes of the host see, if there are any that
    /// do, else a buffer. `place` prepares it and says where in the memory the payload begins.
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
        let mut state = core.lock();
        let buffer = state.writer.take_buffer(len.saturating_add(plain::ALIGNMENT_MAX));
        drop(state);
        Ok(Lent::in_buffer(core, buffer, len, place))
    }

    /// Whether it lies in memory of this writer.
    #[inline]
    pub(super) fn check_own(&self, sample: &Lent) -> Result<(), Error> {
        if sample.is_of(&self.core) {
            return Ok(());
        }
        Err(Precondition::ForeignLoan.into())
    }
}

/// What [`DataWriter::loan`] has placed stays where it is until it is written, which takes the loan.
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
