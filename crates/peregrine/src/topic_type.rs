//! The type of a topic, as its endpoints see it: a Rust type, or the description that the application gives of
//! serialized samples.

use std::fmt;
use std::sync::Arc;

use peregrine_rtps::discovery::data::NAME_BYTES_MAX;
use peregrine_rtps::history::{KeyDigest, KeyHolder};
use peregrine_rtps::id::KeyHash;
use peregrine_rtps::reader::{FoundInstance, KeyExtractor};
use peregrine_xtypes::{
    DdsType, EncodeError, Endianness, PayloadKind, Representation, encode_key, encoded_key_len, is_generated,
    key_digest_of_payload, key_hash, key_hash_of_payload, key_hash_of_serialized_key, serialized_key_of_payload,
};

use crate::InstanceHandle;
use crate::driver::base::user_code::{note_panic, run_caught, run_user_code};
use crate::error::{Argument, BadParameter, Error};

/// The type parameter of a [`Topic`](crate::Topic): a [`DdsType`], or [`Serialized`]. No other type implements this
/// trait.
pub trait TopicType: sealed::Sealed {}

/// Samples that their endpoint neither encodes nor decodes, of a type that is named at run time
/// ([`DomainParticipant::serialized_topic`](crate::DomainParticipant::serialized_topic)).
///
/// [`DataReader<Serialized>`](crate::DataReader) lends samples, [`DataWriter<Serialized>`](crate::DataWriter) writes
/// bytes.
#[derive(Clone, Copy, Debug)]
pub enum Serialized {}

/// A type of which the application knows the name and, if the type has a key, how to find the key in serialized
/// samples.
#[derive(Clone)]
pub struct SerializedType {
    name: Arc<str>,
    keys: Keys,
    max_size: Option<u32>,
}

/// Finds the instance in a payload. See [`SerializedType::with_key`].
pub(crate) type FindInstance = dyn Fn(&[u8], PayloadKind) -> Option<InstanceHandle> + Send + Sync;

/// How endpoints of a topic find the instance of a sample.
#[derive(Clone)]
pub(crate) enum Keys {
    /// The type has no key.
    None,
    /// By generated functions, which call no code of the application and may run under a lock.
    Generated(KeyExtractor, KeyHolder, KeyDigest),
    /// By functions of a hand-written type, which run under no lock.
    HandWritten(KeyExtractor, KeyHolder),
    /// By a closure of the application, which runs under no lock.
    Application(Arc<FindInstance>),
}

impl<T: DdsType> TopicType for T {}
impl TopicType for Serialized {}

pub(crate) mod sealed {
    use super::{DdsType, PayloadKind, Representation, Serialized, serialized_key_of_payload};

    pub trait Sealed: Clone + 'static {
        /// Whether the type has a key; `None` if only the run-time description states this.
        const KEYED: Option<bool>;
        /// Whether a writer without a DATA_REPRESENTATION policy writes XCDR2.
        const WRITES_XCDR2: bool;

        /// Converts a serialized key, as an endpoint keeps it, into this representation; `None` if that is not
        /// possible.
        fn key_in(representation: Representation, key: &[u8]) -> Option<Vec<u8>>;

        /// The serialized key in a payload, as an endpoint keeps it; `None` if the payload is no value of the type.
        fn kept_key(payload: &[u8], kind: PayloadKind) -> Option<Vec<u8>>;
    }

    impl<T: DdsType> Sealed for T {
        const KEYED: Option<bool> = Some(T::HAS_KEY);
        const WRITES_XCDR2: bool = T::IS_FLAT;

        fn key_in(representation: Representation, key: &[u8]) -> Option<Vec<u8>> {
            serialized_key_of_payload::<T>(key, PayloadKind::Key, representation).ok()
        }

        fn kept_key(payload: &[u8], kind: PayloadKind) -> Option<Vec<u8>> {
            serialized_key_of_payload::<T>(payload, kind, Representation::Xcdr2).ok()
        }
    }

    impl Sealed for Serialized {
        const KEYED: Option<bool> = None;
        const WRITES_XCDR2: bool = false;

        /// An endpoint of serialized samples keeps no keys.
        fn key_in(_: Representation, _: &[u8]) -> Option<Vec<u8>> {
            None
        }

        /// The stand-in for a key: the instance is registered.
        fn kept_key(_: &[u8], _: PayloadKind) -> Option<Vec<u8>> {
            Some(Vec::new())
        }
    }
}

impl SerializedType {
    /// A type without a key.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), keys: Keys::None, max_size: None }
    }

    /// A type with a key. `find` returns the instance that a payload belongs to, or `None` if the payload is not a
    /// value of the type.
    ///
    /// The payload begins with its encapsulation header (RTPS 2.5 §10.2), which
    /// [`Encapsulation::parse`](crate::xtypes::Encapsulation::parse) reads: `find` has to understand each
    /// representation that the peers use. With [`PayloadKind::Key`] the payload is a serialized key, as comes with the
    /// end of an instance. [`Self::instance`] makes the handle from the key members.
    ///
    /// `find` runs under no lock: in the calls of writers, and for readers on the threads that run listeners, once for
    /// each sample. It has to be a function of its arguments. A panic counts as `None`. A reader then uses the key hash
    /// that the writer sent (PID_KEY_HASH, RTPS 2.5 §9.6.4.8); without one, the reader drops the sample and counts it
    /// in [`ReaderCounters::undecodable`](crate::DataReader::counters).
    #[must_use]
    pub fn with_key(
        name: impl Into<Arc<str>>,
        find: impl Fn(&[u8], PayloadKind) -> Option<InstanceHandle> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), keys: Keys::Application(Arc::new(find)), max_size: None }
    }

    /// The description of a Rust type, for endpoints whose samples stay serialized.
    #[must_use]
    pub fn of<T: DdsType>() -> Self {
        let max_size = T::MAX_SIZE.and_then(|size| u32::try_from(size).ok());
        Self { name: T::TYPE_NAME.into(), keys: Keys::of::<T>(), max_size }
    }

    /// The handle of the instance with this key: the key members in ascending order of member ids, in big-endian
    /// PLAIN_CDR2 without encapsulation header. `max_bytes` is the greatest size that a key of the type has in that
    /// form; `None` if the type sets no limit (RTPS 2.5 §9.6.4.8).
    #[must_use]
    pub fn instance(key: &[u8], max_bytes: Option<usize>) -> InstanceHandle {
        KeyHash(key_hash_of_serialized_key(key, max_bytes))
    }

    /// The name of the type.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the type has a key.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.keys.has_key()
    }

    pub(crate) const fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) const fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) const fn max_size(&self) -> Option<u32> {
        self.max_size
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.name.is_empty() {
            return Err(BadParameter::EmptyTypeName.into());
        }
        if self.name.len() > NAME_BYTES_MAX {
            let argument = Argument::TypeName;
            return Err(BadParameter::TooLong { argument, len: self.name.len(), max: NAME_BYTES_MAX }.into());
        }
        Ok(())
    }
}

impl Keys {
    fn of<T: DdsType>() -> Self {
        let (extractor, holder) = (KeyExtractor(key_of_payload::<T>), KeyHolder(key_holder_of_payload::<T>));
        let digest = KeyDigest(key_digest::<T>);
        match (T::HAS_KEY, is_generated::<T>()) {
            (false, _) => Self::None,
            (true, true) => Self::Generated(extractor, holder, digest),
            (true, false) => Self::HandWritten(extractor, holder),
        }
    }

    pub(crate) const fn has_key(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// The function for the digest of a key. It may run under a lock, so that types with code of the application have
    /// none.
    pub(crate) const fn digest(&self) -> Option<KeyDigest> {
        match self {
            Self::Generated(_, _, digest) => Some(*digest),
            Self::None | Self::HandWritten(..) | Self::Application(_) => None,
        }
    }

    /// Whether code of the application finds the instance of a sample.
    pub(crate) const fn is_user_code(&self) -> bool {
        matches!(self, Self::HandWritten(..) | Self::Application(_))
    }

    /// The instance of a payload. The caller must hold no lock. A panic of the application's code counts as a payload
    /// without an instance.
    pub(crate) fn instance_of(&self, payload: &[u8], kind: PayloadKind) -> Option<InstanceHandle> {
        let found = run_caught(|| match self {
            Self::None => Some(InstanceHandle::NIL),
            Self::Generated(KeyExtractor(extract), ..) | Self::HandWritten(KeyExtractor(extract), _) => {
                extract(payload, kind == PayloadKind::Key)
            }
            Self::Application(find) => find(payload, kind),
        });
        found.unwrap_or_else(|panic| {
            note_panic(panic, "the key function of a type has panicked");
            None
        })
    }

    /// The instance of a payload and, if readers keep it, the serialized key. The caller must hold no lock.
    pub(crate) fn find(&self, payload: &[u8], kind: PayloadKind) -> Option<FoundInstance> {
        let instance = self.instance_of(payload, kind)?;
        let key = match self {
            Self::HandWritten(_, KeyHolder(make)) => run_caught(|| make(payload, kind == PayloadKind::Key))
                .unwrap_or_else(|panic| {
                    note_panic(panic, "the key function of a type has panicked");
                    None
                }),
            Self::None | Self::Generated(..) | Self::Application(_) => None,
        };
        Some(FoundInstance { instance, key })
    }
}

/// The serialized key of a value, as [`decode_key_holder`](peregrine_xtypes::decode_key_holder) reads it.
pub(crate) fn serialized_key<T: DdsType>(value: &T) -> Result<Vec<u8>, EncodeError> {
    run_user_code(|| serialized_key_inline(value))
}

/// The serialized key of a value of a generated type, whose key functions may run under a lock.
pub(crate) fn serialized_key_inline<T: DdsType>(value: &T) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = vec![0; encoded_key_len(value, Representation::Xcdr2)];
    encode_key(value, Representation::Xcdr2, Endianness::NATIVE, &mut bytes)?;
    Ok(bytes)
}

/// The instance of a value.
pub(crate) fn instance_of<T: DdsType>(value: &T) -> KeyHash {
    if T::HAS_KEY { KeyHash(run_user_code(|| key_hash(value))) } else { KeyHash::NIL }
}

fn key_of_payload<T: DdsType>(payload: &[u8], is_key: bool) -> Option<KeyHash> {
    let kind = if is_key { PayloadKind::Key } else { PayloadKind::Data };
    key_hash_of_payload::<T>(payload, kind).ok().map(KeyHash)
}

fn key_digest<T: DdsType>(serialized_key: &[u8]) -> Option<KeyHash> {
    key_digest_of_payload::<T>(serialized_key, PayloadKind::Key).ok().map(KeyHash)
}

fn key_holder_of_payload<T: DdsType>(payload: &[u8], is_key: bool) -> Option<Vec<u8>> {
    let kind = if is_key { PayloadKind::Key } else { PayloadKind::Data };
    serialized_key_of_payload::<T>(payload, kind, Representation::Xcdr2).ok()
}

impl fmt::Debug for SerializedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SerializedType")
            .field("name", &self.name)
            .field("has_key", &self.has_key())
            .finish_non_exhaustive()
    }
}
