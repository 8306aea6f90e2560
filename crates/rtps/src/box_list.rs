//! A list of items that do not move.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// A list with each item in a box, so that a list that grows copies no items, and leaves no holes of their size in the
/// heap. For items of some hundred bytes.
#[derive(Debug)]
pub(crate) struct BoxList<T>(Vec<Box<T>>);

impl<T> Default for BoxList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> BoxList<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.0.get(index).map(|item| &**item)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.0.get_mut(index).map(|item| &mut **item)
    }

    /// The item of a list with one item.
    #[inline]
    pub(crate) fn only(&self) -> Option<&T> {
        match self.0.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The item of a list with one item.
    #[inline]
    pub(crate) fn only_mut(&mut self) -> Option<&mut T> {
        match self.0.as_mut_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    pub(crate) fn last(&self) -> Option<&T> {
        self.0.last().map(|item| &**item)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator + Clone {
        self.0.iter().map(|item| &**item)
    }

    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> + ExactSizeIterator {
        self.0.iter_mut().map(|item| &mut **item)
    }

    pub(crate) fn push(&mut self, item: T) {
        self.0.push(Box::new(item));
    }

    /// Removes an item, and puts the last one in its place.
    pub(crate) fn swap_remove(&mut self, index: usize) -> Option<T> {
        (index < self.0.len()).then(|| *self.0.swap_remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_stay_where_they_are_while_the_list_grows() {
        let mut list = BoxList::new();
        list.push([1_u8; 100]);
        let place = list.get(0).map(core::ptr::from_ref);
        assert_eq!(list.only(), Some(&[1; 100]));
        assert_eq!(list.only_mut(), Some(&mut [1; 100]));
        (2..200).for_each(|number| list.push([number; 100]));
        assert_eq!(list.get(0).map(core::ptr::from_ref), place);
        assert!(list.only().is_none() && list.only_mut().is_none());
        assert_eq!((list.len(), list.iter().len(), list.last()), (199, 199, Some(&[199; 100])));
        assert_eq!(list.swap_remove(0), Some([1; 100]));
        assert_eq!(list.get_mut(0), Some(&mut [199; 100]));
        assert_eq!(list.swap_remove(0), Some([199; 100]));
        assert_eq!(list.get(0), Some(&[198; 100]));
        assert_eq!((list.swap_remove(197), list.get(197)), (None, None));
        list.iter_mut().for_each(|item| item[0] = 0);
        assert!(!list.is_empty() && list.iter().all(|item| item[0] == 0));
    }
}
