//! A set of received numbers.

/// A set of numbers from 0, one bit each.
#[derive(Debug, Default)]
pub(super) struct Seen {
    words: Vec<u64>,
    count: u64,
    next: u64,
    reordered: u64,
    duplicate: u64,
}

/// Most samples of one run: 16 MB of bits.
pub(super) const MAX_SAMPLES: u64 = 1 << 27;

impl Seen {
    /// Inserts a number. Returns whether it is new; numbers beyond [`MAX_SAMPLES`] are not.
    #[inline]
    pub(super) fn insert(&mut self, number: u64) -> bool {
        if number >= MAX_SAMPLES {
            return false;
        }
        let (word, bit) = ((number / 64) as usize, 1_u64 << (number % 64));
        if word >= self.words.len() {
            self.words.resize((word + 1).next_power_of_two(), 0);
        }
        if self.words[word] & bit != 0 {
            self.duplicate += 1;
            return false;
        }
        self.words[word] |= bit;
        self.count += 1;
        self.reordered += u64::from(number < self.next);
        self.next = self.next.max(number + 1);
        true
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn duplicate(&self) -> u64 {
        self.duplicate
    }

    /// Count of numbers that were inserted after a higher one.
    pub(super) fn reordered(&self) -> u64 {
        self.reordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_counts_once() {
        let mut seen = Seen::default();
        let new: Vec<_> =
            [0, 1, 1, 200, 64, 64, MAX_SAMPLES, 63].into_iter().map(|number| seen.insert(number)).collect();
        assert_eq!(new, [true, true, false, true, true, false, false, true]);
        assert_eq!((seen.count(), seen.duplicate(), seen.reordered()), (5, 2, 2));
    }
}
