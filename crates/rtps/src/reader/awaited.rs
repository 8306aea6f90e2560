//! The samples that a reader needs next and requests in vain.

use alloc::collections::BTreeMap;

use super::event::ReaderEvent;
use super::proxy::WriterProxy;
use crate::id::Guid;
use crate::limits::MISSING_REPORTED_AFTER;
use crate::seq::SequenceNumber;
use crate::time::Instant;

/// The missing sample that a reader needs next from a writer, since the reader has requested it or a later one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaited {
    pub(super) number: SequenceNumber,
    pub(super) since: Instant,
    is_reported: bool,
}

/// At most one sample of each matched writer.
#[derive(Debug, Default)]
pub(super) struct AwaitedSamples {
    pub(super) by_writer: BTreeMap<Guid, Awaited>,
}

impl AwaitedSamples {
    /// The reader sends a request to a writer. Returns an event if the sample that it needs next has been missing for
    /// long: once for each sample.
    pub(super) fn note_request(&mut self, now: Instant, writer: &WriterProxy) -> Option<ReaderEvent> {
        let (guid, number) = (writer.info.guid, writer.next);
        if !writer.lacks_next() {
            self.by_writer.remove(&guid);
            return None;
        }
        let awaited = self.by_writer.entry(guid).or_insert(Awaited { number, since: now, is_reported: false });
        if awaited.number != number {
            *awaited = Awaited { number, since: now, is_reported: false };
        }
        let is_due = !awaited.is_reported && now.since(awaited.since) >= MISSING_REPORTED_AFTER;
        awaited.is_reported |= is_due;
        is_due.then_some(ReaderEvent::SampleMissing { writer: guid, number })
    }

    pub(super) fn forget(&mut self, writer: Guid) {
        self.by_writer.remove(&writer);
    }
}

impl WriterProxy {
    /// Whether nothing of the sample that the reader needs next has arrived. One that has may wait for room, and one of
    /// which a part has come is incomplete, not missing.
    pub(super) fn lacks_next(&self) -> bool {
        !self.out_of_order.contains_key(&self.next) && !self.reassembly.has(self.next)
    }
}
