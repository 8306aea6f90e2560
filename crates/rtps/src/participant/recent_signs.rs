//! The participants that were noted to be alive a moment ago.

use crate::id::GuidPrefix;
use crate::limits::SIGN_OF_LIFE_SLOTS;
use crate::time::Instant;

/// The participants whose signs of life were noted lately. A datagram of one of them costs a hash of twelve bytes and
/// a comparison.
#[derive(Debug)]
pub(super) struct RecentSigns {
    /// A participant, and until when no further sign of it is of interest.
    slots: [(GuidPrefix, Instant); SIGN_OF_LIFE_SLOTS],
}

impl RecentSigns {
    pub(super) const fn new() -> Self {
        Self { slots: [(GuidPrefix::UNKNOWN, Instant(0)); SIGN_OF_LIFE_SLOTS] }
    }

    /// Whether a sign of this participant is of interest.
    #[inline]
    pub(super) fn is_due(&self, now: Instant, prefix: GuidPrefix) -> bool {
        self.slots.get(slot_of(prefix)).is_none_or(|(noted, until)| *noted != prefix || *until <= now)
    }

    pub(super) fn skip_until(&mut self, prefix: GuidPrefix, until: Instant) {
        if let Some(slot) = self.slots.get_mut(slot_of(prefix)) {
            *slot = (prefix, until);
        }
    }
}

/// A peer that makes many prefixes share a slot makes their datagrams cost a search each, no more.
#[inline]
fn slot_of(prefix: GuidPrefix) -> usize {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = prefix.0;
    let words = [[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_ne_bytes);
    let mix = |mixed: u32, word: u32| (mixed ^ word).wrapping_mul(0x9e37_79b9).rotate_left(15);
    let mixed = words.into_iter().fold(0, mix);
    // The upper bits of the product depend on all others.
    ((mixed ^ mixed >> 13).wrapping_mul(0x85eb_ca6b) >> 24) as usize % SIGN_OF_LIFE_SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_that_differ_in_one_place_are_spread_over_the_slots() {
        for place in 2..12 {
            let slots = (0..=255).map(|value| {
                let mut octets = [7; 12];
                octets[place] = value;
                slot_of(GuidPrefix(octets))
            });
            let used: std::collections::BTreeSet<usize> = slots.collect();
            assert!(used.len() > SIGN_OF_LIFE_SLOTS / 2, "place {place}: {}", used.len());
        }
    }

    #[test]
    fn sign_is_of_interest_again_after_the_pause() {
        let mut signs = RecentSigns::new();
        let (a, b) = (GuidPrefix([1; 12]), GuidPrefix([2; 12]));
        assert!(signs.is_due(Instant(5), a));
        signs.skip_until(a, Instant(10));
        assert!(!signs.is_due(Instant(9), a) && signs.is_due(Instant(9), b) && signs.is_due(Instant(10), a));
    }
}
