//! Access to maps in place.

use alloc::collections::BTreeMap;
use core::fmt;
use core::marker::PhantomData;

use crate::bounded::BoundedMap;
use crate::decoder::{Decoder, Place};
use crate::encapsulation::Endianness;
use crate::encoder::Encoder;
use crate::error::DecodeError;
use crate::flat::error::FlatError;
use crate::flat::flat_type::FlatType;
use crate::flat::leaf::{NotFixedSize, ValueBuilder};
use crate::flat::writer::Writer;
use crate::types::DdsType;

/// A map in a payload: its entries, in the order in which the writer put them.
pub struct Entries<'a, K, V> {
    bytes: &'a [u8],
    first: Place,
    count: usize,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Entries<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Entries<'_, K, V> {}

impl<'a, K: FlatType, V: FlatType> Entries<'a, K, V> {
    fn new(mut decoder: Decoder<'a>) -> Self {
        let delimited = !(K::PRIMITIVE && V::PRIMITIVE);
        let count = match decoder.begin_delimited(delimited) {
            Ok(_) => decoder.take_count(K::MIN_SIZE + V::MIN_SIZE, None).unwrap_or(0),
            Err(_) => 0,
        };
        Self { bytes: decoder.bytes(), first: decoder.place(), count, of: PhantomData }
    }

    fn absent() -> Self {
        let first = Place { position: 0, end: 0, depth: 0, endianness: Endianness::NATIVE };
        Self { bytes: &[], first, count: 0, of: PhantomData }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the map has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The entries.
    #[must_use]
    pub fn iter(&self) -> EntriesIter<'a, K, V> {
        EntriesIter { decoder: Decoder::resume(self.bytes, self.first), left: self.count, of: PhantomData }
    }
}

impl<'a, K: FlatType, V: FlatType> IntoIterator for Entries<'a, K, V> {
    type Item = (K::View<'a>, V::View<'a>);
    type IntoIter = EntriesIter<'a, K, V>;

    fn into_iter(self) -> EntriesIter<'a, K, V> {
        self.iter()
    }
}

impl<K: FlatType, V: FlatType> fmt::Debug for Entries<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(*self).finish()
    }
}

/// Iterates over [`Entries`].
#[derive(Clone)]
pub struct EntriesIter<'a, K, V> {
    decoder: Decoder<'a>,
    left: usize,
    of: PhantomData<fn() -> (K, V)>,
}

impl<'a, K: FlatType, V: FlatType> Iterator for EntriesIter<'a, K, V> {
    type Item = (K::View<'a>, V::View<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let key = K::view(Some(self.decoder.clone()));
        K::skip(&mut self.decoder).ok()?;
        let value = V::view(Some(self.decoder.clone()));
        V::skip(&mut self.decoder).ok()?;
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K: FlatType, V: FlatType> ExactSizeIterator for EntriesIter<'_, K, V> {}

debug_without_bounds! {
    [K, V] EntriesIter<'_, K, V> { left },
}

/// The items that maps share.
macro_rules! map_impl {
    () => {
        type View<'a> = Entries<'a, K, V>;
        type ViewMut<'a> = NotFixedSize;
        type Builder<'w> = ValueBuilder<'w, Self>;
        type Built = Self;
        type Input<'v> = &'v Self;
        const FIXED: bool = false;
        const ANY_BITS: bool = false;
        const LEADS_WITH_LENGTH: bool = true;

        /// A key must not occur twice, and keys come in any order.
        fn check(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
            Self::decode(decoder).map(|_| ())
        }

        fn view<'a>(decoder: Option<Decoder<'a>>) -> Entries<'a, K, V> {
            decoder.map_or_else(Entries::absent, Entries::new)
        }

        fn view_mut(_bytes: &mut [u8], _place: Place) -> NotFixedSize {
            NotFixedSize
        }

        fn builder<'w>(writer: Writer<'w>) -> Result<ValueBuilder<'w, Self>, FlatError> {
            Ok(ValueBuilder::new(writer))
        }

        fn write(entries: &Self, encoder: &mut Encoder<'_, Writer<'_>>) -> Result<(), FlatError> {
            Ok(entries.encode(encoder)?)
        }
    };
}

impl<K: FlatType + Ord, V: FlatType> FlatType for BTreeMap<K, V> {
    map_impl!();
}

impl<K: FlatType + Ord, V: FlatType, const N: usize> FlatType for BoundedMap<K, V, N> {
    map_impl!();
}
