//! The types of RTI Perftest that DDS matches by name.

use std::sync::OnceLock;

use peregrine::DdsType;
use peregrine::xtypes::flat::{self, FlatError};
use peregrine::xtypes::{BoundedVec, Representation, encoded_len};

use crate::messaging::sample::Sample;
use crate::payload;

/// Largest payload of the bounded types.
const BOUND: usize = crate::plan::MAX_BOUNDED_LEN;

/// One of the types of a test. Samples are written and read in serialized form, see [`crate::messaging::Sample`]; the
/// structures describe that form to DDS.
pub trait TestType: DdsType + Send + Sync + 'static {
    /// Whether samples are built in place, in their XCDR2 form.
    const IS_FLAT: bool = false;

    /// A value of the instance with this key.
    fn with_key(key: [u8; 4]) -> Self;

    /// Bytes of a sample as DDS writes it, including encapsulation header and padding to a multiple of four.
    #[inline]
    fn serialized_len(sample: &Sample<'_>) -> usize {
        sample.serialized_len()
    }

    /// Writes the sample as DDS does, into a buffer of [`Self::serialized_len`] bytes. `checked`: whether subscribers
    /// check payloads.
    #[inline]
    fn serialize_into(sample: &Sample<'_>, buffer: &mut [u8], _checked: bool) {
        sample.serialize_into(buffer);
    }

    /// Parses a serialized payload of DDS.
    #[inline]
    fn parse(bytes: &[u8]) -> Option<Sample<'_>> {
        Sample::from_serialized(bytes).ok()
    }
}

/// Payloads up to this length are copied even with zero copy: those of control messages are.
const COPIED_LEN: usize = 2048;

macro_rules! test_types {
    ($($(#[$doc:meta])* $name:ident = $idl_name:literal, $(#[$key:meta])? $payload:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, DdsType)]
        #[dds(name = $idl_name, extensibility = "final")]
        pub struct $name {
            $(#[$key])?
            key: [u8; 4],
            entity_id: i32,
            seq_num: u32,
            timestamp_sec: i32,
            timestamp_usec: u32,
            latency_ping: i32,
            bin_data: $payload,
        }

        impl TestType for $name {
            fn with_key(key: [u8; 4]) -> Self {
                Self { key, ..Self::default_value() }
            }
        }
    )*};
}

test_types! {
    /// Without a key, up to 65470 bytes of payload.
    TestData = "TestData_t", BoundedVec<u8, BOUND>;
    /// With a key, up to 65470 bytes of payload.
    TestDataKeyed = "TestDataKeyed_t", #[dds(key)] BoundedVec<u8, BOUND>;
    /// Without a key, payload without a bound.
    TestDataLarge = "TestDataLarge_t", Vec<u8>;
    /// With a key, payload without a bound.
    TestDataKeyedLarge = "TestDataKeyedLarge_t", #[dds(key)] Vec<u8>;
}

/// FlatData types: mutable, so that the bytes describe each member.
macro_rules! flat_types {
    ($($(#[$doc:meta])* $name:ident = $idl_name:literal, $copy:path $(, #[$key:meta])?;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, DdsType)]
        #[dds(name = $idl_name, extensibility = "mutable", flat)]
        pub struct $name {
            $(#[$key])?
            key: [u8; 4],
            entity_id: i32,
            seq_num: u32,
            timestamp_sec: i32,
            timestamp_usec: u32,
            latency_ping: i32,
            bin_data: Vec<u8>,
        }

        impl TestType for $name {
            const IS_FLAT: bool = true;

            fn with_key(key: [u8; 4]) -> Self {
                Self { key, ..Self::default_value() }
            }

            #[inline]
            fn serialized_len(sample: &Sample<'_>) -> usize {
                // The payload is last, and the bytes before do not depend on it.
                static EMPTY: OnceLock<usize> = OnceLock::new();
                let empty = EMPTY.get_or_init(|| encoded_len(&Self::default_value(), Representation::Xcdr2));
                (empty + sample.payload.len()).next_multiple_of(4)
            }

            fn serialize_into(sample: &Sample<'_>, buffer: &mut [u8], checked: bool) {
                let build = |buffer| -> Result<(), FlatError> {
                    let high = (sample.timestamp >> 32) as i32;
                    flat::builder::<Self>(buffer)?
                        .key(&sample.key)?
                        .entity_id(sample.entity_id)?
                        .seq_num(sample.seq_num)?
                        .timestamp_sec(high)?
                        .timestamp_usec(sample.timestamp as u32)?
                        .latency_ping(sample.latency_ping)?
                        .bin_data_with(|mut octets| {
                            octets.fill(sample.payload.len(), |octets| $copy(octets, sample, checked))?;
                            octets.finish()
                        })?
                        .finish()
                        .map(drop)
                };
                build(buffer).expect("a buffer of the sample's length holds it");
            }

            #[inline]
            fn parse(bytes: &[u8]) -> Option<Sample<'_>> {
                let view = flat::view::<Self>(bytes).ok()?;
                let high = u64::from(view.timestamp_sec().cast_unsigned());
                Some(Sample {
                    key: view.key().as_slice()?.try_into().ok()?,
                    entity_id: view.entity_id(),
                    seq_num: view.seq_num(),
                    timestamp: high << 32 | u64::from(view.timestamp_usec()),
                    latency_ping: view.latency_ping(),
                    origin: Sample::NO_ORIGIN,
                    payload: view.bin_data().as_slice()?,
                })
            }
        }
    )*};
}

flat_types! {
    /// FlatData without a key.
    TestDataFlat = "TestData_FlatData_t", copy_all;
    /// FlatData with a key.
    TestDataKeyedFlat = "TestDataKeyed_FlatData_t", copy_all, #[dds(key)];
    /// FlatData without a key, for large payloads.
    TestDataLargeFlat = "TestDataLarge_FlatData_t", copy_all;
    /// FlatData with a key, for large payloads.
    TestDataKeyedLargeFlat = "TestDataKeyedLarge_FlatData_t", copy_all, #[dds(key)];
    /// Zero copy without a key.
    TestDataZeroCopy = "TestData_ZeroCopy_w_FlatData_t", copy_what_is_checked;
    /// Zero copy with a key.
    TestDataKeyedZeroCopy = "TestDataKeyed_ZeroCopy_w_FlatData_t", copy_what_is_checked, #[dds(key)];
    /// Zero copy without a key, for large payloads.
    TestDataLargeZeroCopy = "TestDataLarge_ZeroCopy_w_FlatData_t", copy_what_is_checked;
    /// Zero copy with a key, for large payloads.
    TestDataKeyedLargeZeroCopy = "TestDataKeyedLarge_ZeroCopy_w_FlatData_t", copy_what_is_checked, #[dds(key)];
}

#[inline]
fn copy_all(octets: &mut [u8], sample: &Sample<'_>, _: bool) {
    octets.copy_from_slice(sample.payload);
}

/// An application with zero copy creates its sample in place and need not rewrite all of it. So only the bytes of a
/// large payload that subscribers check are written: none if they do not check.
#[inline]
fn copy_what_is_checked(octets: &mut [u8], sample: &Sample<'_>, checked: bool) {
    if octets.len() <= COPIED_LEN {
        copy_all(octets, sample, checked);
    } else if checked {
        payload::copy_some(octets, sample.payload, sample.pattern_number());
    }
}

#[cfg(test)]
mod tests {
    use peregrine::xtypes::{Endianness, Representation, encode, encoded_len, key_hash};

    use super::*;
    use crate::messaging::Sample;

    /// The serialized form is the type's encoding, in either encoding version.
    #[test]
    fn sample_bytes_equal_the_encoding() {
        let value = TestDataKeyed {
            key: [1, 2, 3, 4],
            entity_id: 5,
            seq_num: 6,
            timestamp_sec: 7,
            timestamp_usec: 8,
            latency_ping: -1,
            bin_data: BoundedVec::try_from(vec![9, 10, 11]).unwrap(),
        };
        let sample = Sample {
            key: [1, 2, 3, 4],
            entity_id: 5,
            seq_num: 6,
            timestamp: 7 << 32 | 8,
            latency_ping: -1,
            origin: Sample::NO_ORIGIN,
            payload: &[9, 10, 11],
        };
        for representation in [Representation::Xcdr1, Representation::Xcdr2] {
            let mut bytes = vec![0; encoded_len(&value, representation)];
            encode(&value, representation, Endianness::Little, &mut bytes).unwrap();
            assert_eq!(Sample::from_serialized(&bytes), Ok(sample));
        }
        let mut bytes = vec![0xaa; sample.serialized_len()];
        sample.serialize_into(&mut bytes);
        let mut expected = vec![0; encoded_len(&value, Representation::Xcdr1)];
        encode(&value, Representation::Xcdr1, Endianness::Little, &mut expected).unwrap();
        assert_eq!(bytes, expected);
    }

    fn flat_sample_is_the_encoding<T: TestType + std::fmt::Debug>() {
        let octets: Vec<u8> = (0..70_000_u32).map(|byte| byte as u8).collect();
        for len in [0, 1, 2, 3, 4, 100, 3000, 70_000] {
            let mut sample = Sample { seq_num: 6, timestamp: 7 << 32 | 8, ..Sample::data(5, &octets[..len]) };
            sample.key = [1, 2, 3, 4];
            let mut bytes = vec![0; T::serialized_len(&sample)];
            T::serialize_into(&sample, &mut bytes, true);
            let parsed = T::parse(&bytes).unwrap();
            assert_eq!(
                (Sample { payload: &[], ..parsed }, parsed.payload.len()),
                (Sample { payload: &[], ..sample }, len)
            );
            let is_whole = len <= COPIED_LEN || T::TYPE_NAME.ends_with("_FlatData_t") && !T::TYPE_NAME.contains("Zero");
            assert_eq!(parsed.payload == sample.payload, is_whole, "{len}");
            // An ordinary reader of the type reads the same value.
            let value: T = peregrine::xtypes::decode(&bytes).unwrap();
            let mut encoded = vec![0; encoded_len(&value, Representation::Xcdr2)];
            encode(&value, Representation::Xcdr2, Endianness::NATIVE, &mut encoded).unwrap();
            assert!(encoded == bytes, "{len}");
            assert!(T::parse(&bytes[..bytes.len() - 4]).is_none());
        }
        assert!(T::parse(&[0; 40]).is_none() && T::parse(&[]).is_none());
    }

    #[test]
    fn flat_sample_is_built_and_read_in_place() {
        flat_sample_is_the_encoding::<TestDataFlat>();
        flat_sample_is_the_encoding::<TestDataKeyedLargeFlat>();
        flat_sample_is_the_encoding::<TestDataKeyedZeroCopy>();
    }

    #[test]
    fn key_hash_equals_the_key() {
        assert_eq!(key_hash(&TestDataKeyedLarge::with_key([1, 2, 3, 4]))[..5], [1, 2, 3, 4, 0]);
        const { assert!(TestDataKeyed::HAS_KEY && !TestData::HAS_KEY && !TestDataLarge::HAS_KEY) };
    }
}
