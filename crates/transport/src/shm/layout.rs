//! The place of each entry in a ring that grows.
//!
//! A ring begins with few entries, so a channel that carries little needs one page. The writer doubles the ring when
//! all entries are in use, up to the size that both sides agreed on. With `size` entries, entry `number` is at `(number
//! - base) mod size`.
//!
//! When a ring doubles, its entries in use wrap around at some number `m`: entries before `m` fill the end of the ring,
//! and entries from `m` on its beginning. The former keep their places. The latter are copied behind them, and the new
//! base is that of `m - size`.
//!
//! ```text
//! size 4, base 0:   4  5  2  3                 in flight: 2 to 5, m = 4
//! size 8, base 0:   4  5  2  3  4  5  .  .     the first two are places for 8 and 9 now
//! ```
//!
//! A reader that loaded the layout before the ring grew still finds each of these entries, until the writer reuses its
//! place. So the reader loads the layout again after it loaded an entry, and repeats both loads if the layout has
//! changed.

use super::corrupt::Corrupt;

/// Words of an entry: one cache line.
pub(super) const ENTRY_WORDS: usize = 8;
/// First entry, after the words that change rarely. The gap is two cache lines because CPUs fetch lines in pairs.
const ENTRIES_AT: usize = 16;

/// Entries of a new ring: as many as fit into its first page. The loom models use two, so that their rings grow.
const FIRST_ENTRIES: u32 = if cfg!(all(loom, test)) { 2 } else { 32 };

/// How many times a ring can double.
pub(super) const GROWTHS_MAX: usize = 14;

/// The place of each entry of a ring of a given size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// A power of two.
    size: u32,
    /// Less than `size`.
    base: u32,
}

impl Layout {
    /// Layout of a new ring that may grow to `entries`.
    pub(super) fn first(entries: u32) -> Self {
        Self { size: entries.min(FIRST_ENTRIES), base: 0 }
    }

    /// # Errors
    /// The word describes no layout of a ring with at most `entries` entries.
    #[inline]
    pub(super) fn from_word(word: u64, entries: u32) -> Result<Self, Corrupt> {
        let (size, base) = (word as u32, (word >> 32) as u32);
        if !size.is_power_of_two() || size > entries || base >= size {
            return Err(Corrupt("the ring has a layout that is not allowed"));
        }
        Ok(Self { size, base })
    }

    pub(super) fn to_word(self) -> u64 {
        u64::from(self.size) | u64::from(self.base) << 32
    }

    /// Number of entries.
    #[inline]
    pub(super) fn size(self) -> u32 {
        self.size
    }

    /// Words of a ring with this many entries.
    pub(super) fn words(entries: u32) -> usize {
        ENTRIES_AT + entries as usize * ENTRY_WORDS
    }

    /// Index of the first word of an entry.
    #[inline]
    pub(super) fn entry(self, number: u64) -> usize {
        let place = number.wrapping_sub(u64::from(self.base)) & u64::from(self.size - 1);
        ENTRIES_AT + place as usize * ENTRY_WORDS
    }

    /// The layout with twice as many entries, for a ring whose entries up to `head` are in use, and the numbers of the
    /// entries that have another place in it.
    pub(super) fn grown(self, head: u64) -> (Self, std::ops::Range<u64>) {
        let size = u64::from(self.size);
        let wrapped = head.wrapping_sub(u64::from(self.base)) & (size - 1);
        let first_moved = head - wrapped;
        let base = first_moved.wrapping_sub(size) & (2 * size - 1);
        (Self { size: self.size * 2, base: base as u32 }, first_moved..head)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn grown_ring_keeps_or_moves_each_entry_under_way(power in 0_u32..6, growths in 1_u32..6, ahead in 0_u64..200) {
            let mut layout = Layout { size: 1 << power, base: 0 };
            for growth in 0..growths {
                let size = u64::from(layout.size());
                let head = size + ahead * u64::from(growth + 1);
                let (grown, moved) = layout.grown(head);
                prop_assert_eq!(Layout::from_word(grown.to_word(), u32::MAX), Ok(grown));
                prop_assert_eq!(u64::from(grown.size()), 2 * size);
                let mut places: Vec<usize> = (head - size..head + size).map(|number| grown.entry(number)).collect();
                for number in head - size..head {
                    prop_assert_eq!(layout.entry(number) == grown.entry(number), !moved.contains(&number));
                    // A copy does not overwrite an entry in use.
                    prop_assert!(!moved.contains(&number) || grown.entry(number) >= Layout::words(layout.size()));
                }
                places.sort_unstable();
                places.dedup();
                prop_assert_eq!(places.len() as u64, 2 * size, "each place is used once");
                layout = grown;
            }
        }

        #[test]
        fn any_word_is_a_layout_within_the_ring_or_an_error(word: u64, power in 0_u32..15, number: u64) {
            let entries = 1 << power;
            if let Ok(layout) = Layout::from_word(word, entries) {
                prop_assert!(layout.entry(number) + ENTRY_WORDS <= Layout::words(entries));
                prop_assert_eq!(layout.to_word(), word);
            }
        }
    }
}
