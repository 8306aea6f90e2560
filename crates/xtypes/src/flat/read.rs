//! Finds the members of a structure.

use core::marker::PhantomData;

use crate::decoder::{Decoder, Place};
use crate::encapsulation::{Encapsulation, Endianness};
use crate::error::DecodeError;
use crate::extent::Extent;
use crate::flat::error::FlatError;
use crate::flat::flat_type::{FlatMember, FlatType};
use crate::flat::layout::{Layout, Numbers, size_without_look};
use crate::flat::locate::{ABSENT, locate};
use crate::types::DdsType;

/// The members of a structure in a payload, and their positions. Generated views hold one such value.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a, const N: usize> {
    bytes: &'a [u8],
    place: Place,
    at: [usize; N],
    /// The members if all of them match the structure's [`Layout`] in the native byte order, else empty.
    front: &'a [u8],
}

impl<'a, const N: usize> Members<'a, N> {
    /// Lets `find` find the members from the decoder's position; without a decoder, returns a structure in which all
    /// members are absent.
    #[inline]
    pub fn find(decoder: Option<Decoder<'a>>, find: impl FnOnce(Decoder<'a>) -> Self) -> Self {
        let place = Place { position: ABSENT, end: ABSENT, depth: 0, endianness: Endianness::NATIVE };
        decoder.map_or(Self { bytes: &[], place, at: [ABSENT; N], front: &[] }, find)
    }

    /// A member.
    #[inline]
    #[must_use]
    pub fn get<M: FlatMember>(&self, index: usize) -> M::View<'a> {
        M::view(place_of(&self.place, &self.at, index).map(|place| Decoder::resume(self.bytes, place)))
    }

    /// A member of a structure with this layout.
    #[inline]
    #[must_use]
    pub fn get_of<M: FlatMember>(&self, index: usize, layout: &Layout<N>) -> M::View<'a> {
        let front = layout.value(index).and_then(|value| self.front.get(value..));
        match front.and_then(M::native) {
            Some(view) => view,
            None => self.get::<M>(index),
        }
    }

    /// The positions of the members.
    #[must_use]
    pub fn positions(&self) -> Positions<N> {
        Positions { place: self.place, at: self.at }
    }
}

/// The positions of the members of a structure, without the payload.
#[derive(Clone, Copy, Debug)]
pub struct Positions<const N: usize> {
    place: Place,
    at: [usize; N],
}

/// The members of a structure in a payload that can be changed in place. Generated views hold one such value.
#[derive(Debug)]
pub struct MembersMut<'a, const N: usize> {
    bytes: &'a mut [u8],
    place: Place,
    at: [usize; N],
}

impl<'a, const N: usize> MembersMut<'a, N> {
    /// The members at `positions` of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a mut [u8], positions: Positions<N>) -> Self {
        Self { bytes, place: positions.place, at: positions.at }
    }

    /// A member.
    ///
    /// # Errors
    /// [`FlatError::AbsentMember`].
    pub fn get<M: FlatMember>(
        &mut self,
        index: usize,
        type_name: &'static str,
        member: &'static str,
    ) -> Result<<M::Value as FlatType>::ViewMut<'_>, FlatError> {
        match place_of(&self.place, &self.at, index) {
            Some(place) => Ok(M::Value::view_mut(self.bytes, place)),
            None => Err(FlatError::AbsentMember { type_name, member }),
        }
    }

    /// The same members, for reading.
    #[must_use]
    pub fn as_ref(&self) -> Members<'_, N> {
        Members { bytes: self.bytes, place: self.place, at: self.at, front: &[] }
    }
}

#[inline]
fn place_of(place: &Place, at: &[usize], index: usize) -> Option<Place> {
    match at.get(index) {
        None | Some(&ABSENT) => None,
        Some(&position) => Some(Place { position, ..*place }),
    }
}

/// The total size of the first members of a structure, up to the first member whose size is not fixed.
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    extent: Extent,
    /// Whether all members so far are included.
    is_fixed: bool,
}

impl Prefix {
    /// No members.
    pub const EMPTY: Self = Self { extent: Extent::EMPTY, is_fixed: true };

    /// This prefix extended by one member.
    #[must_use]
    pub const fn then<M: FlatMember>(self) -> Self {
        if self.is_fixed && M::FIXED {
            Self { extent: self.extent.then(<M::Value as DdsType>::EXTENTS.xcdr2), is_fixed: true }
        } else {
            Self { is_fixed: false, ..self }
        }
    }

    /// Whether the next member is directly behind this prefix.
    #[must_use]
    pub const fn is_fixed(self) -> bool {
        self.is_fixed
    }
}

/// The properties by which a member is found in a mutable structure.
#[derive(Clone, Copy, Debug)]
pub struct ParameterFacts {
    optional: bool,
    leads_with_length: bool,
}

impl ParameterFacts {
    /// The properties of a member.
    #[must_use]
    pub const fn of<M: FlatMember>() -> Self {
        Self { optional: M::OPTIONAL, leads_with_length: <M::Value as FlatType>::LEADS_WITH_LENGTH }
    }
}

/// Skips a sequence of numbers if it comes next in the layout that this crate writes, and returns its position.
#[inline]
fn pass_numbers<M: FlatMember>(id: u32, list: &mut Decoder<'_>) -> Option<usize> {
    let ahead = list.native_ahead()?;
    let numbers = Numbers::in_front::<M>(ahead, id)?;
    let header = list.place().end - ahead.len();
    list.seek(header + numbers.len);
    Some(header + numbers.value)
}

/// Finds the members of a structure. For the derive macro.
pub struct Walk<'a, T, const N: usize> {
    decoder: Decoder<'a>,
    /// The position of the first member.
    start: usize,
    /// Whether all fixed-size members in front are present.
    has_prefix: bool,
    /// Whether the structure ended too early. A checked structure does not.
    failed: bool,
    at: [usize; N],
    of: PhantomData<fn() -> T>,
}

impl<'a, T: DdsType, const N: usize> Walk<'a, T, N> {
    /// Enters the structure at the decoder's position, whose fixed-size first members are `prefix`.
    #[inline]
    #[must_use]
    pub fn open(mut decoder: Decoder<'a>, prefix: Prefix) -> Self {
        let failed = decoder.begin_aggregate(T::EXTENSIBILITY).is_err();
        let start = decoder.place().position;
        let has_prefix = prefix.extent.at(start - Encapsulation::LEN) <= decoder.remaining();
        Self { decoder, start, has_prefix, failed, at: [ABSENT; N], of: PhantomData }
    }

    /// Finds the next member of a final or appendable structure. `before` covers the members before it, and `after`
    /// also covers the member itself.
    #[inline]
    pub fn member<M: FlatMember>(&mut self, index: usize, before: Prefix, after: Prefix) {
        if self.failed {
            return;
        }
        if before.is_fixed() && self.has_prefix {
            self.decoder.seek(self.start + before.extent.at(self.start - Encapsulation::LEN));
            if after.is_fixed() {
                self.set(index, self.decoder.place().position);
                return;
            }
        }
        match self.step::<M>() {
            Ok(position) => self.set(index, position),
            Err(_) => self.failed = true,
        }
    }

    fn step<M: FlatMember>(&mut self) -> Result<usize, DecodeError> {
        let position = locate::<M>(&mut self.decoder, T::EXTENSIBILITY)?;
        if position != ABSENT {
            M::Value::skip(&mut self.decoder)?;
        }
        Ok(position)
    }

    /// Enters the mutable structure at the decoder's position, and returns the decoder that walks it.
    ///
    /// # Errors
    /// The errors of [`Decoder::begin_aggregate`].
    #[inline]
    pub fn enter(mut decoder: Decoder<'a>) -> Result<(Self, Decoder<'a>), DecodeError> {
        let _ = decoder.begin_aggregate(T::EXTENSIBILITY)?;
        let start = decoder.place().position;
        let list = decoder.clone();
        Ok((Self { decoder, start, has_prefix: false, failed: false, at: [ABSENT; N], of: PhantomData }, list))
    }

    /// Records the positions of the members of `layout`, skips them and returns the bytes from the first of them on, if
    /// they come next in the layout that this crate writes. Otherwise does nothing.
    #[inline]
    pub fn pass(&mut self, layout: &Layout<N>, list: &mut Decoder<'a>) -> Option<&'a [u8]> {
        let start = list.place().position;
        let members = list.native_ahead()?;
        // The offset determines the alignment of values to four bytes.
        if !layout.is_in(members) || !(start - Encapsulation::LEN).is_multiple_of(4) {
            return None;
        }
        for (at, value) in self.at.iter_mut().zip(layout.values()) {
            *at = start + value;
        }
        list.seek(start + layout.len());
        Some(members)
    }

    /// Records the position of a member, skips it and returns true, if it comes next and needs no check: a number, an
    /// array or a sequence of numbers. Otherwise does nothing.
    #[inline]
    pub fn expected<M: FlatMember>(&mut self, index: usize, id: u32, list: &mut Decoder<'a>) -> bool {
        let found = match const { size_without_look::<M>() } {
            Some(size) => list.pass_parameter(id, size),
            None => pass_numbers::<M>(id, list),
        };
        if let Some(position) = found {
            self.set(index, position);
        }
        found.is_some()
    }

    /// Finds the members of a mutable structure: `known` contains their ids and properties. Of several members with the
    /// same id the last one is used, as by a decoder. With `to_change`, members that must not be changed in place are
    /// omitted.
    pub fn parameters(&mut self, known: &[(u32, ParameterFacts); N], to_change: bool) {
        let mut list = self.decoder.clone();
        while let Ok(Some(parameter)) = list.next_parameter() {
            if let Some((index, (_, facts))) = known.iter().enumerate().find(|(_, (id, _))| *id == parameter.id) {
                let is_absent = facts.optional && list.remaining() == 0;
                let is_kept = to_change && parameter.shares_length && !facts.leads_with_length;
                self.set(index, if is_absent || is_kept { ABSENT } else { list.place().position });
            }
            list.end_parameter(parameter);
        }
    }

    /// Checks a member whose value fills the decoder's window, and records its position. Of several members with the
    /// same id the last one is used, as by a decoder.
    ///
    /// # Errors
    /// The errors of the value.
    #[inline]
    pub fn parameter<M: FlatMember>(&mut self, index: usize, list: &mut Decoder<'a>) -> Result<(), DecodeError> {
        let is_absent = M::OPTIONAL && list.remaining() == 0;
        self.set(index, if is_absent { ABSENT } else { list.place().position });
        M::check_parameter(list)
    }

    #[inline]
    fn set(&mut self, index: usize, position: usize) {
        if let Some(at) = self.at.get_mut(index) {
            *at = position;
        }
    }

    /// The members.
    #[inline]
    #[must_use]
    pub fn finish(self) -> Members<'a, N> {
        Members { bytes: self.decoder.bytes(), place: self.decoder.place(), at: self.at, front: &[] }
    }

    /// The members, all of which were skipped. The members of the structure's layout are at the start of `front`.
    #[inline]
    #[must_use]
    pub fn finish_with(self, front: &'a [u8]) -> Members<'a, N> {
        Members { front, ..self.finish() }
    }
}
