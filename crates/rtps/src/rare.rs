//! Optional values that few of many owners have.

use alloc::boxed::Box;

/// An optional value: one word while there is none, and a place in the heap otherwise.
///
/// A participant with many endpoints keeps some hundred bytes for each pair of them, most of which would hold nothing.
#[derive(Debug)]
pub(crate) struct Rare<T>(Option<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Rare<T> {
    pub(crate) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn as_ref(&self) -> Option<&T> {
        self.0.as_deref()
    }

    pub(crate) fn as_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// The value; the default, which is kept, if there was none.
    pub(crate) fn get_or_default(&mut self) -> &mut T
    where
        T: Default,
    {
        self.0.get_or_insert_default()
    }

    /// A copy of the value.
    pub(crate) fn get(&self) -> Option<T>
    where
        T: Copy,
    {
        self.0.as_deref().copied()
    }

    pub(crate) fn put(&mut self, value: T) {
        match &mut self.0 {
            Some(place) => **place = value,
            none => *none = Some(Box::new(value)),
        }
    }

    pub(crate) fn set(&mut self, value: Option<T>) {
        match value {
            Some(value) => self.put(value),
            None => self.clear(),
        }
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.take().map(|value| *value)
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_there_until_taken_or_cleared() {
        let mut rare = Rare::default();
        assert_eq!((size_of::<Rare<[u64; 9]>>(), rare.is_none(), rare.get()), (size_of::<usize>(), true, None));
        rare.put([1; 9]);
        rare.put([2; 9]);
        if let Some(value) = rare.as_mut() {
            value[0] = 3;
        }
        assert!(rare.is_some() && rare.as_ref() == rare.get().as_ref());
        assert_eq!(rare.take(), Some([3, 2, 2, 2, 2, 2, 2, 2, 2]));
        rare.set(Some([4; 9]));
        assert_eq!(rare.get(), Some([4; 9]));
        rare.set(None);
        assert_eq!(rare.get(), None);
        *rare.get_or_default() = [5; 9];
        rare.clear();
        assert!(rare.is_none());
    }
}
