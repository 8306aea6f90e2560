//! The sample of which a reader reports that it is missing.

use super::Reader;
use super::event::MissingSample;
use crate::time::Instant;

impl Reader {
    /// Of the samples that the reader needs next from its writers and requests, the one that has been missing longest.
    #[must_use]
    pub fn missing(&self, now: Instant) -> Option<MissingSample> {
        let missing = self.awaited.by_writer.keys().filter_map(|guid| {
            let writer = self.writers.get(*self.by_guid.get(guid)?)?;
            let lasting = now.since(self.awaited.since(writer)?).into();
            Some(MissingSample { writer: *guid, number: writer.next, lasting })
        });
        missing.max_by_key(|missing| missing.lasting)
    }
}
