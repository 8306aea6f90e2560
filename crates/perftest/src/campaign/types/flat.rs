//! Samples whose data is a contiguous sequence of bytes.

use peregrine::DdsType;
use peregrine::xtypes::BoundedVec;

use super::stamp::{SampleType, Stamp, Stamped};
use crate::payload;

/// Bytes of a sequence type besides its data: three members, and the length.
pub(super) const SEQUENCE_FRAME_LEN: u64 = 28;
/// Bytes of an array type besides its data.
const ARRAY_FRAME_LEN: usize = 16;
/// Bytes of the data that contain the time at which the sample was due.
const INTENDED_LEN: usize = 8;

macro_rules! array {
    ($name:ident, $len:expr) => {
        #[doc = "An array with its size in the type: plain, so that serializing is one copy."]
        #[derive(Clone, Debug, DdsType)]
        #[dds(extensibility = "final")]
        #[repr(C)]
        pub(crate) struct $name {
            time: i64,
            id: u64,
            data: [u8; $len - ARRAY_FRAME_LEN],
        }

        impl SampleType for $name {
            fn of_len(_: u64) -> Box<Self> {
                Box::new(Self::default_value())
            }

            fn set_stamp(&mut self, stamp: &Stamp) {
                (self.time, self.id) = (stamp.sent_ns as i64, stamp.id());
                put_intended(&mut self.data, stamp);
            }

            fn fill(&mut self, number: u64) {
                payload::write_some(&mut self.data[INTENDED_LEN..], number);
            }
        }

        impl Stamped for $name {
            fn stamp(&self) -> Stamp {
                Stamp::from_members(self.time, self.id, intended(&self.data))
            }

            fn is_filled(&self, number: u64) -> bool {
                payload::are_some_intact(&self.data[INTENDED_LEN..], number)
            }
        }
    };
}

array!(Array32, 32);
array!(Array64, 64);
array!(Array128, 128);
array!(Array256, 256);
array!(Array512, 512);
array!(Array1k, 1024);
array!(Array4k, 4 * 1024);
array!(Array16k, 16 * 1024);
array!(Array32k, 32 * 1024);
array!(Array60k, 60 * 1024);
array!(Array64k, 64 * 1024);
array!(Array256k, 256 * 1024);
array!(Array1m, 1024 * 1024);
array!(Array2m, 2 * 1024 * 1024);
array!(Array4m, 4 * 1024 * 1024);
array!(Array8m, 8 * 1024 * 1024);

macro_rules! sequence {
    ($name:ident, $data:ty, $default_len:expr $(, $flat:ident)?) => {
        #[doc = "A sequence, whose length each sample contains."]
        #[derive(Clone, Debug, DdsType)]
        #[dds(extensibility = "final" $(, $flat)?)]
        pub(crate) struct $name {
            time: i64,
            id: u64,
            intended: u64,
            data: $data,
        }

        impl SampleType for $name {
            fn of_len(data_len: u64) -> Box<Self> {
                let default_len: Option<usize> = $default_len;
                let len = default_len.unwrap_or(data_len.saturating_sub(SEQUENCE_FRAME_LEN) as usize);
                let data = vec![0; len].try_into().unwrap_or_else(|_| <$data>::default_value());
                Box::new(Self { time: 0, id: 0, intended: 0, data })
            }

            fn set_stamp(&mut self, stamp: &Stamp) {
                (self.time, self.id, self.intended) = (stamp.sent_ns as i64, stamp.id(), stamp.intended_ns);
            }

            fn fill(&mut self, number: u64) {
                payload::write_some(self.data.as_mut_slice(), number);
            }
        }

        impl Stamped for $name {
            fn stamp(&self) -> Stamp {
                Stamp::from_members(self.time, self.id, self.intended.to_le_bytes())
            }

            fn is_filled(&self, number: u64) -> bool {
                payload::are_some_intact(&self.data, number)
            }
        }
    };
}

sequence!(Octets, Vec<u8>, None, flat);

impl Octets {
    /// The data without stamp and description.
    pub(in crate::campaign) fn data(&self) -> &[u8] {
        &self.data
    }
}

sequence!(BoundedSequence1k, BoundedVec<u8, 1024>, Some(1024));
sequence!(BoundedSequence4k, BoundedVec<u8, { 4 * 1024 }>, Some(4 * 1024));
sequence!(BoundedSequence16k, BoundedVec<u8, { 16 * 1024 }>, Some(16 * 1024));
sequence!(BoundedSequence64k, BoundedVec<u8, { 64 * 1024 }>, Some(64 * 1024));
sequence!(BoundedSequence256k, BoundedVec<u8, { 256 * 1024 }>, Some(256 * 1024));
sequence!(BoundedSequence1m, BoundedVec<u8, { 1024 * 1024 }>, Some(1024 * 1024));
sequence!(BoundedSequence2m, BoundedVec<u8, { 2 * 1024 * 1024 }>, Some(2 * 1024 * 1024));
sequence!(BoundedSequence4m, BoundedVec<u8, { 4 * 1024 * 1024 }>, Some(4 * 1024 * 1024));
sequence!(BoundedSequence8m, BoundedVec<u8, { 8 * 1024 * 1024 }>, Some(8 * 1024 * 1024));

/// The first bytes of the data contain the time at which the sample was due; all types have room for it.
fn put_intended(data: &mut [u8], stamp: &Stamp) {
    if let Some(first) = data.first_chunk_mut() {
        *first = stamp.intended_ns.to_le_bytes();
    }
}

fn intended(data: &[u8]) -> [u8; 8] {
    data.first_chunk().copied().unwrap_or_default()
}
