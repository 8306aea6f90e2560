//! Encoding and decoding of whole payloads: the functions at the crate root.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::decoder::Decoder;
use crate::encapsulation::{Encapsulation, Endianness, Extensibility, Representation};
use crate::encoder::{Encoder, Form};
use crate::error::{DecodeError, EncodeError};
use crate::extent::padding;
use crate::plain;
use crate::sink::{CountingSink, KeyHashSink, Sink, SliceSink};
use crate::types::{DdsType, unwritable};

/// The content of a payload: RTPS flags `D` and `K` of the DATA submessage (RTPS 2.5 §9.4.5.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadKind {
    /// A sample.
    Data,
    /// The key of an instance.
    Key,
}

impl From<PayloadKind> for Form {
    fn from(kind: PayloadKind) -> Self {
        match kind {
            PayloadKind::Data => Self::Data,
            PayloadKind::Key => Self::Key,
        }
    }
}

/// The size in bytes of the payload that [`encode`] writes: encapsulation header, body, padding to a multiple of 4.
///
/// For a value that has no encoding, the size up to the point at which [`encode`] detects that: a buffer of this size
/// is always large enough for `encode` to succeed or to return the error of the value.
#[must_use]
pub fn encoded_len<T: DdsType>(value: &T, representation: Representation) -> usize {
    count(value, representation, Form::Data)
}

/// Writes a payload to the start of `buffer` and returns its size in bytes. With [`Endianness::NATIVE`], values are
/// copied instead of swapped. Nothing is allocated.
///
/// # Errors
/// [`EncodeError::BufferTooSmall`] when the buffer has less than [`encoded_len`] bytes; the other errors name the part
/// of the value that has no encoding.
pub fn encode<T: DdsType>(
    value: &T,
    representation: Representation,
    endianness: Endianness,
    buffer: &mut [u8],
) -> Result<usize, EncodeError> {
    write(value, representation, endianness, Form::Data, buffer)
}

/// The size in bytes of the payload that [`encode_key`] writes, like [`encoded_len`].
#[must_use]
pub fn encoded_key_len<T: DdsType>(value: &T, representation: Representation) -> usize {
    count(value, representation, Form::Key)
}

/// Writes the serialized key of a sample, as it is sent when an instance is disposed or unregistered: the KeyHolder
/// with the extensibility of the type (RTPS 2.5 §9.4.5.4.1, XTypes 1.3 §7.6.8).
///
/// # Errors
/// The errors of [`encode`].
pub fn encode_key<T: DdsType>(
    value: &T,
    representation: Representation,
    endianness: Endianness,
    buffer: &mut [u8],
) -> Result<usize, EncodeError> {
    write(value, representation, endianness, Form::Key, buffer)
}

/// Reads a sample.
///
/// # Errors
/// The reason why the payload is refused, and its offset.
pub fn decode<T: DdsType>(payload: &[u8]) -> Result<T, DecodeError> {
    T::decode(&mut Decoder::new(payload, T::EXTENSIBILITY, Form::Data)?)
}

/// Reads a sample into an [`Arc`]. A [plain](crate#plain-types) value in the byte order of this machine does not pass
/// through the stack.
///
/// # Errors
/// The errors of [`decode`].
pub fn decode_shared<T: DdsType>(payload: &[u8]) -> Result<Arc<T>, DecodeError> {
    let mut decoder = Decoder::new(payload, T::EXTENSIBILITY, Form::Data)?;
    match plain::decoded_shared(&mut decoder) {
        Some(value) => Ok(value),
        None => decode_on_stack(payload),
    }
}

/// Not inlined: a value that is copied in place must not need stack.
#[inline(never)]
fn decode_on_stack<T: DdsType>(payload: &[u8]) -> Result<Arc<T>, DecodeError> {
    decode(payload).map(Arc::new)
}

/// Reads a serialized key into a sample whose other members have their defaults.
///
/// # Errors
/// The reason why the payload is refused, and its offset.
pub fn decode_key_holder<T: DdsType>(payload: &[u8]) -> Result<T, DecodeError> {
    let mut decoder = Decoder::new(payload, T::EXTENSIBILITY, Form::Key)?;
    if T::HAS_KEY { T::decode(&mut decoder) } else { Ok(T::default_value()) }
}

/// Reads a serialized key.
///
/// # Errors
/// The reason why the payload is refused, and its offset.
pub fn decode_key<T: DdsType>(payload: &[u8]) -> Result<T::Key, DecodeError> {
    decode_key_holder::<T>(payload).map(|holder| holder.key())
}

/// The key of a sample: a tuple of its key members.
#[must_use]
pub fn key_of<T: DdsType>(value: &T) -> T::Key {
    value.key()
}

/// The key hash of a sample (RTPS 2.5 §9.6.4.8): the KeyHolder in big-endian PLAIN_CDR2, filled with zeros when the
/// type's greatest key takes at most 16 bytes, else its MD5 digest. Zero without a key. A key that [`encode`] refuses
/// has no meaningful hash: it cannot be sent.
#[must_use]
pub fn key_hash<T: DdsType>(value: &T) -> [u8; 16] {
    if !T::HAS_KEY {
        return [0; 16];
    }
    let mut sink = key_hash_sink::<T>();
    // An error is that of `encode`, which the caller meets before the hash can matter.
    let _ = value.encode(&mut Encoder::new(&mut sink, Representation::Xcdr2, Endianness::Big, Form::KeyHash));
    sink.finish()
}

/// The key hash of a payload, computed while walking over it. Only a key that holds maps, or collections whose
/// elements are not primitive, makes this allocate.
///
/// # Errors
/// The reason why the payload is refused, and its offset. Bytes behind the last key member are not checked.
pub fn key_hash_of_payload<T: DdsType>(payload: &[u8], kind: PayloadKind) -> Result<[u8; 16], DecodeError> {
    let mut decoder = Decoder::new(payload, T::EXTENSIBILITY, kind.into())?;
    if !T::HAS_KEY {
        return Ok([0; 16]);
    }
    let mut sink = key_hash_sink::<T>();
    let mut encoder = Encoder::new(&mut sink, Representation::Xcdr2, Endianness::Big, Form::KeyHash);
    T::transcode_key(&mut decoder, &mut encoder)?;
    Ok(sink.finish())
}

/// The MD5 digest of the key in a payload: the key hash beside an encrypted payload (DDS Security 1.2 §7.4.4), also of
/// a key with at most 16 bytes.
///
/// # Errors
/// As of [`key_hash_of_payload`].
pub fn key_digest_of_payload<T: DdsType>(payload: &[u8], kind: PayloadKind) -> Result<[u8; 16], DecodeError> {
    let mut decoder = Decoder::new(payload, T::EXTENSIBILITY, kind.into())?;
    let mut sink = KeyHashSink::new(None, T::TOPIC_KEY.delimited);
    let mut encoder = Encoder::new(&mut sink, Representation::Xcdr2, Endianness::Big, Form::KeyHash);
    T::transcode_key(&mut decoder, &mut encoder)?;
    Ok(sink.finish())
}

/// The key hash of a KeyHolder in big-endian PLAIN_CDR2 without encapsulation header (RTPS 2.5 §9.6.4.8): the key,
/// filled with zeros, when the type's greatest key takes at most 16 bytes, else the MD5 digest of the key. `max_size`
/// is the greatest size in bytes of a key of the type; `None` without a limit.
///
/// A key that is longer than its type allows is cut off.
#[must_use]
pub fn key_hash_of_serialized_key(key: &[u8], max_size: Option<usize>) -> [u8; 16] {
    let mut sink = KeyHashSink::new(max_size, false);
    let fits = if max_size.is_some_and(|max| max <= 16) { key.get(..16).unwrap_or(key) } else { key };
    // The sink of a hash accepts all bytes that fit.
    let _ = sink.put(fits);
    sink.finish()
}

/// The serialized key in a payload, in the form that [`encode_key`] writes in this representation and the native byte
/// order. Only the key members are read, and no value of the type is made: [`decode`] of a type of several MiB needs as
/// much stack, this function does not.
///
/// The result has at most the size of the payload, plus that of the defaults of key members that the payload leaves
/// out, and headers.
///
/// # Errors
/// The reason why the payload is refused, and its offset. Members that are not part of the key are checked only as far
/// as needed to skip them.
pub fn serialized_key_of_payload<T: DdsType>(
    payload: &[u8],
    kind: PayloadKind,
    representation: Representation,
) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = Decoder::new(payload, T::EXTENSIBILITY, kind.into())?;
    let mut key = Vec::from([0; Encapsulation::LEN]);
    let mut encoder = Encoder::new(&mut key, representation, Endianness::NATIVE, Form::Key);
    if T::HAS_KEY {
        T::transcode_key(&mut decoder, &mut encoder)?;
    } else {
        put_empty::<T, _>(&mut encoder).map_err(|error| unwritable(&decoder, error))?;
    }
    end_payload::<T, _>(representation, Endianness::NATIVE, &mut key).map_err(|error| unwritable(&decoder, error))?;
    Ok(key)
}

fn key_hash_sink<T: DdsType>() -> KeyHashSink {
    KeyHashSink::new(T::KEY_MAX_SIZE, T::TOPIC_KEY.delimited)
}

fn count<T: DdsType>(value: &T, representation: Representation, form: Form) -> usize {
    let mut sink = CountingSink::default();
    // An error stops `write` at the same position.
    let _ = put_payload(value, representation, Endianness::NATIVE, form, &mut sink);
    sink.position()
}

fn write<T: DdsType>(
    value: &T,
    representation: Representation,
    endianness: Endianness,
    form: Form,
    buffer: &mut [u8],
) -> Result<usize, EncodeError> {
    let mut sink = SliceSink::new(buffer);
    put_payload(value, representation, endianness, form, &mut sink)?;
    Ok(sink.position())
}

fn put_payload<T: DdsType, S: Sink>(
    value: &T,
    representation: Representation,
    endianness: Endianness,
    form: Form,
    sink: &mut S,
) -> Result<(), EncodeError> {
    sink.put(&[0; Encapsulation::LEN])?;
    put_body(value, &mut Encoder::new(sink, representation, endianness, form))?;
    end_payload::<T, S>(representation, endianness, sink)
}

/// Pads a payload, and writes the encapsulation header into the bytes left for it.
fn end_payload<T: DdsType, S: Sink>(
    representation: Representation,
    endianness: Endianness,
    sink: &mut S,
) -> Result<(), EncodeError> {
    let padding = padding(sink.position(), 4);
    sink.put([0; 3].get(..padding).unwrap_or_default())?;
    sink.patch(0, Encapsulation::new(representation, T::EXTENSIBILITY, endianness, padding).to_bytes());
    Ok(())
}

fn put_body<T: DdsType, S: Sink>(value: &T, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
    if T::HAS_KEY || encoder.form() == Form::Data {
        return value.encode(encoder);
    }
    put_empty::<T, S>(encoder)
}

/// The key of a type without key members.
fn put_empty<T: DdsType, S: Sink>(encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
    let length = encoder.begin_aggregate(T::EXTENSIBILITY)?;
    encoder.end_aggregate(T::EXTENSIBILITY, length)
}

/// The properties of a type that a protocol needs, without being generic over the type.
#[derive(Clone, Copy, Debug)]
pub struct TypeSupport {
    /// [`DdsType::TYPE_NAME`].
    pub type_name: &'static str,
    /// [`DdsType::EXTENSIBILITY`].
    pub extensibility: Extensibility,
    /// [`DdsType::HAS_KEY`].
    pub has_key: bool,
    /// [`DdsType::MAX_SIZE`], in bytes.
    pub max_size: Option<usize>,
    /// [`DdsType::KEY_MAX_SIZE`], in bytes.
    pub key_max_size: Option<usize>,
    /// Whether received XCDR1 payloads can be borrowed as values.
    pub borrowable_xcdr1: bool,
    /// Whether received XCDR2 payloads can be borrowed as values.
    pub borrowable_xcdr2: bool,
    /// [`key_hash_of_payload`].
    pub key_hash_of_payload: fn(&[u8], PayloadKind) -> Result<[u8; 16], DecodeError>,
}

impl TypeSupport {
    /// That of `T`.
    #[must_use]
    pub const fn of<T: DdsType>() -> Self {
        Self {
            type_name: T::TYPE_NAME,
            extensibility: T::EXTENSIBILITY,
            has_key: T::HAS_KEY,
            max_size: T::MAX_SIZE,
            key_max_size: T::KEY_MAX_SIZE,
            borrowable_xcdr1: T::LAYOUT.is_borrowable(Representation::Xcdr1),
            borrowable_xcdr2: T::LAYOUT.is_borrowable(Representation::Xcdr2),
            key_hash_of_payload: key_hash_of_payload::<T>,
        }
    }
}
