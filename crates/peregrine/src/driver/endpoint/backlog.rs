//! The bound of the messages and changes that a writer holds to be sent or handed over.
//!
//! A synchronous writer accepts no sample while its backlog has reached [`SEND_QUEUE_BYTES_MAX`] and another thread
//! sends. Readers add at most a window of samples in transit and one round of repairs, and submessages have headers.

use peregrine_rtps::limits::SEND_QUEUE_BYTES_MAX;
use peregrine_rtps::payload::Payload;

/// Bytes of the backlog for any number of threads and readers, besides some of the longest samples: a single sample may
/// exceed every queue.
const BACKLOG_BYTES_MAX: usize = 32 * SEND_QUEUE_BYTES_MAX;

/// Samples besides: the one that is written, for each reader if each has a filter or keys of its own, and the last of
/// each group of repairs.
const LONGEST_SAMPLES: usize = 4;

/// Asserts the bound in debug builds.
#[derive(Debug, Default)]
pub(super) struct BacklogCheck {
    longest_sample: usize,
}

impl BacklogCheck {
    /// A sample is about to be written.
    #[inline]
    pub(super) fn note_sample(&mut self, payload: &Payload) {
        if cfg!(debug_assertions) {
            self.longest_sample = self.longest_sample.max(payload.known_len().unwrap_or_default());
        }
    }

    #[inline]
    pub(super) fn assert_bounded(&self, backlog_bytes: usize, readers: usize) {
        let samples = LONGEST_SAMPLES.saturating_add(readers);
        let max = BACKLOG_BYTES_MAX.saturating_add(samples.saturating_mul(self.longest_sample));
        debug_assert!(backlog_bytes <= max, "a writer has a backlog of {backlog_bytes} bytes, above {max}");
    }
}
