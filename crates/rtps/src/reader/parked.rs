//! The next sequence numbers of writers that fell silent.

use alloc::collections::BTreeMap;

use crate::id::Guid;
use crate::limits::PARKED_WRITERS_MAX;
use crate::seq::SequenceNumber;

/// Where a reader was with a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Everything before was received.
    pub(super) next: SequenceNumber,
    /// Whether the reader needs what was written since. If not, a later match is a new one, which delivers nothing from
    /// before `next`.
    pub(super) continues: bool,
}

/// The place at each of these writers. When there is no room, the one parked first is forgotten.
#[derive(Debug, Default)]
pub(super) struct ParkedWriters {
    /// With the key of each in `order`.
    by_guid: BTreeMap<Guid, (u64, Place)>,
    order: BTreeMap<u64, Guid>,
    parked_before: u64,
}

impl ParkedWriters {
    pub(super) fn put(&mut self, writer: Guid, place: Place) {
        self.take(writer);
        if self.by_guid.len() >= PARKED_WRITERS_MAX
            && let Some((_, first)) = self.order.pop_first()
        {
            self.by_guid.remove(&first);
        }
        self.by_guid.insert(writer, (self.parked_before, place));
        self.order.insert(self.parked_before, writer);
        self.parked_before += 1;
        debug_assert!(self.by_guid.len() <= PARKED_WRITERS_MAX && self.order.len() == self.by_guid.len());
    }

    pub(super) fn take(&mut self, writer: Guid) -> Option<Place> {
        let (at, place) = self.by_guid.remove(&writer)?;
        self.order.remove(&at);
        Some(place)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_guid.len()
    }
}
