//! The layout of the first members of a mutable structure as this crate writes them, computed at compile time.

use crate::extent::padding;
use crate::flat::flat_type::{FlatMember, FlatType};
use crate::parameter::{EM_MUST_UNDERSTAND, MEMBER_ID_MASK};
use crate::types::DdsType;

/// Bytes of an EMHEADER, and of a length.
const WORD: usize = size_of::<u32>();

/// The header of a member, and the positions of the header and of the value relative to the start of the members, which
/// XCDR2 aligns to four.
#[derive(Clone, Copy, Debug)]
struct Head {
    at: usize,
    /// The EMHEADER.
    header: u32,
    /// The length behind the header, if the member has a separate length.
    length: Option<u32>,
    value: usize,
}

impl Head {
    const NONE: Self = Self { at: 0, header: 0, length: None, value: 0 };

    #[inline]
    fn is_in(&self, members: &[u8]) -> bool {
        word(members, self.at) == Some(self.header)
            && (self.length.is_none() || word(members, self.at + WORD) == self.length)
    }
}

/// The first members of a structure of `N` members, in their order, up to the first one that may be absent or needs a
/// check.
#[derive(Clone, Copy, Debug)]
pub struct Layout<const N: usize> {
    heads: [Head; N],
    /// The number of heads in use.
    count: usize,
    /// Bytes from the start of the members to the end of the last member of the layout.
    len: usize,
    /// The position of the value of the member behind the layout, if it is a sequence of numbers.
    sequence: Option<usize>,
    /// Whether the layout contains all members so far.
    is_open: bool,
}

impl<const N: usize> Layout<N> {
    /// No members.
    pub const EMPTY: Self = Self { heads: [Head::NONE; N], count: 0, len: 0, sequence: None, is_open: true };

    /// This layout extended by one member.
    #[must_use]
    #[allow(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses an index out of bounds")]
    pub const fn then<M: FlatMember>(mut self, id: u32, must_understand: bool) -> Self {
        let at = self.len + padding(self.len, WORD);
        let has_length = <M::Value as DdsType>::LENGTH_CODE.is_separate();
        let value = at + if has_length { 2 * WORD } else { WORD };
        match size_without_look::<M>() {
            _ if !self.is_open => {}
            Some(size) => {
                let flag = if must_understand { EM_MUST_UNDERSTAND } else { 0 };
                let length = if has_length { Some(size as u32) } else { None };
                self.heads[self.count] = Head { at, header: flag | header::<M>(id), length, value };
                self.count += 1;
                self.len = value + size;
            }
            None => {
                self.sequence = if numbers::<M>().is_some() { Some(value) } else { None };
                self.is_open = false;
            }
        }
        self
    }

    /// The position of the value of a member, relative to the start of the members: of a member of the layout, or of a
    /// sequence of numbers directly behind it.
    #[inline]
    pub(crate) fn value(&self, index: usize) -> Option<usize> {
        match self.heads.get(index) {
            Some(head) if index < self.count => Some(head.value),
            _ => self.sequence.filter(|_| index == self.count),
        }
    }

    /// The number of members in the layout.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Bytes from the start of the members to the end of the last member of the layout.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Whether `members`, which are in the native byte order, begin with the members of this layout.
    #[inline]
    pub(crate) fn is_in(&self, members: &[u8]) -> bool {
        // One check of the length is enough for all members.
        match members.get(..self.len) {
            Some(members) => self.heads.iter().take(self.count).all(|head| head.is_in(members)),
            None => false,
        }
    }

    /// The positions of the values of the layout's members, relative to the start of the members.
    #[inline]
    pub(crate) fn values(&self) -> impl Iterator<Item = usize> {
        self.heads.iter().take(self.count).map(|head| head.value)
    }
}

/// [`FlatType::NUMBERS`] of a member that is not optional.
const fn numbers<M: FlatMember>() -> Option<(usize, usize)> {
    if M::OPTIONAL { None } else { <M::Value as FlatType>::NUMBERS }
}

/// The size of the value of a member that is never absent, always has the same size behind its header, and is valid
/// whatever its bytes are.
pub(crate) const fn size_without_look<M: FlatMember>() -> Option<usize> {
    /// In bytes. The cost of a check does not matter for larger values, and sums of sizes up to this one never
    /// overflow.
    const MOST: usize = u16::MAX as usize;
    if M::OPTIONAL || !<M::Value as FlatType>::NEEDS_NO_LOOK {
        return None;
    }
    // The value behind a header is aligned to at least four bytes, and XCDR2 requires no more.
    let size = <M::Value as DdsType>::EXTENTS.xcdr2.at(0);
    if size > MOST { None } else { Some(size) }
}

/// The extent of a sequence of numbers behind its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    /// Bytes from the header to the value.
    pub(crate) value: usize,
    /// Bytes from the header to the end of the value.
    pub(crate) len: usize,
}

impl Numbers {
    /// Finds the member `id` if it is such a sequence at the start of `bytes`, in the native byte order.
    #[inline]
    pub(crate) fn in_front<M: FlatMember>(bytes: &[u8], id: u32) -> Option<Self> {
        let (size, bound) = numbers::<M>()?;
        // For elements of one byte, the element count is also the length in bytes.
        let has_length = <M::Value as DdsType>::LENGTH_CODE.is_separate();
        let value = if has_length { 2 * WORD } else { WORD };
        let (heads, numbers) = bytes.split_at_checked(value + WORD)?;
        let count = word(heads, value)? as usize;
        let len = count.checked_mul(size)?;
        let is_one = word(heads, 0)? & !EM_MUST_UNDERSTAND == header::<M>(id)
            && len <= numbers.len()
            && (!has_length || word(heads, WORD)? as usize == len + WORD)
            && count <= bound;
        is_one.then(|| Self { value, len: value + WORD + len })
    }
}

/// The EMHEADER with which this crate writes a member, without its flag.
const fn header<M: FlatMember>(id: u32) -> u32 {
    (<M::Value as DdsType>::LENGTH_CODE as u32) << 28 | id & MEMBER_ID_MASK
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}
