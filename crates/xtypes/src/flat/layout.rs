//! The members of a mutable structure as this crate writes them, as far as the compiler knows where they are.

use crate::extent::padding;
use crate::flat::flat_type::{FlatMember, FlatType};
use crate::parameter::{EM_MUST_UNDERSTAND, MEMBER_ID_MASK};
use crate::types::DdsType;

/// Bytes of an EMHEADER, and of a length.
const WORD: usize = size_of::<u32>();

/// Bytes in front of the value of a member, and the positions of both, relative to the start of the members, which
/// XCDR2 aligns to four.
#[derive(Clone, Copy, Debug)]
struct Head {
    at: usize,
    /// The EMHEADER.
    header: u32,
    /// The length behind it, where it has a word of its own.
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

/// The first of `N` members in their order, as long as each is always there and needs no look.
#[derive(Clone, Copy, Debug)]
pub struct Layout<const N: usize> {
    heads: [Head; N],
    /// How many of the heads count.
    count: usize,
    /// Bytes from where the members begin to the end of the last of these.
    len: usize,
    /// Where the value of the member behind these is, if it is a sequence of numbers.
    sequence: Option<usize>,
    /// Whether these are all members so far.
    is_open: bool,
}

impl<const N: usize> Layout<N> {
    /// No members.
    pub const EMPTY: Self = Self { heads: [Head::NONE; N], count: 0, len: 0, sequence: None, is_open: true };

    /// These members and another.
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

    /// Where the value of a member is, from where the members begin: of these, and of a sequence of numbers behind
    /// them.
    #[inline]
    pub(crate) fn value(&self, index: usize) -> Option<usize> {
        match self.heads.get(index) {
            Some(head) if index < self.count => Some(head.value),
            _ => self.sequence.filter(|_| index == self.count),
        }
    }

    /// How many members these are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Bytes from where the members begin to the end of the last of these.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Whether bytes in the native byte order, from where members begin, begin with these.
    #[inline]
    pub(crate) fn is_in(&self, members: &[u8]) -> bool {
        // One look at the length is enough for all.
        match members.get(..self.len) {
            Some(members) => self.heads.iter().take(self.count).all(|head| head.is_in(members)),
            None => false,
        }
    }

    /// Where the values of these are, from where the members begin.
    #[inline]
    pub(crate) fn values(&self) -> impl Iterator<Item = usize> {
        self.heads.iter().take(self.count).map(|head| head.value)
    }
}

/// [`FlatType::NUMBERS`], of a member that is always there.
const fn numbers<M: FlatMember>() -> Option<(usize, usize)> {
    if M::OPTIONAL { None } else { <M::Value as FlatType>::NUMBERS }
}

/// The bytes of a value of a member that is always there, always takes as many behind its header, and is a value
/// whatever they are.
pub(crate) const fn size_without_look<M: FlatMember>() -> Option<usize> {
    /// In bytes: beside larger values a look does not count, and sums of these never overflow.
    const MOST: usize = u16::MAX as usize;
    if M::OPTIONAL || !<M::Value as FlatType>::NEEDS_NO_LOOK {
        return None;
    }
    // A header leaves it aligned to four at least, and in XCDR2 that is all.
    let size = <M::Value as DdsType>::EXTENTS.xcdr2.at(0);
    if size > MOST { None } else { Some(size) }
}

/// A sequence of numbers behind its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    /// Bytes from the header to the value.
    pub(crate) value: usize,
    /// Bytes from the header to the end of the value.
    pub(crate) len: usize,
}

impl Numbers {
    /// The member `id` if it is such a sequence at the front of `bytes`, in the native byte order.
    #[inline]
    pub(crate) fn in_front<M: FlatMember>(bytes: &[u8], id: u32) -> Option<Self> {
        let (size, bound) = numbers::<M>()?;
        // The count of bytes also is their length.
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
