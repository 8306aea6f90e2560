//! Why a type is not plain.

use alloc::vec::Vec;
use core::fmt;

use crate::encapsulation::{Extensibility, Representation};

/// The reason why the values of a type cannot be made and read in the memory of a payload, and the remedy. The text
/// names the member or the missing attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The names of the member and of the members inside it; empty if the reason concerns the type itself.
    path: Vec<&'static str>,
    type_name: &'static str,
    reason: Reason,
}

/// The reasons of an [`Obstacle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Reason {
    /// The type is neither a number nor an array or structure of numbers.
    Kind,
    /// Not every byte is a value of the type.
    Bool,
    /// The member is optional.
    Optional,
    /// An array of this element type has a DHEADER in XCDR2.
    ArrayHeader,
    /// Each member has a header in the encoding.
    Mutable,
    /// The structure has a DHEADER in XCDR2.
    Appendable,
    /// The compiler may reorder the members.
    NotReprC,
    /// Both: the structure has a DHEADER in XCDR2, and the compiler may reorder the members.
    AppendableNotReprC,
    /// The only field may have another layout than the tuple structure.
    NotTransparent,
    /// So many bytes of padding are in front of this member.
    PaddingBefore(&'static str, usize),
    /// So many bytes of padding are behind the last member.
    PaddingBehind(usize),
    /// The structure has no members.
    Empty,
}

/// A member of a structure, for [`Structure::obstacle`].
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct MemberFacts {
    /// Its name.
    pub name: &'static str,
    /// From the start of the structure, in bytes.
    pub offset: usize,
    /// In bytes.
    pub size: usize,
    /// The obstacle of its type.
    pub obstacle: fn(Representation) -> Option<Obstacle>,
}

/// A structure that is not plain. For the derive macro.
#[derive(Debug)]
#[doc(hidden)]
pub struct Structure<'m> {
    /// Its IDL name.
    pub type_name: &'static str,
    /// How it may evolve.
    pub extensibility: Extensibility,
    /// Whether it is `#[repr(C)]`.
    pub is_repr_c: bool,
    /// In bytes.
    pub size: usize,
    /// All members, in the order in which they are encoded.
    pub members: &'m [MemberFacts],
}

impl Obstacle {
    /// An obstacle in the type itself.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(type_name: &'static str, reason: Reason) -> Self {
        Self { path: Vec::new(), type_name, reason }
    }

    fn inside(mut self, member: &'static str) -> Self {
        self.path.insert(0, member);
        self
    }
}

impl Structure<'_> {
    /// The first obstacle. An obstacle of a member comes before an obstacle of the structure, since no attribute
    /// removes the former.
    #[must_use]
    pub fn obstacle(&self, representation: Representation) -> Obstacle {
        let in_member = self.members.iter().find_map(|m| Some((m.obstacle)(representation)?.inside(m.name)));
        in_member.unwrap_or_else(|| Obstacle::new(self.type_name, self.own_reason(representation)))
    }

    fn own_reason(&self, representation: Representation) -> Reason {
        match (self.extensibility, representation) {
            (Extensibility::Mutable, _) => return Reason::Mutable,
            _ if self.members.is_empty() => return Reason::Empty,
            (Extensibility::Appendable, Representation::Xcdr2) if !self.is_repr_c => {
                return Reason::AppendableNotReprC;
            }
            _ if !self.is_repr_c => return Reason::NotReprC,
            _ => {}
        }
        let mut end = 0;
        for member in self.members {
            if member.offset != end {
                return Reason::PaddingBefore(member.name, member.offset.saturating_sub(end));
            }
            end = member.offset.saturating_add(member.size);
        }
        match (self.size.saturating_sub(end), self.extensibility) {
            (0, Extensibility::Appendable) => Reason::Appendable,
            (0, _) => Reason::Kind,
            (padding, _) => Reason::PaddingBehind(padding),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, type_name, reason } = self;
        if let Some((first, rest)) = path.split_first() {
            write!(f, "member `{first}")?;
            rest.iter().try_for_each(|name| write!(f, ".{name}"))?;
            write!(f, "` of type `{type_name}` ")?;
        } else {
            write!(f, "type `{type_name}` ")?;
        }
        match reason {
            Reason::Kind => f.write_str(
                "is not plain: a plain type is a number, an array of numbers or a structure of plain members; replace it",
            ),
            Reason::Bool => f.write_str("has bytes that are no value, only 0 and 1 are: make it a `u8`"),
            Reason::Optional => f.write_str("is optional, hence of no fixed size: make it mandatory"),
            Reason::ArrayHeader => f.write_str(
                "is an array of elements that are not primitive, which XCDR2 precedes by its length: make the members of \
                 the elements arrays of numbers, or offer XCDR1",
            ),
            Reason::Mutable => f.write_str("is mutable: use #[dds(extensibility = \"final\")]"),
            Reason::Appendable => f.write_str(
                "is appendable, and XCDR2 precedes it by its length: add #[dds(extensibility = \"final\")], or offer XCDR1",
            ),
            Reason::NotReprC => f.write_str("has a memory layout that the compiler chooses: add #[repr(C)]"),
            Reason::AppendableNotReprC => f.write_str(
                "is appendable, and has a memory layout that the compiler chooses: add \
                 #[dds(extensibility = \"final\")] and #[repr(C)]",
            ),
            Reason::NotTransparent => {
                f.write_str("has a memory layout that the compiler chooses: add #[repr(transparent)]")
            }
            Reason::PaddingBefore(member, bytes) => write!(
                f,
                "has {bytes} bytes of padding in front of member `{member}`: order the members by descending alignment, \
                 or fill the padding with a member of type `[u8; {bytes}]`",
            ),
            Reason::PaddingBehind(bytes) => write!(
                f,
                "has {bytes} bytes of padding behind its last member: fill them with a member of type `[u8; {bytes}]`",
            ),
            Reason::Empty => f.write_str("has no members"),
        }
    }
}
