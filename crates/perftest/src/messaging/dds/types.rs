//! The four types of RTI Perftest that DDS matches by name.

use peregrine::DdsType;
use peregrine::xtypes::BoundedVec;

/// Largest payload of the bounded types.
const BOUND: usize = crate::plan::MAX_BOUNDED_LEN;

/// One of the types of a test. Samples are written and read in serialized form, see [`crate::messaging::Sample`]; the
/// structures tell DDS what that form means.
pub trait TestType: DdsType + Send + Sync + 'static {
    /// A value of the instance with this key.
    fn with_key(key: [u8; 4]) -> Self;
}

macro_rules! test_type {
    ($(#[$doc:meta])* $name:ident = $idl_name:literal, $(#[$key:meta])? $payload:ty) => {
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
    };
}

test_type! {
    /// Without a key, up to 65470 octets of payload.
    TestData = "TestData_t", BoundedVec<u8, BOUND>
}
test_type! {
    /// With a key, up to 65470 octets of payload.
    TestDataKeyed = "TestDataKeyed_t", #[dds(key)] BoundedVec<u8, BOUND>
}
test_type! {
    /// Without a key, payload without a bound.
    TestDataLarge = "TestDataLarge_t", Vec<u8>
}
test_type! {
    /// With a key, payload without a bound.
    TestDataKeyedLarge = "TestDataKeyedLarge_t", #[dds(key)] Vec<u8>
}

#[cfg(test)]
mod tests {
    use peregrine::xtypes::{Endianness, Representation, encode, encoded_len, key_hash};

    use super::*;
    use crate::messaging::Sample;

    /// The serialized form is the type's encoding, in either encoding version.
    #[test]
    fn a_sample_is_the_encoding_of_the_type() {
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

    #[test]
    fn the_key_hash_is_the_key() {
        assert_eq!(key_hash(&TestDataKeyedLarge::with_key([1, 2, 3, 4]))[..5], [1, 2, 3, 4, 0]);
        const { assert!(TestDataKeyed::HAS_KEY && !TestData::HAS_KEY && !TestDataLarge::HAS_KEY) };
    }
}
