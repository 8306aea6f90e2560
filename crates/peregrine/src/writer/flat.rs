//! FlatData samples that the application builds in the memory from which they are sent.

use std::fmt;
use std::marker::PhantomData;

use peregrine_rtps::id::KeyHash;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Timestamp};
use peregrine_xtypes::flat::{self, Build, Flat, FlatError, FlatType};
use peregrine_xtypes::{
    DdsType, DecodeError, EncodeError, PayloadKind, Representation, key_hash_of_payload, serialized_key_of_payload,
};

use super::lent::Lent;
use super::{DataWriter, ENCAPSULATION_BYTES, Keyed, check_len};
use crate::driver::base::clock::{now, wall, wall_at};
use crate::error::{BadParameter, Error, OutOfResources, Precondition};

/// Alignment of the value in bytes, so that views can access its numbers in place.
const ALIGNMENT: usize = 8;

/// A FlatData sample in a buffer of its writer or in shared memory. The writer sends this memory. Dropping an unwritten
/// sample returns the memory.
pub struct FlatLoan<T: FlatType> {
    lent: Lent,
    of: PhantomData<fn() -> T>,
}

impl<T: FlatType> DataWriter<Flat<T>> {
    /// Builds a sample in place with `build`. [`Self::write_flat`] then writes it without copying or encoding: readers
    /// of this process, and matched readers in other processes of the host, read the same memory; messages to other
    /// readers are sent from it.
    ///
    /// `capacity` is the maximum length of the sample in bytes, including the encapsulation header of 4 bytes and
    /// padding. The memory that the sample occupies until readers release it may be up to twice its length, so estimate
    /// `capacity` closely. For a bounded type, `T::MAX_SIZE` is an estimate.
    ///
    /// ```no_run
    /// use peregrine::xtypes::flat::Flat;
    /// use peregrine::{DdsType, Selector};
    ///
    /// #[derive(Clone, DdsType)]
    /// #[dds(extensibility = "appendable", flat)]
    /// struct Image {
    ///     width: u32,
    ///     height: u32,
    ///     pixels: Vec<u8>,
    /// }
    ///
    /// # fn main() -> Result<(), peregrine::Error> {
    /// let topic = peregrine::DomainParticipant::new(0)?.topic::<Flat<Image>>("images")?;
    /// let (writer, reader) = (topic.writer()?, topic.reader()?);
    ///
    /// let (width, height) = (640, 480);
    /// let mut image = writer.loan_flat(64 + 640 * 480, |image| {
    ///     let image = image.width(width)?.height(height)?;
    ///     let image = image.pixels_with(|mut pixels| {
    ///         pixels.fill(640 * 480, |octets| octets.fill(128))?; // as a camera would
    ///         pixels.finish()
    ///     })?;
    ///     image.finish()
    /// })?;
    /// image.view_mut().height_mut()?.set(240);
    /// writer.write_flat(image)?;
    ///
    /// for sample in &reader.take_loaned(&Selector::ANY)? {
    ///     if sample.info().valid_data {
    ///         let image = sample.view()?; // where it was received
    ///         println!("{} x {}", image.width(), image.height());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::BadParameter`] if the sample does not fit into `capacity`, or `capacity` exceeds the longest payload;
    /// [`Error::Flat`] for any other error of `build`; [`Error::PreconditionNotMet`] if the writer does not offer
    /// XCDR2; [`Error::NotEnabled`]; [`Error::AlreadyDeleted`].
    pub fn loan_flat<F>(&self, capacity: usize, build: F) -> Result<FlatLoan<T>, Error>
    where
        F: for<'x> Build<'x, T>,
    {
        self.check_flat(capacity)?;
        built_in(self.inner.lend(capacity, body_aligned)?, capacity, build)
    }

    /// A sample that `build` builds in place, like [`Self::loan_flat`], that waits for memory as
    /// [`DataWriter::loan_async`] does. `build` runs when there is memory; not at all if the future is dropped before.
    ///
    /// # Errors
    /// See [`Self::loan_flat`]; [`Error::AlreadyDeleted`] also when the writer is deleted meanwhile.
    pub async fn loan_flat_async<F>(&self, capacity: usize, build: F) -> Result<FlatLoan<T>, Error>
    where
        F: for<'x> Build<'x, T>,
    {
        self.check_flat(capacity)?;
        let lent = self.inner.lend_async(capacity, body_aligned).await?;
        built_in(lent, capacity, build)
    }

    /// Writes a sample that was built in place, as soon as KEEP_ALL and the resource limits leave room. There is no
    /// time limit. A future that is dropped has written the sample or returns its memory.
    ///
    /// # Errors
    /// See [`Self::write_flat`]; never [`Error::Timeout`].
    pub async fn write_flat_async(&self, sample: FlatLoan<T>) -> Result<SequenceNumber, Error> {
        let attempt = {
            let inner = &self.inner;
            let (mut guard, instance, key) = self.key_of_flat(&sample)?;
            inner.check_usable(&mut guard)?;
            inner.try_put_filled(guard, instance, wall(), sample.lent.into_filled(), key)?
        };
        self.put_when_there_is_room(attempt).await
    }

    /// Writes a sample that was built in place. The call blocks like [`Self::write`].
    ///
    /// The first sample of an instance is decoded once, because the writer keeps the key.
    ///
    /// # Errors
    /// See [`Self::write`]; [`Error::PreconditionNotMet`] for a loan of another writer.
    pub fn write_flat(&self, sample: FlatLoan<T>) -> Result<SequenceNumber, Error> {
        let now = now();
        self.put_flat(sample, wall_at(now), now)
    }

    /// [`Self::write_flat`] with a source timestamp that the application chooses.
    ///
    /// # Errors
    /// See [`Self::write_flat`].
    pub fn write_flat_at(&self, sample: FlatLoan<T>, source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.put_flat(sample, source_timestamp, now())
    }

    fn put_flat(&self, sample: FlatLoan<T>, source_timestamp: Timestamp, at: Instant) -> Result<SequenceNumber, Error> {
        let (guard, instance, key) = self.key_of_flat(&sample)?;
        self.inner.put_filled(guard, instance, source_timestamp, sample.lent.into_filled(), key, at)
    }

    fn check_flat(&self, capacity: usize) -> Result<(), Error> {
        if self.inner.enabled()?.representation != Representation::Xcdr2 {
            return Err(Precondition::NotXcdr2.into());
        }
        check_len(capacity)
    }

    /// The instance of a sample of this writer, and its key if it is new. The writer is locked afterwards.
    fn key_of_flat(&self, sample: &FlatLoan<T>) -> Result<Keyed<'_>, Error> {
        let inner = &*self.inner;
        inner.check_own(&sample.lent)?;
        let instance = sample.instance()?;
        let make_key = || {
            let payload = sample.lent.octets();
            Ok(serialized_key_of_payload::<Flat<T>>(payload, PayloadKind::Data, Representation::Xcdr2)?)
        };
        let (guard, key) = inner.made_key_if_new(inner.core.lock(), instance, make_key)?;
        Ok((guard, instance, key))
    }
}

/// Has a sample built in the memory lent for it.
fn built_in<T: FlatType>(
    lent: Option<Lent>,
    capacity: usize,
    build: impl for<'x> Build<'x, T>,
) -> Result<FlatLoan<T>, Error> {
    let mut lent = lent.ok_or(OutOfResources::Memory { bytes: capacity })?;
    let built = flat::builder::<T>(lent.octets_mut()).and_then(build).map(|done| done.len());
    let len = built.map_err(|error| match error {
        FlatError::Encode(EncodeError::BufferTooSmall) => does_not_fit::<T>(capacity),
        error => Error::Flat(error),
    })?;
    lent.truncate(len);
    Ok(FlatLoan { lent, of: PhantomData })
}

/// Where in a buffer a payload begins.
fn body_aligned(octets: &mut [u8]) -> Option<usize> {
    Some(octets.get(ENCAPSULATION_BYTES..).map_or(0, |body| body.as_ptr().align_offset(ALIGNMENT)))
}

fn does_not_fit<T: DdsType>(capacity: usize) -> Error {
    BadParameter::CapacityExceeded { type_name: T::TYPE_NAME, capacity }.into()
}

impl<T: FlatType> FlatLoan<T> {
    /// A view for reading the sample.
    #[must_use]
    pub fn view(&self) -> T::View<'_> {
        flat::view::<T>(self.lent.octets()).expect(BUILT)
    }

    /// A view for changing members of fixed size in place.
    #[must_use]
    pub fn view_mut(&mut self) -> T::ViewMut<'_> {
        flat::view_mut::<T>(self.lent.octets_mut()).expect(BUILT)
    }

    /// The serialized bytes, beginning with the encapsulation header.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.lent.octets()
    }

    fn instance(&self) -> Result<KeyHash, DecodeError> {
        if T::HAS_KEY {
            key_hash_of_payload::<T>(self.payload(), PayloadKind::Data).map(KeyHash)
        } else {
            Ok(KeyHash::NIL)
        }
    }
}

/// A finished sample changes only through views, and each change keeps it a valid value.
const BUILT: &str = "a loan holds a sample";

impl<T: FlatType> fmt::Debug for FlatLoan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FlatLoan").field(&self.view()).finish()
    }
}
