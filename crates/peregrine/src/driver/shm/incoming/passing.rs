//! Samples on their way from the memory of their writer to the application, which is looking for them: the reader keeps none.

use std::ptr;
use std::sync::Arc;

use peregrine_rtps::history::{Selected, Selector};
use peregrine_rtps::payload::{BufferPool, Octets, Payload};
use peregrine_rtps::reader::Reception;
use peregrine_rtps::time::Instant;
use peregrine_transport::shm::InPlace;

use super::super::metadata::ALIGNING;
use super::super::{Counters, SharedMemory};
use super::{Channel, Hands, Held, Incoming, noted, value};
use crate::driver::delivery::HERE;
use crate::driver::domain::{Domain, Touched};
use crate::driver::reader::ReaderCore;
use crate::driver::{now, wall_at};

/// What a sample has room for that is copied: who shows it looks at it at once, and to hold it costs no more than to copy more.
const COPIED_MAX: usize = ALIGNING + Payload::HERE_MAX;

impl Incoming {
    /// The next sample there is, if it is one of this reader that is selected and that nobody else is to hear of; else takes what
    /// there is for it to be asked.
    pub(in super::super) fn pass_now(
        &self,
        (to, selector): (&ReaderCore, &Selector),
        at: &mut Option<Instant>,
        touched: &mut Touched,
        domain: &Domain,
        shared: &SharedMemory,
        out: &mut Option<Selected>,
    ) {
        let Some(mut hands) = self.try_hands() else { return };
        self.obey(&mut hands, touched, shared);
        if touched.is_empty() && !hands.has_acts() && hands.pass(to, selector, at, &shared.counters, out).is_some() {
            return;
        }
        self.take_with(hands, at, touched, domain, shared);
    }
}

impl Hands {
    fn pass(
        &mut self,
        to: &ReaderCore,
        selector: &Selector,
        at: &mut Option<Instant>,
        counters: &Counters,
        out: &mut Option<Selected>,
    ) -> Option<()> {
        let samples = self.reader.in_place()?;
        let channel = self.channels.get_mut(samples.writer())?;
        if !ptr::eq(Arc::as_ptr(&channel.core), to) || !channel.has_short_way() {
            return None;
        }
        channel.pass(samples, selector, *at.get_or_insert_with(now), out);
        out.is_some().then(|| counters.note_received(1))
    }
}

impl Channel {
    fn pass(&mut self, mut samples: InPlace<'_>, selector: &Selector, now: Instant, out: &mut Option<Selected>) {
        let mut state = self.core.lock();
        if !state.is_taken_unheard() {
            return;
        }
        let Some(mut keeper) = state.reader.keeper(self.wanted.writer) else { return };
        let rx = Reception { now, wall: wall_at(now), buffer: None, source: HERE };
        samples.next(COPIED_MAX, |metadata, octets| {
            if let Some(((number, source_timestamp), octets)) = value(metadata).zip(octets.get(ALIGNING..)) {
                let copy = |pool: &mut BufferPool| Some(pool.copy_of(octets));
                *out = keeper.pass(&rx, number, source_timestamp, selector, copy);
            }
            out.is_some()
        });
        if out.is_none()
            && let Some((number, source_timestamp)) = samples.metadata().and_then(value)
        {
            *out = keeper.pass(&rx, number, source_timestamp, selector, |_| {
                let held: Arc<dyn Octets> = Arc::new(Held { sample: samples.hold()? });
                Some(Payload::foreign(held))
            });
        }
        if out.is_some() {
            // Newer than what may be owed.
            self.owed_note = None;
            samples.note(noted(keeper.acknowledged_below()));
        }
    }
}
