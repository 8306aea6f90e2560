//! Writing samples that the application has serialized.

use std::sync::Arc;

use peregrine_rtps::history::{Change, ChangeKind};
use peregrine_rtps::id::KeyHash;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Timestamp;
use peregrine_xtypes::{Encapsulation, PayloadKind};

use super::{DataWriter, WriterInner, check_len, ending};
use crate::driver::base::clock::{now, wall};
use crate::driver::base::sync::lock;
use crate::error::{BadParameter, Error, Precondition};
use crate::topic_type::Serialized;

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
        let inner = &*self.inner;
        let instance = inner.instance_in(payload, PayloadKind::Data)?;
        let (guard, filled) = inner.fill_payload(payload.len(), |bytes| {
            bytes.copy_from_slice(payload);
            Ok(())
        })?;
        let key = inner.unkept_key_if_new(instance)?;
        inner.put_filled(guard, instance, source_timestamp, filled, key, now())
    }

    /// Writes a sample as soon as KEEP_ALL and the resource limits leave room. `max_blocking_time` does not apply: drop
    /// the future to give up.
    ///
    /// # Errors
    /// See [`Self::write`]; never [`Error::Timeout`].
    pub async fn write_async(&self, payload: &[u8]) -> Result<SequenceNumber, Error> {
        let attempt = {
            let inner = &*self.inner;
            let instance = inner.instance_in(payload, PayloadKind::Data)?;
            let (mut guard, filled) = inner.fill_payload(payload.len(), |bytes| {
                bytes.copy_from_slice(payload);
                Ok(())
            })?;
            inner.check_usable(&mut guard)?;
            let key = inner.unkept_key_if_new(instance)?;
            let payload = filled.into_payload();
            inner.try_put(
                guard,
                Change { kind: ChangeKind::Alive, instance, source_timestamp: wall(), payload },
                key,
            )?
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
        self.end_by_key(key, ChangeKind::Disposed, source_timestamp)
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
        let autodispose = self.inner.autodispose();
        let kind = if autodispose { ChangeKind::DisposedUnregistered } else { ChangeKind::Unregistered };
        self.end_by_key(key, kind, source_timestamp)
    }

    fn end_by_key(&self, key: &[u8], kind: ChangeKind, source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        let inner = &*self.inner;
        if !inner.topic.has_key() {
            return Err(Precondition::NoKeys { topic: Arc::clone(&inner.core.topic.name) }.into());
        }
        check_len(key.len())?;
        let instance = inner.instance_in(key, PayloadKind::Key)?;
        let mut guard = inner.core.lock();
        inner.check_usable(&mut guard)?;
        if kind.unregisters() && !lock(&inner.keys).contains_key(&instance) {
            return Err(Precondition::NotRegistered(instance).into());
        }
        let registered = inner.unkept_key_if_new(instance)?;
        inner.put(guard, ending(kind, instance, key.to_vec(), source_timestamp), registered, now())
    }
}

impl WriterInner<Serialized> {
    /// Checks a payload and finds its instance. The caller must hold no lock: code of the application runs here.
    fn instance_in(&self, payload: &[u8], kind: PayloadKind) -> Result<KeyHash, Error> {
        let offered = self.enabled()?.representation;
        let given = Encapsulation::parse(payload).ok().map(|header| header.representation);
        if given != Some(offered) {
            return Err(BadParameter::Representation { given, offered }.into());
        }
        let found = self.topic.data_type.keys().instance_of(payload, kind);
        found.ok_or_else(|| BadParameter::NoInstance { type_name: Arc::clone(&self.core.topic.type_name) }.into())
    }

    /// The key argument of [`WriterInner::put`] for a new instance: empty, because the key is not kept.
    fn unkept_key_if_new(&self, instance: KeyHash) -> Result<Option<Vec<u8>>, Error> {
        let is_new = self.topic.has_key() && self.is_new(instance)?;
        Ok(is_new.then(Vec::new))
    }
}
