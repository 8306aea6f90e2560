//! Writing values of a Rust type.

use std::ops::Deref;
use std::sync::Arc;

use peregrine_rtps::history::{Change, ChangeKind};
use peregrine_rtps::id::KeyHash;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Timestamp};
use peregrine_xtypes::{DdsType, Endianness, decode_key_holder, encode, encode_key, encoded_key_len, encoded_len};

use super::lent::Filled;
use super::shared::SharedKey;
use super::{DataWriter, ENCAPSULATION_BYTES, PAYLOAD_BYTES_MAX, WriterInner, check_len, ending, shared};
use crate::InstanceHandle;
use crate::driver::base::clock::{now, wall, wall_at};
use crate::driver::base::sync::lock;
use crate::driver::base::user_code::run_user_code;
use crate::driver::endpoint::wakers::StateGuard;
use crate::driver::endpoint::writer::WriterState;
use crate::error::{Argument, BadParameter, Error, Precondition, Unit};
use crate::topic_type::{instance_of, serialized_key};

impl<T: DdsType> DataWriter<T> {
    /// Writes a value. Blocks for at most `max_blocking_time` while KEEP_ALL or a resource limit leaves no room.
    ///
    /// The listeners of readers in the same process run in this call, after the value is delivered. If a listener
    /// blocks, the call blocks for as long, beyond `max_blocking_time`; other threads can write meanwhile.
    ///
    /// # Errors
    /// [`Error::Encode`]; [`Error::Timeout`] when there was no room in time; [`Error::OutOfResources`] for an instance
    /// past `max_instances`; [`BadParameter::TooLong`] for a value of more than 2,147,483,647 bytes in its serialized
    /// form; [`Error::NotEnabled`]; [`Error::AlreadyDeleted`].
    pub fn write(&self, value: &T) -> Result<SequenceNumber, Error> {
        let now = now();
        self.inner.write_at_moment(value, wall_at(now), now)
    }

    /// Writes a value with a source timestamp that the application chooses (`write_w_timestamp`).
    ///
    /// # Errors
    /// See [`Self::write`].
    pub fn write_at(&self, value: &T, source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.inner.write_at_moment(value, source_timestamp, now())
    }

    /// Writes a value that readers of this process share, without copying or encoding it for them. If bytes are needed,
    /// the value is encoded once: by this call, if a matched reader is in another process or has another Rust type, if
    /// the writer is asynchronous, or if DURABILITY keeps the sample for later readers; otherwise by a call of
    /// [`LoanedSample::bytes`](crate::LoanedSample::bytes).
    ///
    /// The last holder of the value drops it. If the middleware is the last holder, the destructor runs under no lock,
    /// and on no thread that the middleware needs for timers or reception.
    ///
    /// # Errors
    /// See [`Self::write`]. [`Error::Encode`] is reported only if the call encodes the value.
    pub fn write_shared(&self, value: Arc<T>) -> Result<SequenceNumber, Error>
    where
        T: Send + Sync,
    {
        self.write_shared_at(value, wall())
    }

    /// [`Self::write_shared`] with a source timestamp that the application chooses.
    ///
    /// # Errors
    /// See [`Self::write_shared`].
    pub fn write_shared_at(&self, value: Arc<T>, source_timestamp: Timestamp) -> Result<SequenceNumber, Error>
    where
        T: Send + Sync,
    {
        let inner = &self.inner;
        let representation = inner.enabled()?.representation;
        let instance = instance_of(&*value);
        let is_user_code = inner.topic.data_type.keys().is_user_code();
        let made_key = is_user_code.then(|| serialized_key(&*value).ok());
        let mut guard = inner.core.lock();
        let needs_octets = inner.core.needs_octets(&guard);
        if needs_octets && !guard.has_local_readers() {
            drop(guard);
            return self.write_at(&value, source_timestamp);
        }
        let key = match made_key {
            Some(key) => SharedKey::Made(key),
            None => SharedKey::OnDemand,
        };
        let payload = shared::payload(Arc::clone(&value), representation, key);
        if needs_octets {
            // The check below encodes the value: without the lock, because encoding may run user code.
            drop(guard);
            if payload.deref().is_empty() {
                // The payload is empty because encoding failed; encodes again to get the error.
                let len = run_user_code(|| encoded_len(&*value, representation));
                check_len(len)?;
                let mut octets = vec![0; len];
                run_user_code(|| encode(&*value, representation, Endianness::NATIVE, &mut octets))?;
            }
            guard = inner.core.lock();
        }
        let (guard, key) = inner.key_if_new(guard, instance, &*value)?;
        inner.put(guard, Change { kind: ChangeKind::Alive, instance, source_timestamp, payload }, key, now())
    }

    /// Writes a sample that the caller serializes. `fill` gets exactly `len` bytes of unspecified content and has to
    /// write all of them, beginning with the encapsulation header (RTPS 2.5 §10.2). The writer neither copies nor
    /// checks the bytes: they have to be a value of the topic's type in the representation that the writer offers,
    /// padded to a multiple of four bytes. `instance` is the result of [`Self::register_instance`], or
    /// [`InstanceHandle::NIL`] on a topic without keys.
    ///
    /// # Errors
    /// [`BadParameter::OutOfRange`] for a `len` without room for the header; [`BadParameter::TooLong`] for a `len` of
    /// more than 2,147,483,647 bytes; see also [`Self::write`].
    pub fn write_serialized(
        &self,
        instance: InstanceHandle,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<SequenceNumber, Error> {
        if len < ENCAPSULATION_BYTES {
            return Err(too_short(len));
        }
        let fill = |bytes: &mut [u8]| {
            fill(bytes);
            Ok(())
        };
        self.inner.check_instance(instance)?;
        let (guard, filled) = self.inner.fill_payload(len, fill)?;
        // Another thread, or `fill`, may have unregistered the instance.
        if !guard.writer.is_registered(&instance) {
            self.inner.check_instance(instance)?;
        }
        let now = now();
        self.inner.put_filled(guard, instance, wall_at(now), filled, None, now)
    }

    /// Registers an instance before it is written, and returns its handle. Blocks for at most `max_blocking_time` while
    /// an unregistered instance occupies the last place, until the readers have acknowledged its samples (DDS 1.4
    /// §2.2.2.4.2.5).
    ///
    /// # Errors
    /// [`Error::OutOfResources`] past `max_instances`; [`Error::Timeout`] if readers do not acknowledge in time;
    /// [`Error::Encode`] for a key that cannot be encoded; [`Error::NotEnabled`]; [`Error::AlreadyDeleted`].
    pub fn register_instance(&self, key_holder: &T) -> Result<InstanceHandle, Error> {
        let instance = instance_of(key_holder);
        let mut state = self.inner.core.lock();
        self.inner.check_usable(&mut state)?;
        let (mut state, mut key) = self.inner.key_if_new(state, instance, key_holder)?;
        if !state.writer.can_register_instance(&instance) {
            drop(state);
            let free = self.inner.wait_for_place_of(instance)?;
            // Meanwhile another thread may have registered instances.
            (state, key) = self.inner.key_if_new(free, instance, key_holder)?;
        }
        state.writer.register_instance(instance).map_err(|_| self.inner.too_many_instances())?;
        self.inner.note_key(ChangeKind::Alive, instance, key);
        Ok(instance)
    }

    /// Registers an instance before it is written (`register_instance_w_timestamp`, DDS 1.4 §2.2.2.4.2.6). Registration
    /// sends no message, so readers get the source timestamp of the first sample instead of `source_timestamp`.
    ///
    /// # Errors
    /// See [`Self::register_instance`].
    pub fn register_instance_at(&self, key_holder: &T, _source_timestamp: Timestamp) -> Result<InstanceHandle, Error> {
        self.register_instance(key_holder)
    }

    /// The handle of an instance that this writer has registered or written; `None` if there is none, or if the writer
    /// is deleted.
    #[must_use]
    pub fn lookup_instance(&self, key_holder: &T) -> Option<InstanceHandle> {
        let instance = instance_of(key_holder);
        if self.inner.core.is_closed() {
            return None;
        }
        lock(&self.inner.keys).contains_key(&instance).then_some(instance)
    }

    /// The key of an instance that this writer has registered or written, in a value whose other members have their
    /// defaults.
    ///
    /// # Errors
    /// [`Error::BadParameter`] if this writer has not registered the instance; [`Error::NotEnabled`];
    /// [`Error::AlreadyDeleted`].
    pub fn get_key_value(&self, instance: InstanceHandle) -> Result<T, Error> {
        self.inner.check_open()?;
        let key = lock(&self.inner.keys).get(&instance).cloned();
        let key = key.ok_or(BadParameter::UnknownInstance(instance))?;
        Ok(run_user_code(|| decode_key_holder(&key))?)
    }

    /// Disposes the instance: the data object no longer exists. The call registers an instance that this writer has not
    /// registered (DDS 1.4 §2.2.2.4.2.13).
    ///
    /// # Errors
    /// See [`Self::write`]; [`Error::PreconditionNotMet`] for a topic without keys.
    pub fn dispose(&self, key_holder: &T) -> Result<SequenceNumber, Error> {
        self.dispose_at(key_holder, wall())
    }

    /// Disposes the instance with a source timestamp that the application chooses (`dispose_w_timestamp`).
    ///
    /// # Errors
    /// See [`Self::dispose`].
    pub fn dispose_at(&self, key_holder: &T, source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.end(key_holder, ChangeKind::Disposed, source_timestamp)
    }

    /// Unregisters the instance: this writer no longer writes it. With `autodispose_unregistered_instances`, which is
    /// the default, the instance is disposed as well (DDS 1.4 §2.2.2.4.2.7).
    ///
    /// # Errors
    /// See [`Self::dispose`]; [`Error::PreconditionNotMet`] if this writer has not registered the instance, or has
    /// unregistered it already.
    pub fn unregister_instance(&self, key_holder: &T) -> Result<SequenceNumber, Error> {
        self.unregister_instance_at(key_holder, wall())
    }

    /// Unregisters the instance with a source timestamp that the application chooses
    /// (`unregister_instance_w_timestamp`).
    ///
    /// # Errors
    /// See [`Self::unregister_instance`].
    pub fn unregister_instance_at(&self, key_holder: &T, source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.end(key_holder, self.inner.unregistering(), source_timestamp)
    }

    fn end(&self, key_holder: &T, kind: ChangeKind, source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        if !T::HAS_KEY {
            return Err(Precondition::NoKeys { topic: Arc::clone(&self.inner.core.topic.name) }.into());
        }
        let instance = instance_of(key_holder);
        let payload = self.inner.serialized_key(key_holder)?;
        let mut guard = self.inner.core.lock();
        self.inner.check_usable(&mut guard)?;
        if kind.unregisters() && !lock(&self.inner.keys).contains_key(&instance) {
            return Err(Precondition::NotRegistered(instance).into());
        }
        let (guard, key) = self.inner.key_if_new(guard, instance, key_holder)?;
        self.inner.put(guard, ending(kind, instance, payload, source_timestamp), key, now())
    }
}

/// The error of a payload that is too short for an encapsulation header.
#[cold]
pub(super) fn too_short(len: usize) -> Error {
    let (min, max) = (ENCAPSULATION_BYTES as u64, PAYLOAD_BYTES_MAX as u64);
    BadParameter::OutOfRange { argument: Argument::PayloadLength, value: len as u64, min, max, unit: Unit::Bytes }
        .into()
}

impl<T: DdsType> WriterInner<T> {
    fn write_at_moment(&self, value: &T, source_timestamp: Timestamp, at: Instant) -> Result<SequenceNumber, Error> {
        let (guard, instance, filled) = self.encode(value)?;
        let (guard, key) = self.key_if_new(guard, instance, value)?;
        self.put_filled(guard, instance, source_timestamp, filled, key, at)
    }

    /// Encodes a value and finds its instance. Returns with the writer locked.
    pub(super) fn encode(&self, value: &T) -> Result<(StateGuard<'_, WriterState>, KeyHash, Filled), Error> {
        let representation = self.enabled()?.representation;
        let instance = instance_of(value);
        let len = run_user_code(|| encoded_len(value, representation));
        let (guard, filled) = self.fill_payload(len, |bytes| {
            encode(value, representation, Endianness::NATIVE, bytes)?;
            Ok(())
        })?;
        Ok((guard, instance, filled))
    }

    /// The serialized key of an instance that this writer has not registered; `None` for one that is registered.
    /// Encodes the key without the lock.
    ///
    /// # Errors
    /// [`Error::OutOfResources`] if `max_instances` are registered: only the application can unregister one, so waiting
    /// would not help (DDS 1.4 §2.2.2.4.2.11).
    pub(super) fn key_if_new<'c>(
        &'c self,
        guard: StateGuard<'c, WriterState>,
        instance: KeyHash,
        value: &T,
    ) -> Result<(StateGuard<'c, WriterState>, Option<Vec<u8>>), Error> {
        self.made_key_if_new(guard, instance, || Ok(serialized_key(value)?))
    }

    /// The serialized key as it is sent.
    fn serialized_key(&self, key_holder: &T) -> Result<Vec<u8>, Error> {
        let representation = self.enabled()?.representation;
        run_user_code(|| {
            let mut bytes = vec![0; encoded_key_len(key_holder, representation)];
            encode_key(key_holder, representation, Endianness::NATIVE, &mut bytes)?;
            Ok(bytes)
        })
    }
}
