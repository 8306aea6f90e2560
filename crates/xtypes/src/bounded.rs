//! Collections with a greatest number of elements.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

/// A value has more elements than its type allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceedsBound {
    /// The number of elements (of bytes, for a string).
    pub len: usize,
    /// The greatest number allowed.
    pub bound: usize,
}

impl ExceedsBound {
    pub(crate) fn check(len: usize, bound: usize) -> Result<(), Self> {
        if len > bound { Err(Self { len, bound }) } else { Ok(()) }
    }
}

impl fmt::Display for ExceedsBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements exceed the bound {} of the type", self.len, self.bound)
    }
}

impl core::error::Error for ExceedsBound {}

/// IDL `sequence<T, N>`: at most `N` elements.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoundedVec<T, const N: usize>(Vec<T>);

impl<T, const N: usize> BoundedVec<T, N> {
    /// The empty sequence.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends an element.
    ///
    /// # Errors
    /// [`ExceedsBound`] when there are `N` already.
    pub fn push(&mut self, element: T) -> Result<(), ExceedsBound> {
        ExceedsBound::check(self.0.len() + 1, N)?;
        self.0.push(element);
        Ok(())
    }

    /// The elements, to be changed in place.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.0
    }

    /// The elements, without their bound.
    #[must_use]
    pub fn into_inner(self) -> Vec<T> {
        self.0
    }

    /// For decoders, which check the bound before they read the elements.
    pub(crate) fn from_checked(elements: Vec<T>) -> Self {
        debug_assert!(elements.len() <= N);
        Self(elements)
    }
}

impl<T, const N: usize> Default for BoundedVec<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> TryFrom<Vec<T>> for BoundedVec<T, N> {
    type Error = ExceedsBound;

    fn try_from(elements: Vec<T>) -> Result<Self, ExceedsBound> {
        ExceedsBound::check(elements.len(), N)?;
        Ok(Self(elements))
    }
}

impl<T, const N: usize> Deref for BoundedVec<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// IDL `map<K, V, N>`: at most `N` entries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoundedMap<K, V, const N: usize>(BTreeMap<K, V>);

impl<K: Ord, V, const N: usize> BoundedMap<K, V, N> {
    /// The empty map.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds an entry or replaces its value, which is returned.
    ///
    /// # Errors
    /// [`ExceedsBound`] when the entry is new and there are `N` already.
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>, ExceedsBound> {
        if !self.0.contains_key(&key) {
            ExceedsBound::check(self.0.len() + 1, N)?;
        }
        Ok(self.0.insert(key, value))
    }

    /// The entries, without their bound.
    #[must_use]
    pub fn into_inner(self) -> BTreeMap<K, V> {
        self.0
    }

    /// For decoders, which check the bound before they read the entries.
    pub(crate) fn from_checked(entries: BTreeMap<K, V>) -> Self {
        debug_assert!(entries.len() <= N);
        Self(entries)
    }
}

impl<K: Ord, V, const N: usize> Default for BoundedMap<K, V, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V, const N: usize> TryFrom<BTreeMap<K, V>> for BoundedMap<K, V, N> {
    type Error = ExceedsBound;

    fn try_from(entries: BTreeMap<K, V>) -> Result<Self, ExceedsBound> {
        ExceedsBound::check(entries.len(), N)?;
        Ok(Self(entries))
    }
}

impl<K, V, const N: usize> Deref for BoundedMap<K, V, N> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &BTreeMap<K, V> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_past_the_bound_is_refused() {
        let mut sequence = BoundedVec::<u8, 2>::try_from(alloc::vec![1]).unwrap();
        sequence.push(2).unwrap();
        assert_eq!(sequence.push(3), Err(ExceedsBound { len: 3, bound: 2 }));
        assert_eq!(*sequence, [1, 2]);
        assert!(BoundedVec::<u8, 2>::try_from(alloc::vec![1, 2, 3]).is_err());

        let mut map = BoundedMap::<u8, u8, 1>::new();
        assert_eq!(map.insert(1, 1), Ok(None));
        assert_eq!(map.insert(1, 2), Ok(Some(1)), "replacing does not grow");
        assert_eq!(map.insert(2, 2), Err(ExceedsBound { len: 2, bound: 1 }));
    }
}
