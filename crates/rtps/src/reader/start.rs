//! The start of a volatile reader with a volatile writer that also announces samples for other readers: see
//! [`VolatileStart`].

use super::Reader;
use super::proxy::WriterProxy;
use crate::seq::SequenceNumber;
use crate::time::Timestamp;
use crate::vendor::{Quirks, VolatileStart};
use alloc::vec::Vec;

impl WriterProxy {
    /// Where a volatile reader starts with this writer.
    pub(super) fn volatile_start(&self) -> VolatileStart {
        match Quirks::of(self.info.vendor).volatile_start {
            // A writer with history announces all of it.
            VolatileStart::WithUnacknowledged { .. } if self.info.has_history => VolatileStart::AfterAnnounced,
            start => start,
        }
    }

    /// Where a volatile reader starts that continues no earlier match, if the first HEARTBEAT announces these samples.
    pub(super) fn start_without_kept(&mut self, first: SequenceNumber, last: SequenceNumber) -> SequenceNumber {
        match self.volatile_start() {
            VolatileStart::WithAnnounced => self.first_wanted(first),
            VolatileStart::AfterAnnounced => last.next(),
            VolatileStart::WithUnacknowledged { max } => {
                self.start_until = last.next();
                // A GAP may have come before.
                let first = first.max(self.next.min(last.next()));
                self.first_wanted(if last.next().distance_from(first) <= max { first } else { last.next() })
            }
        }
    }

    /// The writer has written `last` last: a HEARTBEAT that said otherwise was false.
    pub(super) fn limit_start(&mut self, last: SequenceNumber) {
        self.start_until = self.start_until.min(last.next());
    }

    /// Whether sample `number` was written before the reader was created.
    pub(super) fn is_older_than_reader(&self, number: SequenceNumber, written: Timestamp, created: Timestamp) -> bool {
        number < self.start_until && written.is_valid() && created.is_valid() && written < created
    }
}

impl Reader {
    /// Passes over samples that have arrived before the first HEARTBEAT and are older than the reader.
    pub(super) fn pass_over_older(&mut self, index: usize) {
        let created = self.config.created_at;
        let Some(proxy) = self.writers.get_mut(index) else { return };
        let arrived = proxy.out_of_order.range(..proxy.start_until);
        let is_older = |number, written| proxy.is_older_than_reader(number, written, created);
        let older = arrived.filter(|(number, sample)| is_older(**number, sample.meta.source_timestamp));
        for number in older.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Some(sample) = proxy.take_out_of_order(number) {
                self.pool.recycle(sample.payload);
            }
            proxy.refuse(number);
            self.counters.filtered += 1;
        }
    }
}
