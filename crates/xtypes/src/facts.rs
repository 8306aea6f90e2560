//! Sizes and keys of structures and unions, which the compiler computes from their members.
#![allow(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses an index out of bounds")]

use crate::encapsulation::Extensibility;
use crate::extent::{Extent, Extents};
use crate::member::Member;
use crate::types::{DdsType, KeyFacts};

/// Folds over a slice. Constants cannot call the method of iterators.
macro_rules! fold {
    ($members:ident, $start:expr, |$sum:ident, $member:ident| $next:expr) => {{
        let (mut $sum, mut i) = ($start, 0);
        while i < $members.len() {
            let $member = $members[i];
            $sum = $next;
            i += 1;
        }
        $sum
    }};
}

/// The greatest sizes of the member `id` of type `M` in an aggregate of this extensibility.
#[must_use]
pub const fn member<M: Member>(extensibility: Extensibility, id: u32) -> Extents {
    let value = <M::Value as DdsType>::EXTENTS;
    match (extensibility, M::OPTIONAL) {
        (Extensibility::Mutable, _) => {
            let separate = <M::Value as DdsType>::LENGTH_CODE.is_separate();
            let header = Extent::scalar(if separate { 8 } else { 4 }, 4);
            Extents { xcdr1: value.xcdr1.parameter(id), xcdr2: header.then(value.xcdr2) }
        }
        (_, true) => Extents { xcdr1: value.xcdr1.parameter(id), xcdr2: Extent::scalar(1, 1).then(value.xcdr2) },
        (_, false) => value,
    }
}

/// The greatest sizes of the members, after those of the base structure.
#[must_use]
pub const fn member_extents(base: Extents, members: &[Extents]) -> Extents {
    fold!(members, base, |sum, member| sum.then(member))
}

/// The least size of the members, after those of the base structure.
#[must_use]
pub const fn member_min_size(base: usize, members: &[usize]) -> usize {
    fold!(members, base, |sum, member| sum.saturating_add(member))
}

/// The key that these members make, after that of the base structure.
#[must_use]
pub const fn key(base: KeyFacts, members: &[KeyFacts]) -> KeyFacts {
    fold!(members, base, |sum, member| sum.then(member))
}

/// The greatest sizes of an aggregate with these members.
#[must_use]
pub const fn extents(extensibility: Extensibility, members: Extents) -> Extents {
    let members = members.delimited(!extensibility.is_final());
    match extensibility {
        Extensibility::Mutable => Extents { xcdr1: members.xcdr1.then(Extent::scalar(4, 4)), xcdr2: members.xcdr2 },
        _ => members,
    }
}

/// The greatest sizes of a union's discriminator followed by any one of its members.
#[must_use]
pub const fn union_extents(extensibility: Extensibility, discriminator: Extents, members: &[Extents]) -> Extents {
    let greatest = fold!(members, Extents::EMPTY, |greatest, member| greatest.or(member));
    extents(extensibility, discriminator.then(greatest))
}

/// The key that a union's discriminator and any one of its members make.
#[must_use]
pub const fn union_key(discriminator: KeyFacts, members: &[KeyFacts]) -> KeyFacts {
    discriminator.then(fold!(members, KeyFacts::EMPTY, |greatest, member| greatest.or(member)))
}

/// The least size of an aggregate with these members: a DHEADER or a list terminator takes four bytes.
#[must_use]
pub const fn min_size(extensibility: Extensibility, members: usize) -> usize {
    match extensibility {
        Extensibility::Final => members,
        Extensibility::Appendable if members < 4 => members,
        _ => 4,
    }
}

/// The facts of a member as part of a key.
#[must_use]
pub const fn member_key<M: Member>() -> KeyFacts {
    let value = <M::Value as DdsType>::MEMBER_KEY;
    if M::OPTIONAL {
        let present = KeyFacts { extent: Extent::scalar(1, 1), delimited: false };
        return present.then(value);
    }
    value
}
