//! Structures in structures, each with the two members `time` and `id`, in the shapes of Apex.AI performance_test: 16
//! octets; 16 of these; 16 of those; 8 of those. They are written and read member by member, so that serializing costs.

use peregrine::DdsType;

use super::{SampleType, Stamp};

/// A structure that has a stamp at its top, and the time it was due in its first octets.
trait Nested {
    fn set_intended(&mut self, intended: [u8; 8]);

    fn intended(&self) -> [u8; 8];
}

/// 32 octets in 18 members.
#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "final")]
pub(crate) struct Struct16 {
    time: i64,
    id: u64,
    octet_0: u8,
    octet_1: u8,
    octet_2: u8,
    octet_3: u8,
    octet_4: u8,
    octet_5: u8,
    octet_6: u8,
    octet_7: u8,
    octet_8: u8,
    octet_9: u8,
    octet_10: u8,
    octet_11: u8,
    octet_12: u8,
    octet_13: u8,
    octet_14: u8,
    octet_15: u8,
}

impl Nested for Struct16 {
    fn set_intended(&mut self, intended: [u8; 8]) {
        [
            self.octet_0,
            self.octet_1,
            self.octet_2,
            self.octet_3,
            self.octet_4,
            self.octet_5,
            self.octet_6,
            self.octet_7,
        ] = intended;
    }

    fn intended(&self) -> [u8; 8] {
        [self.octet_0, self.octet_1, self.octet_2, self.octet_3, self.octet_4, self.octet_5, self.octet_6, self.octet_7]
    }
}

macro_rules! nested {
    ($(#[$doc:meta])* $name:ident of $inner:ty: $first:ident $(, $member:ident)*) => {
        $(#[$doc])*
        #[derive(Clone, Debug, DdsType)]
        #[dds(extensibility = "final")]
        pub(crate) struct $name {
            time: i64,
            id: u64,
            $first: $inner,
            $($member: $inner,)*
        }

        impl Nested for $name {
            fn set_intended(&mut self, intended: [u8; 8]) {
                self.$first.set_intended(intended);
            }

            fn intended(&self) -> [u8; 8] {
                self.$first.intended()
            }
        }
    };
}

nested! {
    /// 528 octets in 290 members.
    Struct256 of Struct16: m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15
}
nested! {
    /// 8,464 octets.
    Struct4k of Struct256: m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15
}
nested! {
    /// 67,728 octets.
    Struct32k of Struct4k: m0, m1, m2, m3, m4, m5, m6, m7
}

macro_rules! sample_type {
    ($($name:ty),*) => {$(
        impl SampleType for $name {
            fn of_len(_: u64) -> Box<Self> {
                Box::new(Self::default_value())
            }

            fn set_stamp(&mut self, stamp: &Stamp) {
                (self.time, self.id) = (stamp.sent_ns as i64, stamp.id());
                self.set_intended(stamp.intended_ns.to_le_bytes());
            }

            fn stamp(&self) -> Stamp {
                Stamp::from_members(self.time, self.id, self.intended())
            }
        }
    )*};
}

sample_type!(Struct16, Struct256, Struct4k, Struct32k);
