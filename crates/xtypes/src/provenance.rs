//! Tells types whose code is all made by the derive macro or by this crate from types with code of the application.

use alloc::string::String;
use alloc::vec::Vec;
use core::any::TypeId;

use crate::character::{Char8, Wchar};
use crate::member::Member;
use crate::types::DdsType;

/// The types that were looked at before: as soon as one of them calls code of the application, the answer is known.
pub type Seen = Vec<TypeId>;

/// Whether a derived type and the types inside call no code of the application, for [`DdsType::is_generated`].
/// `members`: that function of each member.
pub fn all_generated<T: DdsType>(seen: &mut Seen, members: &[fn(&mut Seen) -> bool]) -> bool {
    let this = TypeId::of::<T>();
    if seen.contains(&this) {
        return true;
    }
    seen.push(this);
    members.iter().all(|is_generated| is_generated(seen))
}

/// [`DdsType::is_generated`] of the value of a member.
pub fn member<M: Member>(seen: &mut Seen) -> bool {
    M::Value::is_generated(seen)
}

/// Whether the order of the type is not code of the application, as that of a derived type may be. False in doubt.
pub(crate) fn has_provided_order<T: 'static>() -> bool {
    fn is_one_of<T: 'static, const N: usize>(types: [TypeId; N]) -> bool {
        types.contains(&TypeId::of::<T>())
    }
    is_one_of::<T, 8>([
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<i8>(),
        TypeId::of::<i16>(),
        TypeId::of::<i32>(),
        TypeId::of::<i64>(),
    ]) || is_one_of::<T, 4>([
        TypeId::of::<bool>(),
        TypeId::of::<Char8>(),
        TypeId::of::<Wchar>(),
        TypeId::of::<String>(),
    ])
}

/// Whether the code of a type, with that of the types inside, calls no code of the application: neither a hand-written
/// implementation of [`DdsType`] nor what such a one calls. False in doubt.
#[must_use]
pub fn is_generated<T: DdsType>() -> bool {
    T::is_generated(&mut Vec::new())
}
