//! Metadata of a sample beside its payload, and entries without a payload.

use peregrine_rtps::history::ChangeKind;
use peregrine_rtps::id::KeyHash;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Timestamp;
use peregrine_transport::shm::Metadata;

/// Bytes of a slot before a payload: with the four of the encapsulation header, the body starts at a multiple of 8.
pub(in crate::driver) const ALIGNING: usize = 4;

/// An entry of a channel, and the readers it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::driver) struct Addressed {
    /// The readers that the entry is for. `None`: all readers that are [live](Entry::Live).
    pub(in crate::driver) to: Option<Addressees>,
    pub(in crate::driver) entry: Entry,
}

/// The content of an entry of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::driver) enum Entry {
    /// A change, whose payload is in the slot.
    Change { number: SequenceNumber, kind: ChangeKind, instance: KeyHash, source_timestamp: Timestamp },
    /// Samples with numbers from `from` to below `to` will not arrive.
    Unavailable { from: SequenceNumber, to: SequenceNumber },
    /// The first and the last available number.
    Available { first: SequenceNumber, last: SequenceNumber },
    /// The application has asserted that the writer is alive.
    Alive,
    /// The addressees are live: they take the entries for all readers whose number is not below `from`.
    Live { from: SequenceNumber },
    /// The addressees are not live: they take only entries that name them. `epoch` is that of the rewind that this
    /// answers.
    NotLive { epoch: u32 },
}

/// Readers that an entry names: the first by its index, and others whose indices follow. A change of an instance names
/// one reader, because the instance takes the place of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::driver) struct Addressees {
    first: u32,
    /// Bit `n`: the reader whose index is by `n` greater than the first.
    members: u128,
}

impl Addressees {
    /// The number of indices that a set covers.
    pub(in crate::driver) const COVERED: u32 = u128::BITS;

    pub(in crate::driver) const fn one(index: u32) -> Self {
        Self { first: index, members: 1 }
    }

    pub(in crate::driver) const fn first(self) -> u32 {
        self.first
    }

    /// Adds a reader. Returns `false` if the set does not cover its index.
    pub(in crate::driver) fn insert(&mut self, index: u32) -> bool {
        let bit = index.checked_sub(self.first).and_then(|offset| 1_u128.checked_shl(offset));
        bit.map(|bit| self.members |= bit).is_some()
    }

    pub(in crate::driver) fn contains(self, index: u32) -> bool {
        let bit = index.checked_sub(self.first).and_then(|offset| 1_u128.checked_shl(offset));
        bit.is_some_and(|bit| self.members & bit != 0)
    }
}

const KINDS: [ChangeKind; 4] =
    [ChangeKind::Alive, ChangeKind::Disposed, ChangeKind::Unregistered, ChangeKind::DisposedUnregistered];
const UNAVAILABLE: u64 = 16;
const AVAILABLE: u64 = 17;
const ALIVE: u64 = 18;
const LIVE: u64 = 19;
const NOT_LIVE: u64 = 20;
/// The last two words are the members of a set of readers.
const FOR_SET: u64 = 1 << 8;

impl Addressed {
    pub(in crate::driver) fn to_metadata(self) -> Metadata {
        let Metadata([what, a, b, c, d]) = self.entry.to_metadata();
        let Some(Addressees { first, members }) = self.to else { return Metadata([what, a, b, c, d]) };
        let what = what | u64::from(first).saturating_add(1) << 32;
        if self.entry.has_instance() {
            debug_assert_eq!(members, 1, "a change of an instance names one reader");
            return Metadata([what, a, b, c, d]);
        }
        Metadata([what | FOR_SET, a, b, members as u64, (members >> 64) as u64])
    }

    /// `None` if no working writer could have written it.
    pub(in crate::driver) fn from_metadata(Metadata([what, a, b, c, d]): Metadata) -> Option<Self> {
        let first = ((what >> 32) as u32).checked_sub(1);
        let what = u64::from(what as u32);
        let (to, entry) = if what & FOR_SET == 0 {
            (first.map(Addressees::one), Entry::from_metadata(Metadata([what, a, b, c, d]))?)
        } else {
            let members = u128::from(d) << 64 | u128::from(c);
            let entry = Entry::from_metadata(Metadata([what & !FOR_SET, a, b, 0, 0]))?;
            (Some(Addressees { first: first?, members }), entry)
        };
        // `Live` and `NotLive` entries always name readers.
        let is_sound = to.is_some() || !matches!(entry, Entry::Live { .. } | Entry::NotLive { .. });
        is_sound.then_some(Self { to, entry })
    }

    /// Number and source timestamp of a value for all live readers.
    #[inline]
    pub(in crate::driver) fn value(metadata: Metadata) -> Option<(SequenceNumber, Timestamp)> {
        match Entry::from_metadata(metadata)? {
            Entry::Change { number, kind: ChangeKind::Alive, source_timestamp, .. } => Some((number, source_timestamp)),
            _ => None,
        }
    }
}

impl Entry {
    fn has_instance(self) -> bool {
        matches!(self, Self::Change { instance, .. } if instance != KeyHash::NIL)
    }

    /// Metadata of an entry for all live readers.
    pub(in crate::driver) fn to_metadata(self) -> Metadata {
        Metadata(match self {
            Self::Change { number, kind, instance, source_timestamp: Timestamp { seconds, fraction } } => {
                let kind = KINDS.iter().position(|other| *other == kind).unwrap_or(0) as u64;
                let timestamp = u64::from(seconds) << 32 | u64::from(fraction);
                let wide = u128::from_ne_bytes(instance.0);
                [kind, number.0.cast_unsigned(), timestamp, wide as u64, (wide >> 64) as u64]
            }
            Self::Unavailable { from, to } => [UNAVAILABLE, from.0.cast_unsigned(), to.0.cast_unsigned(), 0, 0],
            Self::Available { first, last } => [AVAILABLE, first.0.cast_unsigned(), last.0.cast_unsigned(), 0, 0],
            Self::Alive => [ALIVE, 0, 0, 0, 0],
            Self::Live { from } => [LIVE, from.0.cast_unsigned(), 0, 0, 0],
            Self::NotLive { epoch } => [NOT_LIVE, u64::from(epoch), 0, 0, 0],
        })
    }

    /// `None` if no working writer could have written it, or if the entry names a reader.
    pub(in crate::driver) fn from_metadata(Metadata([what, a, b, c, d]): Metadata) -> Option<Self> {
        match what {
            UNAVAILABLE => Some(Self::Unavailable { from: number(a)?, to: number(b)? }),
            AVAILABLE => {
                // Without any sample, the last number is the one before the first.
                let last = i64::try_from(b).ok().filter(|last| *last < i64::MAX)?;
                Some(Self::Available { first: number(a)?, last: SequenceNumber(last) })
            }
            ALIVE => Some(Self::Alive),
            LIVE => Some(Self::Live { from: number(a)? }),
            NOT_LIVE => Some(Self::NotLive { epoch: u32::try_from(a).ok()? }),
            kind => Some(Self::Change {
                number: number(a)?,
                kind: *KINDS.get(usize::try_from(kind).ok()?)?,
                instance: KeyHash((u128::from(d) << 64 | u128::from(c)).to_ne_bytes()),
                source_timestamp: Timestamp { seconds: (b >> 32) as u32, fraction: b as u32 },
            }),
        }
    }
}

/// Numbers begin at one; the highest value is never used.
fn number(word: u64) -> Option<SequenceNumber> {
    i64::try_from(word).ok().filter(|number| (1..i64::MAX).contains(number)).map(SequenceNumber)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    const FROM: SequenceNumber = SequenceNumber(3);

    const SOURCE_TIMESTAMP: Timestamp = Timestamp { seconds: 5, fraction: 6 };

    fn change(instance: KeyHash) -> Entry {
        Entry::Change { number: FROM, kind: ChangeKind::Disposed, instance, source_timestamp: SOURCE_TIMESTAMP }
    }

    fn entries_for_several() -> [Entry; 6] {
        [
            change(KeyHash::NIL),
            Entry::Unavailable { from: FROM, to: SequenceNumber(9) },
            Entry::Available { first: FROM, last: SequenceNumber(9) },
            Entry::Alive,
            Entry::Live { from: FROM },
            Entry::NotLive { epoch: 7 },
        ]
    }

    proptest! {
        #[test]
        fn addressees_of_an_entry_are_those_that_were_inserted(
            offsets in btree_set(0..Addressees::COVERED, 0..40),
            first in 0_u32..1000,
        ) {
            let mut to = Addressees::one(first);
            offsets.iter().for_each(|offset| assert!(to.insert(first + offset)));
            for entry in entries_for_several() {
                let addressed = Addressed { to: Some(to), entry };
                prop_assert_eq!(Addressed::from_metadata(addressed.to_metadata()), Some(addressed));
            }
            for offset in 0..2 * Addressees::COVERED {
                prop_assert_eq!(to.contains(first + offset), offset == 0 || offsets.contains(&offset));
            }
            prop_assert!(first == 0 || !to.contains(first - 1));
        }
    }

    #[test]
    fn change_for_one_reader_keeps_its_instance() {
        let addressed = Addressed { to: Some(Addressees::one(200)), entry: change(KeyHash([0xab; 16])) };
        assert_eq!(Addressed::from_metadata(addressed.to_metadata()), Some(addressed));
    }

    #[test]
    fn set_without_first_reader_is_refused() {
        let Metadata([what, a, b, c, d]) = change(KeyHash::NIL).to_metadata();
        assert_eq!(Addressed::from_metadata(Metadata([what | FOR_SET, a, b, c, d])), None);
    }

    #[test]
    fn reader_beyond_the_covered_indices_is_not_inserted() {
        let mut to = Addressees::one(5);
        assert!(to.insert(4 + Addressees::COVERED));
        assert!(!to.insert(5 + Addressees::COVERED) && !to.insert(u32::MAX) && !to.insert(4));
    }

    #[test]
    fn live_entry_without_addressees_is_refused() {
        for entry in [Entry::Live { from: FROM }, Entry::NotLive { epoch: 7 }] {
            assert_eq!(Addressed::from_metadata(Addressed { to: None, entry }.to_metadata()), None);
        }
    }
}
