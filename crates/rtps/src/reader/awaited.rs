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
    /// When the reader first requested it with the present number of fragments.
    pub(super) since: Instant,
    fragments: u32,
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
        let Some(fragments) = writer.fragments_of_lacking() else {
            self.by_writer.remove(&guid);
            return None;
        };
        let new = Awaited { number, since: now, fragments, is_reported: false };
        let awaited = self.by_writer.entry(guid).or_insert(new);
        if awaited.number != number {
            *awaited = new;
        } else if fragments > awaited.fragments {
            *awaited = Awaited { is_reported: awaited.is_reported, ..new };
        } else {
            // A reassembly that was dropped for lack of memory begins anew, which is no progress.
            awaited.fragments = fragments;
        }
        let is_due = !awaited.is_reported && now.since(awaited.since) >= MISSING_REPORTED_AFTER;
        awaited.is_reported |= is_due;
        is_due.then_some(ReaderEvent::SampleMissing { writer: guid, number })
    }

    /// When the reader first requested the sample that it needs next from a writer, unless it has come or grown since.
    pub(super) fn since(&self, writer: &WriterProxy) -> Option<Instant> {
        let awaited = self.by_writer.get(&writer.info.guid)?;
        let is_missing = awaited.number == writer.next && writer.fragments_of_lacking() == Some(awaited.fragments);
        is_missing.then_some(awaited.since)
    }

    pub(super) fn forget(&mut self, writer: Guid) {
        self.by_writer.remove(&writer);
    }
}

impl WriterProxy {
    /// The number of fragments that have arrived of the sample that the reader needs next. `None` if the sample is
    /// whole, and waits for room.
    fn fragments_of_lacking(&self) -> Option<u32> {
        (!self.out_of_order.contains_key(&self.next)).then(|| self.reassembly.fragments_of(self.next))
    }
}
