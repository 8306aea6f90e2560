//! Nested structures, each with the two members `time` and `id`, in the shapes of Apex.AI performance_test: 16 bytes;
//! 16 of these; 16 of the second; 8 of the third. Encoders handle them member by member, so serialization has a cost.

use peregrine::DdsType;

use super::stamp::{SampleType, Stamp, Stamped};
use crate::payload;

/// A structure of structures. It has a stamp at its top. The first innermost structure contains the due time in its
/// first eight bytes; each innermost structure contains a word of the pattern in its last eight bytes.
trait Nested {
    /// Number of innermost structures.
    const LEAVES: usize;

    /// The innermost structure with this index, modulo their number.
    fn leaf(&self, index: usize) -> &Struct16;

    fn leaf_mut(&mut self, index: usize) -> &mut Struct16;
}

/// 32 bytes in 18 members.
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

/// Functions that set and return eight bytes of a structure.
macro_rules! eight_octets {
    ($set:ident, $get:ident: $($byte:ident),*) => {
        fn $set(&mut self, bytes: [u8; 8]) {
            [$(self.$byte),*] = bytes;
        }

        fn $get(&self) -> [u8; 8] {
            [$(self.$byte),*]
        }
    };
}

impl Struct16 {
    eight_octets!(set_intended, intended: octet_0, octet_1, octet_2, octet_3, octet_4, octet_5, octet_6, octet_7);
    eight_octets!(set_word, word: octet_8, octet_9, octet_10, octet_11, octet_12, octet_13, octet_14, octet_15);
}

impl Nested for Struct16 {
    const LEAVES: usize = 1;

    fn leaf(&self, _: usize) -> &Struct16 {
        self
    }

    fn leaf_mut(&mut self, _: usize) -> &mut Struct16 {
        self
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
            const LEAVES: usize = <$inner>::LEAVES * [stringify!($first), $(stringify!($member)),*].len();

            fn leaf(&self, index: usize) -> &Struct16 {
                let members = [&self.$first, $(&self.$member),*];
                members[index / <$inner>::LEAVES % members.len()].leaf(index)
            }

            fn leaf_mut(&mut self, index: usize) -> &mut Struct16 {
                let members = [&mut self.$first, $(&mut self.$member),*];
                let member = index / <$inner>::LEAVES % members.len();
                let [first, others @ ..] = members;
                let inner = others.into_iter().nth(member.wrapping_sub(1)).unwrap_or(first);
                inner.leaf_mut(index)
            }
        }
    };
}

nested! {
    /// 528 bytes in 290 members.
    Struct256 of Struct16: m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15
}
nested! {
    /// 8,464 bytes.
    Struct4k of Struct256: m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15
}
nested! {
    /// 67,728 bytes.
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
                self.leaf_mut(0).set_intended(stamp.intended_ns.to_le_bytes());
            }

            fn fill(&mut self, number: u64) {
                for place in payload::places(Self::LEAVES, number) {
                    self.leaf_mut(place).set_word(payload::word(number, place));
                }
            }
        }

        impl Stamped for $name {
            fn stamp(&self) -> Stamp {
                Stamp::from_members(self.time, self.id, self.leaf(0).intended())
            }

            fn is_filled(&self, number: u64) -> bool {
                payload::places(Self::LEAVES, number).all(|place| self.leaf(place).word() == payload::word(number, place))
            }
        }
    )*};
}

sample_type!(Struct16, Struct256, Struct4k, Struct32k);
