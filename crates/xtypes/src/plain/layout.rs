//! The layout of a type in memory, compared with its encoding.

use core::marker::PhantomData;

use crate::character::{Char8, Wchar};
use crate::encapsulation::{Extensibility, Representation};

/// Whether, and in which representations, the memory of a `T` equals its encoding in the native byte order.
///
/// Only `unsafe` code can define the layout of another type.
#[derive(Debug)]
pub struct Layout<T> {
    pub(super) facts: MemberLayout,
    of: PhantomData<fn() -> T>,
}

/// A [`Layout`] without its type: that of a member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberLayout {
    pub(super) xcdr1: bool,
    pub(super) xcdr2: bool,
    /// Whether all bytes are a valid value, which is false for a boolean.
    pub(super) any_bits: bool,
    /// The greatest alignment of a primitive inside, in bytes.
    pub(super) alignment: usize,
}

/// A member of a structure, and the offset and size that the compiler gave it.
#[derive(Clone, Copy, Debug)]
pub struct PlacedMember {
    /// From the start of the structure, in bytes.
    pub(super) offset: usize,
    /// In bytes.
    pub(super) size: usize,
    pub(super) layout: MemberLayout,
}

impl MemberLayout {
    /// The memory is not the encoding.
    pub const NONE: Self = Self { xcdr1: false, xcdr2: false, any_bits: false, alignment: 1 };

    pub(super) const fn is_plain(self, representation: Representation) -> bool {
        match representation {
            Representation::Xcdr1 => self.xcdr1,
            Representation::Xcdr2 => self.xcdr2,
        }
    }

    pub(super) const fn align(self, representation: Representation) -> usize {
        let most = representation.max_alignment();
        if self.alignment < most { self.alignment } else { most }
    }
}

impl<T> Layout<T> {
    /// The memory is not the encoding.
    pub const NONE: Self = Self::from_facts(MemberLayout::NONE);

    const fn from_facts(facts: MemberLayout) -> Self {
        Self { facts, of: PhantomData }
    }

    /// The layout of a structure with these members.
    ///
    /// # Safety
    /// `T` is a structure, and `members` are all members of it, in the order in which they are encoded, with their
    /// offsets and types.
    #[must_use]
    #[allow(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses an index out of bounds")]
    pub const unsafe fn structure(extensibility: Extensibility, members: &[PlacedMember]) -> Self {
        let size = size_of::<T>();
        let mut layout = MemberLayout { xcdr1: true, xcdr2: extensibility.is_final(), any_bits: true, alignment: 1 };
        let (mut end, mut i) = (0, 0);
        while i < members.len() {
            let PlacedMember { offset, size: len, layout: member } = members[i];
            let contiguous = offset == end;
            let aligned1 = offset % member.align(Representation::Xcdr1) == 0;
            let aligned2 = offset % member.align(Representation::Xcdr2) == 0;
            layout.xcdr1 = layout.xcdr1 && member.xcdr1 && contiguous && aligned1;
            layout.xcdr2 = layout.xcdr2 && member.xcdr2 && contiguous && aligned2;
            layout.any_bits = layout.any_bits && member.any_bits;
            if member.alignment > layout.alignment {
                layout.alignment = member.alignment;
            }
            end = offset + len;
            i += 1;
        }
        let whole = end == size && size > 0 && size.is_multiple_of(layout.alignment);
        let layout =
            if whole && !matches!(extensibility, Extensibility::Mutable) { layout } else { MemberLayout::NONE };
        Self::from_facts(layout)
    }

    /// The layout without its type, for the layout of a structure.
    #[must_use]
    pub const fn erase(&self) -> MemberLayout {
        self.facts
    }

    /// Whether the memory of a value is its encoding in `representation`.
    #[must_use]
    pub const fn is_plain(&self, representation: Representation) -> bool {
        self.facts.is_plain(representation)
    }

    /// Whether, moreover, all bytes are valid, so that received ones can be borrowed as a value.
    #[must_use]
    pub const fn is_borrowable(&self, representation: Representation) -> bool {
        self.is_plain(representation) && self.facts.any_bits
    }
}

/// Numbers, and transparent wrappers of numbers: all their bytes are initialized, and all bytes are a valid value.
macro_rules! number {
    ($($type:ty),*) => {$(
        impl Layout<$type> {
            pub(crate) const NUMBER: Self = Self::from_facts(MemberLayout {
                xcdr1: true,
                xcdr2: true,
                any_bits: true,
                alignment: size_of::<$type>(),
            });
        }
    )*};
}
number!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, Char8, Wchar);

impl Layout<bool> {
    /// A boolean's byte is 0 or 1 in memory and on the wire.
    pub(crate) const BOOL: Self =
        Self::from_facts(MemberLayout { xcdr1: true, xcdr2: true, any_bits: false, alignment: 1 });
}

impl<T, const N: usize> Layout<[T; N]> {
    /// The layout of an array: that of its elements, except that XCDR2 puts a DHEADER before elements that are not
    /// primitive.
    pub(crate) const fn array(element: &Layout<T>, is_primitive: bool) -> Self {
        let facts = element.facts;
        Self::from_facts(MemberLayout { xcdr2: facts.xcdr2 && is_primitive, ..facts })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const BYTE: MemberLayout = MemberLayout { xcdr1: true, xcdr2: true, any_bits: true, alignment: 1 };
    const LONG: MemberLayout = MemberLayout { alignment: 8, ..BYTE };
    const OBJECTS: MemberLayout = MemberLayout { xcdr2: false, ..BYTE };

    fn plain<T>(extensibility: Extensibility, members: &[(usize, usize, MemberLayout)]) -> (bool, bool) {
        let placed = |&(offset, size, layout): &_| PlacedMember { offset, size, layout };
        let members: Vec<_> = members.iter().map(placed).collect();
        // SAFETY: no value is read or written with this layout.
        let layout = unsafe { Layout::<T>::structure(extensibility, &members) };
        (layout.is_plain(Representation::Xcdr1), layout.is_plain(Representation::Xcdr2))
    }

    #[test]
    fn structure_without_padding_is_plain() {
        use Extensibility::{Appendable, Final, Mutable};
        assert_eq!(plain::<[u8; 9]>(Final, &[(0, 8, LONG), (8, 1, BYTE)]), (false, false), "size is not aligned");
        assert_eq!(plain::<[u64; 2]>(Final, &[(0, 8, LONG), (8, 1, BYTE)]), (false, false), "tail padding");
        assert_eq!(plain::<[u64; 2]>(Final, &[(0, 1, BYTE), (8, 8, LONG)]), (false, false), "inner padding");
        assert_eq!(plain::<[u64; 2]>(Final, &[(0, 8, LONG), (8, 8, BYTE)]), (true, true));
        assert_eq!(plain::<[u64; 2]>(Final, &[(0, 8, LONG), (8, 8, OBJECTS)]), (true, false));
        assert_eq!(plain::<u64>(Appendable, &[(0, 8, LONG)]), (true, false));
        assert_eq!(plain::<u64>(Mutable, &[(0, 8, LONG)]), (false, false));
        assert_eq!(plain::<()>(Final, &[]), (false, false));
    }
}
