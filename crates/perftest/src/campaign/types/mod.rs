//! The data types of campaigns: flat arrays, nested structures, point clouds, sequences.
//!
//! The names are those of Apex.AI performance_test. Some names there state less than the serialized size (its
//! structures repeat two members at every level); the shape is kept, and [`DataType::fixed_len`] returns the size.

mod flat;
mod in_place;
mod nested;
mod point_cloud;
mod stamp;

use std::fmt;

use peregrine::xtypes::{Representation, plain};
use serde::{Deserialize, Serialize};

pub(super) use self::flat::Octets;
pub use self::stamp::Stamp;
pub(super) use self::stamp::{SampleType, Stamped};

/// A function that is generic over the type.
pub(super) trait TypeTask {
    type Output;

    fn run<T: SampleType>(self) -> Self::Output;
}

macro_rules! data_types {
    ($($variant:ident = $name:literal, $type:ty, $len:expr;)*) => {
        /// A named type of samples.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum DataType {
            $(
                #[doc = concat!("`", $name, "`")]
                #[serde(rename = $name)]
                $variant,
            )*
        }

        impl DataType {
            /// All types.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Name in plans and records.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Bytes of the serialized form without encapsulation header; `None` if the plan sets the size.
            pub fn fixed_len(self) -> Option<u64> {
                match self { $(Self::$variant => $len,)* }
            }

            /// Bytes of a value in memory, without referenced memory.
            pub fn memory_len(self) -> usize {
                match self { $(Self::$variant => size_of::<$type>(),)* }
            }

            /// Whether an application can make samples of this type in loaned memory.
            pub fn can_be_made_in_place(self) -> bool {
                self == Self::Octets || self.is_plain()
            }

            fn is_plain(self) -> bool {
                let len = match self { $(Self::$variant => plain::payload_len::<$type>(Representation::Xcdr1),)* };
                len.is_some()
            }

            /// Runs a task with the type.
            pub(super) fn with<T: TypeTask>(self, task: T) -> T::Output {
                match self { $(Self::$variant => task.run::<$type>(),)* }
            }
        }
    };
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

data_types! {
    Octets = "octets", Octets, None;
    Array32 = "Array32", flat::Array32, Some(32);
    Array64 = "Array64", flat::Array64, Some(64);
    Array128 = "Array128", flat::Array128, Some(128);
    Array256 = "Array256", flat::Array256, Some(256);
    Array512 = "Array512", flat::Array512, Some(512);
    Array1k = "Array1k", flat::Array1k, Some(KIB);
    Array4k = "Array4k", flat::Array4k, Some(4 * KIB);
    Array16k = "Array16k", flat::Array16k, Some(16 * KIB);
    Array32k = "Array32k", flat::Array32k, Some(32 * KIB);
    Array60k = "Array60k", flat::Array60k, Some(60 * KIB);
    Array64k = "Array64k", flat::Array64k, Some(64 * KIB);
    Array256k = "Array256k", flat::Array256k, Some(256 * KIB);
    Array1m = "Array1m", flat::Array1m, Some(MIB);
    Array2m = "Array2m", flat::Array2m, Some(2 * MIB);
    Array4m = "Array4m", flat::Array4m, Some(4 * MIB);
    Array8m = "Array8m", flat::Array8m, Some(8 * MIB);
    Struct16 = "Struct16", nested::Struct16, Some(32);
    Struct256 = "Struct256", nested::Struct256, Some(528);
    Struct4k = "Struct4k", nested::Struct4k, Some(8_464);
    Struct32k = "Struct32k", nested::Struct32k, Some(67_728);
    PointCloud512k = "PointCloud512k", point_cloud::PointCloud512k, Some(point_cloud::FRAME_LEN + 512 * KIB);
    PointCloud1m = "PointCloud1m", point_cloud::PointCloud1m, Some(point_cloud::FRAME_LEN + MIB);
    PointCloud2m = "PointCloud2m", point_cloud::PointCloud2m, Some(point_cloud::FRAME_LEN + 2 * MIB);
    PointCloud4m = "PointCloud4m", point_cloud::PointCloud4m, Some(point_cloud::FRAME_LEN + 4 * MIB);
    PointCloud8m = "PointCloud8m", point_cloud::PointCloud8m, Some(point_cloud::FRAME_LEN + 8 * MIB);
    BoundedSequence1k = "BoundedSequence1k", flat::BoundedSequence1k, Some(flat::SEQUENCE_FRAME_LEN + KIB);
    BoundedSequence4k = "BoundedSequence4k", flat::BoundedSequence4k, Some(flat::SEQUENCE_FRAME_LEN + 4 * KIB);
    BoundedSequence16k = "BoundedSequence16k", flat::BoundedSequence16k, Some(flat::SEQUENCE_FRAME_LEN + 16 * KIB);
    BoundedSequence64k = "BoundedSequence64k", flat::BoundedSequence64k, Some(flat::SEQUENCE_FRAME_LEN + 64 * KIB);
    BoundedSequence256k = "BoundedSequence256k", flat::BoundedSequence256k, Some(flat::SEQUENCE_FRAME_LEN + 256 * KIB);
    BoundedSequence1m = "BoundedSequence1m", flat::BoundedSequence1m, Some(flat::SEQUENCE_FRAME_LEN + MIB);
    BoundedSequence2m = "BoundedSequence2m", flat::BoundedSequence2m, Some(flat::SEQUENCE_FRAME_LEN + 2 * MIB);
    BoundedSequence4m = "BoundedSequence4m", flat::BoundedSequence4m, Some(flat::SEQUENCE_FRAME_LEN + 4 * MIB);
    BoundedSequence8m = "BoundedSequence8m", flat::BoundedSequence8m, Some(flat::SEQUENCE_FRAME_LEN + 8 * MIB);
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use peregrine::xtypes::{Endianness, Representation, decode, encode, encoded_len};

    use super::*;

    /// Values of the large types pass through the stack.
    fn on_a_large_stack(test: impl FnOnce() + Send + 'static) {
        std::thread::Builder::new().stack_size(256 << 20).spawn(test).unwrap().join().unwrap();
    }

    /// Encodes and decodes; returns the length without encapsulation header, and the stamp of the decoded value.
    struct RoundTrip(u64, Stamp);

    impl TypeTask for RoundTrip {
        type Output = (usize, Stamp);

        fn run<T: SampleType>(self) -> (usize, Stamp) {
            let mut value = T::of_len(self.0);
            // In either order: stamp and pattern do not overlap.
            value.fill(self.1.id());
            value.set_stamp(&self.1);
            value.fill(self.1.id());
            let mut bytes = vec![0; encoded_len(&*value, Representation::Xcdr1)];
            encode(&*value, Representation::Xcdr1, Endianness::Little, &mut bytes).unwrap();
            // The encapsulation header counts the padding after a sample (RTPS 2.5 §10.2).
            let padding = usize::from(bytes[3] & 3);
            let decoded = decode::<T>(&bytes).unwrap();
            assert!(decoded.is_filled(self.1.id()));
            // Four bytes or fewer do not distinguish samples.
            assert!(self.0 < 40 || !decoded.is_filled(self.1.id() + 1), "{} bytes", self.0);
            (bytes.len() - 4 - padding, decoded.stamp())
        }
    }

    #[test]
    fn every_type_has_its_stated_size_and_keeps_its_stamp() {
        on_a_large_stack(|| {
            let stamp =
                Stamp { writer: 77, warm_up: true, number: 1 << 40, intended_ns: 123_456_789, sent_ns: 987_654_321 };
            for data_type in DataType::ALL {
                for data_len in data_type.fixed_len().map_or_else(|| vec![32, 33, 1000, 100_000], |len| vec![len]) {
                    let (len, kept) = data_type.with(RoundTrip(data_len, stamp));
                    assert_eq!((len as u64, kept), (data_len, stamp), "{data_type}");
                }
            }
        });
    }

    #[test]
    fn arrays_point_clouds_and_bytes_are_built_in_place() {
        for data_type in DataType::ALL {
            let name = data_type.name();
            let expected = ["Array", "PointCloud", "octets"].iter().any(|kind| name.starts_with(kind));
            assert_eq!(data_type.can_be_made_in_place(), expected, "{name}");
        }
    }

    #[test]
    fn stamp_in_raw_datagram_reads_back() {
        for (warm_up, writer) in [(false, 0), (true, 63)] {
            let stamp = Stamp { writer, warm_up, number: 5, intended_ns: 6, sent_ns: u64::MAX };
            assert_eq!(Stamp::of_octets(&stamp.to_octets()), Some(stamp));
        }
        assert_eq!(Stamp::of_octets(&[0; Stamp::LEN - 1]), None);
    }

    #[test]
    fn type_names_match_the_enumeration() {
        for data_type in DataType::ALL {
            assert_eq!(serde_json::to_value(data_type).unwrap(), data_type.name());
            assert_eq!(data_type.fixed_len().is_none(), *data_type == DataType::Octets);
        }
    }
}
