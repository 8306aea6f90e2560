//! Writing samples that the application has serialized.

use std::sync::Arc;

use peregrine_rtps::history::ChangeKind;
use peregrine_rtps::id::KeyHash;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Timestamp;
use peregrine_xtypes::{Encapsulation, PayloadKind};

use super::lent::Filled;
use super::{DataWriter, Keyed, WriterInner, check_len, ending};
use crate::driver::base::clock::{now, wall};
use crate::driver::base::sync::lock;
use crate::driver::base::user_code::run_user_code;
use crate::error::{BadParameter, Error, Precondition};
use crate::topic_type::{Serialized, TopicType};

/// Payloads begin with their encapsulation header (RTPS 2.5 §10.2) and have to be in the representation that the writer
/// offers ([`DataWriterBuilder::representation`](crate::DataWriterBuilder::representation); XCDR1 by default). The
/// writer checks only the header: the rest is checked when a reader decodes it.
///
/// Where the type has a key, each call finds the instance of the payload with the function of its
/// [`SerializedType`](crate::SerializedType), before the writer is locked. A writer of serialized samples keeps no
/// keys: its deletion unregisters its instances and does not dispose them, regardless of WRITER_DATA_LIFECYCLE.
impl DataWriter<Serialized> {
    /// Writes a sample. Blocks for at most `max_blocking_time` while KEEP_ALL or a resource limit leaves no room.
    ///
    /// # Errors
    /// [`BadParameter::Representation`] for a payload that is not in the representation that the writer offers;
    /// [`BadParameter::TooLong`] for one of more than 2,147,483,647 bytes; [`BadParameter::NoInstance`] if the key
    /// function finds no instance in the payload; [`Error::Timeout`],
    /// [`Error::OutOfResources`], [`Error::NotEnabled`] and [`Error::AlreadyDeleted`] as in [`DataWriter::write`].
    pub fn write(&self, payload: &[u8]) -> Result<SequenceNumber, Error> {
        self.write_at(payload, wall())
    }

    /// Writes a sample with a source timestamp that the application chooses (`write_w_timestamp`).
    ///
    /// # Errors
    /// See [`Self::write`].
    pub fn write_at(&self, payload: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.inner.write_payload(payload, source_timestamp)
    }

    /// Writes a sample as soon as KEEP_ALL and the resource limits leave room. `max_blocking_time` does not apply: drop
    /// the future to give up.
    ///
    /// # Errors
    /// See [`Self::write`]; never [`Error::Timeout`].
    pub async fn write_async(&self, payload: &[u8]) -> Result<SequenceNumber, Error> {
        let attempt = {
            let inner = &*self.inner;
            let ((mut guard, instance, key), filled) = inner.fill_serialized(payload)?;
            inner.check_usable(&mut guard)?;
            inner.try_put_filled(guard, instance, wall(), filled, key)?
        };
        self.put_when_there_is_room(attempt).await
    }

    /// Disposes the instance with this serialized key, in the form of RTPS 2.5 §9.4.5.4.1 with encapsulation header.
    /// The call registers an instance that this writer has not registered (DDS 1.4 §2.2.2.4.2.13).
    ///
    /// # Errors
    /// See [`Self::write`]; [`Precondition::NoKeys`] on a topic without keys.
    pub fn dispose(&self, key: &[u8]) -> Result<SequenceNumber, Error> {
        self.dispose_at(key, wall())
    }

    /// Disposes the instance with a source timestamp that the application chooses (`dispose_w_timestamp`).
    ///
    /// # Errors
    /// See [`Self::dispose`].
    pub fn dispose_at(&self, key: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.inner.end_payload(key, ChangeKind::Disposed, source_timestamp)
    }

    /// Unregisters the instance with this serialized key: this writer no longer writes it. With
    /// `autodispose_unregistered_instances`, which is the default, the instance is disposed as well (DDS 1.4
    /// §2.2.2.4.2.7).
    ///
    /// # Errors
    /// See [`Self::dispose`]; [`Precondition::NotRegistered`] if this writer has not written the instance, or has
    /// unregistered it already.
    pub fn unregister_instance(&self, key: &[u8]) -> Result<SequenceNumber, Error> {
        self.unregister_instance_at(key, wall())
    }

    /// Unregisters the instance with a source timestamp that the application chooses
    /// (`unregister_instance_w_timestamp`).
    ///
    /// # Errors
    /// See [`Self::unregister_instance`].
    pub fn unregister_instance_at(&self, key: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.inner.end_payload(key, self.inner.unregistering(), source_timestamp)
    }
}

/// Of a writer of any type: what [`DataWriter<Serialized>`] and [`AnyDataWriter`](crate::AnyDataWriter) do.
impl<T: TopicType> WriterInner<T> {
    pub(super) fn write_payload(&self, payload: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        let ((guard, instance, key), filled) = self.fill_serialized(payload)?;
        self.put_filled(guard, instance, source_timestamp, filled, key, now())
    }

    pub(super) fn end_payload(
        &self,
        key: &[u8],
        kind: ChangeKind,
        source_timestamp: Timestamp,
    ) -> Result<SequenceNumber, Error> {
        if !self.topic.has_key() {
            return Err(Precondition::NoKeys { topic: Arc::clone(&self.core.topic.name) }.into());
        }
        check_len(key.len())?;
        let instance = self.instance_in(key, PayloadKind::Key)?;
        let mut guard = self.core.lock();
        self.check_usable(&mut guard)?;
        if kind.unregisters() && !lock(&self.keys).contains_key(&instance) {
            return Err(Precondition::NotRegistered(instance).into());
        }
        let make_key = || self.kept_key(key, PayloadKind::Key);
        let (guard, registered) = self.made_key_if_new(guard, instance, make_key)?;
        self.put(guard, ending(kind, instance, key.to_vec(), source_timestamp), registered, now())
    }

    /// The change by which the writer unregisters an instance.
    pub(super) fn unregistering(&self) -> ChangeKind {
        if self.autodispose() { ChangeKind::DisposedUnregistered } else { ChangeKind::Unregistered }
    }

    /// Copies a payload into memory of the writer. Returns its instance, and the key of an instance that is new. The
    /// writer is locked afterwards.
    fn fill_serialized(&self, payload: &[u8]) -> Result<(Keyed<'_>, Filled), Error> {
        let instance = self.instance_in(payload, PayloadKind::Data)?;
        let (guard, filled) = self.fill_payload(payload.len(), |bytes| {
            bytes.copy_from_slice(payload);
            Ok(())
        })?;
        let make_key = || self.kept_key(payload, PayloadKind::Data);
        let (guard, key) = self.made_key_if_new(guard, instance, make_key)?;
        Ok(((guard, instance, key), filled))
    }

    /// Checks a payload and finds its instance. To be called without any lock: code of the application runs here.
    fn instance_in(&self, payload: &[u8], kind: PayloadKind) -> Result<KeyHash, Error> {
        let offered = self.enabled()?.representation;
        let given = Encapsulation::parse(payload).ok().map(|header| header.representation);
        if given != Some(offered) {
            return Err(BadParameter::Representation { given, offered }.into());
        }
        self.topic.data_type.keys().instance_of(payload, kind).ok_or_else(|| self.no_instance())
    }

    /// The key in a payload, as the writer keeps it. Code of hand-written types runs here.
    fn kept_key(&self, payload: &[u8], kind: PayloadKind) -> Result<Vec<u8>, Error> {
        run_user_code(|| T::kept_key(payload, kind)).ok_or_else(|| self.no_instance())
    }

    #[cold]
    fn no_instance(&self) -> Error {
        BadParameter::NoInstance { type_name: Arc::clone(&self.core.topic.type_name) }.into()
    }
}
