//! Samples as a reader hands them out.

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

/// A sample as a reader hands it out.
#[derive(Clone, Debug)]
pub enum Sample<T> {
    /// A value was written.
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
        /// Why they are not.
        error: DecodeError,
        /// The metadata of the sample.
        info: SampleInfo,
    },
}

/// A sample in its serialized form, as it is lent.
pub struct LoanedSample<T> {
    selected: Selected,
    marker: PhantomData<fn() -> T>,
}

/// Samples lent by a reader in their serialized form: a slice of them, in order. Dropping it returns the loan.
///
/// Nothing is copied or allocated for a loan in a steady state.
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

/// The same for as long as a call of the reader's lasts.
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

    /// The value, if there is one.
    #[must_use]
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Value { value, .. } => Some(value),
            Self::InstanceState { .. } | Self::Undecodable { .. } => None,
        }
    }

    /// The value, if there is one.
    #[must_use]
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::Value { value, .. } => Some(value),
            Self::InstanceState { .. } | Self::Undecodable { .. } => None,
        }
    }

    /// Why the bytes received are not a value of the reader's type, where they are not.
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

    /// About the sample.
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

    /// Its bytes with encapsulation header. A value that was shared within this process is encoded for it, once.
    /// Without `valid_data`: the serialized key, if that came.
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
    /// The value: in place where that is possible, else decoded.
    ///
    /// It is possible for what a writer of this process [shares](crate::DataWriter::write_shared) as a value of the
    /// very type. Else it is possible if the type is [plain](crate::xtypes#plain-types), if the sample came in the byte
    /// order of this machine, and if it lies aligned in memory. The reader sees to that for samples of up to 8 KiB;
    /// longer ones stay where they were received, and the sender's headers tell whether that is aligned.
    ///
    /// The [`Cow`] returned has the size of the type, even where it borrows: of a type of several MiB, use
    /// [`Self::borrow`] or [`Self::to_shared`], which need no stack for the value.
    ///
    /// # Errors
    /// [`Error::Decode`]: the bytes are not a value of this type; [`Error::PreconditionNotMet`] without `valid_data`.
    pub fn value(&self) -> Result<Cow<'_, T>, Error> {
        match self.borrow() {
            Some(value) => Ok(Cow::Borrowed(value)),
            None => self.decode().map(Cow::Owned),
        }
    }

    /// The value, decoded, or copied from a shared one.
    ///
    /// # Errors
    /// See [`Self::value`].
    pub fn decode(&self) -> Result<T, Error> {
        self.check_valid_data()?;
        Ok(value_of(&self.selected.payload)?)
    }

    /// The value in memory that it shares with other holders: the value that a writer of this process has
    /// [shared](crate::DataWriter::write_shared), else decoded. A [plain](crate::xtypes#plain-types) value in the byte
    /// order of this machine is copied into that memory without passing through the stack, so types of several MiB can
    /// be read on any thread.
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

    /// The value in place, if there is one and it is possible; see [`Self::value`].
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
    /// The sample, to be read where it lies, without decoding: in the memory that a writer of this process has built it
    /// in, in memory shared with the writer's process, in the buffer it was received in, or, if it came in fragments,
    /// was put together in. Up to a few KiB are copied there instead of held elsewhere.
    ///
    /// The bytes are checked at each call, by the rules of decoding; the view, which is `Copy`, is as good as long as
    /// the loan.
    ///
    /// # Errors
    /// [`Error::Decode`]: the bytes are not a value of this type, or in XCDR1, which [`Self::decode`] reads;
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

/// In place: both kinds of element have the same layout.
fn lend<T>(samples: Vec<Selected>) -> Vec<LoanedSample<T>> {
    samples.into_iter().map(LoanedSample::new).collect()
}

/// The other way round.
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
