//! Samples on their way from the memory of their writer to the application, which is looking for them: the reader keeps none.

use std::ptr;
use std::sync::Arc;

use peregrine_rtps::payload::{BufferPool, Octets, Payload};
use peregrine_rtps::reader::Reception;
use peregrine_rtps::time::Instant;
use peregrine_transport::shm::InPlace;

use super::super::metadata::ALIGNING;
use super::super::{Counters, Looking, Search, SharedMemory};
use super::{Channel, Hands, Held, Incoming, noted, value};
use crate::driver::delivery::HERE;
use crate::driver::domain::Domain;
use crate::driver::{now, wall_at};

/// What a sample has room for that is copied: who shows it looks at it at once, and to hold it costs no more than to copy more.
const COPIED_MAX: usize = ALIGNING + Payload::HERE_MAX;

impl Incoming {
    /// The next sample there is, if it is one that is searched and that nobody else is to hear of; else takes what there is for it
    /// to be asked. Looks as often as it may, while there is nothing.
    pub(in super::super) fn search_now(
        &self,
        search: &mut Search<'_>,
        Looking { looks, at, touched }: Looking<'_>,
        domain: &Domain,
        shared: &SharedMemory,
    ) {
        let Some(mut hands) = self.try_hands() else { return };
        self.obey(&mut hands, touched, shared);
        if touched.is_empty() && !hands.has_acts() {
            while !hands.search(search, at, &shared.counters) && *looks > 0 {
                *looks -= 1;
            }
        }
        if search.found.is_none() {
            self.take_with(hands, at, touched, domain, shared);
        }
    }
}

impl Hands {
    /// Looks once. Says whether there was anything.
    #[inline]
    fn search(&mut self, search: &mut Search<'_>, at: &mut Option<Instant>, counters: &Counters) -> bool {
        let Some(samples) = self.reader.in_place() else { return false };
        if let Some(channel) = self.channels.get_mut(samples.writer())
            && ptr::eq(Arc::as_ptr(&channel.core), search.reader)
            && channel.has_short_way()
        {
            channel.pass(samples, search, *at.get_or_insert_with(now));
            counters.note_received(u64::from(search.found.is_some()));
        }
        true
    }
}

impl Channel {
    fn pass(&mut self, mut samples: InPlace<'_>, Search { selector, found, .. }: &mut Search<'_>, now: Instant) {
        let mut state = self.core.lock();
        if !state.is_taken_unheard() {
            return;
        }
        let Some(mut keeper) = state.reader.keeper(self.wanted.writer) else { return };
        let rx = Reception { now, wall: wall_at(now), buffer: None, source: HERE };
        samples.next(COPIED_MAX, |metadata, octets| {
            if let Some(((number, source_timestamp), octets)) = value(metadata).zip(octets.get(ALIGNING..)) {
                let copy = |pool: &mut BufferPool| Some(pool.copy_of(octets));
                *found = keeper.pass(&rx, number, source_timestamp, selector, copy);
            }
            found.is_some()
        });
        if found.is_none()
            && let Some((number, source_timestamp)) = samples.metadata().and_then(value)
        {
            *found = keeper.pass(&rx, number, source_timestamp, selector, |_| {
                let held: Arc<dyn Octets> = Arc::new(Held { sample: samples.hold()? });
                Some(Payload::foreign(held))
            });
        }
        if found.is_some() {
            // Newer than what may be owed.
            self.owed_note = None;
            samples.acknowledge(noted(keeper.acknowledged_below()));
        }
    }
}
