//! Sequence numbers, fragment numbers, counts, and the sets of them in acknowledgements.

use core::cmp::Ordering;
use core::fmt;

/// The number of a change within its writer, from 1 (RTPS 2.5 §8.3.5.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SequenceNumber(pub i64);

impl SequenceNumber {
    /// No number: `{-1, 0}` on the wire.
    pub const UNKNOWN: Self = Self(-(1 << 32));
    /// The number before the first.
    pub const ZERO: Self = Self(0);
    /// The first number a writer uses.
    pub const FIRST: Self = Self(1);
    /// The largest representable number.
    pub const MAX: Self = Self(i64::MAX);
    /// The largest number of a sample, so that the number after it is representable.
    pub const LAST: Self = Self(i64::MAX - 1);

    /// The number after this one; stays at the largest.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The number before this one; stays at the smallest.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The number `n` after this one; stays at the largest.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.saturating_add(n as i64))
    }

    /// The distance from `earlier` to this one; 0 when this one is not later.
    #[must_use]
    pub const fn distance_from(self, earlier: Self) -> u64 {
        if self.0 <= earlier.0 { 0 } else { self.0.abs_diff(earlier.0) }
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The number of a fragment within its sample, from 1 (RTPS 2.5 §8.3.5.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FragmentNumber(pub u32);

impl fmt::Display for FragmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The running number of HEARTBEATs, ACKNACKs and similar submessages; compared modulo 2^32 (RTPS 2.5 §8.3.5.10).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Count(pub i32);

impl Count {
    /// The first count that is sent. A peer that starts with "last seen 0" would ignore a 0.
    pub const FIRST: Self = Self(1);

    /// The next count, wrapping.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Whether this count is newer than `last`, modulo 2^32.
    #[must_use]
    pub const fn is_newer_than(self, last: Self) -> bool {
        self.0.wrapping_sub(last.0) > 0
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The greatest size of a set (RTPS 2.5 §8.3.5.5).
pub const SET_BITS_MAX: u32 = 256;

/// Up to 256 flags, most significant bit of each word first, as on the wire (RTPS 2.5 §9.4.2.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Bits {
    words: [u32; 8],
    len: u32,
}

impl Bits {
    fn get(&self, i: u32) -> bool {
        i < self.len && self.words.get((i / 32) as usize).is_some_and(|w| w & (1 << (31 - i % 32)) != 0)
    }

    fn set(&mut self, i: u32) -> bool {
        let Some(word) = self.words.get_mut((i / 32) as usize) else { return false };
        *word |= 1 << (31 - i % 32);
        self.len = self.len.max(i + 1);
        true
    }

    fn word_count(&self) -> usize {
        self.len.div_ceil(32) as usize
    }

    fn from_words(len: u32, words: impl IntoIterator<Item = u32>) -> Option<Self> {
        if len > SET_BITS_MAX {
            return None;
        }
        let mut bits = Self { words: [0; 8], len };
        let mut given = words.into_iter();
        for slot in bits.words.iter_mut().take(len.div_ceil(32) as usize) {
            *slot = given.next()?;
        }
        // Bits past the stated length have no meaning. They are cleared so that equal sets compare equal.
        let used = len % 32;
        if used != 0
            && let Some(last) = bits.words.get_mut((len / 32) as usize)
        {
            *last &= u32::MAX << (32 - used);
        }
        Some(bits)
    }

    fn iter(self) -> impl Iterator<Item = u32> {
        (0..self.len).filter(move |&i| self.get(i))
    }

    fn count(&self) -> u32 {
        self.words.iter().map(|w| w.count_ones()).sum()
    }
}

macro_rules! number_set {
    ($(#[$doc:meta])* $set:ident, $number:ident, $offset:expr, $plus:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $set {
            base: $number,
            bits: Bits,
        }

        impl $set {
            /// A set without members.
            #[must_use]
            pub fn empty(base: $number) -> Self {
                Self { base, bits: Bits::default() }
            }

            /// A set from its parts on the wire: base, number of bits and words. `None` when there are more than 256
            /// bits, or fewer words than the bits need.
            #[must_use]
            pub fn from_words(base: $number, num_bits: u32, words: impl IntoIterator<Item = u32>) -> Option<Self> {
                Some(Self { base, bits: Bits::from_words(num_bits, words)? })
            }

            /// The set of the given ascending numbers within the 256 numbers from `base` on; stops at the first number
            /// outside.
            #[must_use]
            pub fn from_ascending(base: $number, numbers: impl IntoIterator<Item = $number>) -> Self {
                let mut set = Self::empty(base);
                for number in numbers {
                    if !set.insert(number) {
                        break;
                    }
                }
                set
            }

            /// Adds a number. `false` when it is outside the 256 numbers from the base on.
            pub fn insert(&mut self, number: $number) -> bool {
                match $offset(number, self.base) {
                    Some(i) => self.bits.set(i),
                    None => false,
                }
            }

            /// The number that bit 0 stands for.
            #[must_use]
            pub const fn base(&self) -> $number {
                self.base
            }

            /// The number of bits that the set spans.
            #[must_use]
            pub const fn num_bits(&self) -> u32 {
                self.bits.len
            }

            /// The words of the bitmap, as many as the bits need.
            #[must_use]
            pub fn words(&self) -> &[u32] {
                self.bits.words.get(..self.bits.word_count()).unwrap_or(&[])
            }

            /// The number of members.
            #[must_use]
            pub fn len(&self) -> usize {
                self.bits.count() as usize
            }

            /// Whether the set has no member.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.bits.count() == 0
            }

            /// Whether `number` is a member.
            #[must_use]
            pub fn contains(&self, number: $number) -> bool {
                $offset(number, self.base).is_some_and(|i| self.bits.get(i))
            }

            /// The members, ascending.
            pub fn iter(&self) -> impl Iterator<Item = $number> + use<> {
                let base = self.base;
                self.bits.iter().filter_map(move |i| $plus(base, i))
            }
        }

        impl fmt::Debug for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl fmt::Display for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}:", self.base, self.bits.len)?;
                self.iter().try_for_each(|n| write!(f, " {n}"))
            }
        }
    };
}

number_set!(
    /// Up to 256 sequence numbers (RTPS 2.5 §8.3.5.5).
    SequenceNumberSet,
    SequenceNumber,
    |n: SequenceNumber, base: SequenceNumber| {
        let offset = n.0.checked_sub(base.0)?;
        u32::try_from(offset).ok().filter(|&i| i < SET_BITS_MAX)
    },
    |base: SequenceNumber, i: u32| base.0.checked_add(i64::from(i)).map(SequenceNumber)
);

number_set!(
    /// Up to 256 fragment numbers (RTPS 2.5 §8.3.5.7).
    FragmentNumberSet,
    FragmentNumber,
    |n: FragmentNumber, base: FragmentNumber| n.0.checked_sub(base.0).filter(|&i| i < SET_BITS_MAX),
    |base: FragmentNumber, i: u32| base.0.checked_add(i).map(FragmentNumber)
);

impl PartialOrd for Count {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.0.wrapping_sub(other.0) {
            0 => Some(Ordering::Equal),
            i32::MIN => None,
            d if d > 0 => Some(Ordering::Greater),
            _ => Some(Ordering::Less),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn bitmap_is_most_significant_bit_first() {
        let set = SequenceNumberSet::from_words(SequenceNumber(10), 33, [0x8000_0001, 0x8000_0000]).unwrap();
        assert_eq!(set.iter().map(|n| n.0).collect::<Vec<_>>(), [10, 41, 42]);
        assert_eq!(set.words(), [0x8000_0001, 0x8000_0000]);
    }

    #[test]
    fn bits_past_length_are_not_members() {
        let set = SequenceNumberSet::from_words(SequenceNumber(1), 2, [u32::MAX]).unwrap();
        assert_eq!(set.len(), 2);
        assert_eq!(set.words(), [0xc000_0000]);
    }

    #[test]
    fn oversized_and_truncated_sets_are_rejected() {
        assert!(SequenceNumberSet::from_words(SequenceNumber(1), 257, [0; 9]).is_none());
        assert!(SequenceNumberSet::from_words(SequenceNumber(1), 33, [0]).is_none());
        assert!(FragmentNumberSet::from_words(FragmentNumber(1), u32::MAX, [0]).is_none());
    }

    #[test]
    fn numbers_at_end_of_range_do_not_overflow() {
        let set = SequenceNumberSet::from_words(SequenceNumber::MAX, 2, [0xc000_0000]).unwrap();
        assert_eq!(set.iter().count(), 1);
        assert!(!set.contains(SequenceNumber(i64::MIN)));
        assert_eq!(SequenceNumber::MAX.next(), SequenceNumber::MAX);
    }

    #[test]
    fn wrapped_count_is_newer() {
        assert!(Count(i32::MIN).is_newer_than(Count(i32::MAX)));
        assert!(!Count(0).is_newer_than(Count(0)));
        assert!(!Count(5).is_newer_than(Count(6)));
    }

    proptest! {
        #[test]
        fn inserted_numbers_are_members(base in 1i64..1 << 40, offsets in proptest::collection::btree_set(0u32..256, 0..60)) {
            let numbers: Vec<_> = offsets.iter().map(|&o| SequenceNumber(base + i64::from(o))).collect();
            let set = SequenceNumberSet::from_ascending(SequenceNumber(base), numbers.iter().copied());
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), numbers.clone());
            let again = SequenceNumberSet::from_words(set.base(), set.num_bits(), set.words().iter().copied()).unwrap();
            prop_assert_eq!(again, set);
            prop_assert_eq!(set.len(), numbers.len());
        }
    }
}
