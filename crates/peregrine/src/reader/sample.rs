//! The forms in which a reader returns samples.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use peregrine_rtps::history::{SampleInfo, Selected};
use peregrine_rtps::payload::Payload;
use peregrine_xtypes::flat::{self, Flat, FlatType};
use peregrine_xtypes::{DdsType, DecodeError, Encapsulation, decode, decode_shared, plain};

use crate::driver::base::user_code::run_user_code;
use crate::driver::endpoint::reader::ReaderCore;
use crate::error::{Error, Precondition};
use crate::writer::shared;

/// A sample that a reader has returned by value.
#[derive(Clone, Debug)]
pub enum Sample<T> {
    /// A writer has written a value.
    Value {
        /// The value.
        value: T,
        /// The metadata of the sample.
        info: SampleInfo,
    },
    /// Only the state of the instance has changed (`valid_data` of DDS 1.4 §2.2.2.5.1 is false): `info.instance_state`
    /// has the new state, and [`DataReader::get_key_value`](crate::DataReader::get_key_value) the key of
    /// `info.instance`.
    InstanceState {
        /// The metadata of the sample.
        info: SampleInfo,
    },
    /// The bytes received are not a value of the reader's type. Other samples are not affected.
    Undecodable {
        /// The decoding error.
        error: DecodeError,
        /// The metadata of the sample.
        info: SampleInfo,
    },
}

/// A sample on loan, in its serialized form.
pub struct LoanedSample<T> {
    selected: Selected,
    marker: PhantomData<fn() -> T>,
}

/// Samples on loan from a reader, in their serialized form: a slice in the order of the reader. Dropping it returns the
/// loan.
///
/// In a steady state a loan copies and allocates nothing.
///
/// ```no_run
/// # fn main() -> Result<(), peregrine::Error> {
/// # let reader = peregrine::DomainParticipant::new(0)?.topic::<u32>("numbers")?.reader()?;
/// let loan = reader.take_loaned(&peregrine::Selector::ANY)?;
/// for sample in &loan {
///     if sample.info().valid_data {
///         println!("{} of {}: {}", sample.info().sequence_number, loan.len(), sample.value()?);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Loan<T> {
    core: Arc<ReaderCore>,
    samples: Vec<LoanedSample<T>>,
}

/// A loan that lasts for one call of the reader.
pub(super) struct Shown<'c, T> {
    core: &'c ReaderCore,
    samples: Vec<LoanedSample<T>>,
}

impl<T: DdsType> Sample<T> {
    pub(super) fn decode(selected: &Selected) -> Self {
        let info = selected.info;
        match info.valid_data.then(|| value_of(&selected.payload)) {
            None => Self::InstanceState { info },
            Some(Ok(value)) => Self::Value { value, info },
            Some(Err(error)) => Self::Undecodable { error, info },
        }
    }
}

impl<T> Sample<T> {
    /// The metadata of the sample.
    #[must_use]
    pub const fn info(&self) -> &SampleInfo {
        match self {
            Self::Value { info, .. } | Self::InstanceState { info } | Self::Undecodable { info, .. } => info,
        }
    }

    /// The value; `None` for the other variants.
    #[must_use]
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Value { value, .. } => Some(value),
            Self::InstanceState { .. } | Self::Undecodable { .. } => None,
        }
    }

    /// The value; `None` for the other variants.
    #[must_use]
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::Value { value, .. } => Some(value),
            Self::InstanceState { .. } | Self::Undecodable { .. } => None,
        }
    }

    /// The decoding error of an undecodable sample; `None` for the other variants.
    #[must_use]
    pub const fn error(&self) -> Option<&DecodeError> {
        match self {
            Self::Undecodable { error, .. } => Some(error),
            Self::Value { .. } | Self::InstanceState { .. } => None,
        }
    }
}

/// The value, copied or decoded.
fn value_of<T: DdsType>(payload: &Payload) -> Result<T, DecodeError> {
    run_user_code(|| shared::value::<T>(payload).map_or_else(|| decode(payload), |value| Ok(T::clone(value))))
}

impl<T> LoanedSample<T> {
    pub(super) const fn new(selected: Selected) -> Self {
        Self { selected, marker: PhantomData }
    }

    /// The metadata of the sample.
    #[must_use]
    pub const fn info(&self) -> &SampleInfo {
        &self.selected.info
    }

    /// Whether the bytes read so far are the bytes that the writer wrote. Call this after reading.
    ///
    /// Applications usually need no such check: a reader holds the memory of a sample, also in shared memory, and the
    /// writer does not reuse this memory before the reader releases it, even with KEEP_LAST or after the endpoints no
    /// longer match. This guarantee ends for samples in [shared memory](crate::config::DomainConfig::shared_memory)
    /// that the application still holds when the writer has been deleted, when its process has ended, or when its
    /// process has found that this process violates the protocol. From then on, the result is `false`, although the
    /// bytes may be unchanged. Samples that the reader copied, received in messages, or shares within the process are
    /// always consistent. For memory of another process, the check is a system call.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.selected.payload.is_consistent()
    }

    /// The serialized bytes, beginning with the encapsulation header. A value that was shared within this process is
    /// encoded once, by the first call. Without `valid_data`, these are the bytes of the serialized key, or empty if
    /// the writer sent none.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.selected.payload
    }

    /// The representation and the byte order of [`Self::bytes`] (RTPS 2.5 §10.2).
    ///
    /// # Errors
    /// [`Error::Decode`]: the bytes do not begin with an encapsulation header that Peregrine knows.
    pub fn encapsulation(&self) -> Result<Encapsulation, Error> {
        Ok(Encapsulation::parse(self.bytes())?)
    }

    fn check_valid_data(&self) -> Result<(), Error> {
        if self.selected.info.valid_data {
            return Ok(());
        }
        Err(Precondition::NoValue.into())
    }
}

impl<T: DdsType> LoanedSample<T> {
    /// The value, borrowed in place if possible, otherwise decoded.
    ///
    /// Borrowing is possible for a value of this type that a writer of this process has
    /// [shared](crate::DataWriter::write_shared), and for a [plain](crate::xtypes#plain-types) type if the sample is in
    /// the byte order of this machine and aligned in memory. The reader aligns samples of up to 8 KiB. Longer samples
    /// stay in the buffer in which they were received, where the headers of the sender determine the alignment.
    ///
    /// The returned [`Cow`] has the size of the type even if it borrows. For a type of several MiB use [`Self::borrow`]
    /// or [`Self::to_shared`], which need no stack for the value.
    ///
    /// # Errors
    /// [`Error::Decode`]: the bytes are not a value of this type; [`Error::PreconditionNotMet`] without `valid_data`.
    pub fn value(&self) -> Result<Cow<'_, T>, Error> {
        match self.borrow() {
            Some(value) => Ok(Cow::Borrowed(value)),
            None => self.decode().map(Cow::Owned),
        }
    }

    /// The value by value: decoded, or cloned from a shared value.
    ///
    /// # Errors
    /// See [`Self::value`].
    pub fn decode(&self) -> Result<T, Error> {
        self.check_valid_data()?;
        Ok(value_of(&self.selected.payload)?)
    }

    /// The value in shared ownership: the value that a writer of this process has
    /// [shared](crate::DataWriter::write_shared), otherwise a decoded value. A [plain](crate::xtypes#plain-types) value
    /// in the byte order of this machine is copied into the [`Arc`] without passing through the stack, so any thread
    /// can read types of several MiB.
    ///
    /// # Errors
    /// See [`Self::value`].
    pub fn to_shared(&self) -> Result<Arc<T>, Error> {
        match shared::value(&self.selected.payload).filter(|_| self.selected.info.valid_data) {
            Some(value) => Ok(Arc::clone(value)),
            None => {
                self.check_valid_data()?;
                Ok(run_user_code(|| decode_shared(&self.selected.payload))?)
            }
        }
    }

    /// The value in place; `None` without `valid_data`, or if borrowing is not possible; see [`Self::value`].
    #[must_use]
    pub fn borrow(&self) -> Option<&T> {
        if !self.selected.info.valid_data {
            return None;
        }
        match shared::value::<T>(&self.selected.payload) {
            Some(value) => Some(value),
            None => plain::view(&self.selected.payload),
        }
    }
}

impl<T: FlatType> LoanedSample<Flat<T>> {
    /// A view of the sample in place, without decoding: in the memory in which a writer of this process has built the
    /// sample, in memory shared with the writer's process, or in the receive or reassembly buffer. Samples of up to a
    /// few KiB are copied out of such memory when they arrive.
    ///
    /// Each call checks the bytes by the rules of decoding. The view is `Copy` and lives as long as the loan.
    ///
    /// # Errors
    /// [`Error::Decode`]: the bytes are not a value of this type, or are in XCDR1, which only [`Self::decode`] reads;
    /// [`Error::PreconditionNotMet`] without `valid_data`.
    pub fn view(&self) -> Result<T::View<'_>, Error> {
        self.check_valid_data()?;
        match shared::value::<Flat<T>>(&self.selected.payload) {
            Some(value) => Ok(value.view()),
            None => Ok(flat::view::<T>(&self.selected.payload)?),
        }
    }
}

impl<T> Loan<T> {
    pub(super) fn new(core: Arc<ReaderCore>, samples: Vec<Selected>) -> Self {
        Self { core, samples: lend(samples) }
    }
}

impl<'c, T> Shown<'c, T> {
    pub(super) fn new(core: &'c ReaderCore, samples: Vec<Selected>) -> Self {
        Self { core, samples: lend(samples) }
    }
}

/// Converts in place: both element types have the same layout.
fn lend<T>(samples: Vec<Selected>) -> Vec<LoanedSample<T>> {
    samples.into_iter().map(LoanedSample::new).collect()
}

/// Returns the samples to the reader; the reverse of [`lend`].
fn give_back<T>(core: &ReaderCore, samples: &mut Vec<LoanedSample<T>>) {
    core.give_back(std::mem::take(samples).into_iter().map(|sample| sample.selected).collect());
}

impl<T> Deref for Loan<T> {
    type Target = [LoanedSample<T>];

    fn deref(&self) -> &[LoanedSample<T>] {
        &self.samples
    }
}

impl<'l, T> IntoIterator for &'l Loan<T> {
    type Item = &'l LoanedSample<T>;
    type IntoIter = std::slice::Iter<'l, LoanedSample<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.samples.iter()
    }
}

impl<T> Drop for Loan<T> {
    fn drop(&mut self) {
        give_back(&self.core, &mut self.samples);
    }
}

impl<T> Deref for Shown<'_, T> {
    type Target = [LoanedSample<T>];

    fn deref(&self) -> &[LoanedSample<T>] {
        &self.samples
    }
}

impl<T> Drop for Shown<'_, T> {
    fn drop(&mut self) {
        give_back(self.core, &mut self.samples);
    }
}

impl<T> std::fmt::Debug for LoanedSample<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.selected.fmt(f)
    }
}

impl<T> std::fmt::Debug for Loan<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.samples).finish()
    }
}
