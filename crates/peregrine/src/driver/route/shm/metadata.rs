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
    /// Index of the only reader that the entry is for, or of the first one of a [`Live`](Entry::Live) entry. `None`:
    /// all readers that are live.
    pub(in crate::driver) to: Option<u32>,
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
    /// These readers are live: they take the entries for all readers whose number is not below `from`.
    Live { from: SequenceNumber, members: Members },
    /// The addressee is not live: it takes only entries that name it. `epoch` is that of the rewind that this answers.
    NotLive { epoch: u32 },
}

/// Some of the readers whose indices follow that of an entry, and that reader itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::driver) struct Members([u64; 3]);

impl Members {
    /// The number of indices, from that of the entry on, that a set covers.
    pub(in crate::driver) const COVERED: u32 = 3 * u64::BITS;

    /// Adds the reader whose index is by `offset` greater than that of the entry. Returns `false` beyond the covered
    /// indices.
    pub(in crate::driver) fn insert(&mut self, offset: u32) -> bool {
        let word = self.0.get_mut((offset / u64::BITS) as usize);
        word.map(|word| *word |= 1 << (offset % u64::BITS)).is_some()
    }

    pub(in crate::driver) fn contains(self, offset: u32) -> bool {
        self.0.get((offset / u64::BITS) as usize).is_some_and(|word| word >> (offset % u64::BITS) & 1 == 1)
    }
}

const KINDS: [ChangeKind; 4] =
    [ChangeKind::Alive, ChangeKind::Disposed, ChangeKind::Unregistered, ChangeKind::DisposedUnregistered];
const UNAVAILABLE: u64 = 16;
const AVAILABLE: u64 = 17;
const ALIVE: u64 = 18;
const LIVE: u64 = 19;
const NOT_LIVE: u64 = 20;

impl Addressed {
    pub(in crate::driver) fn to_metadata(self) -> Metadata {
        let mut metadata = self.entry.to_metadata();
        if let (Some(to), Metadata([what, ..])) = (self.to, &mut metadata) {
            *what |= u64::from(to).saturating_add(1) << 32;
        }
        metadata
    }

    /// `None` if no working writer could have written it.
    pub(in crate::driver) fn from_metadata(Metadata([what, a, b, c, d]): Metadata) -> Option<Self> {
        let entry = Entry::from_metadata(Metadata([u64::from(what as u32), a, b, c, d]))?;
        let to = ((what >> 32) as u32).checked_sub(1);
        // `Live` and `NotLive` entries always name a reader.
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
            Self::Live { from, members: Members([a, b, c]) } => [LIVE, from.0.cast_unsigned(), a, b, c],
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
            LIVE => Some(Self::Live { from: number(a)?, members: Members([b, c, d]) }),
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

    proptest! {
        #[test]
        fn members_of_a_live_entry_are_those_that_were_inserted(
            offsets in btree_set(0..Members::COVERED, 0..40),
            to in 0_u32..1000,
            from in 1_i64..i64::MAX,
        ) {
            let mut members = Members::default();
            offsets.iter().for_each(|offset| assert!(members.insert(*offset)));
            let entry = Entry::Live { from: SequenceNumber(from), members };
            let addressed = Addressed { to: Some(to), entry };
            prop_assert_eq!(Addressed::from_metadata(addressed.to_metadata()), Some(addressed));
            for offset in 0..Members::COVERED + 70 {
                prop_assert_eq!(members.contains(offset), offsets.contains(&offset));
            }
        }
    }

    #[test]
    fn reader_beyond_the_covered_indices_is_not_inserted() {
        let mut members = Members::default();
        assert!(members.insert(Members::COVERED - 1) && !members.insert(Members::COVERED) && !members.insert(u32::MAX));
    }

    #[test]
    fn live_entry_without_reader_is_refused() {
        let entry = Entry::Live { from: SequenceNumber(1), members: Members::default() };
        assert_eq!(Addressed::from_metadata(Addressed { to: None, entry }.to_metadata()), None);
    }
}
