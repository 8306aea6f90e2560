//! The greatest serialized size of a type, computed by the compiler.
#![allow(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses an index out of bounds")]

/// The greatest number of bytes a value takes, for each offset (modulo 8) at which it may start: padding in front of
/// and inside a value depends on where it begins.
///
/// Where a value ends never decreases when it starts later, so composing the greatest sizes gives the exact maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent([usize; 8]);

impl Extent {
    /// Nothing is written.
    pub const EMPTY: Self = Self([0; 8]);
    /// There is no greatest size.
    pub const UNBOUNDED: Self = Self([usize::MAX; 8]);

    /// `size` bytes, aligned to `alignment` (a power of two up to 8).
    #[must_use]
    pub const fn scalar(size: usize, alignment: usize) -> Self {
        let mut table = [0; 8];
        let mut offset = 0;
        while offset < 8 {
            table[offset] = padding(offset, alignment) + size;
            offset += 1;
        }
        Self(table)
    }

    /// This, followed by `next`.
    #[must_use]
    pub const fn then(self, next: Self) -> Self {
        let mut table = [0; 8];
        let mut offset = 0;
        while offset < 8 {
            let size = self.0[offset];
            table[offset] =
                if size == usize::MAX { usize::MAX } else { size.saturating_add(next.0[(offset + size % 8) % 8]) };
            offset += 1;
        }
        Self(table)
    }

    /// This, `count` times.
    #[must_use]
    pub const fn repeat(self, count: usize) -> Self {
        let (mut result, mut power, mut left) = (Self::EMPTY, self, count);
        while left > 0 {
            if left & 1 == 1 {
                result = result.then(power);
            }
            power = power.then(power);
            left >>= 1;
        }
        result
    }

    /// The greater of this and `other`.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        let mut table = self.0;
        let mut offset = 0;
        while offset < 8 {
            if other.0[offset] > table[offset] {
                table[offset] = other.0[offset];
            }
            offset += 1;
        }
        Self(table)
    }

    /// This as the value of an XCDR1 parameter: alignment starts anew, the length is padded to a multiple of 4, and the
    /// header is long when the member `id` or the length asks for it (XTypes 1.3 §7.4.3.5.3, rules 24 and 25).
    #[must_use]
    pub const fn parameter(self, id: u32) -> Self {
        let value = self.0[0];
        if value > usize::MAX - 16 {
            return Self::UNBOUNDED;
        }
        let padded = value + padding(value, 4);
        let long = id > crate::parameter::MAX_SHORT_ID || padded > u16::MAX as usize;
        Self::scalar(if long { 12 } else { 4 } + padded, 4)
    }

    /// The greatest size of a value that starts `offset` bytes behind the alignment origin; [`usize::MAX`] without a
    /// bound.
    #[inline]
    pub(crate) const fn at(self, offset: usize) -> usize {
        self.0[offset % 8]
    }

    /// The greatest size of a value that starts at offset 0, in bytes; `None` without a bound.
    #[must_use]
    pub const fn max(self) -> Option<usize> {
        if self.0[0] == usize::MAX { None } else { Some(self.0[0]) }
    }
}

/// How many bytes to skip from `offset` to a multiple of `alignment`, a power of two.
pub(crate) const fn padding(offset: usize, alignment: usize) -> usize {
    offset.wrapping_neg() & (alignment - 1)
}

/// [`Extent`] in both representations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// Of XCDR1.
    pub xcdr1: Extent,
    /// Of XCDR2.
    pub xcdr2: Extent,
}

impl Extents {
    /// Nothing is written.
    pub const EMPTY: Self = Self { xcdr1: Extent::EMPTY, xcdr2: Extent::EMPTY };
    /// There is no greatest size.
    pub const UNBOUNDED: Self = Self { xcdr1: Extent::UNBOUNDED, xcdr2: Extent::UNBOUNDED };

    /// A primitive of `size` bytes.
    #[must_use]
    pub const fn primitive(size: usize) -> Self {
        let alignment = if size > 4 { 4 } else { size };
        Self { xcdr1: Extent::scalar(size, size), xcdr2: Extent::scalar(size, alignment) }
    }

    /// This, followed by `next`.
    #[must_use]
    pub const fn then(self, next: Self) -> Self {
        Self { xcdr1: self.xcdr1.then(next.xcdr1), xcdr2: self.xcdr2.then(next.xcdr2) }
    }

    /// This, `count` times.
    #[must_use]
    pub const fn repeat(self, count: usize) -> Self {
        Self { xcdr1: self.xcdr1.repeat(count), xcdr2: self.xcdr2.repeat(count) }
    }

    /// The greater of this and `other`.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self { xcdr1: self.xcdr1.or(other.xcdr1), xcdr2: self.xcdr2.or(other.xcdr2) }
    }

    /// With a DHEADER in front in XCDR2, when `delimited`.
    #[must_use]
    pub const fn delimited(self, delimited: bool) -> Self {
        if !delimited {
            return self;
        }
        Self { xcdr1: self.xcdr1, xcdr2: Extent::scalar(4, 4).then(self.xcdr2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_depends_on_the_start() {
        let pair = Extent::scalar(1, 1).then(Extent::scalar(8, 8));
        assert_eq!(pair.max(), Some(16));
        assert_eq!(Extent::scalar(4, 4).then(pair).max(), Some(16));
        assert_eq!(pair.repeat(3).max(), Some(48));
        assert_eq!(Extent::scalar(2, 2).then(Extent::scalar(1, 1)).repeat(3).max(), Some(11));
    }

    #[test]
    fn huge_counts_are_unbounded_instead_of_wrapping() {
        assert_eq!(Extent::scalar(8, 8).repeat(usize::MAX).max(), None);
        assert_eq!(Extent::UNBOUNDED.then(Extent::EMPTY).max(), None);
        assert_eq!(Extent::EMPTY.then(Extent::UNBOUNDED).max(), None);
        assert_eq!(Extent::UNBOUNDED.repeat(0).max(), Some(0));
    }

    #[test]
    fn parameters_pad_and_lengthen() {
        assert_eq!(Extent::scalar(1, 1).parameter(1).max(), Some(8));
        assert_eq!(Extent::scalar(1, 1).parameter(0x3f01).max(), Some(16));
        assert_eq!(Extent::scalar(65_536, 1).parameter(1).max(), Some(12 + 65_536));
    }
}
