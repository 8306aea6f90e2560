//! Samples that pass from the memory of their writer to a polling application thread without the queue of the reader.

use std::ptr;
use std::sync::Arc;

use peregrine_rtps::payload::{BufferPool, Octets, Payload};
use peregrine_rtps::reader::Reception;
use peregrine_rtps::time::Instant;
use peregrine_transport::shm::InPlace;

use super::super::direct_take::{DirectTake, PollBudget};
use super::super::services::ShmHost;
use super::{Attachments, Channel, Held, Incoming, ShmReceiver, acknowledgement};
use crate::driver::base::clock::{now, wall_at};
use crate::driver::endpoint::local_delivery::LOCAL_SOURCE;
use crate::driver::host::counters::Counters;
use crate::driver::route::shm::metadata::ALIGNING;

/// Samples of up to this many bytes are copied. The application reads the sample at once, so holding a longer one costs
/// no more than a copy.
const COPIED_MAX: usize = ALIGNING + Payload::HERE_MAX;

impl Incoming {
    /// Finds the next sample, if it is selected and no listener or waiting thread must be notified of it; otherwise
    /// takes all samples into their readers. Polls up to `looks` times while there are no samples.
    pub(in super::super) fn search_now(
        &self,
        search: &mut DirectTake<'_>,
        PollBudget { looks, at, dirty }: PollBudget<'_>,
        host: &dyn ShmHost,
        shared: &dyn Attachments,
    ) {
        let Some(mut receiver) = self.receiver.try_lock() else { return };
        self.process_commands(&mut receiver, dirty, shared);
        if dirty.is_empty() && !receiver.has_deferred_actions() {
            while !receiver.search(search, at, shared.counters()) && *looks > 0 {
                *looks -= 1;
            }
        }
        if search.found.is_none() {
            self.take_with(receiver, at, dirty, host, shared);
        }
    }
}

impl ShmReceiver {
    /// Polls once. Returns whether there was a sample.
    #[inline]
    fn search(&mut self, search: &mut DirectTake<'_>, at: &mut Option<Instant>, counters: &Counters) -> bool {
        let Some(samples) = self.reader.in_place() else { return false };
        if let Some(channel) = self.channels.get_mut(samples.writer())
            && channel.has_fast_path()
            && channel.readers.first().is_some_and(|only| ptr::eq(Arc::as_ptr(&only.core), search.reader))
        {
            channel.pass(samples, search, *at.get_or_insert_with(now));
            counters.note_received(u64::from(search.found.is_some()));
        }
        true
    }
}

impl Channel {
    fn pass(
        &mut self,
        mut samples: InPlace<'_>,
        DirectTake { selector, found, .. }: &mut DirectTake<'_>,
        now: Instant,
    ) {
        let Some(only) = self.readers.first() else { return };
        let mut state = only.core.lock();
        if !state.is_taken_unheard() {
            return;
        }
        let Some(mut inserter) = state.reader.fast_inserter(self.key.writer) else { return };
        let rx = Reception { now, wall: wall_at(now), buffer: None, source: LOCAL_SOURCE };
        samples.next(COPIED_MAX, |metadata, octets| {
            if let Some(((number, source_timestamp), octets)) = only.value(metadata).zip(octets.get(ALIGNING..)) {
                let copy = |pool: &mut BufferPool| Some(pool.copy_of(octets));
                *found = inserter.pass_through(&rx, number, source_timestamp, selector, copy);
            }
            found.is_some()
        });
        if found.is_none()
            && let Some((number, source_timestamp)) = samples.metadata().and_then(|metadata| only.value(metadata))
        {
            *found = inserter.pass_through(&rx, number, source_timestamp, selector, |_| {
                let held: Arc<dyn Octets> = Arc::new(Held { sample: samples.hold()? });
                Some(Payload::foreign(held))
            });
        }
        if found.is_some() {
            self.owes_ack = false;
            samples.acknowledge(acknowledgement(inserter.acknowledged_below()));
            state.note_heard(self.key.writer.prefix, now);
        }
    }
}
