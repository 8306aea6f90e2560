//! Point clouds like those of sensors: a header, the fields of a point, and the points as bytes.
//!
//! Names have a fixed length and members have no gaps, so that the types are plain.

use peregrine::DdsType;

use super::stamp::{SampleType, Stamp, Stamped};
use crate::payload;

/// Bytes of a point cloud besides its points.
pub(super) const FRAME_LEN: u64 = 2_448;
/// Bytes of a name.
const NAME_LEN: usize = 256;
/// Fields of a point.
const FIELDS: usize = 8;
/// Bytes of the points that contain the time at which the sample was due.
const INTENDED_LEN: usize = 8;

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "final", nested)]
#[repr(C)]
pub(crate) struct Header {
    sec: i32,
    nanosec: u32,
    frame_id: [u8; NAME_LEN],
}

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "final", nested)]
#[repr(C)]
pub(crate) struct PointField {
    offset: u32,
    count: u32,
    name: [u8; NAME_LEN],
    datatype: u8,
    reserved: [u8; 3],
}

macro_rules! point_cloud {
    ($name:ident, $len:expr) => {
        #[doc = "A point cloud with its size in the type."]
        #[derive(Clone, Debug, DdsType)]
        #[dds(extensibility = "final")]
        #[repr(C)]
        pub(crate) struct $name {
            time: i64,
            id: u64,
            header: Header,
            height: u32,
            width: u32,
            point_step: u32,
            row_step: u32,
            fields: [PointField; FIELDS],
            is_bigendian: u8,
            is_dense: u8,
            reserved: [u8; 6],
            data: [u8; $len],
        }

        impl SampleType for $name {
            fn of_len(_: u64) -> Box<Self> {
                Box::new(Self::default_value())
            }

            fn set_stamp(&mut self, stamp: &Stamp) {
                (self.time, self.id) = (stamp.sent_ns as i64, stamp.id());
                if let Some(first) = self.data.first_chunk_mut() {
                    *first = stamp.intended_ns.to_le_bytes();
                }
            }

            fn fill(&mut self, number: u64) {
                payload::write_some(&mut self.data[INTENDED_LEN..], number);
            }
        }

        impl Stamped for $name {
            fn stamp(&self) -> Stamp {
                Stamp::from_members(self.time, self.id, self.data.first_chunk().copied().unwrap_or_default())
            }

            fn is_filled(&self, number: u64) -> bool {
                payload::are_some_intact(&self.data[INTENDED_LEN..], number)
            }
        }
    };
}

point_cloud!(PointCloud512k, 512 * 1024);
point_cloud!(PointCloud1m, 1024 * 1024);
point_cloud!(PointCloud2m, 2 * 1024 * 1024);
point_cloud!(PointCloud4m, 4 * 1024 * 1024);
point_cloud!(PointCloud8m, 8 * 1024 * 1024);
