//! The next sequence numbers of writers that fell silent.

use alloc::collections::VecDeque;

use crate::id::Guid;
use crate::limits::PARKED_WRITERS_MAX;
use crate::seq::SequenceNumber;

/// The next number of each of these writers. When there is no room, the one parked first is forgotten.
#[derive(Debug, Default)]
pub(super) struct ParkedWriters {
    pub(super) writers: VecDeque<(Guid, SequenceNumber)>,
}

impl ParkedWriters {
    pub(super) fn put(&mut self, writer: Guid, next: SequenceNumber) {
        self.take(writer);
        if self.writers.len() >= PARKED_WRITERS_MAX {
            self.writers.pop_front();
        }
        self.writers.push_back((writer, next));
    }

    pub(super) fn take(&mut self, writer: Guid) -> Option<SequenceNumber> {
        let at = self.writers.iter().position(|(parked, _)| *parked == writer)?;
        self.writers.remove(at).map(|(_, next)| next)
    }
}
