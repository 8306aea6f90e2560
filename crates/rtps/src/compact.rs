//! Optional values that are no larger than the value.

use core::fmt;

use crate::seq::SequenceNumber;
use crate::time::Instant;

/// A type with a value that never occurs, so that this value can stand for "none".
pub(crate) trait Spare: Copy + Eq {
    /// The value that stands for "none".
    const SPARE: Self;
}

impl Spare for Instant {
    /// An instant in the far future, which no timer reaches.
    const SPARE: Self = Self(u64::MAX);
}

impl Spare for SequenceNumber {
    /// Less than [`SequenceNumber::UNKNOWN`], the least number on the wire that has a meaning.
    const SPARE: Self = Self(i64::MIN);
}

impl Spare for u64 {
    /// More bytes than anything counts.
    const SPARE: Self = Self::MAX;
}

impl Spare for usize {
    /// An index that no list has.
    const SPARE: Self = Self::MAX;
}

/// An optional value of eight bytes, where `Option` takes sixteen: a participant keeps some ten of them for each pair
/// of endpoints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compact<T>(T);

impl<T: Spare> Compact<T> {
    pub(crate) const NONE: Self = Self(T::SPARE);

    pub(crate) fn get(self) -> Option<T> {
        self.is_some().then_some(self.0)
    }

    pub(crate) fn set(&mut self, value: impl Into<Option<T>>) {
        self.0 = value.into().unwrap_or(T::SPARE);
    }

    pub(crate) const fn clear(&mut self) {
        *self = Self::NONE;
    }

    pub(crate) const fn take(&mut self) -> Self {
        core::mem::replace(self, Self::NONE)
    }

    /// Sets the value unless there is one.
    pub(crate) fn set_if_none(&mut self, value: T) {
        if self.is_none() {
            self.0 = value;
        }
    }

    /// Takes the value if it meets the condition. Returns whether it did.
    pub(crate) fn take_if(&mut self, condition: impl FnOnce(T) -> bool) -> bool {
        let takes = self.get().is_some_and(condition);
        if takes {
            self.clear();
        }
        takes
    }

    pub(crate) fn is_some(self) -> bool {
        self.0 != T::SPARE
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == T::SPARE
    }
}

impl<T: Spare> Default for Compact<T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<T: Spare + fmt::Debug> fmt::Debug for Compact<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_option_behaves_as_an_option_of_half_the_size() {
        let mut option = Compact::<Instant>::default();
        assert_eq!((size_of_val(&option), option.get()), (8, None));
        option.set_if_none(Instant(5));
        option.set_if_none(Instant(6));
        assert_eq!(option.get(), Some(Instant(5)));
        assert!(!option.take_if(|at| at > Instant(5)));
        assert!(option.is_some());
        assert!(option.take_if(|at| at == Instant(5)));
        assert!(option.is_none());
        option.set(Instant(7));
        assert_eq!((option.take().get(), option.get()), (Some(Instant(7)), None));
    }

    #[test]
    fn numbers_without_a_sample_are_values() {
        for number in [SequenceNumber::UNKNOWN, SequenceNumber::ZERO, SequenceNumber::MAX] {
            let mut option = Compact::NONE;
            option.set(number);
            assert_eq!(option.get(), Some(number));
        }
    }
}
