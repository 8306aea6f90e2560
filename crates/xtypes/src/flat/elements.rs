//! Access to sequences, arrays and maps in place.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use crate::bounded::BoundedVec;
use crate::collection::{encode_elements, encode_sequence};
use crate::decoder::{Decoder, Place};
use crate::encapsulation::{Encapsulation, Endianness, Representation};
use crate::encoder::{Encoder, Length};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::extent::Extent;
use crate::flat::error::FlatError;
use crate::flat::flat_type::{Build, FlatType};
use crate::flat::writer::{Done, Writer};
use crate::plain;
use crate::sink::Sink;
use crate::types::DdsType;

/// A sequence or array in a payload.
pub struct Elements<'a, T> {
    bytes: &'a [u8],
    /// The first element; `None` for an array member that the writer's type does not have, whose elements have the
    /// default value.
    first: Option<Place>,
    count: usize,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Elements<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Elements<'_, T> {}

impl<'a, T: FlatType> Elements<'a, T> {
    /// `count` elements from the decoder's position.
    #[inline]
    pub(crate) fn new(mut decoder: Decoder<'a>, count: usize) -> Self {
        if T::PRIMITIVE && count > 0 {
            // A checked collection contains its first element.
            let _ = decoder.align(T::MIN_SIZE);
        }
        Self { bytes: decoder.bytes(), first: Some(decoder.place()), count, of: PhantomData }
    }

    /// `count` elements of the default value.
    #[inline]
    pub(crate) fn absent(count: usize) -> Self {
        Self { bytes: &[], first: None, count, of: PhantomData }
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// An element: in constant time when elements have a fixed size, otherwise after one step for each element before
    /// it.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<T::View<'a>> {
        if index >= self.count {
            return None;
        }
        let place = self.first.and_then(|first| element::<T>(self.bytes, first, index));
        Some(T::view(place.map(|place| Decoder::resume(self.bytes, place))))
    }

    /// The elements in order.
    #[must_use]
    pub fn iter(&self) -> ElementsIter<'a, T> {
        let decoder = self.first.map(|first| Decoder::resume(self.bytes, first));
        ElementsIter { decoder, left: self.count, of: PhantomData }
    }

    /// The elements as a slice of the payload: `None` unless they are numbers or [plain](crate::plain) structures, in
    /// the native byte order and aligned in memory. This always holds for bytes, except for an array that is not in the
    /// payload.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> Option<&'a [T]> {
        if self.count == 0 {
            return Some(&[]);
        }
        let range = slice_range::<T>(self.first?, self.count)?;
        plain::slice_of(self.bytes.get(range)?)
    }

    /// The elements in a new vector.
    #[must_use]
    pub fn to_vec(self) -> Vec<T> {
        let Some(first) = self.first else { return vec![T::default_value(); self.count] };
        let mut decoder = Decoder::resume(self.bytes, first);
        if let Some(values) = plain::decoded_vec(&mut decoder, self.count) {
            return values;
        }
        // A checked payload contains the stated number of elements.
        (0..self.count).map(|_| T::decode(&mut decoder).unwrap_or_else(|_| T::default_value())).collect()
    }
}

impl<'a, T: FlatType> IntoIterator for Elements<'a, T> {
    type Item = T::View<'a>;
    type IntoIter = ElementsIter<'a, T>;

    fn into_iter(self) -> ElementsIter<'a, T> {
        self.iter()
    }
}

impl<T: FlatType> fmt::Debug for Elements<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

/// Iterates over [`Elements`].
#[derive(Clone)]
pub struct ElementsIter<'a, T> {
    decoder: Option<Decoder<'a>>,
    left: usize,
    of: PhantomData<fn() -> T>,
}

impl<'a, T: FlatType> Iterator for ElementsIter<'a, T> {
    type Item = T::View<'a>;

    #[inline]
    fn next(&mut self) -> Option<T::View<'a>> {
        self.left = self.left.checked_sub(1)?;
        let view = T::view(self.decoder.clone());
        let Some(decoder) = &mut self.decoder else { return Some(view) };
        if T::skip(decoder).is_err() {
            self.left = 0;
        }
        Some(view)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T: FlatType> ExactSizeIterator for ElementsIter<'_, T> {}

/// A sequence or array in a payload, whose elements can be changed in place.
pub struct ElementsMut<'a, T> {
    bytes: &'a mut [u8],
    first: Place,
    count: usize,
    of: PhantomData<fn() -> T>,
}

impl<'a, T: FlatType> ElementsMut<'a, T> {
    /// Elements of `bytes` that can be changed in place.
    pub(crate) fn new(bytes: &'a mut [u8], first: Place, count: usize) -> Self {
        Self { bytes, first, count, of: PhantomData }
    }

    /// The number of elements, which cannot be changed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// An element; see [`Elements::get`].
    #[must_use]
    pub fn get_mut(&mut self, index: usize) -> Option<T::ViewMut<'_>> {
        if index >= self.count {
            return None;
        }
        let place = element::<T>(self.bytes, self.first, index)?;
        Some(T::view_mut(self.bytes, place))
    }

    /// The elements as a slice of the payload; see [`Elements::as_slice`].
    #[must_use]
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        if self.count == 0 {
            return Some(&mut []);
        }
        let range = slice_range::<T>(self.first, self.count)?;
        plain::slice_of_mut(self.bytes.get_mut(range)?)
    }

    /// The elements, for reading.
    #[must_use]
    pub fn as_elements(&self) -> Elements<'_, T> {
        Elements { bytes: self.bytes, first: Some(self.first), count: self.count, of: PhantomData }
    }
}

debug_without_bounds! {
    [T] ElementsIter<'_, T> { left },
    [T] ElementsMut<'_, T> { count },
    [C] ElementsBuilder<'_, C> { writer, count },
}

#[inline]
fn slice_range<T: DdsType>(first: Place, count: usize) -> Option<core::ops::Range<usize>> {
    let fits = plain::is_borrowable_at::<T>(first.endianness, first.position.checked_sub(Encapsulation::LEN)?);
    let end = size_of::<T>().checked_mul(count)?.checked_add(first.position)?;
    fits.then_some(first.position..end)
}

/// The position of the element `index` of a collection that starts at `first`.
#[inline]
fn element<T: FlatType>(bytes: &[u8], first: Place, index: usize) -> Option<Place> {
    if T::FIXED {
        let position =
            first.position.checked_add(span(T::EXTENTS.xcdr2, first.position - Encapsulation::LEN, index)?)?;
        return Some(Place { position, ..first });
    }
    let mut decoder = Decoder::resume(bytes, first);
    (0..index).try_for_each(|_| T::skip(&mut decoder)).ok()?;
    Some(decoder.place())
}

/// The bytes that `count` values of fixed size take from `offset` on, in constant time. The padding between values
/// depends only on the offset modulo four, so the sizes repeat after at most four values.
#[inline]
fn span(size: Extent, offset: usize, count: usize) -> Option<usize> {
    const PERIOD_MAX: usize = 4;
    let step = |total: usize| total.checked_add(size.at(offset.wrapping_add(total)));
    let first = size.at(offset);
    if first.is_multiple_of(4) {
        return first.checked_mul(count);
    }
    let lead = count.min(PERIOD_MAX);
    let mut total = (0..lead).try_fold(0, |total, _| step(total))?;
    if lead == count {
        return Some(total);
    }
    let (start, mut period) = (total, 0);
    loop {
        total = step(total)?;
        period += 1;
        if (total - start).is_multiple_of(4) || period == PERIOD_MAX {
            break;
        }
    }
    let left = count - lead;
    total = (total - start).checked_mul(left / period)?.checked_add(start)?;
    (0..left % period).try_fold(total, |total, _| step(total))
}

/// Checks `count` elements. Accepts what decoding them accepts.
fn check_elements<T: FlatType>(decoder: &mut Decoder<'_>, count: usize) -> Result<(), DecodeError> {
    if T::PRIMITIVE && count > 0 {
        decoder.align(T::MIN_SIZE)?;
    }
    if !(T::FIXED && T::ANY_BITS) || count == 0 {
        return (0..count).try_for_each(|_| T::check(decoder));
    }
    T::check(decoder)?;
    match span(T::EXTENTS.xcdr2, decoder.place().position - Encapsulation::LEN, count - 1) {
        Some(rest) => decoder.take(rest).map(|_| ()),
        None => Err(decoder.error(DecodeErrorKind::InvalidLength)),
    }
}

/// Enters a collection and returns its number of elements, which is valid in a checked payload.
#[inline]
fn enter<T: DdsType>(decoder: &mut Decoder<'_>) -> usize {
    match decoder.begin_delimited(!T::PRIMITIVE) {
        Ok(_) => decoder.take_count(T::MIN_SIZE, None).unwrap_or(0),
        Err(_) => 0,
    }
}

/// A sequence or an array type.
pub trait Collection: FlatType {
    /// The type of the elements.
    type Element: FlatType;
    /// The greatest number of elements, if there is one.
    const BOUND: Option<usize>;
    /// Whether all values have the same number of elements.
    const IS_ARRAY: bool;
}

/// Builds a sequence or array.
///
/// A call that fails leaves the builder unchanged: the element that did not fit is not written, and the builder can be
/// finished with the elements before it.
#[must_use = "nothing is built without `finish`"]
pub struct ElementsBuilder<'w, C> {
    writer: Writer<'w>,
    length: Length,
    /// The position of the number of elements, in a sequence.
    count_at: usize,
    count: usize,
    of: PhantomData<fn() -> C>,
}

impl<'w, C: Collection> ElementsBuilder<'w, C> {
    #[inline(always)]
    pub(crate) fn new(mut writer: Writer<'w>) -> Result<Self, FlatError> {
        let length = writer.begin_delimited(!C::Element::PRIMITIVE)?;
        let count_at = if C::IS_ARRAY { writer.position() } else { writer.put_word(0)? };
        Ok(Self { writer, length, count_at, count: 0, of: PhantomData })
    }

    /// The number of elements so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no elements were appended yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends an element.
    ///
    /// # Errors
    /// [`FlatError::ExceedsBound`], and the errors of the value.
    #[inline]
    pub fn push(&mut self, value: <C::Element as FlatType>::Input<'_>) -> Result<(), FlatError> {
        self.append(1, |writer| writer.write::<C::Element>(value))
    }

    /// Lets `build` write the next element.
    ///
    /// # Errors
    /// [`FlatError::ExceedsBound`], and the errors of `build`.
    #[inline]
    pub fn push_with<F>(&mut self, build: F) -> Result<(), FlatError>
    where
        F: for<'x> Build<'x, C::Element>,
    {
        self.append(1, |writer| writer.build::<C::Element, F>(build))
    }

    /// Appends elements: numbers and [plain](crate::plain) structures by one copy.
    ///
    /// # Errors
    /// [`FlatError::ExceedsBound`], and the errors of the values.
    #[inline]
    pub fn extend_from_slice(&mut self, values: &[C::Element]) -> Result<(), FlatError> {
        self.append(values.len(), |writer| Ok(encode_elements(values, &mut writer.encoder())?))
    }

    /// Appends `count` elements that `fill` writes in place. Their initial values are unspecified.
    ///
    /// Elements that are neither numbers nor [plain](crate::plain) structures, or that are not aligned in memory
    /// (possible only for elements of 8 bytes in an aligned buffer), are filled in a separate value, which starts with
    /// their default, and copied.
    ///
    /// # Errors
    /// [`FlatError::ExceedsBound`], and the errors of the values.
    #[inline(always)]
    pub fn fill<R>(&mut self, count: usize, fill: impl FnOnce(&mut [C::Element]) -> R) -> Result<R, FlatError> {
        let mut result = None;
        self.append(count, |writer| {
            if C::Element::PRIMITIVE && count > 0 {
                writer.encoder().align(C::Element::MIN_SIZE)?;
            }
            if let Some(elements) = writer.elements_mut(count)? {
                result = Some(fill(elements));
                return Ok(());
            }
            let mut values = vec![C::Element::default_value(); count];
            result = Some(fill(&mut values));
            Ok(encode_elements(&values, &mut writer.encoder())?)
        })?;
        result.ok_or(FlatError::Encode(EncodeError::TooLarge))
    }

    #[inline(always)]
    fn append(
        &mut self,
        count: usize,
        write: impl FnOnce(&mut Writer<'w>) -> Result<(), FlatError>,
    ) -> Result<(), FlatError> {
        let len = self.count.saturating_add(count);
        if let Some(bound) = C::BOUND.filter(|bound| len > *bound) {
            return Err(FlatError::ExceedsBound { len, bound });
        }
        let start = self.writer.position();
        write(&mut self.writer).inspect_err(|_| self.writer.rewind(start))?;
        self.count = len;
        Ok(())
    }

    /// Ends the collection.
    ///
    /// # Errors
    /// [`FlatError::TooFewElements`] for an array, and the errors of [`FlatError::Encode`].
    #[inline]
    pub fn finish(mut self) -> Result<Done<'w, C>, FlatError> {
        match C::BOUND {
            Some(expected) if C::IS_ARRAY && self.count < expected => {
                return Err(FlatError::TooFewElements { given: self.count, expected });
            }
            _ if C::IS_ARRAY => {}
            _ => {
                let count = u32::try_from(self.count).map_err(|_| EncodeError::TooLarge)?;
                self.writer.patch(self.count_at, count.to_ne_bytes());
            }
        }
        self.writer.end_delimited(self.length)?;
        self.writer.finish()
    }
}

/// [`FlatType::NUMBERS`] of a sequence of `T`.
const fn numbers<T: FlatType>(bound: Option<usize>) -> Option<(usize, usize)> {
    match bound {
        _ if !T::PRIMITIVE || !T::NEEDS_NO_LOOK => None,
        Some(bound) => Some((T::MIN_SIZE, bound)),
        None => Some((T::MIN_SIZE, usize::MAX)),
    }
}

/// The items that sequences share.
macro_rules! sequence_impl {
    ($bound:expr) => {
        type View<'a> = Elements<'a, T>;
        type ViewMut<'a> = ElementsMut<'a, T>;
        type Builder<'w> = ElementsBuilder<'w, Self>;
        type Built = Self;
        type Input<'v> = &'v [T];
        const FIXED: bool = false;
        const ANY_BITS: bool = false;
        const LEADS_WITH_LENGTH: bool = true;
        const NUMBERS: Option<(usize, usize)> = numbers::<T>($bound);

        fn check(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
            let aggregate = decoder.begin_delimited(!T::PRIMITIVE)?;
            let count = decoder.take_count(T::MIN_SIZE, $bound)?;
            check_elements::<T>(decoder, count)?;
            decoder.end_delimited(aggregate);
            Ok(())
        }

        #[inline]
        fn view<'a>(decoder: Option<Decoder<'a>>) -> Elements<'a, T> {
            let Some(mut decoder) = decoder else { return Elements::absent(0) };
            let count = enter::<T>(&mut decoder);
            Elements::new(decoder, count)
        }

        #[inline]
        fn native(bytes: &[u8]) -> Option<Elements<'_, T>> {
            let (size, _) = Self::NUMBERS?;
            let count = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
            let position = Encapsulation::LEN;
            let end = count.checked_mul(size)?.checked_add(position)?;
            let place = Place { position, end, depth: 0, endianness: Endianness::NATIVE };
            (end <= bytes.len()).then_some(Elements { bytes, first: Some(place), count, of: PhantomData })
        }

        fn view_mut<'a>(bytes: &'a mut [u8], place: Place) -> ElementsMut<'a, T> {
            let elements = Self::view(Some(Decoder::resume(bytes, place)));
            let (first, count) = (elements.first.unwrap_or(place), elements.count);
            ElementsMut::new(bytes, first, count)
        }

        #[inline(always)]
        fn builder<'w>(writer: Writer<'w>) -> Result<ElementsBuilder<'w, Self>, FlatError> {
            ElementsBuilder::new(writer)
        }

        #[inline]
        fn write(elements: &[T], encoder: &mut Encoder<'_, Writer<'_>>) -> Result<(), FlatError> {
            let (len, bound) = (elements.len(), $bound);
            match bound {
                Some(bound) if len > bound => Err(FlatError::ExceedsBound { len, bound }),
                _ => Ok(encode_sequence(elements, encoder)?),
            }
        }
    };
}

impl<T: FlatType> FlatType for Vec<T> {
    sequence_impl!(None::<usize>);
}

impl<T: FlatType> Collection for Vec<T> {
    type Element = T;
    const BOUND: Option<usize> = None;
    const IS_ARRAY: bool = false;
}

impl<T: FlatType, const N: usize> FlatType for BoundedVec<T, N> {
    sequence_impl!(Some(N));
}

impl<T: FlatType, const N: usize> Collection for BoundedVec<T, N> {
    type Element = T;
    const BOUND: Option<usize> = Some(N);
    const IS_ARRAY: bool = false;
}

impl<T: FlatType, const N: usize> FlatType for [T; N] {
    type View<'a> = Elements<'a, T>;
    type ViewMut<'a> = ElementsMut<'a, T>;
    type Builder<'w> = ElementsBuilder<'w, Self>;
    type Built = Self;
    type Input<'v> = &'v Self;
    const FIXED: bool = T::PRIMITIVE && T::FIXED;
    const ANY_BITS: bool = T::ANY_BITS;
    const NEEDS_NO_LOOK: bool = T::NEEDS_NO_LOOK && T::PRIMITIVE;

    fn check(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        let aggregate = decoder.begin_delimited(!T::PRIMITIVE)?;
        check_elements::<T>(decoder, N)?;
        decoder.end_delimited(aggregate);
        Ok(())
    }

    #[inline]
    fn view<'a>(decoder: Option<Decoder<'a>>) -> Elements<'a, T> {
        let Some(mut decoder) = decoder else { return Elements::absent(N) };
        match decoder.begin_delimited(!T::PRIMITIVE) {
            Ok(_) => Elements::new(decoder, N),
            Err(_) => Elements::absent(N),
        }
    }

    fn view_mut<'a>(bytes: &'a mut [u8], place: Place) -> ElementsMut<'a, T> {
        let first = Self::view(Some(Decoder::resume(bytes, place))).first;
        ElementsMut::new(bytes, first.unwrap_or(place), if first.is_some() { N } else { 0 })
    }

    #[inline(always)]
    fn builder<'w>(writer: Writer<'w>) -> Result<ElementsBuilder<'w, Self>, FlatError> {
        ElementsBuilder::new(writer)
    }

    #[inline]
    fn bytes<'v>(elements: &'v &Self) -> Option<&'v [u8]> {
        Self::NEEDS_NO_LOOK.then(|| plain::as_bytes(*elements, Representation::Xcdr2)).flatten()
    }

    #[inline]
    fn write(elements: &Self, encoder: &mut Encoder<'_, Writer<'_>>) -> Result<(), FlatError> {
        Ok(elements.encode(encoder)?)
    }
}

impl<T: FlatType, const N: usize> Collection for [T; N] {
    type Element = T;
    const BOUND: Option<usize> = Some(N);
    const IS_ARRAY: bool = true;
}
