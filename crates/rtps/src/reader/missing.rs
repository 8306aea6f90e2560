//! The sample of which a reader reports that it is missing.

use super::Reader;
use super::event::MissingSample;
use crate::time::Instant;

impl Reader {
    /// Of the samples that the reader needs next from its writers and requests, the one that has been missing longest.
    #[must_use]
    pub fn missing(&self, now: Instant) -> Option<MissingSample> {
        let missing = self.awaited.by_writer.iter().filter_map(|(guid, awaited)| {
            let writer = self.writers.get(*self.by_guid.get(guid)?)?;
            let is_missing = writer.next == awaited.number && writer.lacks_next();
            let lasting = now.since(awaited.since).into();
            is_missing.then_some(MissingSample { writer: *guid, number: awaited.number, lasting })
        });
        missing.max_by_key(|missing| missing.lasting)
    }
}
